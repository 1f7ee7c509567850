"""How long the effects of a pair take, against a hierarchical bootstrap in plain Python.

100,000 samples: 2 sides, 5 thread counts, 10 boots of 100 processes of 10 batches each, with
10,000 resamples. ``pair_effects`` gives levels, amplifications and growths with their own and
their simultaneous intervals and the bootstrap and Fieller beside them. The plain Python resamples
boots, processes and batches of the same cells and gives percentiles of levels and
amplifications; a few resamples are timed and the time is scaled to 10,000, which is fair to it,
as each resample costs the same. Memory is the peak of what was allocated besides the samples,
for these and for ten times as many.

    python benchmarks/effects_speed.py
"""

from __future__ import annotations

import math
import random
import sys
import time
import tracemalloc

import numpy as np

from labctl.stats import Nested, pair_effects

THREADS = (1, 2, 4, 8, 16)
SHAPE = (10, 100, 10)  # boots, processes, batches
RESAMPLES = 10_000
PLAIN_RESAMPLES = 10
MOST_SECONDS = 3.0
LEAST_FACTOR = 100

Tree = list[list[list[float]]]


def logs(shape: tuple[int, int, int], seed: int) -> dict[int, np.ndarray]:
    """Thread count -> logarithms, shape (boots, processes, batches)."""
    rng = np.random.default_rng(seed)
    boot = rng.normal(0, 0.02, (shape[0], 1, 1))
    return {
        n: 0.3 * math.log(n)
        + boot
        + rng.normal(0, 0.03, (*shape[:2], 1))
        + rng.normal(0, 0.02, shape)
        for n in THREADS
    }


def nested(values: np.ndarray) -> Nested:
    """The same as the statistics take it."""
    boot, process, _ = np.indices(values.shape)
    name = boot * values.shape[1] + process
    columns = (np.exp(values), boot, name, boot, process)
    times, boots, processes, periods, rounds = (column.ravel() for column in columns)
    return Nested.from_labels(times, boots, processes, periods=periods, rounds=rounds)


def plain_mean(tree: Tree) -> float:
    """One resample of a cell: boots, their processes and those's batches with replacement."""
    boots = []
    for boot in random.choices(tree, k=len(tree)):
        processes = []
        for process in random.choices(boot, k=len(boot)):
            batches = random.choices(process, k=len(process))
            processes.append(sum(batches) / len(batches))
        boots.append(sum(processes) / len(processes))
    return sum(boots) / len(boots)


def plain_bootstrap(one: dict[int, Tree], other: dict[int, Tree], resamples: int) -> list[float]:
    """Lower ends of levels and amplifications, by percentiles."""
    drawn: list[list[float]] = []
    for _ in range(resamples):
        levels = [plain_mean(one[n]) - plain_mean(other[n]) for n in THREADS]
        drawn.append(levels + [level - levels[0] for level in levels[1:]])
    columns = [sorted(column) for column in zip(*drawn, strict=True)]
    return [math.exp(column[int(0.025 * resamples)]) for column in columns]


def peak_mib(one: dict[int, Nested], other: dict[int, Nested], resamples: int) -> float:
    """Greatest memory allocated at a time by the effects."""
    tracemalloc.start()
    pair_effects(one, other, same_machine=True, resamples=resamples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def main() -> int:
    """Measure, print, and say by the exit code whether the goals are met."""
    raw = [logs(SHAPE, seed) for seed in (1, 2)]
    one, other = ({n: nested(x) for n, x in side.items()} for side in raw)
    pair_effects(one, other, same_machine=True, resamples=100)  # imports
    times = []
    for _ in range(3):
        start = time.perf_counter()
        pair_effects(one, other, same_machine=True, resamples=RESAMPLES)
        times.append(time.perf_counter() - start)
    own = sorted(times)[1]

    trees = [{n: x.tolist() for n, x in side.items()} for side in raw]
    start = time.perf_counter()
    plain_bootstrap(trees[0], trees[1], PLAIN_RESAMPLES)
    measured = time.perf_counter() - start
    plain = measured * RESAMPLES / PLAIN_RESAMPLES

    large = [
        {n: nested(x) for n, x in logs((SHAPE[0], 10 * SHAPE[1], SHAPE[2]), seed).items()}
        for seed in (3, 4)
    ]
    print(f"samples: {sum(c.n_batches for s in (one, other) for c in s.values()):,}")
    print(f"pair_effects, {RESAMPLES:,} resamples: {own:.2f} s (median of 3)")
    print(
        f"plain Python, scaled from {PLAIN_RESAMPLES} resamples in {measured:.2f} s: {plain:,.0f} s"
    )
    print(f"factor: {plain / own:,.0f}")
    print(f"peak memory, 100,000 samples: {peak_mib(one, other, RESAMPLES):.0f} MiB")
    print(f"peak memory, 1,000,000 samples: {peak_mib(large[0], large[1], RESAMPLES):.0f} MiB")
    return 0 if own < MOST_SECONDS and plain / own >= LEAST_FACTOR else 1


if __name__ == "__main__":
    sys.exit(main())
