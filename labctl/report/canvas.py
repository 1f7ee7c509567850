"""One Bokeh figure with log axes, and what can be drawn on it. plots.py says what is.

Every renderer carries the name of what it shows, by which the page hides it. Nothing
here needs a script of its own in the browser: the page's policy would not run it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labctl.analysis.words import interval, number
from labctl.report.model import Timeline
from labctl.report.palette import GREY, Look
from labctl.stats import Estimate

_HEIGHT = 380  # pixels
_MARGIN = 1.25  # room left and right of the thread counts, as a factor


class Canvas:
    """A figure of some quantity against the number of threads."""

    def __init__(self, threads: Sequence[int], y_label: str, values: Sequence[float]) -> None:
        """Axes for ``values``: logarithmic, or a linear y axis from 0 where one of them is 0."""
        from bokeh.models import FixedTicker

        self._make(
            "threads (log)",
            (threads[0] / _MARGIN, threads[-1] * _MARGIN),
            y_label,
            (min(values), max(values)),
        )
        self.figure.xaxis.ticker = self.figure.xgrid.ticker = FixedTicker(ticks=list(threads))

    @classmethod
    def of_times(cls, x_label: str, y_label: str, found: Sequence[tuple[Any, ...]]) -> Canvas:
        """Axes for shares (0 to 1) of operations by their time; ``found`` ends with
        (time, share) of each series."""
        times = [time for *_, points in found for time, _ in points]
        shares = [share for *_, points in found for _, share in points]
        made = cls.__new__(cls)
        least = max(min(times), 1e-3)
        made._make(
            f"{x_label} (log)", (least / _MARGIN, max(times) * _MARGIN), y_label, (min(shares), 1.0)
        )
        made._tick(made.figure.xaxis, made.figure.xgrid, least, max(times))
        return made

    @classmethod
    def of_order(cls, y_label: str, lines: Sequence[Timeline]) -> Canvas:
        """Axes for samples by the order in which they were taken."""
        values = [value for line in lines for value in (*line.least, *line.greatest)]
        last = max(max(line.order) for line in lines)
        made = cls.__new__(cls)
        made._make("sample, in the order taken", None, y_label, (min(values), max(values)), last)
        return made

    @classmethod
    def on(cls, figure: Any) -> Canvas:
        """A canvas on a figure with axes of its own."""
        made = cls.__new__(cls)
        made.figure, made._pointed = figure, []
        return made

    def _make(
        self,
        x_label: str,
        x_ends: tuple[float, float] | None,
        y_label: str,
        y_ends: tuple[float, float],
        last: float = 0.0,
    ) -> None:
        """The figure; its x axis is logarithmic within ``x_ends``, or linear from 0 to ``last``."""
        from bokeh.models import DataRange1d, NumeralTickFormatter, Range1d
        from bokeh.plotting import figure

        self._ends = x_ends or (0.0, last)
        self._pointed: list[Any] = []
        log = y_ends[0] > 0
        start, end = x_ends or (-0.02 * last - 1, 1.02 * last + 1)
        y_range = DataRange1d(only_visible=True)
        if not log:
            y_range.start = 0
        self.figure: Any = figure(
            height=_HEIGHT,
            sizing_mode="stretch_width",
            x_axis_type="log" if x_ends else "linear",
            y_axis_type="log" if log else "linear",
            x_range=Range1d(start=start, end=end),
            y_range=y_range,
            tools="pan,box_zoom,wheel_zoom,reset,save",
            active_drag=None,  # a finger on the figure scrolls the page
            toolbar_location="above",
            background_fill_alpha=0,
            border_fill_alpha=0,
            outline_line_alpha=0,
            x_axis_label=x_label,
            y_axis_label=f"{y_label} (log)" if log else y_label,
        )
        self.figure.toolbar.logo = None
        if log:
            self._tick(self.figure.yaxis, self.figure.ygrid, *y_ends)
        for axis in self.figure.axis:
            axis.formatter = NumeralTickFormatter(format="0.[000000]")
            axis.axis_label_text_font_style = "normal"
            axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
            axis.minor_tick_line_alpha = 0
        self.figure.grid.grid_line_alpha = 0.5

    @staticmethod
    def _tick(axis: Any, grid: Any, least: float, greatest: float) -> None:
        from bokeh.models import BasicTicker, FixedTicker

        ticks = log_ticks(least, greatest)
        ticker = FixedTicker(ticks=ticks) if ticks else BasicTicker(desired_num_ticks=5)
        axis.ticker = grid.ticker = ticker

    def finish(self) -> Any:
        """The figure, with what is shown where somebody points at a marker."""
        from bokeh.models import HoverTool

        rows = [("", "@label"), ("at", "@at"), ("value", "@shown"), ("", "@detail")]
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

    def steps(
        self, points: Sequence[tuple[float, float]], look: Look, name: str, label: str
    ) -> None:
        """A line down in steps, from a histogram."""
        shown = [(max(time, 1e-3), share) for time, share in points]
        self.figure.step(
            x=[time for time, _ in shown],
            y=[share for _, share in shown],
            mode="after",
            color=look.colour,
            line_dash=look.dash,
            line_width=look.width,
            name=name,
        )
        self.dots(
            [time for time, _ in shown],
            [share for _, share in shown],
            replace(look, width=1.0),
            name,
            label,
            at=[f"{number(time)} us" for time, _ in points],
            detail=[f"{share:.2%} take this long or longer" for _, share in points],
        )

    def timeline(self, line: Timeline, look: Look, name: str, label: str) -> None:
        """Samples as dots; where a dot is several, with their least and greatest."""
        if line.each > 1:
            self.figure.segment(
                x0=line.order, y0=line.least, x1=line.order, y1=line.greatest,
                color=look.colour, line_width=1, line_alpha=0.35, name=name,
            )  # fmt: skip
        self.figure.scatter(
            x=line.order, y=line.mean, marker=look.marker, color=look.colour, size=4,
            fill_alpha=0.6, line_alpha=0, name=name,
        )  # fmt: skip

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
        x, y = [n for n, _ in points], [value for _, value in points]
        self.figure.line(
            x=x, y=y, line_dash=look.dash, line_width=look.width, color=look.colour, name=name
        )
        places = [at or f"{n:g} thread{'' if n == 1 else 's'}" for n in x]
        self.dots(x, y, look, name, label, at=places, detail=details)

    def dots(
        self,
        x: Sequence[float],
        y: Sequence[float],
        look: Look,
        name: str,
        label: str,
        *,
        at: Sequence[str],
        detail: Sequence[str],
        shown: Sequence[str] | None = None,
    ) -> None:
        """Markers that say what they are where somebody points at them."""
        from bokeh.models import ColumnDataSource

        columns = {
            "x": x,
            "y": y,
            "at": at,
            "shown": shown or [number(value) for value in y],
            "label": [label] * len(x),
            "detail": detail,
        }
        source = ColumnDataSource({name: list(values) for name, values in columns.items()})
        dots = self.figure.scatter(
            "x", "y", source=source, marker=look.marker, size=4 * look.width, color=look.colour,
            name=name,
        )  # fmt: skip
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
