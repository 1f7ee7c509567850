"""What effects let one say: by interval against a margin of practical equivalence.

An effect is *beyond* the margin when its whole interval is, *within* it when its whole
interval is, and *open* otherwise. A claim that some thread count is beyond takes the
intervals that hold for all counts at once; a claim that all are within needs each one's
own interval alone (an intersection-union test: it fails if any of them does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labctl.stats.effects import Family, PairEffects
from labctl.stats.estimate import Estimate

MARGIN = 0.10
Subject = Literal["virtualization", "kernel"]
Call = Literal["kernel", "virtualization", "both", "neither", "cannot tell"]
Standing = Literal["above", "below", "within", "open"]


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on.

    Attributes:
        call: the verdict.
        threads: the count at which it shows most, None where there is none to name.
        reason: why it cannot be told, as a clause; "" where it can.
    """

    call: Call
    threads: int | None = None
    reason: str = ""


def standing(estimates: tuple[Estimate, ...], margin: float) -> Standing:
    """Where a family stands: "above" or "below" if any of it is beyond the margin (above
    first), "within" if all of it is.

    Raises:
        ValueError: margin not above 0.
    """
    if margin <= 0:
        raise ValueError("the margin must be above 0")
    top, bottom = 1 + margin, 1 / (1 + margin)
    if any(e.family_low is not None and e.family_low > top for e in estimates):
        return "above"
    if any(e.family_high is not None and e.family_high < bottom for e in estimates):
        return "below"
    inside = [
        e.low is not None and e.high is not None and bottom <= e.low and e.high <= top
        for e in estimates
    ]
    return "within" if inside and all(inside) else "open"


def judge_level(effects: PairEffects, margin: float, subject: Subject) -> Judgement:
    """Verdict on the base overhead: the level at the least thread count."""
    base = effects.level.at(effects.base)
    alone = (_alone(base),)
    found = standing(alone, margin)
    if found == "within":
        return Judgement("neither", effects.base)
    if found == "open":
        return Judgement("cannot tell", effects.base, _why_open(alone))
    return Judgement(subject, effects.base)


def judge_scaling(effects: PairEffects, margin: float, subject: Subject) -> Judgement:
    """Verdict on growth with the thread count.

    For ``subject`` "virtualization" the other side is metal: its own growth is the
    kernel's. For "kernel" both sides differ in the kernel alone: only the amplification
    is judged.
    """
    amplified = standing(effects.amplification.estimates, margin)
    at = _most(effects.amplification)
    if subject == "kernel":
        if amplified == "open":
            return Judgement("cannot tell", at, _why_open(effects.amplification.estimates))
        return Judgement("neither" if amplified == "within" else "kernel", at)
    grown = standing(effects.growth_other.estimates, margin)
    if amplified == "open":
        return Judgement("cannot tell", at, _why_open(effects.amplification.estimates))
    if grown == "open":
        return Judgement(
            "cannot tell", _most(effects.growth_other), _why_open(effects.growth_other.estimates)
        )
    if amplified == "above":
        return Judgement("both" if grown == "above" else "virtualization", at)
    return (
        Judgement("kernel", _most(effects.growth_other))
        if grown == "above"
        else Judgement("neither", at)
    )


def _alone(estimate: Estimate) -> Estimate:
    """The estimate as a family of one."""
    from dataclasses import replace

    return replace(estimate, family_low=estimate.low, family_high=estimate.high)


def _most(family: Family) -> int | None:
    if not family.threads:
        return None
    return max(zip(family.estimates, family.threads, strict=True), key=lambda x: x[0].value)[1]


def _why_open(estimates: tuple[Estimate, ...]) -> str:
    if not estimates:
        return "there is one thread count alone"
    if any(e.low is None for e in estimates):
        return "there are too few measurements for an interval"
    return "the interval reaches across the margin"
