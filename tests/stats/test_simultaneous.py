"""Intervals of a family: scipy's where there is one member, the known quantiles where many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from labctl.stats.correlation import Widening
from labctl.stats.simultaneous import Group, intervals


def widths(values, **more):
    found = intervals([Group(values, **more)], level=0.95, seed=1, draws=20_000)
    return found.half, found.family_half, found


def whitened(n, k, seed=0):
    """Values whose observed columns are uncorrelated and of variance 1."""
    x = np.random.default_rng(seed).standard_normal((n, k))
    x -= x.mean(axis=0)
    q, _ = np.linalg.qr(x)
    return q * math.sqrt(n - 1)


def test_one_column_is_students_t():
    values = np.random.default_rng(1).normal(3, 2, (7, 1))
    half, family, found = widths(values)
    low, high = reference.t.interval(0.95, 6, values.mean(), values.std(ddof=1) / math.sqrt(7))
    assert (found.value - half, found.value + half) == pytest.approx((low, high))
    assert family == pytest.approx(half)


def test_independent_columns_of_many_units_are_sidaks():
    half, family, _ = widths(whitened(400, 5))
    sidak = reference.norm.ppf((1 + 0.95 ** (1 / 5)) / 2) / reference.norm.ppf(0.975)
    assert family / half == pytest.approx(sidak, rel=0.02)


def test_equal_columns_are_as_wide_as_one():
    column = np.random.default_rng(2).normal(0, 1, (30, 1))
    half, family, _ = widths(np.repeat(column, 5, axis=1))
    assert family / half == pytest.approx(np.ones(5), rel=0.02)


def test_correlation_narrows_the_family():
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 2, (12, 1)) + rng.normal(0, 1, (12, 5))
    half, family, _ = widths(shared)
    loose_half, loose, _ = widths(whitened(12, 5))
    assert np.all(family / half > 1) and np.all(family / half < loose / loose_half)


@pytest.mark.parametrize(("n", "k"), [(30, 4), (50, 12), (31, 30)])
def test_units_drawn_at_once_are_distributed_as_those_drawn_one_by_one(n, k, monkeypatch):
    values = whitened(n, k, seed=7) + np.random.default_rng(8).normal(0, 1, (n, 1))
    _, at_once, _ = widths(values)
    monkeypatch.setattr("labctl.stats.simultaneous._MANY_UNITS", 1000)
    _, one_by_one, _ = widths(values)
    assert at_once == pytest.approx(one_by_one, rel=0.015)
    assert not np.array_equal(at_once, one_by_one)


def test_a_wider_variance_and_fewer_degrees_of_freedom():
    values = np.random.default_rng(4).normal(0, 1, (11, 1))
    plain, _, _ = widths(values)
    half, _, found = widths(values, widening=Widening(4.0, 0.5))
    assert found.freedom == pytest.approx(5)
    assert half / plain == pytest.approx(2 * reference.t.ppf(0.975, 5) / reference.t.ppf(0.975, 10))


def test_missing_values_and_too_few_units():
    values = np.random.default_rng(5).normal(0, 1, (6, 3))
    values[2:, 1] = np.nan
    values[1:, 2] = np.nan
    half, family, found = widths(values)
    assert np.isnan(half).tolist() == np.isnan(family).tolist() == [False, False, True]
    assert found.value[1] == pytest.approx(values[:2, 1].mean())
    assert found.freedom[1] == 1


def test_welch_of_two_groups_has_satterthwaites_freedom():
    rng = np.random.default_rng(6)
    one, other = rng.normal(0, 1, (5, 2)), rng.normal(0, 4, (9, 2))
    found = intervals([Group(one), Group(other, -1)], level=0.95, seed=1, draws=1000)
    for column in range(2):
        test = reference.ttest_ind(one[:, column], other[:, column], equal_var=False)
        assert found.freedom[column] == pytest.approx(test.df)
        assert found.half[column] == pytest.approx(np.diff(test.confidence_interval())[0] / 2)


def test_of_few_units_a_difference_may_be_narrower_than_its_parts_and_holds_the_truth():
    """docs/method.md, "Few units"."""
    rng = np.random.default_rng(5)
    held, narrower, experiments = 0, 0, 400
    for _ in range(experiments):
        one, other = rng.standard_normal((2, 2, 1))
        both = intervals([Group(one), Group(other, -1.0)], level=0.95, seed=1, draws=10)
        alone = intervals([Group(other)], level=0.95, seed=1, draws=10)
        held += abs(both.value[0]) <= both.half[0]
        narrower += both.family_half[0] < alone.half[0]
    assert held >= 0.94 * experiments
    assert narrower > experiments / 2
