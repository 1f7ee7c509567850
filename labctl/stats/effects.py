"""Effects of a pair: what one side of a comparison does to the time of an operation.

T(N) is a cell's geometric mean time an operation at N threads. Of a pair (one / other:
guest / metal, or new kernel / old kernel):

- **level** R(N) = T_one(N) / T_other(N); at the least N it is the base overhead B;
- **amplification** A(N) = [T_one(N) / T_one(base)] / [T_other(N) / T_other(base)];
- **growth** of each side, T(N) / T(base).

Each of these is a family over N: its estimates carry an interval of their own and one
that holds for all N at once.

The intervals are t intervals on logarithms over the units of ``labctl.stats.units``. Growth
is taken within each unit, so that what a boot or a drift shifts as a whole cancels; the
amplification is the difference of both sides' growths, by Welch. The level is the mean of
the differences within each period or round where both sides took turns on one machine,
which cancels the drift that they share, and Welch's otherwise. Rounds of one boot may
depend on their predecessors; the interval is widened for that (``labctl.stats.correlation``).
Why so, and what it is worth by simulation: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labctl.stats.correlation import inflation
from labctl.stats.estimate import Estimate, warnings_for
from labctl.stats.nested import Nested
from labctl.stats.simultaneous import Group, Intervals, intervals
from labctl.stats.units import Statistic, Units, units_of

LEVEL = 0.95
DRAWS = 10_000


@dataclass(frozen=True)
class Family:
    """One quantity at several thread counts, judged together.

    Attributes:
        name: "level", "amplification" or "growth".
        threads: rising, shape (n,).
        estimates: one each; ``family_low`` and ``family_high`` hold for all at once.
    """

    name: str
    threads: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def at(self, threads: int) -> Estimate:
        """The estimate at one thread count."""
        return self.estimates[self.threads.index(threads)]


@dataclass(frozen=True)
class PairEffects:
    """All effects of a pair over the thread counts that both sides have.

    ``growth_one`` and ``growth_other`` and ``amplification`` begin above ``base``.
    """

    base: int
    level: Family
    amplification: Family
    growth_one: Family
    growth_other: Family
    warnings: tuple[str, ...] = ()


def pair_effects(
    one: Mapping[int, Nested],
    other: Mapping[int, Nested],
    *,
    same_machine: bool,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = DRAWS,
    statistic: Statistic = "geometric",
) -> PairEffects:
    """Effects of ``one`` against ``other``, thread count -> samples each.

    A side with one boot is taken as it was in that boot: the truth that the interval holds
    in 95 % of experiments is that boot's, and a warning says so.

    Args:
        same_machine: both sides ran on one physical machine, in the same rounds: what
            disturbed one round disturbed both.
        level: confidence level.
        seed, resamples: of whatever is resampled.
        statistic: ratios of "geometric" means, of arithmetic "mean"s, or of the geometric
            means of the processes' "median"s.

    Raises:
        ValueError: no thread count in common.
    """
    threads = tuple(sorted(set(one) & set(other)))
    if not threads:
        raise ValueError("the sides have no thread count in common")
    first, second = ({n: side[n] for n in threads} for side in (one, other))
    units = [units_of(side, statistic) for side in (first, second)]
    how = _How(level, seed, resamples)
    grown = [_growth_parts(side) for side in units]
    against = [replace(part, sign=-part.sign) for part in grown[1]]
    return PairEffects(
        base=threads[0],
        level=_family("level", _level_parts(units, same_machine), (first, second), how),
        amplification=_family("amplification", [*grown[0], *against], (first, second), how),
        growth_one=_family("growth", grown[0], (first,), how),
        growth_other=_family("growth", grown[1], (second,), how),
    )


def growths(
    side: Mapping[int, Nested],
    *,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = DRAWS,
    statistic: Statistic = "geometric",
) -> Family:
    """T(N) / T(base) of one side above its least thread count, as in ``pair_effects``.

    Raises:
        ValueError: no cell.
    """
    if not side:
        raise ValueError("a side needs one cell or more")
    cells = {n: side[n] for n in sorted(side)}
    parts = _growth_parts(units_of(cells, statistic))
    return _family("growth", parts, (cells,), _How(level, seed, resamples))


def cell_mean(
    cell: Nested, *, level: float = LEVEL, statistic: Statistic = "geometric"
) -> Estimate:
    """Time of one cell, in the unit of its samples, by the same units as the effects."""
    parts = [_Part(units_of({1: cell}, statistic))]
    alone = _family("time", parts, ({1: cell},), _How(level, 0, 0)).estimates[0]
    return replace(alone, family_low=None, family_high=None)


@dataclass(frozen=True)
class _Part:
    """Units whose means enter an estimate, and what was done to them."""

    units: Units
    sign: float = 1.0
    paired: bool = False


@dataclass(frozen=True)
class _How:
    level: float
    seed: int
    draws: int


def _level_parts(sides: Sequence[Units], same_machine: bool) -> list[_Part]:
    one, other = sides
    paired = one.against(other) if same_machine else None
    if paired is not None:
        return [_Part(paired, paired=True)]
    return [_Part(one), _Part(other, -1.0)]


def _growth_parts(side: Units) -> list[_Part]:
    """Growth within units; the cells by themselves where their units do not match."""
    grown = side.growth()
    if grown is not None:
        return [_Part(grown)]
    width = side.values.shape[1] - 1
    base = np.repeat(side.values[:, :1], width, axis=1)
    return [
        _Part(replace(side, values=side.values[:, 1:])),
        _Part(replace(side, values=base), -1.0),
    ]


def _family(
    name: str, parts: Sequence[_Part], sides: Sequence[Mapping[int, Nested]], how: _How
) -> Family:
    """The members of a family, from the units that they are made of."""
    threads = tuple(sides[0])
    growing = name in ("growth", "amplification")
    members = threads[1:] if growing else threads
    if not members:
        return Family(name, (), ())
    # Rounds of one boot, or periods without a reboot, may depend on their predecessors.
    within = [part.units.values for part in parts if part.units.boots == 1]
    factor = inflation(within)
    groups = [
        Group(part.units.values, part.sign, factor if part.units.boots == 1 else 1.0)
        for part in parts
    ]
    found = intervals(groups, level=how.level, seed=how.seed, draws=how.draws)
    method = _words(parts)
    estimates = [
        _estimate(
            found,
            column,
            [side[at] for side in sides for at in ((threads[0], n) if growing else (n,))],
            how.level,
            method,
        )
        for column, n in enumerate(members)
    ]
    return Family(name, members, tuple(estimates))


def _words(parts: Sequence[_Part]) -> str:
    kinds = " and ".join(dict.fromkeys(f"{part.units.kind}s" for part in parts))
    if len(parts) > 1:
        return f"Welch's t on logarithms over {kinds}"
    return f"t on logarithms over {'paired ' if parts[0].paired else ''}{kinds}"


def _estimate(
    found: Intervals, column: int, cells: Sequence[Nested], level: float, method: str
) -> Estimate:
    """Back from logarithms, with what is to be said against it."""
    boots = min(cell.n_boots for cell in cells)
    processes = min(cell.n_processes for cell in cells)
    batches = min(cell.n_batches for cell in cells)
    value, half = float(found.value[column]), float(found.half[column])
    wide = float(found.family_half[column])
    known = bool(np.isfinite(half))
    return Estimate(
        value=float(np.exp(value)),
        low=float(np.exp(value - half)) if known else None,
        high=float(np.exp(value + half)) if known else None,
        level=level,
        method=method,
        warnings=warnings_for(boots, processes, batches, 2 * half if known else 1.0),
        n_boots=boots,
        n_processes=processes,
        n_batches=batches,
        family_low=float(np.exp(value - wide)) if known else None,
        family_high=float(np.exp(value + wide)) if known else None,
    )
