"""Serial correlation: between the rounds of one boot, and between the batches of a process.

Rounds of one boot are the units of an interval where there is one boot; if they depend on
their predecessors, the usual error of the mean is too small. ``widening`` says by how much, for an
AR(1) process with the estimated correlation. It is always applied, not after a test: a test on
6 rounds of one cell finds a correlation of 0.5 in one case of six, and the intervals of the
other four would be too narrow. It costs independent data some 10 % of width at 10 rounds.
Measured: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from labctl.stats.nested import Floats, Nested

#: Fewest rounds from which a correlation is estimated.
FEWEST_ROUNDS = 6
GREATEST = 0.8  # the estimate is cut here: few rounds say no more
_PERMUTATIONS = 499


@dataclass(frozen=True)
class Widening:
    """Factors for means of values that depend on their predecessors.

    Attributes:
        variance: on the variance of a mean, 1 or more.
        freedom: on its degrees of freedom, 1 or less.
    """

    variance: float = 1.0
    freedom: float = 1.0


NONE = Widening()


@dataclass(frozen=True)
class Serial:
    """What was found of serial correlation.

    Attributes:
        lag1: correlation of a value with its predecessor, as observed (of independent
            values it is on average -1 / length, not 0).
        p_value: of a correlation above 0, against any order being as likely.
    """

    lag1: float
    p_value: float


def widening(series: Sequence[Floats]) -> Widening:
    """What one common AR(1) correlation of ``series`` does to the means of their columns.

    The pooled estimate is freed of its bias of first order (Kendall 1954), kept within 0 and
    0.8; the factor also undoes that the variance itself is estimated too small.

    Args:
        series: each of shape (n, k), rows in the order of time.

    Returns:
        ``NONE`` where no series has 6 rows or more.
    """
    long = [s for s in series if s.shape[0] >= FEWEST_ROUNDS]
    lagged = [_lagged(_residuals(s)) for s in long]
    squares = sum(float(square.sum()) for _, square in lagged)
    if squares <= 0:
        return NONE
    found = sum(float(product.sum()) for product, _ in lagged) / squares
    n = round(float(np.mean([s.shape[0] for s in long])))
    rho = min(max((n * found + 1) / (n - 3), 0.0), GREATEST)
    lags = np.arange(1, n)
    times = 1 + 2 * float(np.sum((1 - lags / n) * rho**lags))
    return Widening(times * (n - 1) / (n - times), (1 - rho) / (1 + rho))


def between_rounds(series: Floats, *, seed: int = 0) -> Serial:
    """Test for correlation of successive rounds by permuting whole rows of (n, k)."""
    residuals = _residuals(series)
    products, squares = _lagged(residuals)
    total = float(squares.sum())
    if total <= 0 or residuals.shape[0] < 3:
        return Serial(0.0, 1.0)
    rng = np.random.default_rng((seed, 7))
    observed = float(products.sum())
    reached = 1
    for _ in range(_PERMUTATIONS):
        shuffled = residuals.take(rng.permutation(residuals.shape[0]), axis=0)
        reached += bool((shuffled[1:] * shuffled[:-1]).sum() >= observed - 1e-12 * total)
    return Serial(observed / total, reached / (_PERMUTATIONS + 1))


def between_batches(cell: Nested) -> Serial:
    """Test for correlation of successive batches, over all processes of a cell.

    Each process's departure from what a random order would give is one observation; their
    sum over its own size is normal for many processes (it takes 10 or more to mean much).
    """
    lengths = np.diff(cell.process_starts)
    process = np.repeat(np.arange(lengths.size), lengths)
    residuals = cell.logs - cell.process_means()[process]
    inside = process[1:] == process[:-1]
    products = np.bincount(
        process[1:][inside], (residuals[1:] * residuals[:-1])[inside], lengths.size
    )
    squares = np.bincount(process, residuals**2, lengths.size)
    total = float(squares.sum())
    if total <= 0:
        return Serial(0.0, 1.0)
    departures = (products + squares / lengths)[lengths > 2]
    size = float(np.sqrt((departures**2).sum()))
    score = float(departures.sum()) / size if size > 0 else 0.0
    return Serial(float(products.sum()) / total, float(special.ndtr(-score)))


def _residuals(series: Floats) -> Floats:
    """Departures from each column's mean, 0 where there is no value."""
    known = np.isfinite(series)
    filled = np.where(known, series, 0.0)
    means = filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, filled - means, 0.0)


def _lagged(residuals: Floats) -> tuple[Floats, Floats]:
    """Sums of lagged products and of squares of each column."""
    products: Floats = (residuals[1:] * residuals[:-1]).sum(axis=0)
    squares: Floats = (residuals**2).sum(axis=0)
    return products, squares
