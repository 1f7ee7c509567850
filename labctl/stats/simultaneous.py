"""Intervals of a family of sums of means, each alone and all at once.

A *group* is a matrix of independent rows (units) and a column for each member of the
family; a member's estimate is the sum of its column means over the groups, each with its
sign. One group is a t interval, two are Welch's with Satterthwaite's degrees of freedom.

The columns of a family are correlated (growths share their base), so an interval for all
at once by Sidak is too wide. The distribution of the least p value is drawn instead:
normal units with the groups' own correlation, variances and numbers, each member
studentised by its own drawn variance. The correlation of a few units is estimated poorly
and too large, so it is shrunk towards independence (Schaefer and Strimmer 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from labctl.stats.correlation import NONE, Widening
from labctl.stats.nested import Floats, Ints
from labctl.stats.units import counts

_CHUNK = 1_000_000  # normal numbers held in memory at a time
_MANY_UNITS = 30  # of so many, sum and variances are drawn at once
_MOST_UNITS = 50  # drawn; with more the distribution hardly changes


@dataclass(frozen=True)
class Group:
    """Units of one independent set.

    Attributes:
        values: shape (n_units, k), NaN where missing.
        sign: +1 or -1.
        widening: for serial correlation of the units.
    """

    values: Floats
    sign: float = 1.0
    widening: Widening = NONE


@dataclass(frozen=True)
class Intervals:
    """Of each member, shape (k,); half-widths are NaN where there are too few units.

    Attributes:
        value: the sum of means.
        half: half-width of the interval of each alone.
        family_half: half-width of the interval that holds for all at once.
        freedom: degrees of freedom.
    """

    value: Floats
    half: Floats
    family_half: Floats
    freedom: Floats


@dataclass(frozen=True)
class _Moments:
    n: Floats
    mean: Floats
    squared_error: Floats  # of the mean
    freedom: Floats  # of that


def intervals(groups: Sequence[Group], *, level: float, seed: int, draws: int) -> Intervals:
    """Intervals of the family's members on the scale of ``groups``.

    Args:
        groups: one or more, with the same columns.
        level: confidence, 0.95 for 95 %.
        seed, draws: of the distribution of the least p value.
    """
    moments = [_moments(group) for group in groups]
    value = np.sum([g.sign * m.mean for g, m in zip(groups, moments, strict=True)], axis=0)
    enough = np.all([m.n >= 2 for m in moments], axis=0)
    parts = np.array([m.squared_error for m in moments])
    own = np.array([m.freedom for m in moments])
    freedom = _satterthwaite(parts, own)
    error = np.sqrt(parts.sum(axis=0))
    tail = (1 - level) / 2
    half = np.where(enough, error * special.stdtrit(freedom, 1 - tail), np.nan)
    family_half = half
    if enough.sum() > 1:
        columns = np.flatnonzero(enough)
        cut = _least_p(groups, parts, own, columns, (1 - level, seed, draws))
        family_half = np.where(enough, error * special.stdtrit(freedom, 1 - cut / 2), np.nan)
        family_half = np.fmax(family_half, half)
    return Intervals(value, half, family_half, freedom)


def _moments(group: Group) -> _Moments:
    known = np.isfinite(group.values)
    n = counts(group.values).astype(float)
    mean = np.where(known, group.values, 0.0).sum(axis=0) / np.where(n > 0, n, np.nan)
    squares = np.where(known, (group.values - mean) ** 2, 0.0).sum(axis=0)
    error = group.widening.variance * squares / np.maximum(n - 1, 1) / np.maximum(n, 1)
    freedom = np.maximum((n - 1) * group.widening.freedom, np.minimum(n - 1, 2))
    return _Moments(n, mean, error, np.maximum(freedom, 1))


def _satterthwaite(parts: Floats, own: Floats) -> Floats:
    """Degrees of freedom of sums of squared errors that have ``own`` each, shapes
    (groups, ..., k)."""
    below = (parts**2 / own).sum(axis=0)
    whole = parts.sum(axis=0) ** 2
    found: Floats = np.where(below > 0, whole / np.where(below > 0, below, 1.0), own.min(axis=0))
    return found


def _least_p(
    groups: Sequence[Group],
    parts: Floats,
    own: Floats,
    columns: Ints,
    how: tuple[float, int, int],
) -> float:
    """Quantile of the least two-sided p value of the family, no member having an effect."""
    quantile, seed, draws = how
    rng = np.random.default_rng((abs(seed), columns.size))
    units = np.rint(np.minimum(own[:, columns].min(axis=1) + 1, _MOST_UNITS)).astype(int)
    roots = [_root(group.values[:, columns]) for group in groups]
    scales = np.sqrt(parts[:, columns])
    step = max(1, _CHUNK // int(units.max() * columns.size))
    least = np.empty(draws)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        sums = np.zeros((size, columns.size))
        drawn = np.empty((len(groups), size, columns.size))
        for number, (root, n) in enumerate(zip(roots, units, strict=True)):
            # A sum of n units over sqrt(n) has variance 1, as their variance has expectation 1.
            total, variance = _drawn(rng, size, n, root)
            sums += scales[number] * total
            drawn[number] = scales[number] ** 2 * variance
        sizes = np.broadcast_to(units[:, None, None] - 1.0, drawn.shape)
        error = np.sqrt(drawn.sum(axis=0))
        t = np.abs(sums) / np.where(error > 0, error, np.inf)
        p = 2 * special.stdtr(_satterthwaite(drawn, sizes), -t)
        least[start : start + size] = p.min(axis=1)
    return float(np.quantile(least, quantile))


def _drawn(rng: np.random.Generator, size: int, n: int, root: Floats) -> tuple[Floats, Floats]:
    """Of ``n`` normal units with the correlation root' root: their sum over sqrt(n), and the
    variance of each column; shapes (size, k).

    Of many units not they are drawn but what they come to: the sum, and independently of it
    their scatter, a Wishart matrix by Bartlett's decomposition.
    """
    width = root.shape[0]
    if n < max(_MANY_UNITS, width + 1):
        x = rng.standard_normal((size, n, width)) @ root
        return x.mean(axis=1) * np.sqrt(n), x.var(axis=1, ddof=1)
    factor = np.tril(rng.standard_normal((size, width, width)), -1)
    diagonal = np.arange(width)
    factor[:, diagonal, diagonal] = np.sqrt(rng.chisquare(n - 1 - diagonal, (size, width)))
    scatter = ((root.T @ factor) ** 2).sum(axis=2)
    return rng.standard_normal((size, width)) @ root, scatter / (n - 1)


def _root(values: Floats) -> Floats:
    """Matrix that gives independent normal columns the shrunk correlation of ``values``."""
    width = values.shape[1]
    whole = values[np.isfinite(values).all(axis=1)]
    n = whole.shape[0]
    if n < 3:
        return np.eye(width)
    centred = whole - whole.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(size > 0, size, 1.0)
    found = scaled.T @ scaled
    outside = ~np.eye(width, dtype=bool)
    squares = found[outside] ** 2
    noise = float(((1 - squares) ** 2).sum()) / (n - 1)
    kept = 1 - min(1.0, noise / max(float(squares.sum()), 1e-12))
    shrunk = np.where(outside, kept * found, 1.0)
    values_of, vectors = np.linalg.eigh(shrunk)
    root: Floats = (vectors * np.sqrt(np.clip(values_of, 0, None))) @ vectors.T
    return root
