"""The hierarchical bootstrap: known cases, properties, and scipy as the referee."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.stats import Nested, estimate, geometric_mean, growth, ratio, resample

positive = st.floats(1e-3, 1e6)
# boots -> processes -> batches, ragged
trees = st.lists(
    st.lists(st.lists(positive, min_size=1, max_size=4), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)
quick = settings(max_examples=40, deadline=None)


def nest(tree):
    rows = [
        (value, boot, f"{boot}/{process}")
        for boot, processes in enumerate(tree)
        for process, batches in enumerate(processes)
        for value in batches
    ]
    values, boots, processes = zip(*rows, strict=True)
    return Nested.from_labels(values, boots, processes)


def draw(tree, seed=1, resamples=500):
    return resample(nest(tree), seed=seed, resamples=resamples)


def simulate(rng, boots=1, processes=8, batches=3, *, spread=(0.0, 0.1, 0.05), centre=0.0):
    boot = rng.normal(0, spread[0], (boots, 1, 1))
    process = rng.normal(0, spread[1], (boots, processes, 1))
    batch = rng.normal(0, spread[2], (boots, processes, batches))
    return np.exp(centre + boot + process + batch).tolist()


@quick
@given(trees)
def test_value_is_the_mean_of_means_of_means(tree):
    means = [np.mean([np.mean(np.log(batches)) for batches in processes]) for processes in tree]
    found = geometric_mean(draw(tree))
    assert found.value == pytest.approx(math.exp(np.mean(means)))
    assert found.n_boots == len(tree)
    assert found.n_processes == sum(len(processes) for processes in tree)
    assert found.n_batches == sum(len(b) for processes in tree for b in processes)


def test_a_boot_with_more_processes_weighs_no_more():
    assert geometric_mean(draw([[[1.0]], [[math.e]] * 3])).value == pytest.approx(math.exp(0.5))


@quick
@given(trees)
def test_ratio_of_identical_data_is_1_and_covers_1(tree):
    found = ratio(draw(tree, seed=1), draw(tree, seed=2))
    assert found.value == pytest.approx(1)
    if found.low is None:
        assert found.warnings == (estimate.ONE_BATCH,)
    else:
        assert found.low <= 1 + 1e-9 and found.high >= 1 - 1e-9


@quick
@given(trees, st.floats(1e-3, 1e3))
def test_scaling_the_samples_scales_the_interval(tree, factor):
    scaled = [[[factor * v for v in batches] for batches in processes] for processes in tree]
    one, other = geometric_mean(draw(tree)), geometric_mean(draw(scaled))
    assert other.value == pytest.approx(factor * one.value)
    if one.low is not None:
        assert other.low == pytest.approx(factor * one.low, rel=1e-6)
        assert other.high == pytest.approx(factor * one.high, rel=1e-6)


@quick
@given(trees, trees)
def test_swapping_the_sides_inverts_the_ratio(tree, other):
    one, two = draw(tree, seed=1), draw(other, seed=2)
    there, back = ratio(one, two), ratio(two, one)
    assert there.value * back.value == pytest.approx(1)
    if there.low is not None:
        assert there.low * back.high == pytest.approx(1)


@quick
@given(trees)
def test_the_interval_stays_within_the_data(tree):
    found = geometric_mean(draw(tree))
    values = [v for processes in tree for batches in processes for v in batches]
    if found.low is not None:
        assert min(values) * (1 - 1e-9) <= found.low <= found.high <= max(values) * (1 + 1e-9)


def test_agrees_with_scipy_where_there_is_one_level():
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(7)
    one, two = rng.lognormal(0.3, 0.2, 25), rng.lognormal(0.0, 0.3, 18)

    def difference(a, b, axis):
        return a.mean(axis=axis) - b.mean(axis=axis)

    expected = scipy_stats.bootstrap(
        (np.log(one), np.log(two)), difference, method="percentile", n_resamples=20_000, rng=rng
    ).confidence_interval
    cells = [
        resample(Nested.from_labels(x, ["b"] * len(x), range(len(x))), seed=s)
        for s, x in enumerate((one, two))
    ]
    found = ratio(*cells)
    width = expected.high - expected.low
    assert math.log(found.low) == pytest.approx(expected.low, abs=0.04 * width)
    assert math.log(found.high) == pytest.approx(expected.high, abs=0.04 * width)


def test_variance_is_that_of_resampling_at_every_level():
    """Var of the draws, exactly: between processes / P + mean within / (P * K)."""
    rng = np.random.default_rng(3)
    tree = simulate(rng, processes=6, batches=4)
    logs = np.log(np.array(tree[0]))
    expected = logs.mean(axis=1).var() / 6 + logs.var(axis=1).mean() / (6 * 4)
    assert resample(nest(tree), seed=5).draws().var() == pytest.approx(expected, rel=0.06)


def test_variance_with_several_boots():
    rng = np.random.default_rng(4)
    tree = simulate(rng, boots=5, processes=3, batches=2, spread=(0.2, 0.1, 0.05))
    logs = np.log(np.array(tree))
    expected = logs.mean(axis=(1, 2)).var() / 5
    expected += logs.mean(axis=2).var(axis=1).mean() / (5 * 3)
    expected += logs.var(axis=2).mean() / (5 * 3 * 2)
    assert resample(nest(tree), seed=5).draws().var() == pytest.approx(expected, rel=0.06)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(11)
    hits = 0
    for trial in range(150):
        guest = simulate(rng, boots=12, processes=2, spread=(0.1, 0.05, 0.05), centre=0.5)
        metal = simulate(rng, boots=12, processes=2, spread=(0.1, 0.05, 0.05))
        found = ratio(draw(guest, seed=2 * trial), draw(metal, seed=2 * trial + 1))
        hits += found.low <= math.exp(0.5) <= found.high
    assert 0.87 <= hits / 150 <= 0.99


def test_growth_cancels_what_a_boot_shifts_as_a_whole():
    rng = np.random.default_rng(2)
    shifts = np.exp(rng.normal(0, 0.5, 6))
    base = [[[s * 1.0, s * 1.01], [s * 1.02, s * 0.99]] for s in shifts]
    cell = [[[3 * v for v in batches] for batches in processes] for processes in base]
    paired = growth(draw(cell, seed=1), draw(base, seed=2))
    unpaired = ratio(draw(cell, seed=1), draw(base, seed=2))
    assert paired.value == pytest.approx(3)
    assert paired.half_width < 0.05 < unpaired.half_width
    assert "paired by boot" in paired.method


def test_growth_of_other_boots_is_not_paired():
    one = Nested.from_labels([1.0, 2.0], ["a", "b"], [1, 2])
    two = Nested.from_labels([1.0, 2.0], ["a", "c"], [1, 2])
    found = growth(resample(one, seed=1), resample(two, seed=2))
    assert "paired" not in found.method


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ([[[1.0]]], (estimate.ONE_BATCH,)),
        ([[[1.0, 2.0]]], (estimate.ONE_PROCESS, estimate.FEW_PROCESSES)),
        ([[[1.0], [2.0]]], (estimate.ONE_BOOT, estimate.FEW_PROCESSES)),
        ([[[1.0], [2.0]] * 3], (estimate.ONE_BOOT,)),
        ([[[1.0], [2.0]] * 3] * 2, (estimate.FEW_BOOTS,)),
        ([[[1.0], [2.0]]] * 6, ()),
        ([[[2.0, 2.0]] * 2] * 6, (estimate.NO_VARIANCE,)),
    ],
)
def test_warnings_say_what_the_data_do_not_allow(tree, expected):
    found = geometric_mean(draw(tree))
    assert found.warnings == expected
    assert (found.low is None) == (expected == (estimate.ONE_BATCH,))


def test_a_ratio_is_as_weak_as_its_weaker_side():
    found = ratio(draw([[[1.0], [2.0]]] * 6, seed=1), draw([[[1.0, 1.1]]], seed=2))
    assert (found.n_boots, found.n_processes, found.n_batches) == (1, 1, 2)
    assert estimate.ONE_PROCESS in found.warnings


def test_same_seed_same_draws_other_seed_other_draws():
    tree = simulate(np.random.default_rng(1))
    assert geometric_mean(draw(tree)) == geometric_mean(draw(tree))
    assert geometric_mean(draw(tree, seed=2)) != geometric_mean(draw(tree))


def test_one_stream_of_random_numbers_is_refused_for_two_cells():
    tree = [[[1.0, 2.0]]]
    with pytest.raises(ValueError, match="different seeds"):
        ratio(draw(tree), draw(tree))
    with pytest.raises(ValueError, match="equally often"):
        ratio(draw(tree, seed=1), draw(tree, seed=2, resamples=100))


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [math.nan], [math.inf]])
def test_what_has_no_logarithm_is_refused(values):
    with pytest.raises(ValueError):
        Nested.from_labels(values, ["b"] * len(values), range(len(values)))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        Nested.from_labels([1.0, 2.0], ["b"], [1, 2])


def test_a_process_name_used_in_two_boots_is_two_processes():
    assert Nested.from_labels([1.0, 2.0], ["a", "b"], [1, 1]).n_processes == 2


def test_many_processes_are_drawn_in_blocks_to_the_same_distribution(monkeypatch):
    rng = np.random.default_rng(8)
    logs = rng.normal(0, 0.1, (700, 1)) + rng.normal(0, 0.05, (700, 2))
    rows = np.exp(logs).ravel()
    many = Nested.from_labels(rows, np.zeros(rows.size), np.repeat(np.arange(700), 2))
    in_blocks = resample(many, seed=1).draws()
    monkeypatch.setattr("labctl.stats.bootstrap._MANY", 1000)
    one_by_one = resample(many, seed=1).draws()
    assert in_blocks.mean() == pytest.approx(one_by_one.mean(), abs=0.03 * one_by_one.std())
    assert in_blocks.std() == pytest.approx(one_by_one.std(), rel=0.03)
    assert in_blocks.std() == pytest.approx(logs.mean(axis=1).std() / math.sqrt(700), rel=0.2)
