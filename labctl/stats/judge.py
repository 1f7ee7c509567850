"""What effects let one say: by interval against a margin of practical equivalence.

An effect is *beyond* the margin when its whole interval is, *within* it when its whole
interval is, and *open* otherwise. A claim that some thread count is beyond takes the
intervals that hold for all counts at once; a claim that all are within needs each one's
own interval alone (an intersection-union test: it fails if any of them does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from labctl.stats.effects import Family, PairEffects
from labctl.stats.estimate import Estimate

MARGIN = 0.10
Subject = Literal["virtualization", "kernel", "change"]
"""What a pair is about; "change" is one target at two times, the new against the old."""
Call = Literal[
    "kernel", "virtualization", "both", "neither",
    "slower", "faster", "mixed", "grows more", "grows less", "unchanged",
    "cannot tell",
]  # fmt: skip
"""A verdict. The second row is of a change: "mixed" is slower at some thread counts and
faster at others."""
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
    """Verdict on the base overhead: the level at the least thread count. Of a change it is the
    verdict on the level at all thread counts, by the intervals that hold for all at once."""
    if subject == "change":
        return _judge_change(effects.level, margin)
    base = effects.level.at(effects.base)
    own = (alone(base),)
    found = standing(own, margin)
    if found == "within":
        return Judgement("neither", effects.base)
    if found == "open":
        return Judgement("cannot tell", effects.base, why_open(own))
    return Judgement(subject, effects.base)


def judge_scaling(effects: PairEffects, margin: float, subject: Subject) -> Judgement:
    """Verdict on growth with the thread count.

    For ``subject`` "virtualization" the other side is metal: its own growth is the
    kernel's. A guest that grows less than a growing metal is called "kernel": virtualization
    does not add to it. For "kernel" both sides differ in the kernel alone: only the
    amplification is judged.
    """
    amplification, growth = effects.amplification, effects.growth_other
    amplified = standing(amplification.estimates, margin)
    at = _most(amplification, amplified)
    grown = standing(growth.estimates, margin)
    if subject == "change":
        calls: dict[Standing, Call] = {"above": "grows more", "below": "grows less"}
        if amplified == "open":
            return Judgement("cannot tell", at, why_open(amplification.estimates))
        return Judgement(calls.get(amplified, "unchanged"), at)
    if subject == "kernel":
        if amplified == "open":
            return Judgement("cannot tell", at, why_open(amplification.estimates))
        return Judgement("neither" if amplified == "within" else "kernel", at)
    if amplified == "open":
        known = "metal itself grows; whether the guest adds to it is open: "
        reason = why_open(amplification.estimates)
        return Judgement("cannot tell", at, (known if grown == "above" else "") + reason)
    if grown == "open":
        known = "the guest grows otherwise than metal; whether metal itself grows is open: "
        reason = why_open(growth.estimates)
        return Judgement(
            "cannot tell",
            _most(growth, grown),
            (known if amplified != "within" else "") + reason,
        )
    if grown == "above":
        if amplified == "above":
            return Judgement("both", at)
        return Judgement("kernel", _most(growth, grown))
    return Judgement("neither" if amplified == "within" else "virtualization", at)


def beyond(family: Family, margin: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The thread counts at which a family is above the margin, and those below it, by the
    intervals that hold for all at once."""
    each = list(zip(family.threads, family.estimates, strict=True))
    return (
        tuple(n for n, e in each if standing((e,), margin) == "above"),
        tuple(n for n, e in each if standing((e,), margin) == "below"),
    )


def _judge_change(level: Family, margin: float) -> Judgement:
    slower, faster = beyond(level, margin)
    if slower:
        return Judgement("mixed" if faster else "slower", _most(level, "above"))
    if faster:
        return Judgement("faster", _most(level, "below"))
    if standing(level.estimates, margin) == "within":
        return Judgement("unchanged", _most(level, "within"))
    return Judgement("cannot tell", _most(level, "open"), why_open(level.estimates))


def alone(estimate: Estimate) -> Estimate:
    """The estimate as a family of one."""
    return replace(estimate, family_low=estimate.low, family_high=estimate.high)


def _most(family: Family, found: Standing) -> int | None:
    """The count at which the family shows most what was found."""
    if not family.threads:
        return None
    logs = [math.log(estimate.value) for estimate in family.estimates]
    signed = {"above": logs, "below": [-log for log in logs]}.get(found, [abs(x) for x in logs])
    return family.threads[signed.index(max(signed))]


def why_open(estimates: tuple[Estimate, ...]) -> str:
    """Why a family stands "open", as a clause."""
    if not estimates:
        return "there is one thread count alone"
    if any(e.low is None for e in estimates):
        return "there are too few measurements for an interval"
    return "the interval reaches across the margin"
