"""Verdicts: what the effects of a pair let one say, once its confounders are known.

The statistics judge intervals against a margin (labctl.stats.judge); here it is taken
back what a confounder bars. How a verdict is worded is ``sentences``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labctl.analysis.confounders import Confounder, Work, confounders, reasons
from labctl.analysis.curves import Curve
from labctl.analysis.pairs import Pair
from labctl.analysis.sides import Side
from labctl.stats import PairEffects, pair_effects
from labctl.stats.judge import Judgement, judge_level, judge_scaling
from labctl.sweep.aggregate import PLANNED_BOOT


@dataclass(frozen=True)
class Comparison:
    """One pair in one workload and variant.

    Attributes:
        pair: who is compared, and what it is about.
        one, other: the sides.
        one_curve, other_curve: what they ran.
        effects: over the thread counts that both have.
        confounders: what else differs, what bars most first.
        margin: of practical equivalence, 0.1 for 10 %.
        level, scaling: the verdict at the least thread count (of a change: at all), and on
            growth.
    """

    pair: Pair
    one: Side
    other: Side
    one_curve: Curve
    other_curve: Curve
    effects: PairEffects
    confounders: tuple[Confounder, ...]
    margin: float
    level: Judgement
    scaling: Judgement

    @property
    def functional(self) -> bool:
        """Whether a side was emulated, so that times mean nothing."""
        return self.one.role.functional or self.other.role.functional

    @property
    def simulated(self) -> bool:
        """Whether a side was drawn from a model."""
        return self.one.role.simulated or self.other.role.simulated

    @property
    def barred(self) -> list[str]:
        """Why nothing can be said at all, as clauses; empty where something can."""
        return reasons(self.confounders, "all")

    @property
    def same_boot(self) -> bool:
        """Whether both sides were measured in one and the same boot."""
        boots = [
            {boot for cell in curve.cells.values() for boot in cell.boots}
            for curve in (self.one_curve, self.other_curve)
        ]
        (first, *others) = sorted(boots[0])
        return boots[0] == boots[1] and not others and not first.startswith(PLANNED_BOOT)

    def one_boot(self) -> list[str]:
        """Names of the sides that were measured in one boot; of imported ones it is not known."""
        sides = ((self.one, self.one_curve), (self.other, self.other_curve))
        return [
            side.name
            for side, curve in sides
            if not side.role.imported and max(cell.n_boots for cell in curve.cells.values()) == 1
        ]


def compare(
    pair: Pair, sides: tuple[Side, Side], curves: tuple[Curve, Curve], *, margin: float, seed: int
) -> Comparison | None:
    """Effects and verdict of a pair in one variant; None without a thread count in common."""
    one, other = curves
    if not set(one.cells) & set(other.cells):
        return None
    # Two runs took no turns: what disturbed a round of one did not disturb the other's.
    same_machine = pair.subject != "change" and sides[0].machine == sides[1].machine
    effects = pair_effects(one.cells, other.cells, same_machine=same_machine, seed=seed)
    ran = [
        Work(
            curve.program,
            curve.params_text,
            effects.base,
            {} if side.role.imported else {n: curve.ops(n) for n in effects.level.threads},
            side.sources.get(curve.program, ""),
            1000 * curve.times[effects.base].value,
            side.clock_reads.get(curve.program),
        )
        for side, curve in zip(sides, curves, strict=True)
    ]
    found = confounders(pair.subject, *sides, *ran)
    level, scaling = judge(effects, pair, margin, found)
    return Comparison(pair, *sides, *curves, effects, tuple(found), margin, level, scaling)


def judge(
    effects: PairEffects, pair: Pair, margin: float, found: Sequence[Confounder]
) -> tuple[Judgement, Judgement]:
    """Verdict on the level and on the scaling, less what the confounders bar."""
    level = judge_level(effects, margin, pair.subject)
    scaling = _named(judge_scaling(effects, margin, pair.subject), pair)
    if every := reasons(found, "all"):
        return _bar(level, every), _bar(scaling, every)
    if of_scaling := reasons(found, "scaling"):
        return level, _bar(scaling, of_scaling)
    if of_growth := reasons(found, "growth"):
        if scaling.call == "kernel":
            scaling = _bar(scaling, of_growth)
        elif scaling.call == "both":
            scaling = replace(scaling, call="virtualization")
    return level, scaling


def _named(judgement: Judgement, pair: Pair) -> Judgement:
    """With the sides' names: a baseline is not metal because it is one."""
    names = {"the guest": pair.one, "metal": pair.other}
    reason = re.sub("the guest|metal", lambda match: names[match[0]], judgement.reason)
    return replace(judgement, reason=reason)


def _bar(judgement: Judgement, why: Sequence[str]) -> Judgement:
    return replace(judgement, call="cannot tell", reason="; ".join(why))
