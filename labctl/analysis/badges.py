"""What is said of an effect in three words: the verdict, or why there is none.

Two effects of one pair may be open for two reasons; "cannot tell" alone does not say which.
"""

from __future__ import annotations

from labctl.analysis.verdicts import Comparison
from labctl.stats import Family
from labctl.stats.judge import Judgement, Standing, alone, standing

EMULATED = "emulated, no verdict"
DIFFERS = "differs, cause unknown"
ALIKE = "alike, but confounded"
BOTH_GROW = "both grow, cause unknown"
IMPRECISE = "too imprecise"
NO_INTERVAL = "no interval"

LEGEND = {
    EMULATED: "a side is emulated (TCG): its times, and how they grow, are the emulator's",
    DIFFERS: "beyond the margin, but something else that differs could be the reason",
    ALIKE: "within the margin, but something else that differs could hide a difference",
    BOTH_GROW: "growth is alike, but the baseline's own may be its hypervisor's doing",
    IMPRECISE: "the interval reaches across the margin; n is the number of processes behind it",
    NO_INTERVAL: "too few measurements for an interval",
}
"""What the words mean, for whoever reads them for the first time."""


def level_badge(c: Comparison) -> str:
    """Of the time an operation."""
    family = c.effects.level
    if _emulated(c):
        return EMULATED
    if c.pair.subject == "change":
        return _badge(c.level, family, standing(family.estimates, c.margin))
    own = Family(family.name, (c.effects.base,), (alone(family.at(c.effects.base)),))
    return _badge(c.level, own, standing(own.estimates, c.margin))


def scaling_badge(c: Comparison) -> str:
    """Of the growth with threads; "" where nothing can grow."""
    family = c.effects.amplification
    if not family.threads:
        return ""
    if _emulated(c):
        return EMULATED
    stands = standing(family.estimates, c.margin)
    barred = any(x.bars in ("all", "scaling") for x in c.confounders)
    if c.scaling.call == "cannot tell" and stands != "open" and not barred:
        own = c.effects.growth_other
        if standing(own.estimates, c.margin) == "open":
            return f"growth of {c.pair.other}: {_badge(c.scaling, own, 'open')}"
        return BOTH_GROW
    return _badge(c.scaling, family, stands)


def _emulated(c: Comparison) -> bool:
    """Whether emulation bars all that could be said, however clear the numbers."""
    return any(x.key == "emulation" and x.bars == "all" for x in c.confounders)


def _badge(judgement: Judgement, family: Family, stands: Standing) -> str:
    if judgement.call != "cannot tell":
        return judgement.call
    if stands == "within":
        return ALIKE
    if stands != "open":
        return DIFFERS
    if any(estimate.low is None for estimate in family.estimates):
        return NO_INTERVAL
    return f"{IMPRECISE} (n={min(estimate.n_processes for estimate in family.estimates)})"
