"""Bokeh figures of a section. What is said in words beside them stands in the template.

Each renderer is named by the series that it shows, so that the page's own legend can
hide a series in all figures at once. Texts on the canvas get their colours from the
page's style sheet (report.js), so that they follow a dark or light scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.report.model import PairView, Point, ReportModel, Section, Series
from labctl.report.palette import GREY, Look, looks
from labctl.report.words import interval, number
from labctl.stats import Estimate

_HEIGHT = 380
_GREY_DASHES = ([6, 4], [2, 4], [10, 4, 2, 4], [1, 3], [12, 6])


@dataclass(frozen=True)
class Plot:
    """A figure and what stands above and below it."""

    title: str
    caption: str
    figure: Any


def series_name(section: int, number_: int) -> str:
    """Name of a series' renderers, unique on the page."""
    return f"series-{section}-{number_}"


def seed_name(section: int, number_: int) -> str:
    """Name of a published series' renderers."""
    return f"seed-{section}-{number_}"


def section_plots(model: ReportModel, section: Section, index: int) -> list[Plot]:
    """All figures of the section that is number ``index`` on the page."""
    drawn = _Drawing(model, section, index)
    plots = [drawn.time()]
    if len(section.threads) > 1:
        plots.append(drawn.growth())
    if section.pairs:
        plots.append(drawn.ratio())
    plots.append(drawn.switches())
    if any(point.latency for one in section.series for point in one.points):
        plots.append(drawn.latency())
    return plots


class _Drawing:
    def __init__(self, model: ReportModel, section: Section, index: int) -> None:
        self.model = model
        self.section = section
        self.names = [series_name(index, i) for i in range(len(section.series))]
        self.looks = looks(section.series, [target.name for target in model.targets])
        self.index = index

    def time(self) -> Plot:
        seen = [p.us_per_op for point in self._points() for p in point.processes]
        seen += [p.us_per_op for seed in self.section.seeds for p in seed.points]
        figure = self._figure(f"us per {self.section.unit}", seen)
        for number_ in range(len(self.section.seeds)):
            _draw_seed(figure, self.section, number_, seed_name(self.index, number_))
        for one, look, name in self._each():
            _draw_processes(figure, one, look, name)
            points = [(point.threads, point.time) for point in one.points]
            _draw_estimates(figure, points, look, name, self._label(one))
        band = f"Band: {self.model.level:.0%} interval of the geometric mean; "
        seeds = " Grey, dashed: published numbers." if self.section.seeds else ""
        return Plot(
            f"Time per {self.section.unit}",
            f"{band}small points: single processes.{seeds}",
            figure,
        )

    def growth(self) -> Plot:
        seen = [point.growth.value for point in self._points() if point.growth]
        figure = self._figure("T(N) / T(least N)", [1.0, *seen])
        _draw_level(figure, 1.0)
        for one, look, name in self._each():
            points = [(p.threads, p.growth or _unity(p.time)) for p in one.points]
            _draw_estimates(figure, points, look, name, self._label(one))
        return Plot(
            "Growth",
            "Time an operation, relative to the least number of threads; at 1 nothing grows.",
            figure,
        )

    def ratio(self) -> Plot:
        seen = [point.ratio.value for pair in self.section.pairs for point in pair.points]
        figure = self._figure("T guest / T metal", [1.0, *seen])
        _draw_level(figure, 1.0)
        for pair in self.section.pairs:
            at = self._series_of(pair)
            label = pair.title + (" (functional)" if pair.functional else "")
            points = [(point.threads, point.ratio) for point in pair.points]
            _draw_estimates(figure, points, self.looks[at], self.names[at], label)
        return Plot(
            "Guest / metal",
            "Ratio of times an operation; at 1 both sides take equally long.",
            figure,
        )

    def switches(self) -> Plot:
        seen = [point.vcsw_per_op for point in self._points()]
        figure = self._figure("voluntary switches an operation", seen)
        for one, look, name in self._each():
            _draw_curve(figure, one, look, name, self._label(one), lambda p: p.vcsw_per_op)
        return Plot(
            "Context switches",
            "Voluntary context switches an operation (getrusage): what rises with the number "
            "of threads here is waking that somebody pays for.",
            figure,
        )

    def latency(self) -> Plot:
        kinds: tuple[tuple[str, str, Callable[[Point], float | None]], ...] = (
            ("median", "solid", lambda p: p.latency.p50_us if p.latency else None),
            ("99th percentile", "dashed", lambda p: p.latency.p99_us if p.latency else None),
            ("greatest", "dotted", lambda p: p.latency.max_us if p.latency else None),
        )
        found = [point.latency for point in self._points() if point.latency]
        seen = [us for latency in found for us in (latency.p50_us, latency.max_us)]
        figure = self._figure(f"us of one {self.section.unit}", seen)
        for one, look, name in self._each():
            for what, dash, value in kinds:
                drawn = Look(look.colour, dash, look.marker)
                _draw_curve(figure, one, drawn, name, f"{self._label(one)}: {what}", value)
        return Plot(
            "Latency",
            "Time of single operations. Solid: median, dashed: 99th percentile (both the median "
            "over batches), dotted: greatest of all.",
            figure,
        )

    def _points(self) -> list[Point]:
        return [point for one in self.section.series for point in one.points]

    def _each(self) -> list[tuple[Series, Look, str]]:
        return list(zip(self.section.series, self.looks, self.names, strict=True))

    def _label(self, one: Series) -> str:
        return f"{self.model.target(one.target).label} {one.variant}".strip()

    def _series_of(self, pair: PairView) -> int:
        return next(
            i
            for i, one in enumerate(self.section.series)
            if (one.target, one.variant) == (pair.guest, pair.guest_variant)
        )

    def _figure(self, y_label: str, values: Sequence[float]) -> Any:
        """An empty figure: log axes, or a linear y axis where one of ``values`` is 0."""
        from bokeh.models import DataRange1d, FixedTicker, NumeralTickFormatter, Range1d
        from bokeh.plotting import figure

        threads = self.section.threads
        log = min(values) > 0
        made = figure(
            height=_HEIGHT,
            sizing_mode="stretch_width",
            x_axis_type="log",
            y_axis_type="log" if log else "linear",
            x_range=Range1d(start=threads[0] / 1.25, end=threads[-1] * 1.25),
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
        made.toolbar.logo = None
        made.xaxis.ticker = FixedTicker(ticks=threads)
        made.xgrid.ticker = made.xaxis.ticker
        if log:
            made.yaxis.ticker = FixedTicker(ticks=_log_ticks(values))
            made.ygrid.ticker = made.yaxis.ticker
        for axis in made.axis:
            axis.formatter = NumeralTickFormatter(format="0.[0000]")
            axis.axis_label_text_font_style = "normal"
            axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
            axis.minor_tick_line_alpha = 0
        made.grid.grid_line_alpha = 0.5
        return made


def _unity(time: Estimate) -> Estimate:
    """The start of a growth curve: 1 by definition, with no width."""
    return replace(time, value=1.0, low=1.0, high=1.0)


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10 ... where the values span up to three decades, else powers of ten."""
    wide = max(values) / min(values) > 1000
    digits = (1,) if wide else (1, 2, 5)
    span = range(math.floor(math.log10(min(values))) - 1, math.ceil(math.log10(max(values))) + 2)
    return [digit * 10.0**power for power in span for digit in digits]


def _hover(figure: Any, renderer: Any, rows: Sequence[tuple[str, str]]) -> None:
    from bokeh.models import HoverTool

    figure.add_tools(HoverTool(renderers=[renderer], tooltips=list(rows), visible=False))


def _draw_estimates(
    figure: Any, points: Sequence[tuple[int, Estimate]], look: Look, name: str, label: str
) -> None:
    """A line with markers; where there is an interval, its band and whiskers."""
    from bokeh.models import ColumnDataSource

    known = [(n, e.low, e.high) for n, e in points if e.low is not None and e.high is not None]
    if known:
        x, low, high = (list(column) for column in zip(*known, strict=True))
        figure.varea(x=x, y1=low, y2=high, color=look.colour, fill_alpha=0.18, name=name)
        figure.segment(
            x0=x, y0=low, x1=x, y1=high, color=look.colour, line_width=2, line_alpha=0.8, name=name
        )
    source = ColumnDataSource(
        {
            "threads": [n for n, _ in points],
            "value": [e.value for _, e in points],
            "shown": [number(e.value) for _, e in points],
            "interval": [interval(e) for _, e in points],
            "data": [f"{e.n_boots} / {e.n_processes} / {e.n_batches}" for _, e in points],
            "label": [label for _ in points],
        }
    )
    dot = _draw_line(figure, source, look, name)
    rows = [("", "@label"), ("threads", "@threads"), ("value", "@shown"), ("interval", "@interval")]
    _hover(figure, dot, [*rows, ("boots / processes / batches", "@data")])


def _draw_curve(
    figure: Any,
    one: Series,
    look: Look,
    name: str,
    label: str,
    value: Callable[[Point], float | None],
) -> None:
    """A line with markers of a quantity without interval."""
    from bokeh.models import ColumnDataSource

    known = [(point.threads, v) for point in one.points if (v := value(point)) is not None]
    source = ColumnDataSource(
        {
            "threads": [n for n, _ in known],
            "value": [v for _, v in known],
            "shown": [number(v) for _, v in known],
            "label": [label for _ in known],
        }
    )
    dot = _draw_line(figure, source, look, name)
    _hover(figure, dot, [("", "@label"), ("threads", "@threads"), ("value", "@shown")])


def _draw_line(figure: Any, source: Any, look: Look, name: str) -> Any:
    figure.line(
        "threads",
        "value",
        source=source,
        color=look.colour,
        line_dash=look.dash,
        line_width=2,
        name=name,
    )
    return figure.scatter(
        "threads",
        "value",
        source=source,
        color=look.colour,
        marker=look.marker,
        size=8,
        name=name,
    )


def _draw_processes(figure: Any, one: Series, look: Look, name: str) -> None:
    x = [point.threads for point in one.points for _ in point.processes]
    y = [float(f"{p.us_per_op:.5g}") for point in one.points for p in point.processes]
    figure.scatter(
        x=x,
        y=y,
        color=look.colour,
        marker="circle",
        size=4,
        fill_alpha=0.35,
        line_alpha=0,
        name=name,
    )


def _draw_level(figure: Any, value: float) -> None:
    figure.hspan(y=[value], line_color=GREY, line_dash="dotted", line_width=1)


def _draw_seed(figure: Any, section: Section, at: int, name: str) -> None:
    """A published series: dashed through its points, or, where the source does not state
    the number of threads, dashed from edge to edge."""
    from bokeh.models import ColumnDataSource

    seed = section.seeds[at]
    dash = _GREY_DASHES[at % len(_GREY_DASHES)]
    stated = [(p.threads, p.us_per_op) for p in seed.points if p.threads is not None]
    ends = (section.threads[0] / 1.25, section.threads[-1] * 1.25)
    drawn: list[tuple[float, float]] = [(n, us) for n, us in stated] or [
        (end, seed.points[0].us_per_op) for end in ends
    ]
    figure.line(
        x=[n for n, _ in drawn],
        y=[us for _, us in drawn],
        color=GREY,
        line_dash=dash,
        line_width=1.5,
        name=name,
    )
    source = ColumnDataSource(
        {
            "threads": [n for n, _ in drawn],
            "value": [us for _, us in drawn],
            "shown": [number(us) for _, us in drawn],
            "label": [f"published: {seed.label}" for _ in drawn],
        }
    )
    dot = figure.scatter(
        "threads", "value", source=source, color=GREY, marker="x", size=7, name=name
    )
    rows = [("", "@label"), ("value", "@shown")]
    _hover(figure, dot, [*rows, ("threads", "@threads" if stated else "not stated")])
