"""All effects at a glance: a line each, its interval against the margin of equivalence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.analysis.words import interval, number
from labctl.report.canvas import Canvas, ends
from labctl.report.model import PairView, ReportModel
from labctl.report.palette import GREY, Look, looks
from labctl.stats import Estimate

_MOST = 16  # effects in one figure; more would not be a glance
_ROW, _FRAME = 44, 80  # pixels


@dataclass(frozen=True)
class Effect:
    """One line of the figure: what it is, and its estimate with the interval judged by."""

    label: str
    call: str
    estimate: Estimate
    look: Look


def effects(model: ReportModel) -> list[Effect]:
    """The level and the growth of each pair, at the thread counts that its verdict names."""
    found: list[Effect] = []
    targets = [target.name for target in model.targets]
    for section in model.sections:
        drawn = looks(section.series, targets)
        known = {
            (one.target, one.variant): (one, look)
            for one, look in zip(section.series, drawn, strict=True)
        }
        for pair in section.pairs:
            one, look = known[pair.one, pair.one_variant]
            found += _of_pair(f"{section.workload} {one.own_params}".strip(), pair, look)
    return found


def _of_pair(what: str, pair: PairView, look: Look) -> list[Effect]:
    points = {point.threads: point for point in pair.points}
    verdict = pair.verdict
    title = f"{pair.one} / {pair.other}, {what}"
    if pair.functional:
        title += " (functional)"
    first = points.get(verdict.level_threads or 0, pair.points[0])
    ratio = first.ratio.as_family() if pair.subject == "change" else first.ratio
    found = [Effect(f"{title}: time at {first.threads}", verdict.level, ratio, look)]
    grown = [point for point in pair.points if point.amplification]
    if grown:
        last = points.get(verdict.scaling_threads or 0, grown[-1])
        last = last if last.amplification else grown[-1]
        assert last.amplification is not None
        label = f"{title}: growth to {last.threads}"
        found.append(Effect(label, verdict.scaling, last.amplification.as_family(), look))
    return found


def forest(rows: Sequence[Effect], margin: float) -> Any:
    """The figure of some effects, or None where there are none, or more than fit a glance."""
    from bokeh.models import FixedTicker, NumeralTickFormatter, Range1d
    from bokeh.models.annotations import BoxAnnotation
    from bokeh.models.annotations import Span as Line
    from bokeh.plotting import figure

    if not rows or len(rows) > _MOST:
        return None
    top = 1 + margin
    seen = [1 / top**2, top**2, *ends([row.estimate for row in rows])]
    low, high = min(seen) / 1.05, max(seen) * 1.05
    made: Any = figure(
        height=_ROW * len(rows) + _FRAME,
        sizing_mode="stretch_width",
        x_axis_type="log",
        x_range=Range1d(start=low, end=high),
        y_range=Range1d(start=-0.6, end=len(rows) - 0.2),
        tools="",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        x_axis_label="one side / the other (log); grey: counts as equal",
    )
    ticks = [0.1, 0.2, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]
    near = high / low < 8
    shown = [t for t in ticks if low <= t <= high and (near or t in (0.1, 0.2, 0.5) or t >= 1)]
    if not near:
        shown = [tick for tick in shown if tick not in (1.1, 1.25, 1.5, 3)]
    made.xaxis.ticker = made.xgrid.ticker = FixedTicker(ticks=shown)
    made.xaxis.formatter = NumeralTickFormatter(format="0.[00]")
    made.xaxis.axis_label_text_font_style = "normal"
    made.xaxis.minor_tick_line_alpha = 0
    made.yaxis.visible = False
    made.ygrid.visible = False
    made.add_layout(
        BoxAnnotation(left=1 / top, right=top, fill_color=GREY, fill_alpha=0.15, line_alpha=0)
    )
    made.add_layout(Line(location=1.0, dimension="height", line_color=GREY, line_dash="dotted"))
    canvas = Canvas.on(made)
    for place, row in enumerate(reversed(rows)):
        _draw(canvas, row, place, low)
    return canvas.finish()


def _draw(canvas: Canvas, row: Effect, place: int, left: float) -> None:
    estimate = row.estimate
    made = canvas.figure
    if estimate.low is not None and estimate.high is not None:
        made.segment(
            x0=[estimate.low], y0=[place], x1=[estimate.high], y1=[place],
            color=row.look.colour, line_width=3,
        )  # fmt: skip
    # Texts take the page's colour (report.js).
    text = f"{row.label}: {row.call}"
    made.text(x=[left], y=[place + 0.42], text=[text], text_font_size="12px", x_offset=2)
    canvas.dots(
        [estimate.value],
        [place],
        replace(row.look, width=2.5),
        "",
        row.label,
        at=[row.call],
        detail=[f"interval {interval(estimate)}"],
        shown=[number(estimate.value)],
    )
