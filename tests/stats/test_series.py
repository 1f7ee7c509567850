"""Steady state, outliers, ties and clocks, and the scalability law: on series made for it."""

from __future__ import annotations

import numpy as np
import pytest
import ruptures

from labctl.stats import pair_effects, quality, usl
from labctl.stats.outliers import flagged, outliers
from labctl.stats.steady import classify, classify_processes, classify_rounds
from tests.stats.sides import cell, side


def series(*parts, sd=0.01, seed=1):
    """Noise about levels: (level, length) each."""
    levels = np.concatenate([np.full(length, level) for level, length in parts])
    return levels + np.random.default_rng(seed).normal(0, sd, levels.size)


@pytest.mark.parametrize(
    ("values", "state", "steady_from"),
    [
        (series((0.0, 100)), "flat", 0),
        (np.zeros(50), "flat", 0),
        (series((0.0, 50), (0.005, 50)), "flat", 0),
        (series((0.5, 20), (0.0, 80)), "warm-up", 20),
        (series((0.6, 15), (0.3, 15), (0.0, 70)), "warm-up", 30),
        (series((0.0, 50), (0.3, 50)), "slow-down", 50),
        (series((0.5, 20), (0.0, 30), (0.2, 50)), "slow-down", 50),
        (series((0.0, 85), (0.4, 15)), "no steady state", None),
        (series((0.0, 19)), "too short to tell", None),
    ],
)
def test_classes(values, state, steady_from):
    (found,) = classify([values])
    assert found.state == state
    assert found.steady_from == steady_from
    if state != "too short to tell":
        assert found.segments[0].start == 0 and found.segments[-1].stop == values.size


def test_independent_series_are_flat():
    found = classify([series((0.0, 60), sd=0.05, seed=s) for s in range(40)])
    states = [course.state for course in found]
    assert states.count("flat") >= 39


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_change_points_are_those_of_ruptures():
    rng = np.random.default_rng(9)
    for _ in range(10):
        parts = [(rng.normal(0, 0.3), rng.integers(20, 40)) for _ in range(rng.integers(1, 5))]
        values = series(*parts, sd=rng.uniform(0.02, 0.2), seed=int(rng.integers(1000)))
        scaled = ((values - values.mean()) / values.std()).reshape(-1, 1)
        model = ruptures.Pelt(model="normal", min_size=3, jump=1).fit(scaled)
        expected = [0, *model.predict(pen=15 * np.log(values.size))]
        (found,) = classify([values])
        assert [s.start for s in found.segments] + [found.segments[-1].stop] == expected


def test_a_long_series_is_classified_by_its_runs():
    (found,) = classify([series((0.5, 4_000), (0.0, 16_000))])
    assert found.state == "warm-up"
    assert found.steady_from == pytest.approx(4_000, abs=8)
    assert found.segments[-1].stop == 20_000


def test_processes_and_rounds_of_a_cell():
    warm = np.stack([series((0.4, 10), (0.0, 40), seed=s) for s in range(3)])[None]
    assert classify_processes(cell(warm)) == ("warm-up",) * 3
    assert classify_rounds([cell(warm)])[0].state == "too short to tell"
    drifting = series((0.0, 20), (0.3, 20)).reshape(1, 40, 1) + np.zeros((1, 40, 3))
    assert classify_rounds([cell(drifting)])[0].state == "slow-down"


def test_processes_are_classified_together_as_each_alone():
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.02, (1, 60, 40))
    logs[0, :20, :15] += 0.3
    logs[0, 20:30, 30:] += 0.2
    logs[0, 30] = 1.0
    found = classify_processes(cell(logs))
    assert found == tuple(classify([process])[0].state for process in logs[0])
    assert {"flat", "warm-up", "slow-down"} <= set(found)


def test_many_long_processes_are_classified_by_means_of_runs(monkeypatch):
    logs = np.stack([series((0.5, 50), (0.0, 250), seed=s) for s in range(4)])[None]
    monkeypatch.setattr("labctl.stats.steady._WEIGHED", 4 * 30**2)
    assert classify_processes(cell(logs)) == ("warm-up",) * 4


def test_outliers_by_hand():
    values = np.concatenate([np.arange(100.0, 110.0), [140.0]])
    # Median 105, P10 101, P90 109: outside 105 +- 24.
    assert flagged(values).tolist() == [False] * 10 + [True]
    assert not flagged(np.full(5, 3.0)).any()
    assert flagged([]).size == 0


def test_outliers_are_judged_by_their_window():
    drifting = np.linspace(100, 200, 2000) + np.random.default_rng(2).normal(0, 1, 2000)
    drifting[300] = 150.0  # within the whole's range, far outside its window's
    assert np.flatnonzero(flagged(drifting)).tolist() == [300]


def test_outliers_of_a_cell_are_in_its_own_order():
    logs = np.random.default_rng(3).normal(0, 0.01, (2, 10, 3))
    logs[1, 4, 2] = 1.0
    data = cell(logs)
    assert np.flatnonzero(outliers(data)).tolist() == [30 + 14]
    assert data.logs[outliers(data)] == pytest.approx([1.0])
    assert data.n_batches == 60


def test_a_coarse_clock_and_ties_are_seen():
    rng = np.random.default_rng(4)
    ticks = rng.integers(200, 230, (1, 10, 3))
    assert quality.clock_step(cell(np.log(ticks * 0.037))) == pytest.approx(1 / 215, rel=0.05)
    assert quality.sample_warnings(cell(np.log(ticks * 0.037))) == (quality.COARSE_CLOCK,)
    tied = cell(np.log(rng.choice([1.0, np.pi], (1, 10, 3))))
    assert quality.ties(tied) == pytest.approx(28 / 30)
    assert quality.sample_warnings(tied) == (quality.TIES,)
    smooth = cell(rng.normal(0, 0.1, (1, 10, 3)))
    assert quality.clock_step(smooth) == 0 and quality.sample_warnings(smooth) == ()
    assert quality.sample_warnings(cell(np.zeros((1, 3, 3)))) == ()


def test_a_fine_clock_is_no_matter():
    nanoseconds = np.random.default_rng(5).integers(100_000_000, 110_000_000, (1, 10, 3))
    assert quality.sample_warnings(cell(np.log(nanoseconds / 1e5))) == ()


def test_a_pair_names_the_cells_whose_clock_is_coarse():
    rng = np.random.default_rng(6)
    one, other = side(rng, rounds=8), side(rng, rounds=8)
    for n in (2, 8):
        other[n] = cell(np.log(rng.integers(20, 30, (1, 8, 2)) * 1.0))
    found = pair_effects(one, other, same_machine=True, checks=False, resamples=200)
    assert f"the second side: {quality.COARSE_CLOCK} (N = 2, 8)" in found.warnings


COUNTS = [1, 2, 4, 8, 16, 32]


def law(n, rate=1000.0, a=0.05, b=0.001):
    n = np.asarray(n, float)
    return rate * n / (1 + a * (n - 1) + b * n * (n - 1))


def test_the_law_is_found_again():
    found = usl.fit(COUNTS, law(COUNTS), fixed_token=False)
    assert (found.rate, found.contention, found.coherency) == pytest.approx(
        (1000, 0.05, 0.001), rel=1e-4
    )
    assert found.peak == pytest.approx(np.sqrt(0.95 / 0.001), rel=1e-3)
    assert found.limit == pytest.approx(20_000, rel=1e-3)
    assert found.rms < 1e-6
    assert found.throughput(np.array(COUNTS, float)) == pytest.approx(law(COUNTS), rel=1e-5)


def test_the_unit_of_the_throughput_does_not_matter():
    one, other = (usl.fit(COUNTS, f * law(COUNTS), fixed_token=False) for f in (1e-6, 1e6))
    assert (one.contention, one.coherency) == pytest.approx(
        (other.contention, other.coherency), rel=1e-4
    )


@pytest.mark.parametrize(
    ("counts", "throughput", "fixed", "reason"),
    [
        (COUNTS, law(COUNTS), True, usl.SERIAL_WORK),
        (COUNTS[:5], law(COUNTS[:5]), False, usl.TOO_FEW),
        ([1, 2, 4, 4, 8, 8], law([1, 2, 4, 4, 8, 8]), False, usl.TOO_FEW),
        (COUNTS, law(COUNTS, a=0.05, b=0.0), False, "coherency is on its bound (0)"),
        (COUNTS, law(COUNTS, a=0.0, b=0.001), False, "contention is on its bound (0)"),
        # One message in flight: throughput falls as the seeds' does.
        (COUNTS, 1000 / np.array(COUNTS) ** 1.4, False, "is on its bound"),
    ],
)
def test_the_laws_gates(counts, throughput, fixed, reason):
    found = usl.fit(counts, throughput, fixed_token=fixed)
    assert isinstance(found, usl.Refused) and reason in found.reason


@pytest.mark.parametrize(
    ("counts", "throughput"), [([1, 2], [1.0]), ([1, 2], [1.0, 0.0]), ([0], [1.0])]
)
def test_the_law_of_impossible_numbers(counts, throughput):
    with pytest.raises(ValueError, match="above 0"):
        usl.fit(counts, throughput, fixed_token=False)
