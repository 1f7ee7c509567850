"""Variance by level of repetition, and how many repetitions each level is worth.

Levels, from within: batch, process (one a round), boot. Kalibera and Jones, "Quantifying
performance changes with effect size confidence intervals" (2012) and "Rigorous benchmarking
in reasonable time" (ISMM 2013), with the corrected T^2 that libkalibera has:

    S_i^2 = mean over the units of level i + 1 of the variance of their members' means
    T_1^2 = S_1^2,  T_i^2 = S_i^2 - S_(i-1)^2 / r_(i-1)
    r_i   = ceil(sqrt(c_(i+1) / c_i * T_i^2 / T_(i+1)^2))

All of it is on logarithms, so standard deviations are shares of the time. The formulas are
for equal counts. Where counts differ, variances are pooled by their degrees of freedom and
1 / r is the mean of the units' 1 / r, which leaves T_2^2 without bias and T_3^2 nearly so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from labctl.stats.estimate import FEWEST_UNITS
from labctl.stats.nested import Floats, Ints, Nested

LEVEL = 0.95


@dataclass(frozen=True)
class Components:
    """Variances T^2 of the logarithm that each level adds, 0 where it adds nothing.

    Attributes:
        batch, process, boot: of batches within a process, processes within a boot, boots.
        unknown: levels that were not repeated, whose variance is thus not known and
            stands as 0.
    """

    batch: float
    process: float
    boot: float
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Costs:
    """Seconds for one more of each: a batch, a process without its batches, a boot without
    its processes. ``boot`` is None where the machine may not be rebooted."""

    batch: float
    process: float
    boot: float | None = None


@dataclass(frozen=True)
class Counts:
    """Batches of a process, rounds (processes) of a boot, boots."""

    batches: int
    rounds: int
    boots: int

    def seconds(self, costs: Costs) -> float:
        """What one cell costs with these counts."""
        process = costs.process + self.batches * costs.batch
        return self.boots * ((costs.boot or 0.0) + self.rounds * process)


#: No level is asked for more than this.
MOST = Counts(batches=100, rounds=100, boots=100)


def mean_squares(cell: Nested) -> tuple[float, float, float]:
    """S_1^2, S_2^2, S_3^2 of a cell; NaN where a level was not repeated."""
    processes = cell.process_means()
    boots = np.array([cell.boot_means().mean()])
    return (
        _within(cell.logs, processes, cell.process_starts),
        _within(processes, cell.boot_means(), cell.boot_starts),
        _within(cell.boot_means(), boots, np.array([0, cell.n_boots])),
    )


def variance_components(cell: Nested) -> Components:
    """T^2 of each level of a cell."""
    batch, process, boot = mean_squares(cell)
    names = zip(("batch", "process", "boot"), (batch, process, boot), strict=True)
    unknown = tuple(name for name, found in names if math.isnan(found))
    share = float((1 / np.diff(cell.process_starts)).mean())
    above = float((1 / np.diff(cell.boot_starts)).mean())
    inner, middle, outer = (0.0 if math.isnan(s) else s for s in (batch, process, boot))
    return Components(
        batch=inner,
        process=max(0.0, middle - inner * share),
        boot=max(0.0, outer - middle * above) if "process" not in unknown else outer,
        unknown=unknown,
    )


def _within(values: Floats, means: Floats, starts: Ints) -> float:
    """Pooled variance of the members of each run about its mean, NaN without repetition."""
    lengths = np.diff(starts)
    freedom = int((lengths - 1).sum())
    if freedom == 0:
        return math.nan
    return float(((values - np.repeat(means, lengths)) ** 2).sum()) / freedom


def expected_half_width(components: Components, counts: Counts, level: float = LEVEL) -> float:
    """Half-width that a cell's mean will have, as a share of it (0.03 for 3 %).

    t with the top level's count less 1 degrees of freedom: boots, or with one boot its
    rounds (then it holds for that boot alone). Infinite where the top level is not repeated.
    """
    unit = components.process + components.batch / counts.batches
    top = counts.rounds
    if counts.boots > 1:
        unit = components.boot + unit / counts.rounds
        top = counts.boots
    if top < 2:
        return math.inf
    return math.sinh(float(special.stdtrit(top - 1, (1 + level) / 2)) * math.sqrt(unit / top))


def best_counts(
    components: Components,
    costs: Costs,
    *,
    half_width: float | None = None,
    seconds: float | None = None,
    level: float = LEVEL,
    most: Counts = MOST,
) -> Counts:
    """Counts that give the narrowest interval for their cost.

    Args:
        components: of a pilot; a level that was not repeated counts as adding nothing.
        costs: of one more of each level.
        half_width: what the interval is to reach, as a share: the top level is repeated
            just often enough.
        seconds: what one cell may cost: the top level takes what is left of it. With
            neither, the top level is repeated 6 times; with both, the lesser count is taken.
        most: caps.

    Raises:
        ValueError: a cost of a batch or process below 0, or of a batch 0.
    """
    if costs.batch <= 0 or costs.process < 0 or (costs.boot or 0) < 0:
        raise ValueError("a batch must cost more than nothing, and no level less")
    variances = [components.batch, components.process]
    prices = [costs.batch, costs.process]
    if costs.boot is not None:
        variances.append(components.boot)
        prices.append(costs.boot)
    lower = [
        _inner(variances, prices, at, cap)
        for at, cap in zip(range(len(prices) - 1), (most.batches, most.rounds), strict=False)
    ]

    def counts(top: int) -> Counts:
        batches, rounds, boots = (*lower, top, 1)[:3]
        return Counts(batches, rounds, boots)

    cap = most.boots if costs.boot is not None else most.rounds
    top = min(FEWEST_UNITS, cap)
    if half_width is not None:
        enough = (
            n
            for n in range(2, cap + 1)
            if expected_half_width(components, counts(n), level) <= half_width
        )
        top = next(enough, cap)
    if seconds is not None:
        affordable = max(min(int(seconds / counts(1).seconds(costs)), cap), 2)
        top = affordable if half_width is None else min(top, affordable)
    return counts(top)


def _inner(variances: list[float], prices: list[float], at: int, cap: int) -> int:
    """Repetitions of a level below the top one: against the next level that adds variance."""
    if variances[at] <= 0:
        return 1
    above = next((i for i in range(at + 1, len(prices)) if variances[i] > 0), None)
    if above is None:
        return cap
    price = sum(prices[at + 1 : above + 1])
    times = math.sqrt(price / max(prices[at], 1e-12) * variances[at] / variances[above])
    return min(max(math.ceil(times), 1), cap)
