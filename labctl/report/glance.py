"""A verdict at a glance: its two effects with their intervals against the margin.

All verdicts of a page have the same axis, so that they can be compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labctl.analysis.words import number, thread_count
from labctl.report.canvas import Canvas, ends_of_axis, log_ticks
from labctl.report.model import ReportModel
from labctl.report.pair_model import Told, VerdictView
from labctl.report.palette import GREY, Look
from labctl.report.plots import watermark

_ROW, _FRAME = 30, 42  # pixels


@dataclass(frozen=True)
class Effect:
    """One of a verdict's two effects: what it is of, whether it can be told, the verdict on it
    or the reason why there is none, and the number that the sentence gives."""

    what: str
    sure: bool
    badge: str
    told: Told


def effects(verdict: VerdictView) -> list[Effect]:
    """Of time, and of growth where anything can grow."""
    level, scaling = verdict.level != "cannot tell", verdict.scaling != "cannot tell"
    found = [Effect("time", level, verdict.level_badge, verdict.level_told)]
    if verdict.scaling_told:
        found.append(Effect("growth", scaling, verdict.scaling_badge, verdict.scaling_told))
    return found


def axis(model: ReportModel) -> tuple[float, float]:
    """Ends of the axis that all verdicts share."""
    told = [effect.told for verdict in model.verdicts for effect in effects(verdict)]
    known = [x for one in told for x in (one.low, one.value, one.high) if x is not None and x > 0]
    reach = (1 + model.margin) ** 2
    return ends_of_axis([1 / reach, reach, *known])


def figure_of(model: ReportModel, verdict: VerdictView, look: Look) -> Any:
    """The figure of a verdict; ``look`` is that of its first side."""
    from bokeh.models import BasicTicker, FactorRange, FixedTicker, NumeralTickFormatter, Range1d
    from bokeh.models.annotations import BoxAnnotation, Span
    from bokeh.plotting import figure

    rows = effects(verdict)[::-1]
    low, high = axis(model)
    made: Any = figure(
        height=_ROW * len(rows) + _FRAME,
        sizing_mode="stretch_width",
        x_axis_type="log",
        x_range=Range1d(start=low, end=high),
        y_range=FactorRange(factors=[effect.what for effect in rows]),
        tools="",
        toolbar_location=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_alpha=0,
        min_border_left=64,
        min_border_right=14,
    )
    ticks = [tick for tick in log_ticks(low, high) if low <= tick <= high]
    ticker = FixedTicker(ticks=ticks) if ticks else BasicTicker(desired_num_ticks=5)
    made.xaxis.ticker = made.xgrid.ticker = ticker
    made.xaxis.formatter = NumeralTickFormatter(format="0.[00]")
    for one in made.axis:
        one.minor_tick_line_alpha = one.axis_line_alpha = 0
        one.major_tick_line_alpha = 0
        one.major_label_text_font_size = "13px"
    made.ygrid.grid_line_alpha = 0
    reach = 1 + model.margin
    made.add_layout(
        BoxAnnotation(left=1 / reach, right=reach, fill_color=GREY, fill_alpha=0.18, line_alpha=0)
    )
    made.add_layout(Span(location=1.0, dimension="height", line_color=GREY, line_width=1))
    canvas = Canvas.on(made)
    if mark := watermark([model.target(verdict.one), model.target(verdict.other)]):
        canvas.watermark(mark, size=17)
    for effect in rows:
        what, told = effect.what, effect.told
        if told.low is not None and told.high is not None:
            made.segment(
                x0=[told.low], y0=[what], x1=[told.high], y1=[what],
                color=look.colour, line_width=4, line_alpha=0.55,
            )  # fmt: skip
            detail = f"interval {number(told.low)} to {number(told.high)}"
        else:
            detail = "no interval"
        at = [thread_count(told.threads)]
        label, shown = f"{what}: {effect.badge}", [number(told.value)]
        canvas.dots([told.value], [what], look, "", label, at=at, detail=[detail], shown=shown)
    return canvas.finish()
