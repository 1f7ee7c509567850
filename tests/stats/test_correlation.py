"""Serial correlation: found where it is, not found where it is not, and paid for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from labctl.stats import pair_effects
from labctl.stats.correlation import NONE, between_batches, between_rounds, widening
from tests.stats.sides import cell, side


def ar1(rng, shape, rho):
    """Columns of an AR(1) process of variance 1 along the first axis."""
    burn = rng.standard_normal((50 + shape[0], *shape[1:]))
    return lfilter([1], [1, -rho], burn, axis=0)[50:] * np.sqrt(1 - rho**2)


def test_independent_rounds_are_found_correlated_as_often_as_the_level_says():
    rng = np.random.default_rng(1)
    found = [between_rounds(rng.standard_normal((8, 4)), seed=s).p_value for s in range(200)]
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10
    assert np.mean(found) == pytest.approx(0.5, abs=0.07)


def test_correlated_rounds_are_found():
    rng = np.random.default_rng(2)
    found = [between_rounds(ar1(rng, (20, 4), 0.6)).p_value for _ in range(50)]
    assert np.mean(np.array(found) <= 0.05) > 0.9
    assert between_rounds(ar1(rng, (500, 1), 0.6)).lag1 == pytest.approx(0.6, abs=0.1)


def test_alternating_rounds_are_not_correlated_upwards():
    assert between_rounds(np.array([[1.0], [-1.0]] * 10)).p_value > 0.9


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_batches_within_processes(rng_seed=3, *, rho):
    rng = np.random.default_rng(rng_seed)
    pvalues = []
    for _ in range(60):
        logs = np.moveaxis(ar1(rng, (5, 40), rho), 0, 1)[None]
        pvalues.append(between_batches(cell(logs + rng.normal(0, 3, (1, 40, 1)))).p_value)
    share = np.mean(np.array(pvalues) <= 0.05)
    assert share > 0.9 if rho else share <= 0.15


def test_nothing_varies_nothing_is_found():
    still = cell(np.zeros((1, 8, 3)))
    assert between_batches(still).p_value == between_rounds(np.zeros((8, 2))).p_value == 1
    assert widening([np.zeros((8, 2))]) == NONE


def test_widening_undoes_the_correlation():
    """Known: the variance of a mean of n values with lag-1 correlation rho."""
    rng = np.random.default_rng(4)
    n, rho = 4000, 0.5
    found = widening([ar1(rng, (n, 8), rho)])
    assert found.variance == pytest.approx((1 + rho) / (1 - rho), rel=0.05)
    assert found.freedom == pytest.approx((1 - rho) / (1 + rho), rel=0.05)
    assert widening([rng.standard_normal((n, 8))]).variance == pytest.approx(1, abs=0.03)


def test_too_few_rounds_are_left_as_they_are():
    assert widening([ar1(np.random.default_rng(5), (5, 3), 0.9)]) == NONE
    assert widening([]) == NONE


def test_missing_rounds_are_left_out():
    series = ar1(np.random.default_rng(6), (200, 2), 0.7)
    series[::17, 1] = np.nan
    assert widening([series]).variance > 3
    assert between_rounds(series).p_value < 0.01


def test_a_pair_says_that_its_rounds_are_correlated_and_is_wider():
    rng = np.random.default_rng(7)
    trend = np.linspace(-0.3, 0.3, 12).reshape(1, 12, 1)
    drifting, calm = side(rng, rounds=12, shift=trend), side(rng, rounds=12)
    found = pair_effects(drifting, calm, same_machine=False, checks=False, resamples=200)
    assert any("the first side: successive rounds are correlated" in w for w in found.warnings)
    assert not any("the second side: successive" in w for w in found.warnings)
    rebooted = [side(rng, boots=12, rounds=1, shift=s) for s in (trend.reshape(12, 1, 1), 0.0)]
    apart = pair_effects(*rebooted, same_machine=False, checks=False, resamples=200)
    assert not any("successive rounds" in w for w in apart.warnings)
    assert found.level.at(1).half_width > 1.5 * apart.level.at(1).half_width


def test_a_pair_says_which_cells_have_correlated_batches():
    rng = np.random.default_rng(8)
    one, other = side(rng), side(rng)
    one[4] = cell(np.moveaxis(ar1(rng, (6, 30), 0.8), 0, 1)[None])
    found = pair_effects(one, other, same_machine=True, checks=False, resamples=200)
    assert [w for w in found.warnings if "batches" in w] == [
        "the first side: successive batches are correlated at N = 4: intervals rest on "
        "processes and boots, not on batches"
    ]
