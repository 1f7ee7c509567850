"""Hierarchical bootstrap of times and their ratios, on logarithms.

The estimate of a cell is its geometric mean, level by level: mean of the logarithms over
a process's batches, of those over a boot's processes, of those over the boots, so that a
boot with more processes weighs no more. Its distribution comes from resampling with
replacement at every level (boots, processes, batches); the interval is the percentiles
of the draws. On logarithms a ratio is a difference, and the result does not depend on
the unit.

Drawing is done from the inside out: each process gets a pool of resampled means, each
boot draws its processes and for each an element of that process's pool, and so on. The
cost is thus the sum over the levels and not their product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labctl.stats.estimate import Estimate, warnings_for
from labctl.stats.nested import Floats, Ints, Nested

RESAMPLES = 10_000
LEVEL = 0.95
_POOL = 2_000  # resampled means kept of each process and boot; fewer of very many
_LEAST_POOL = 20
_POOLED = 100_000  # resampled means kept of all processes of a boot
_WEIGHED = 100_000_000  # samples weighed for them
_MANY = 200  # processes of a boot: above, they are drawn in blocks
_BLOCKS = 100
_BLOCK_POOL = 20_000
_CHUNK = 2_000_000  # random numbers held in memory at a time


@dataclass(frozen=True)
class Resampled:
    """A cell's data with what was drawn from them.

    Attributes:
        data: the samples.
        by_boot: resampled mean logarithms of each boot, shape (n_boots, pool); of one boot
            as many as there are resamples.
        resamples: number of draws.
        seed: of the generator; cells to be compared must have different ones.
    """

    data: Nested
    by_boot: Floats
    resamples: int
    seed: tuple[int, ...]

    def draws(self, picked: Ints | None = None, stream: int = 1) -> Floats:
        """Resampled means of the cell's logarithms, shape (resamples,).

        Args:
            picked: which boots each resample takes, shape (resamples, n_boots); drawn
                here where not given.
            stream: number of the stream of random numbers to use.
        """
        rng = np.random.default_rng((*self.seed, stream))
        if self.data.n_boots == 1:
            only: Floats = self.by_boot[0]
            return only
        if picked is None:
            picked = pick_boots(rng, self.resamples, self.data.n_boots)
        elements = rng.integers(0, self.by_boot.shape[1], picked.shape)
        means: Floats = self.by_boot[picked, elements].mean(axis=1)
        return means


def pick_boots(rng: np.random.Generator, resamples: int, n_boots: int) -> Ints:
    """Boots taken by each resample, with replacement, shape (resamples, n_boots)."""
    return rng.integers(0, n_boots, (resamples, n_boots))


def resample(
    data: Nested, *, seed: int | tuple[int, ...] = 0, resamples: int = RESAMPLES
) -> Resampled:
    """Draw what the estimates of this cell are made from; once a cell, it is the costly part."""
    seeds = (seed,) if isinstance(seed, int) else seed
    rng = np.random.default_rng((*seeds, 0))
    pools = _process_pools(data, rng)
    pool = resamples if data.n_boots == 1 else min(resamples, _POOL)
    by_boot = np.empty((data.n_boots, pool))
    for boot in range(data.n_boots):
        first, last = data.boot_starts[boot], data.boot_starts[boot + 1]
        by_boot[boot] = _boot_draws(pools[first:last], pool, rng)
    return Resampled(data, by_boot, resamples, seeds)


def _process_pools(data: Nested, rng: np.random.Generator) -> Floats:
    """Resampled means of each process, shape (n_processes, pool).

    A cell of very many samples gets smaller pools, so that memory and time are bounded: the
    mean over many processes needs fewer different values of each.

    Processes of one length share the weights; that is no dependence, because whoever
    draws from the pools takes an element of each at random.
    """
    lengths = np.diff(data.process_starts)
    most = int(np.diff(data.boot_starts).max())
    pool = min(_POOLED // most, _WEIGHED // data.n_batches, _POOL)
    pools = np.empty((data.n_processes, max(pool, _LEAST_POOL)))
    for length in np.unique(lengths):
        starts = data.process_starts[:-1][lengths == length]
        same = np.flatnonzero(lengths == length)
        logs = data.logs[starts[:, None] + np.arange(length)]
        # Around each process's own mean: identical samples must give an identical mean.
        centre = logs.mean(axis=1, keepdims=True)
        step = max(1, _CHUNK // int(length))
        for first in range(0, pools.shape[1], step):
            size = min(step, pools.shape[1] - first)
            weights = rng.multinomial(length, np.full(length, 1 / length), size=size) / length
            pools[same, first : first + size] = centre + (logs - centre) @ weights.T
    return pools


def _boot_draws(pools: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Means over resampled processes, shape (resamples,), from (processes, pool)."""
    processes, pool = pools.shape
    flat = pools.ravel()
    if processes > _MANY:
        return _block_draws(flat, processes, resamples, rng)
    draws = np.empty(resamples)
    step = max(1, _CHUNK // processes)
    for start in range(0, resamples, step):
        shape = (min(step, resamples - start), processes)
        # A process and an element of its pool, in one number.
        picked = rng.integers(0, processes * pool, shape, dtype=np.int32)
        draws[start : start + shape[0]] = flat.take(picked).mean(axis=1)
    return draws


def _block_draws(flat: Floats, number: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Means over ``number`` elements of ``flat``, shape (resamples,), for a large number.

    They are drawn in blocks of equal size from a pool of blocks' means, which has exactly the
    mean of ``flat``; so the cost is again a sum.
    """
    size = number // _BLOCKS
    blocks = np.empty(_BLOCK_POOL)
    step = max(1, _CHUNK // size)
    for start in range(0, _BLOCK_POOL, step):
        shape = (min(step, _BLOCK_POOL - start), size)
        blocks[start : start + shape[0]] = flat.take(
            rng.integers(0, flat.size, shape, dtype=np.int32)
        ).mean(axis=1)
    centre = flat.mean()
    picked = rng.integers(0, _BLOCK_POOL, (resamples, number // size), dtype=np.int32)
    off = blocks.take(picked).mean(axis=1) - blocks.mean()
    draws: Floats = centre + off * np.sqrt(number // size * size / number)
    return draws


def percentile_interval(draws: Floats, level: float) -> tuple[float, float]:
    """The central ``level`` of ``draws``, shape (n,), as (low, high)."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail))
    return float(low), float(high)


def geometric_mean(cell: Resampled, *, level: float = LEVEL) -> Estimate:
    """The cell's geometric mean, in the unit of its samples."""
    method = "geometric mean; hierarchical bootstrap, percentiles"
    return _estimate(cell.data.boot_means().mean(), cell.draws(), (cell,), level, method)


def ratio(numerator: Resampled, denominator: Resampled, *, level: float = LEVEL) -> Estimate:
    """Ratio of two cells' geometric means, resampled independently (two machines).

    Raises:
        ValueError: both were drawn with the same seed, or different numbers of times.
    """
    _comparable(numerator, denominator)
    return _estimate(
        numerator.data.boot_means().mean() - denominator.data.boot_means().mean(),
        numerator.draws() - denominator.draws(),
        (numerator, denominator),
        level,
        "ratio of geometric means; hierarchical bootstrap, percentiles",
    )


def growth(cell: Resampled, base: Resampled, *, level: float = LEVEL) -> Estimate:
    """T(N) / T(base) of two cells of one machine.

    Where both were measured in the same boots, a resample takes the same boots of both:
    what a boot shifts as a whole cancels out. Otherwise it is ``ratio``.

    Raises:
        ValueError: as ``ratio``.
    """
    if cell.data.boots != base.data.boots:
        return ratio(cell, base, level=level)
    return _estimate(
        (cell.data.boot_means() - base.data.boot_means()).mean(),
        _growth_draws(cell, base),
        (cell, base),
        level,
        "ratio of geometric means, paired by boot; hierarchical bootstrap, percentiles",
    )


def amplification(
    one: tuple[Resampled, Resampled],
    other: tuple[Resampled, Resampled],
    *,
    level: float = LEVEL,
) -> Estimate:
    """Ratio of two machines' growths, each given as its cells of T(N) and T(base).

    Raises:
        ValueError: as ``ratio``.
    """
    (cell, base), (other_cell, other_base) = one, other
    _comparable(cell, other_cell)
    means = [each.data.boot_means().mean() for each in (*one, *other)]
    return _estimate(
        means[0] - means[1] - means[2] + means[3],
        _growth_draws(cell, base) - _growth_draws(other_cell, other_base),
        (*one, *other),
        level,
        "ratio of growths of geometric means; hierarchical bootstrap, percentiles",
    )


def _growth_draws(cell: Resampled, base: Resampled) -> Floats:
    """Resampled ln T(N) / T(base), paired by boot where that can be, shape (resamples,)."""
    _comparable(cell, base)
    if cell.data.boots != base.data.boots:
        return cell.draws() - base.draws()
    rng = np.random.default_rng((*cell.seed, *base.seed, 2))
    picked = pick_boots(rng, cell.resamples, cell.data.n_boots)
    return cell.draws(picked, stream=3) - base.draws(picked, stream=3)


def _comparable(one: Resampled, other: Resampled) -> None:
    if one.seed == other.seed:
        raise ValueError("two cells must be resampled with different seeds")
    if one.resamples != other.resamples:
        raise ValueError("two cells must be resampled equally often")


def _estimate(
    log_value: float, draws: Floats, cells: tuple[Resampled, ...], level: float, method: str
) -> Estimate:
    """Back from logarithms, with what is to be said against it."""
    boots = min(cell.data.n_boots for cell in cells)
    processes = min(cell.data.n_processes for cell in cells)
    batches = min(cell.data.n_batches for cell in cells)
    low, high = percentile_interval(draws, level)
    return Estimate(
        value=float(np.exp(log_value)),
        low=None if batches == 1 else float(np.exp(low)),
        high=None if batches == 1 else float(np.exp(high)),
        level=level,
        method=method,
        warnings=warnings_for(boots, processes, batches, high - low),
        n_boots=boots,
        n_processes=processes,
        n_batches=batches,
    )
