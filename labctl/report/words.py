"""What the terminal and the page both say of parts of the model."""

from __future__ import annotations

import math
from collections.abc import Callable

from labctl.analysis import words
from labctl.analysis.words import number
from labctl.report.model import DesignView, ScalabilityView, StopView
from labctl.report.pair_model import PairView
from labctl.stats import Estimate


def law(found: ScalabilityView) -> str:
    """A fit of the Universal Scalability Law in words, or why there is none."""
    if found.rate is None or found.contention is None or found.coherency is None:
        return f"refused, {found.refused}"
    return (
        f"contention {number(found.contention)}, coherency {number(found.coherency)}, "
        f"greatest throughput at {number(found.peak_threads or 0)} threads, rms {found.rms:.1%}"
    )


_CLEARLY = 1.25  # times as wide


def narrower(pair: PairView) -> str:
    """Why A(N) has a narrower interval than a side's growth that it is made of, where it has;
    else ""."""
    if not any(_wider(growth, p.amplification) for p in pair.points for growth in p.growths):
        return ""
    return (
        "The interval of A(N) is narrower here than that of one side's growth, of which it is "
        "made: its spread is estimated from both sides together, and from more measurements less "
        "has to be allowed for chance."
    )


def _wider(growth: Estimate | None, amplified: Estimate | None) -> bool:
    """Whether the growth's interval is clearly the wider one, as factors."""
    if growth is None or amplified is None or not growth.low or not growth.high:
        return False
    if not amplified.family_low or not amplified.family_high:
        return False
    widths = [math.log(growth.high / growth.low)]
    widths.append(math.log(amplified.family_high / amplified.family_low))
    return widths[0] > _CLEARLY * widths[1]


_STOPPED = {
    "narrow": "narrow enough",
    "cap": "at the cap of batches",
    "time": "at the cap of time",
    "boots": "boots differ, and no boot can be added",
    "failed": "a process failed",
}


def exclusions(design: DesignView) -> list[str]:
    """Whatever was stopped, left out, failed or not counted, and the journal's own notes."""
    lines = stops(design)
    lines += [f"left out: {text}" for text in design.skipped]
    lines += [f"failed: {f.cell}: {f.message}" for f in design.failures]
    if design.unfinished_attempts:
        lines.append(
            f"interrupted attempts: {design.unfinished_attempts}; "
            f"their samples are kept and not counted: {design.uncounted_samples}"
        )
    return lines + [f"journal: {text}" for text in design.journal_notes]


def stops(design: DesignView) -> list[str]:
    """Why the cells of an adaptive sweep were measured no further: how many for which reason,
    and each that did not reach the goal."""
    if design.goal_half_width is None:
        return []
    narrow = sum(stop.reason == "narrow" for stop in design.stops)
    found = [f"{narrow} of {len(design.stops)} cells reached ±{design.goal_half_width:.1%}"]
    return found + [_stop(stop) for stop in design.stops if stop.reason != "narrow"]


def _stop(stop: StopView) -> str:
    cell = f"{stop.target}, {stop.workload}{f' {stop.params}' if stop.params else ''}"
    reached = "no interval" if stop.half_width is None else f"±{stop.half_width:.1%}"
    return f"{cell}, N = {stop.threads}: stopped at {reached}: {_STOPPED[stop.reason]}"


def coded(text: str) -> list[tuple[str, bool]]:
    """The parts of a sentence, and whether each stood between backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick of somebody else's
        return [(text, False)]
    return [(part, bool(number % 2)) for number, part in enumerate(parts) if part]


FILTERS: dict[str, Callable[..., object]] = {
    "number": words.number,
    "spread": words.spread,
    "with_spread": words.with_spread,
    "interval": words.interval,
    "family_interval": words.family_interval,
    "law": law,
    "narrower": narrower,
    "stops": stops,
    "exclusions": exclusions,
    "coded": coded,
}
"""How templates show numbers and parts of the model."""
