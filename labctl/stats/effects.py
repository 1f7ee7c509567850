"""Effects of a pair: what one side of a comparison does to the time of an operation.

T(N) is a cell's geometric mean time an operation at N threads. Of a pair (one / other:
guest / metal, or new kernel / old kernel):

- **level** R(N) = T_one(N) / T_other(N); at the least N it is the base overhead B;
- **amplification** A(N) = [T_one(N) / T_one(base)] / [T_other(N) / T_other(base)];
- **growth** of each side, T(N) / T(base).

Each of these is a family over N: its estimates carry an interval of their own and one
that holds for all N at once. Source: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.stats.estimate import Estimate, warnings_for
from labctl.stats.nested import Floats, Nested

LEVEL = 0.95


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
    resamples: int = 10_000,
) -> PairEffects:
    """Effects of ``one`` against ``other``, thread count -> samples each.

    Args:
        same_machine: both sides ran on one physical machine, in the same rounds: what
            disturbed one round disturbed both.
        level: confidence level.
        seed, resamples: of whatever is resampled.

    Raises:
        ValueError: no thread count in common.
    """
    threads = tuple(sorted(set(one) & set(other)))
    if not threads:
        raise ValueError("the sides have no thread count in common")
    base, above = threads[0], threads[1:]

    def family(name: str, counts: Sequence[int], sides: Sequence[Mapping[int, Nested]]) -> Family:
        growing = name != "level"
        estimates = [
            _welch(
                [_logs(side, n, base if growing else None) for side in sides],
                [side[n] for side in sides],
                level,
                len(counts),
            )
            for n in counts
        ]
        return Family(name, tuple(counts), tuple(estimates))

    return PairEffects(
        base=base,
        level=family("level", threads, (one, other)),
        amplification=family("amplification", above, (one, other)),
        growth_one=family("growth", above, (one,)),
        growth_other=family("growth", above, (other,)),
    )


def _logs(side: Mapping[int, Nested], threads: int, base: int | None) -> Floats:
    """One value a boot, or a process where there is one boot."""

    def means(cell: Nested) -> Floats:
        return cell.boot_means() if cell.n_boots > 1 else cell.process_means()

    found = means(side[threads])
    if base is None:
        return found
    below = means(side[base])
    length = min(found.size, below.size)
    difference: Floats = found[:length] - below[:length]
    return difference


def _welch(sides: Sequence[Floats], cells: Sequence[Nested], level: float, size: int) -> Estimate:
    from scipy import stats

    signs = (1.0, -1.0)[: len(sides)]
    value = sum(sign * side.mean() for sign, side in zip(signs, sides, strict=True))
    boots = min(cell.n_boots for cell in cells)
    processes = min(cell.n_processes for cell in cells)
    batches = min(cell.n_batches for cell in cells)
    if min(side.size for side in sides) < 2:
        low = high = family_low = family_high = None
        spread = 1.0
    else:
        parts = np.array([side.var(ddof=1) / side.size for side in sides])
        freedom = parts.sum() ** 2 / max(
            sum(p**2 / (s.size - 1) for p, s in zip(parts, sides, strict=True)), 1e-300
        )
        error = float(np.sqrt(parts.sum()))
        half = error * float(stats.t.ppf((1 + level) / 2, freedom or 1))
        all_half = error * float(stats.t.ppf((1 + level ** (1 / size)) / 2, freedom or 1))
        low, high = float(np.exp(value - half)), float(np.exp(value + half))
        family_low, family_high = float(np.exp(value - all_half)), float(np.exp(value + all_half))
        spread = 2 * half
    return Estimate(
        value=float(np.exp(value)),
        low=low,
        high=high,
        level=level,
        method="Welch's t on logarithms",
        warnings=warnings_for(boots, processes, batches, spread),
        n_boots=boots,
        n_processes=processes,
        n_batches=batches,
        family_low=family_low,
        family_high=family_high,
    )
