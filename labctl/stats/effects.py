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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labctl.stats.checks import Checks, kalibera_jones
from labctl.stats.correlation import NONE, widening
from labctl.stats.estimate import Estimate, warnings_for_units
from labctl.stats.nested import Floats, Nested
from labctl.stats.remarks import remarks_on
from labctl.stats.simultaneous import Group, Intervals, intervals
from labctl.stats.units import Statistic, Units, counts, units_of

LEVEL = 0.95
DRAWS = 10_000


@dataclass(frozen=True)
class Family:
    """One quantity at several thread counts, judged together.

    Attributes:
        name: "level", "amplification", "growth" or "slope".
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
    ``warnings`` are those of the data as a whole; each estimate has its own beside them.
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
    checks: bool = True,
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
        checks: add other methods' intervals (of "geometric" only). They take most of the time.

    Raises:
        ValueError: no thread count in common.
    """
    threads = tuple(sorted(set(one) & set(other)))
    if not threads:
        raise ValueError("the sides have no thread count in common")
    first, second = ({n: side[n] for n in threads} for side in (one, other))
    units = [units_of(side, statistic) for side in (first, second)]
    how = _How(level, seed, resamples)
    grown = [_risen(side, side.values[:, :1]) for side in units]
    against = [replace(part, sign=-part.sign) for part in grown[1]]
    found = PairEffects(
        base=threads[0],
        level=_family("level", _level_parts(units, same_machine), (first, second), how),
        amplification=_family("amplification", [*grown[0], *against], (first, second), how),
        growth_one=_family("growth", grown[0], (first,), how),
        growth_other=_family("growth", grown[1], (second,), how),
        warnings=remarks_on((first, second), units, seed=seed),
    )
    if not checks or statistic != "geometric":
        return found
    return _checked(found, Checks((first, second), level=level, seed=seed, resamples=resamples))


def _checked(effects: PairEffects, checks: Checks) -> PairEffects:
    """With other methods' intervals beside each estimate."""
    base = effects.base

    def each(family: Family, check: Callable[[Estimate, int], Estimate]) -> Family:
        pairs = zip(family.estimates, family.threads, strict=True)
        return replace(family, estimates=tuple(check(e, n) for e, n in pairs))

    return replace(
        effects,
        level=each(effects.level, checks.of_level),
        amplification=each(effects.amplification, lambda e, n: checks.of_amplification(e, base, n)),
        growth_one=each(effects.growth_one, lambda e, n: checks.of_growth(e, base, n, 0)),
        growth_other=each(effects.growth_other, lambda e, n: checks.of_growth(e, base, n, 1)),
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
    cells, units = _sorted(side, statistic)
    parts = _risen(units, units.values[:, :1])
    return _family("growth", parts, (cells,), _How(level, seed, resamples))


def slopes(
    side: Mapping[int, Nested],
    *,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = DRAWS,
    statistic: Statistic = "geometric",
) -> Family:
    """Local slope d ln T / d ln N from each thread count to the next; at its upper end.

    0 is no growth, 1 is growth in proportion to N.

    Raises:
        ValueError: no cell.
    """
    cells, units = _sorted(side, statistic)
    parts = _risen(units, units.values[:, :-1], np.diff(np.log(list(cells))))
    return _family("slope", parts, (cells,), _How(level, seed, resamples))


def _sorted(side: Mapping[int, Nested], statistic: Statistic) -> tuple[dict[int, Nested], Units]:
    if not side:
        raise ValueError("a side needs one cell or more")
    cells = {n: side[n] for n in sorted(side)}
    return cells, units_of(cells, statistic)


def cell_mean(
    cell: Nested, *, level: float = LEVEL, statistic: Statistic = "geometric"
) -> Estimate:
    """Time of one cell, in the unit of its samples, by the same units as the effects.

    It stands alone: there is no family. The check is of the arithmetic mean.
    """
    parts = [_Part(units_of({1: cell}, statistic))]
    alone = _family("time", parts, ({1: cell},), _How(level, 0, 0)).estimates[0]
    check = kalibera_jones(cell, level=level)
    return replace(
        alone, family_low=None, family_high=None, checks=() if check is None else (check,)
    )


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


def _risen(side: Units, lower: Floats, span: Floats | float = 1.0) -> list[_Part]:
    """Rise per ``span`` within units; the cells by themselves where their units do not match."""
    risen = side.over(lower, span)
    if risen is not None:
        return [_Part(risen)]
    upper = side.values[:, 1:]
    return [
        _Part(replace(side, values=upper / span)),
        _Part(replace(side, values=np.broadcast_to(lower, upper.shape) / span), -1.0),
    ]


def _family(
    name: str, parts: Sequence[_Part], sides: Sequence[Mapping[int, Nested]], how: _How
) -> Family:
    """The members of a family, from the units that they are made of."""
    threads = tuple(sides[0])
    lower: tuple[int | None, ...] = {
        "growth": threads[:1] * (len(threads) - 1),
        "amplification": threads[:1] * (len(threads) - 1),
        "slope": threads[:-1],
    }.get(name, (None,) * len(threads))
    members = threads[len(threads) - len(lower) :]
    if not members:
        return Family(name, (), ())
    # Rounds of one boot, or periods without a reboot, may depend on their predecessors.
    wider = widening([part.units.values for part in parts if part.units.boots == 1])
    groups = [
        Group(part.units.values, part.sign, wider if part.units.boots == 1 else NONE)
        for part in parts
    ]
    found = intervals(groups, level=how.level, seed=how.seed, draws=how.draws)
    units = np.min([counts(part.units.values) for part in parts], axis=0)
    made = _Made(how.level, _words(parts), name == "slope")
    estimates = []
    for column, (n, below) in enumerate(zip(members, lower, strict=True)):
        cells = [side[at] for side in sides for at in (n, below) if at is not None]
        estimates.append(_estimate(found, column, cells, int(units[column]), made))
    return Family(name, members, tuple(estimates))


def _words(parts: Sequence[_Part]) -> str:
    kinds = " and ".join(dict.fromkeys(f"{part.units.kind}s" for part in parts))
    if len(parts) > 1:
        return f"Welch's t on logarithms over {kinds}"
    return f"t on logarithms over {'paired ' if parts[0].paired else ''}{kinds}"


@dataclass(frozen=True)
class _Made:
    """What a family's estimates have in common; a ``linear`` one is not a logarithm."""

    level: float
    method: str
    linear: bool


def _estimate(
    found: Intervals, column: int, cells: Sequence[Nested], units: int, made: _Made
) -> Estimate:
    """Back from logarithms, with what is to be said against it."""
    boots = min(cell.n_boots for cell in cells)
    batches = min(cell.n_batches for cell in cells)
    value, half = float(found.value[column]), float(found.half[column])
    wide = float(found.family_half[column])
    known = math.isfinite(half)

    def back(number: float) -> float:
        return number if made.linear else math.exp(number)

    return Estimate(
        value=back(value),
        low=back(value - half) if known else None,
        high=back(value + half) if known else None,
        level=made.level,
        method=made.method,
        warnings=warnings_for_units(boots, units, batches, 2 * half if known else 1.0),
        n_boots=boots,
        n_processes=min(cell.n_processes for cell in cells),
        n_batches=batches,
        family_low=back(value - wide) if known else None,
        family_high=back(value + wide) if known else None,
    )
