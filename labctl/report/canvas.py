"""One Bokeh figure with log axes, and what can be drawn on it. plots.py says what is.

Every renderer carries the name of what it shows, by which the page hides it. Nothing
here needs a script of its own in the browser: the page's policy would not run it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from labctl.analysis.words import interval, number
from labctl.report.palette import GREY, Look
from labctl.stats import Estimate

_HEIGHT = 380  # pixels
_MARGIN = 1.25  # room left and right of the thread counts, as a factor


class Canvas:
    """A figure of some quantity against the number of threads."""

    def __init__(self, threads: Sequence[int], y_label: str, values: Sequence[float]) -> None:
        """Axes for ``values``: logarithmic, or a linear y axis where one of them is 0."""
        from bokeh.models import (
            BasicTicker,
            DataRange1d,
            FixedTicker,
            NumeralTickFormatter,
            Range1d,
        )
        from bokeh.plotting import figure

        self._ends = (threads[0] / _MARGIN, threads[-1] * _MARGIN)
        self._pointed: list[Any] = []
        log = min(values) > 0
        self.figure: Any = figure(
            height=_HEIGHT,
            sizing_mode="stretch_width",
            x_axis_type="log",
            y_axis_type="log" if log else "linear",
            x_range=Range1d(start=self._ends[0], end=self._ends[1]),
            y_range=DataRange1d(only_visible=True),
            tools="pan,box_zoom,wheel_zoom,reset,save",
            active_drag=None,  # a finger on the figure scrolls the page
            toolbar_location="above",
            background_fill_alpha=0,
            border_fill_alpha=0,
            outline_line_alpha=0,
            x_axis_label="threads",
            y_axis_label=y_label,
        )
        self.figure.toolbar.logo = None
        self.figure.xaxis.ticker = self.figure.xgrid.ticker = FixedTicker(ticks=list(threads))
        if log:
            ticks = log_ticks(min(values), max(values))
            ticker = FixedTicker(ticks=ticks) if ticks else BasicTicker(desired_num_ticks=5)
            self.figure.yaxis.ticker = self.figure.ygrid.ticker = ticker
        for axis in self.figure.axis:
            axis.formatter = NumeralTickFormatter(format="0.[0000]")
            axis.axis_label_text_font_style = "normal"
            axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
            axis.minor_tick_line_alpha = 0
        self.figure.grid.grid_line_alpha = 0.5

    def finish(self) -> Any:
        """The figure, with what is shown where somebody points at a marker."""
        from bokeh.models import HoverTool

        rows = [("", "@label"), ("threads", "@at"), ("value", "@shown"), ("", "@detail")]
        tool = HoverTool(renderers=self._pointed, tooltips=rows, visible=False)
        self.figure.add_tools(tool)
        return self.figure

    def estimates(
        self, points: Sequence[tuple[int, Estimate]], look: Look, name: str, label: str
    ) -> None:
        """A curve with the band of its intervals; a whisker where there is but one point."""
        known = [(n, e.low, e.high) for n, e in points if e.low is not None and e.high is not None]
        x, low, high = ([row[column] for row in known] for column in range(3))
        if len(known) > 1:
            self.figure.varea(x=x, y1=low, y2=high, color=look.colour, fill_alpha=0.2, name=name)
        elif known:
            self.figure.segment(
                x0=x, y0=low, x1=x, y1=high, color=look.colour, line_width=2, name=name
            )
        details = [
            f"interval {interval(e)}; from {e.n_boots} boots, {e.n_processes} processes, "
            f"{e.n_batches} batches"
            for _, e in points
        ]
        self._curve([(n, e.value) for n, e in points], look, name, label, details)

    def curve(self, points: Sequence[tuple[int, float]], look: Look, name: str, label: str) -> None:
        """A curve of a quantity without interval."""
        self._curve(points, look, name, label, [""] * len(points))

    def cloud(self, points: Sequence[tuple[int, float]], look: Look, name: str) -> None:
        """Small points."""
        self.figure.scatter(
            x=[n for n, _ in points],
            y=[float(f"{value:.5g}") for _, value in points],  # keeps the page small
            color=look.colour,
            size=4,
            fill_alpha=0.35,
            line_alpha=0,
            name=name,
        )

    def level(self, value: float) -> None:
        """A thin line across."""
        self.figure.hspan(y=[value], line_color=GREY, line_dash="dotted", line_width=1)

    def band(self, low: float, high: float) -> None:
        """A grey band across, behind everything."""
        from bokeh.models.annotations import BoxAnnotation

        self.figure.add_layout(
            BoxAnnotation(bottom=low, top=high, fill_color=GREY, fill_alpha=0.15, line_alpha=0)
        )

    def across(self, value: float, look: Look, name: str, label: str) -> None:
        """A value that belongs to no number of threads, from edge to edge."""
        points = [(end, value) for end in self._ends]
        self._curve(points, look, name, label, ["threads not stated"] * 2, at="not stated")

    def _curve(
        self,
        points: Sequence[tuple[float, float]],
        look: Look,
        name: str,
        label: str,
        details: Sequence[str],
        *,
        at: str = "",
    ) -> None:
        from bokeh.models import ColumnDataSource

        source = ColumnDataSource(
            {
                "x": [n for n, _ in points],
                "y": [value for _, value in points],
                "at": [at or f"{n:g}" for n, _ in points],
                "shown": [number(value) for _, value in points],
                "label": [label] * len(points),
                "detail": list(details),
            }
        )
        style = {"source": source, "color": look.colour, "name": name}
        self.figure.line("x", "y", line_dash=look.dash, line_width=look.width, **style)
        dots = self.figure.scatter("x", "y", marker=look.marker, size=4 * look.width, **style)
        self._pointed.append(dots)


def log_ticks(least: float, greatest: float) -> list[float]:
    """1, 2, 5, 10 ... where the values span up to three decades, powers of ten where more;
    none where they lie too near to each other for either."""
    if greatest / least < 5:
        return []
    digits = (1,) if greatest / least > 1000 else (1, 2, 5)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(greatest)) + 2)
    return [digit * 10.0**power for power in powers for digit in digits]


def ends(estimates: Sequence[Estimate]) -> list[float]:
    """All values and ends of intervals, for an axis to hold."""
    found = [value for e in estimates for value in (e.low, e.value, e.high)]
    return [value for value in found if value is not None]
