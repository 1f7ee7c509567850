"""Variance components and counts: published numbers, and data of stated variances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labctl.stats import kalibera_jones as kj
from labctl.stats.checks import fieller, fieller_interval, kalibera_jones
from labctl.stats.nested import Nested
from tests.stats.sides import cell

# The worked example of Kalibera and Jones (ISMM 2013); their times are our logarithms.
WORKED = [[[9, 5], [8, 3]], [[10, 6], [7, 11]], [[1, 12], [2, 4]]]


def test_the_papers_worked_example():
    data = cell(WORKED)
    assert data.boot_means().mean() == pytest.approx(6.5)
    assert [round(s, 1) for s in kj.mean_squares(data)] == [16.5, 2.6, 3.6]
    found = kj.variance_components(data)
    # The paper's T_2^2 is -5.7: the level adds nothing.
    assert (found.batch, found.process) == (pytest.approx(16.5), 0)
    assert found.boot == pytest.approx(2.3, abs=0.05)
    assert found.unknown == ()


def test_the_three_level_numbers_of_libkalibera():
    times = [[[3, 4, 3], [1.2, 3.1, 3]], [[0.2, 1, 1.5], [1, 2, 3]]]
    found = kj.variance_components(cell(times))
    assert (found.batch, found.process, found.boot) == pytest.approx(
        (0.7266667, 0.2627778, 0.7747), abs=1e-4
    )
    counts = kj.best_counts(found, kj.Costs(batch=3, process=20, boot=100))
    assert (counts.batches, counts.rounds) == (5, 2)


def test_components_of_data_with_stated_variances():
    rng = np.random.default_rng(1)
    shape = (3000, 5, 4)
    logs = (
        rng.normal(0, 0.3, (3000, 1, 1))
        + rng.normal(0, 0.2, (3000, 5, 1))
        + rng.normal(0, 0.1, shape)
    )
    found = kj.variance_components(cell(logs))
    assert (found.batch, found.process, found.boot) == pytest.approx((0.01, 0.04, 0.09), rel=0.15)


def test_components_of_unequal_counts_are_not_biased():
    rng = np.random.default_rng(2)
    values, boots, processes = [], [], []
    for boot in range(400):
        shift = rng.normal(0, 0.1)
        for process in range(rng.integers(2, 6)):
            own = rng.normal(0, 0.1)
            for _ in range(rng.integers(1, 6)):
                values.append(math.exp(shift + own + rng.normal(0, 0.2)))
                boots.append(boot)
                processes.append(10 * boot + process)
    found = kj.variance_components(Nested.from_labels(values, boots, processes))
    assert (found.batch, found.process, found.boot) == pytest.approx((0.04, 0.01, 0.01), rel=0.3)


@pytest.mark.parametrize(
    ("shape", "unknown"),
    [
        ((1, 4, 3), ("boot",)),
        ((3, 1, 3), ("process",)),
        ((3, 4, 1), ("batch",)),
        ((1, 1, 1), ("batch", "process", "boot")),
    ],
)
def test_levels_that_were_not_repeated_are_unknown(shape, unknown):
    found = kj.variance_components(cell(np.random.default_rng(3).normal(0, 1, shape)))
    assert found.unknown == unknown
    assert all(getattr(found, name) == 0 for name in unknown)


@pytest.mark.parametrize("counts", [kj.Counts(3, 4, 6), kj.Counts(2, 8, 1), kj.Counts(1, 1, 3)])
def test_the_expected_half_width_is_what_experiments_have(counts):
    parts = kj.Components(batch=0.03**2, process=0.02**2, boot=0.02**2)
    rng = np.random.default_rng(4)
    shape = (counts.boots, counts.rounds, counts.batches)
    from labctl.stats import cell_mean

    widths = []
    for _ in range(300):
        logs = rng.normal(0, 0.02, (shape[0], 1, 1)) + rng.normal(0, 0.02, (*shape[:2], 1))
        logs = logs + rng.normal(0, 0.03, shape)
        widths.append(cell_mean(cell(logs)).half_width ** 2)
    expected = kj.expected_half_width(parts, counts)
    # Rounds of one boot are widened for a correlation that may be there.
    most = 1.35 if counts.boots == 1 else 1.1
    assert 0.9 < math.sqrt(np.mean(widths)) / expected < most or counts.boots == 1
    assert math.sqrt(np.median(widths)) / expected < most


def test_no_repetition_reaches_no_width():
    assert kj.expected_half_width(kj.Components(1, 1, 1), kj.Counts(5, 1, 1)) == math.inf


COSTS = kj.Costs(batch=0.1, process=0.2, boot=30)
PARTS = kj.Components(batch=0.02**2, process=0.03**2, boot=0.02**2)


def test_counts_reach_the_width_and_not_more():
    counts = kj.best_counts(PARTS, COSTS, half_width=0.02)
    assert kj.expected_half_width(PARTS, counts) <= 0.02
    fewer = kj.Counts(counts.batches, counts.rounds, counts.boots - 1)
    assert kj.expected_half_width(PARTS, fewer) > 0.02


def test_no_other_counts_of_the_same_cost_are_much_better():
    """The formula is for counts that are not whole numbers; a search may gain a little."""
    counts = kj.best_counts(PARTS, COSTS, half_width=0.01)
    budget = counts.seconds(COSTS)
    others = (
        kj.Counts(b, r, int(budget / kj.Counts(b, r, 1).seconds(COSTS)))
        for b in range(1, 6)
        for r in range(1, 60)
    )
    best = min(kj.expected_half_width(PARTS, other) for other in others if other.boots > 1)
    assert kj.expected_half_width(PARTS, counts) < 1.05 * best


def test_a_machine_that_is_not_rebooted_repeats_its_rounds():
    costs = kj.Costs(batch=0.1, process=0.2)
    counts = kj.best_counts(PARTS, costs, half_width=0.01)
    assert counts.boots == 1
    assert kj.expected_half_width(PARTS, counts) <= 0.01
    assert kj.best_counts(PARTS, costs).rounds == 6


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (kj.Components(0.0, 1.0, 1.0), (1, 13)),  # sqrt(30 / 0.2) = 12.2
        (kj.Components(1.0, 0.0, 1.0), (18, 1)),  # sqrt(30.2 / 0.1) = 17.4
        (kj.Components(1.0, 1.0, 0.0), (2, 50)),  # boots add nothing: as many rounds as allowed
        (kj.Components(0.0, 0.0, 0.0), (1, 1)),
    ],
)
def test_levels_that_add_nothing(parts, expected):
    counts = kj.best_counts(parts, COSTS, most=kj.Counts(20, 50, 10))
    assert (counts.batches, counts.rounds) == expected


def test_counts_keep_to_the_budget_and_the_caps():
    counts = kj.best_counts(PARTS, COSTS, seconds=600)
    assert counts.seconds(COSTS) <= 600
    assert kj.Counts(counts.batches, counts.rounds, counts.boots + 1).seconds(COSTS) > 600
    both = kj.best_counts(PARTS, COSTS, half_width=0.001, seconds=600)
    assert both == counts
    capped = kj.best_counts(PARTS, COSTS, half_width=1e-6, most=kj.Counts(5, 5, 7))
    assert capped.boots == 7
    with pytest.raises(ValueError, match="more than nothing"):
        kj.best_counts(PARTS, kj.Costs(0, 1))


def test_interval_of_a_mean_by_hand():
    data = Nested.from_labels([1.0, 3.0, 2.0, 6.0], list("aabb"), [1, 1, 2, 2])
    found = kalibera_jones(data, level=0.95)
    half = 12.7062 * math.sqrt(2.0 / 2)  # boot means 2 and 4: variance 2
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), rel=1e-4)
    assert kalibera_jones(Nested.from_labels([1.0], ["a"], [1]), level=0.95) is None


def test_fieller_satisfies_its_own_equation():
    """At an end theta, (x - theta x')^2 equals h^2 + theta^2 h'^2."""
    found = fieller_interval(5.0, 0.4, 2.0, 0.3)
    for theta in (found.low, found.high):
        assert (5.0 - theta * 2.0) ** 2 == pytest.approx(0.4**2 + theta**2 * 0.3**2)
    assert found.low < 2.5 < found.high
    exact = fieller_interval(5.0, 0.4, 2.0, 0.0)
    assert (exact.low, exact.high) == pytest.approx((2.3, 2.7))
    assert fieller_interval(5.0, 0.4, 2.0, 2.5) is None


def test_fieller_of_cells():
    rng = np.random.default_rng(5)
    one, other = (cell(rng.normal(m, 0.05, (6, 2, 2))) for m in (1.0, 0.0))
    found = fieller(one, other, level=0.95)
    assert found.low < math.e < found.high < 1.2 * math.e
    assert fieller(one, cell([[[0.0]]]), level=0.95) is None
