"""What is to be said against the samples themselves, before anything is made of them."""

from __future__ import annotations

import numpy as np

from labctl.stats.nested import Floats, Nested

TIES = "more than half of the samples repeat a value"
COARSE_CLOCK = "the clock is coarse: times differ in whole steps of more than 0.1%"
MANY = 0.5  # share of samples that add no new value
COARSE = 0.001  # step of the clock as a share of the time
_FEWEST = 10  # samples, below which nothing is said
_ON_GRID = 0.01  # departure from whole steps, in steps


def ties(cell: Nested) -> float:
    """Share of the samples that do not add a new value: 0 if all differ."""
    return 1 - np.unique(cell.logs).size / cell.n_batches


def clock_step(cell: Nested) -> float:
    """Step of the grid that all times of a cell lie on, as a share of their median.

    0 where they lie on none, or too few differ to tell. Times lie on a grid if each batch
    does the same number of operations and the clock ticks slowly.
    """
    times: Floats = np.unique(np.exp(cell.logs))
    # The logarithm's rounding makes of one value several, a hair apart.
    times = times[np.concatenate(([True], np.diff(times) > 1e-12 * times[1:]))]
    if times.size < 4:
        return 0.0
    gaps = np.diff(times)
    step = float(gaps.min())
    whole = gaps / step
    if np.any(np.abs(whole - np.rint(whole)) > _ON_GRID):
        return 0.0
    return step / float(np.median(times))


def sample_warnings(cell: Nested) -> tuple[str, ...]:
    """Ties and a coarse clock, as sentences without a full stop; none below 10 samples."""
    if cell.n_batches < _FEWEST:
        return ()
    if clock_step(cell) > COARSE:
        return (COARSE_CLOCK,)
    return (TIES,) if ties(cell) > MANY else ()
