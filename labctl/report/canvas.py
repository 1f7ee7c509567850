"""One Bokeh figure, and what can be drawn on it. plots.py says what is.

Every renderer carries the name of what it shows, by which the page hides it. Nothing
here needs a script of its own in the browser: the page's policy would not run it.
Texts on the canvas are plain text: a name between dollar signs is no formula.
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

_HEIGHT = 330  # pixels
_MARGIN = 1.25  # room left and right of the thread counts, as a factor
_MOST_TICKS = 8  # on the axis of threads; a telephone shows no more


class Canvas:
    """A figure with axes, onto which curves, bands and points are put."""

    _rows: tuple[tuple[str, str], ...] = (
        ("", "@label"),
        ("at", "@at"),
        ("value", "@shown"),
        ("", "@detail"),
    )

    def __init__(
        self,
        axes: tuple[str, str],
        x_ends: tuple[float, float],
        y_ends: tuple[float, float],
        *,
        linear_x: bool = False,
        height: int = _HEIGHT,
    ) -> None:
        """
        Args:
            axes: labels of x and y, without a word on their scales.
            x_ends: of the axis, logarithmic unless ``linear_x``.
            y_ends: least and greatest value; the axis is logarithmic, or linear from 0 where
                there is a 0 among the values.
            height: pixels.
        """
        from bokeh.models import DataRange1d, NumeralTickFormatter, PlainText, Range1d
        from bokeh.plotting import figure

        self._ends = x_ends
        self._pointed: list[Any] = []
        log = y_ends[0] > 0
        labels = (axes[0] if linear_x else f"{axes[0]} (log)", f"{axes[1]} (log)" * log or axes[1])
        y_range = DataRange1d(only_visible=True, default_span=0.5)
        if not log:
            y_range.start = 0
        self.figure: Any = figure(
            height=height,
            sizing_mode="stretch_width",
            x_axis_type="linear" if linear_x else "log",
            y_axis_type="log" if log else "linear",
            x_range=Range1d(start=x_ends[0], end=x_ends[1]),
            y_range=y_range,
            tools="box_zoom,reset,save",
            active_drag=None,  # a finger on the figure scrolls the page
            toolbar_location="above",
            toolbar_inner=True,
            background_fill_alpha=0,
            border_fill_alpha=0,
            outline_line_alpha=0,
            min_border_right=12,
            x_axis_label=PlainText(text=labels[0]),
            y_axis_label=PlainText(text=labels[1]),
        )
        self.figure.toolbar.logo = None
        self.figure.toolbar.autohide = True
        if log:
            self._tick(self.figure.yaxis, self.figure.ygrid, *y_ends)
        for axis in self.figure.axis:
            axis.formatter = NumeralTickFormatter(format="0.[000000]")
            axis.axis_label_text_font_style = "normal"
            axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
            axis.minor_tick_line_alpha = axis.axis_line_alpha = 0
            axis.major_tick_line_alpha = 0
        self.figure.xgrid.grid_line_alpha = 0
        self.figure.ygrid.grid_line_alpha = 0.7

    @classmethod
    def of_threads(
        cls, threads: Sequence[int], y_label: str, values: Sequence[float], height: int = _HEIGHT
    ) -> Canvas:
        """Some quantity against the number of threads; ``values`` must find room."""
        from bokeh.models import FixedTicker

        ends = (threads[0] / _MARGIN, threads[-1] * _MARGIN)
        made = cls(("threads", y_label), ends, (min(values), max(values)), height=height)
        made.figure.xaxis.ticker = FixedTicker(ticks=thread_ticks(threads))
        return made

    @classmethod
    def of_times(cls, x_label: str, y_label: str, found: Sequence[tuple[Any, ...]]) -> Canvas:
        """Axes for shares (0 to 1) of operations by their time; ``found`` ends with
        (time, share) of each series."""
        times = [time for *_, points in found for time, _ in points]
        shares = [share for *_, points in found for _, share in points]
        least = max(min(times), 1e-3)
        ends = (least / _MARGIN, max(times) * _MARGIN)
        made = cls((x_label, y_label), ends, (min(shares), 1.0))
        made._tick(made.figure.xaxis, made.figure.xgrid, least, max(times))
        return made

    @classmethod
    def of_order(cls, y_label: str, lines: Sequence[Timeline]) -> Canvas:
        """Axes for samples by the order in which they were taken."""
        values = [value for line in lines for value in (*line.least, *line.greatest)]
        last = max(max(line.order) for line in lines)
        axes = ("sample, in the order taken", y_label)
        ends = (-0.02 * last - 1, 1.02 * last + 1)
        made = cls(axes, ends, (min(values), max(values)), linear_x=True, height=260)
        made._rows = (("sample", "@x{0}"), ("of its cell's mean", "@y{0.000}"))  # no texts: small
        return made

    @classmethod
    def on(cls, figure: Any) -> Canvas:
        """A canvas on a figure with axes of its own."""
        made = cls.__new__(cls)
        made.figure, made._pointed = figure, []
        return made

    @staticmethod
    def _tick(axis: Any, grid: Any, least: float, greatest: float) -> None:
        from bokeh.models import BasicTicker, FixedTicker

        ticks = log_ticks(least, greatest)
        ticker = FixedTicker(ticks=ticks) if ticks else BasicTicker(desired_num_ticks=5)
        axis.ticker = grid.ticker = ticker

    def finish(self) -> Any:
        """The figure, with what is shown where somebody points at a marker."""
        from bokeh.models import HoverTool

        tool = HoverTool(renderers=self._pointed, tooltips=list(self._rows), visible=False)
        self.figure.add_tools(tool)
        return self.figure

    def watermark(self, text: str, size: int = 26) -> None:
        """Pale and behind all data, also where the picture alone is saved; ``size`` in pixels."""
        from bokeh.models import Node, PlainText
        from bokeh.models.annotations import Label

        self.figure.add_layout(
            Label(
                x=Node(target="frame", symbol="center"),
                y=Node(target="frame", symbol="center"),
                text=PlainText(text=text),
                text_align="center",
                text_baseline="middle",
                text_color=GREY,
                text_alpha=0.3,
                level="underlay",
                text_font_size=f"{size if len(text) < 26 else min(size, 18)}px",
                angle=0.22 if size > 20 else 0.0,
            )
        )

    def estimates(
        self, points: Sequence[tuple[int, Estimate]], look: Look, name: str, label: str
    ) -> None:
        """A curve with the band of its intervals; a whisker where there is but one point.

        What has no interval (one sample, numbers that were imported) is drawn without."""
        from bokeh.models import Segment, VArea

        known = [(n, e.low, e.high) for n, e in points if e.low is not None and e.high is not None]
        x, low, high = ([row[column] for row in known] for column in range(3))
        if len(known) > 1:
            band = VArea(fill_color=look.colour, fill_alpha=0.18)
            self._draw(band, name, x=x, y1=low, y2=high)
        elif known:
            whisker = Segment(line_color=look.colour, line_width=2)
            self._draw(whisker, name, x0=x, y0=low, x1=x, y1=high)
        details = [
            f"interval {interval(e)}; from {_counted(e.n_boots, 'boot')}, "
            f"{_counted(e.n_processes, 'process')}, {_counted(e.n_batches, 'batch')}"
            for _, e in points
        ]
        self._curve([(n, e.value) for n, e in points], look, name, label, details)

    def curve(self, points: Sequence[tuple[int, float]], look: Look, name: str, label: str) -> None:
        """A curve of a quantity without interval."""
        self._curve(points, look, name, label, [""] * len(points))

    def cloud(self, points: Sequence[tuple[int, float]], look: Look, name: str) -> None:
        """Small points."""
        from bokeh.models import Scatter

        self._draw(
            Scatter(fill_color=look.colour, size=4, fill_alpha=0.5, line_alpha=0),
            name,
            x=[n for n, _ in points],
            y=[float(f"{value:.5g}") for _, value in points],  # keeps the page small
        )

    def boots(
        self, points: Sequence[tuple[int, float, str]], look: Look, name: str, label: str
    ) -> None:
        """Hollow points of (threads, value, what is said of it)."""
        self.dots(
            [n for n, _, _ in points],
            [value for _, value, _ in points],
            replace(look, width=1.6),
            name,
            label,
            at=[_counted(n, "thread") for n, _, _ in points],
            detail=[said for _, _, said in points],
            hollow=True,
        )

    def steps(
        self,
        points: Sequence[tuple[float, float]],
        look: Look,
        name: str,
        label: str,
        at: Sequence[float],
    ) -> None:
        """A line down in steps, from a histogram; with markers at the shares ``at``."""
        from bokeh.models import Step

        shown = [(max(time, 1e-3), share) for time, share in points]
        self._draw(
            Step(
                mode="after",
                line_color=look.colour,
                line_dash=look.dash,
                line_width=look.width,
            ),
            name,
            x=[time for time, _ in shown],
            y=[share for _, share in shown],
        )
        marked = [next((point for point in shown if point[1] <= share), shown[-1]) for share in at]
        self.dots(
            [time for time, _ in marked],
            [share for _, share in marked],
            look,
            name,
            label,
            at=[f"{number(time)} us" for time, _ in marked],
            detail=[f"{share:.3%} take this long or longer" for _, share in marked],
        )

    def timeline(self, line: Timeline, look: Look, name: str) -> None:
        """Samples as dots; where a dot is several, with their least and greatest."""
        from bokeh.models import Scatter, Segment

        if line.each > 1:
            reach = Segment(line_color=look.colour, line_width=1, line_alpha=0.35)
            ends = {"x0": line.order, "y0": line.least, "x1": line.order, "y1": line.greatest}
            self._draw(reach, name, **ends)
        dots = Scatter(
            marker=look.marker, fill_color=look.colour, size=5, fill_alpha=0.8, line_alpha=0
        )
        self._pointed.append(self._draw(dots, name, x=line.order, y=line.mean))

    def level(self, value: float) -> None:
        """A thin line across."""
        from bokeh.models import HSpan

        self._draw(HSpan(line_color=GREY, line_dash="dotted", line_width=1), y=[value])

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
        from bokeh.models import Line

        x, y = [n for n, _ in points], [value for _, value in points]
        line = Line(line_color=look.colour, line_dash=look.dash, line_width=look.width)
        self._draw(line, name, x=x, y=y)
        places = [at or _counted(n, "thread") for n in x]
        self.dots(x, y, look, name, label, at=places, detail=details)

    def dots(
        self,
        x: Sequence[float],
        y: Sequence[Any],
        look: Look,
        name: str,
        label: str,
        *,
        at: Sequence[str],
        detail: Sequence[str],
        shown: Sequence[str] | None = None,
        hollow: bool = False,
    ) -> None:
        """Markers that say what they are where somebody points at them."""
        from bokeh.models import Scatter

        dots = Scatter(
            marker=look.marker,
            size=4 * look.width,
            line_color=look.colour,
            fill_color=look.colour,
            fill_alpha=0.0 if hollow else 1.0,
        )
        said = {
            "at": at,
            "shown": shown or [number(value) for value in y],
            "label": [label] * len(x),
            "detail": detail,
        }
        self._pointed.append(self._draw(dots, name, x=x, y=y, **said))

    def _draw(self, glyph: Any, name: str | None = None, **columns: Sequence[Any]) -> Any:
        """Put a glyph onto the figure, for each row of ``columns``; returns its renderer.

        ``Figure.line`` and its like would make three more of each, for what is selected or
        muted, which nothing in a report is: most of a figure's cost.
        """
        from bokeh.models import ColumnDataSource

        source = ColumnDataSource({key: list(values) for key, values in columns.items()})
        return self.figure.add_glyph(source, glyph, name=name)


def _counted(count: float, what: str) -> str:
    """ "1 boot", "2 batches"."""
    plural = "es" if what.endswith(("s", "ch")) else "s"
    return f"{count:g} {what}{'' if count == 1 else plural}"


def thread_ticks(threads: Sequence[int]) -> list[int]:
    """Those of the thread counts that find room on an axis: the least, then each at a distance."""
    if len(threads) <= _MOST_TICKS:
        return list(threads)
    step = (threads[-1] / threads[0]) ** (1 / _MOST_TICKS)
    found = [threads[0]]
    for count in threads:
        if count >= found[-1] * step * 0.999:
            found.append(count)
    return found


def log_ticks(least: float, greatest: float) -> list[float]:
    """1, 2, 5, 10 ... where the values span up to three decades, powers of ten where more;
    none where they lie too near to each other for either."""
    if greatest / least < 5:
        return []
    digits = (1,) if greatest / least > 1000 else (1, 2, 5)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(greatest)) + 2)
    return [digit * 10.0**power for power in powers for digit in digits]


def ends_of_axis(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis with a little room around ``values``."""
    room = max(1.03, (max(values) / min(values)) ** 0.04)
    return min(values) / room, max(values) * room


def ends(estimates: Sequence[Estimate]) -> list[float]:
    """All values and ends of intervals, for an axis to hold."""
    found = [value for e in estimates for value in (e.low, e.value, e.high)]
    return [value for value in found if value is not None]
