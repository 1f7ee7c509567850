"""Effects of a pair: against scipy, invariances, and what is said where data are few."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from labctl.stats import cell_mean, estimate, growths, pair_effects, slopes
from tests.stats.sides import THREADS, cell, side

quick = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def effects(one, other, **given):
    return pair_effects(
        one, other, **{"same_machine": True, "resamples": 300, "checks": False, **given}
    )


def ends(family):
    return np.array(
        [[e.value, e.low, e.high, e.family_low, e.family_high] for e in family.estimates]
    )


def unit_logs(side_):
    """Mean logarithm of each boot and cell, shape (boots, threads)."""
    return np.array([side_[n].boot_means() for n in THREADS]).T


def test_amplification_is_welch_on_each_boots_own_growth():
    rng = np.random.default_rng(1)
    one, other = side(rng, boots=6), side(rng, boots=5, sd=(0.02, 0.08, 0.02))
    found = effects(one, other)
    grown = [x[:, 1:] - x[:, :1] for x in (unit_logs(one), unit_logs(other))]
    for column, e in enumerate(found.amplification.estimates):
        test = reference.ttest_ind(grown[0][:, column], grown[1][:, column], equal_var=False)
        low, high = test.confidence_interval()
        assert e.value == pytest.approx(
            math.exp(grown[0].mean(0)[column] - grown[1].mean(0)[column])
        )
        assert (math.log(e.low), math.log(e.high)) == pytest.approx((low, high))
        assert "Welch" in e.method and "periods" in e.method


def test_level_is_paired_by_period_on_one_machine_and_welch_on_two():
    rng = np.random.default_rng(2)
    one, other = side(rng, boots=6), side(rng, boots=6)
    logs = [unit_logs(x)[:, 0] for x in (one, other)]
    paired, apart = (effects(one, other, same_machine=same).level.at(1) for same in (True, False))
    expected = reference.ttest_rel(*logs).confidence_interval()
    assert (math.log(paired.low), math.log(paired.high)) == pytest.approx(tuple(expected))
    expected = reference.ttest_ind(*logs, equal_var=False).confidence_interval()
    assert (math.log(apart.low), math.log(apart.high)) == pytest.approx(tuple(expected))
    assert paired.value == pytest.approx(apart.value)
    assert "paired" in paired.method and "Welch" in apart.method


def test_what_disturbs_a_round_of_both_sides_cancels():
    rng = np.random.default_rng(3)
    waves = np.cumsum(rng.normal(0, 0.2, (1, 8, 1)), axis=1)
    disturbed = [side(np.random.default_rng(s), rounds=8, shift=waves) for s in (4, 5)]
    calm = [side(np.random.default_rng(s), rounds=8) for s in (4, 5)]
    # The calm interval of each side's own rounds, but without the disturbance.
    assert ends(effects(*disturbed).level) == pytest.approx(ends(effects(*calm).level))
    assert ends(effects(*disturbed).amplification) == pytest.approx(
        ends(effects(*calm).amplification)
    )
    wide = effects(*disturbed, same_machine=False).level.at(1)
    assert wide.half_width > 3 * effects(*disturbed).level.at(1).half_width


@quick
@given(seeds, st.booleans(), st.sampled_from([(1, 6), (1, 3), (3, 2)]))
def test_swapping_the_sides_inverts_every_interval(seed, same, shape):
    rng = np.random.default_rng(seed)
    one, other = (side(rng, boots=shape[0], rounds=shape[1]) for _ in range(2))
    there, back = (
        effects(*sides, same_machine=same, resamples=4000) for sides in ((one, other), (other, one))
    )
    for name in ("level", "amplification"):
        a, b = ends(getattr(there, name)), ends(getattr(back, name))
        assert a[:, :3] == pytest.approx(1 / b[:, [0, 2, 1]])
        # The simultaneous ends rest on draws in which the sides' roles differ.
        assert a[:, 3:] == pytest.approx(1 / b[:, [4, 3]], rel=0.1)
    assert ends(there.growth_one) == pytest.approx(ends(back.growth_other))


@quick
@given(seeds, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_units_of_time_do_not_matter(seed, first, second):
    rng = np.random.default_rng(seed)
    raw = [side(rng), side(rng)]
    scaled = [
        {n: cell(x.logs.reshape(1, 6, 2) + math.log(f)) for n, x in s.items()}
        for s, f in zip(raw, (first, second), strict=True)
    ]
    a, b = effects(*raw), effects(*scaled)
    assert ends(a.amplification) == pytest.approx(ends(b.amplification), rel=1e-6)
    assert ends(a.level) * first / second == pytest.approx(ends(b.level), rel=1e-6)


@quick
@given(seeds)
def test_the_order_of_the_samples_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    logs = {n: rng.normal(0, 0.1, (2, 3, 2)) for n in THREADS}
    other = side(rng, boots=2, rounds=3)
    plain = {n: cell(x) for n, x in logs.items()}
    mixed = {n: cell(x, order=rng.permutation(12)) for n, x in logs.items()}
    assert ends(effects(plain, other).level) == pytest.approx(ends(effects(mixed, other).level))


@quick
@given(seeds)
def test_the_simultaneous_interval_holds_each_ones_own(seed):
    rng = np.random.default_rng(seed)
    found = effects(side(rng), side(rng))
    for family in (found.level, found.amplification, found.growth_one, found.growth_other):
        e = ends(family)
        assert np.all((e[:, 3] <= e[:, 1]) & (e[:, 1] <= e[:, 0]))
        assert np.all((e[:, 4] >= e[:, 2]) & (e[:, 2] >= e[:, 0]))


def test_a_family_of_one_is_no_wider_than_its_member():
    rng = np.random.default_rng(6)
    one, other = ({n: side(rng)[n] for n in (1, 2)} for _ in range(2))
    e = effects(one, other).amplification.at(2)
    assert (e.low, e.high) == (e.family_low, e.family_high)


def test_same_seed_same_result():
    rng = np.random.default_rng(7)
    one, other = side(rng), side(rng)
    assert effects(one, other, checks=True) == effects(one, other, checks=True)
    assert effects(one, other) != effects(one, other, seed=1)


def test_metal_of_one_boot_pairs_by_period_and_is_said_to_hold_for_that_boot():
    rng = np.random.default_rng(8)
    guest, metal = side(rng, boots=6), side(rng, boots=6, one_boot=True, sd=(0, 0.03, 0.02))
    found = effects(guest, metal)
    assert "paired periods" in found.level.at(1).method
    assert found.level.at(1).n_boots == 1
    assert estimate.ONE_BOOT in found.level.at(1).warnings
    assert found.warnings == ("the second side has one boot: what is said holds for that boot",)


@pytest.mark.parametrize(
    ("boots", "rounds", "expected"),
    [
        (1, 1, (estimate.ONE_UNIT,)),
        (1, 3, (estimate.ONE_BOOT, estimate.FEW_ROUNDS)),
        (1, 6, (estimate.ONE_BOOT,)),
        (2, 2, (estimate.TWO_BOOTS,)),
        (3, 1, ()),
    ],
)
def test_warnings_say_what_the_data_do_not_allow(boots, rounds, expected):
    rng = np.random.default_rng(9)
    found = effects(*(side(rng, boots=boots, rounds=rounds) for _ in range(2)))
    for family in (found.level, found.amplification, found.growth_one):
        for e in family.estimates:
            assert e.warnings == expected
            assert (e.low is None) == (boots * rounds == 1) == (e.family_low is None)


def test_data_that_do_not_vary_have_no_width_and_say_so():
    still = {n: cell(np.full((3, 2, 2), math.log(n))) for n in THREADS}
    e = effects(still, still).amplification.at(8)
    assert (e.low, e.value, e.high) == pytest.approx((1, 1, 1))
    assert estimate.NO_VARIANCE in e.warnings


def test_a_missing_round_leaves_the_others_paired():
    rng = np.random.default_rng(10)
    logs = {n: rng.normal(0, 0.1, (1, 8, 2)) for n in THREADS}
    other = {n: cell(rng.normal(0, 0.1, (1, 8, 2))) for n in THREADS}
    one = {n: cell(x) for n, x in logs.items()}
    one[4] = cell(logs[4][:, :7])
    e = effects(one, other).level.at(4)
    difference = logs[4][0, :7].mean(1) - other[4].process_means()[:7]
    assert math.log(e.value) == pytest.approx(difference.mean())
    assert "paired" in e.method


def test_cells_stopped_at_different_rounds_are_not_cut_to_the_shortest():
    rng = np.random.default_rng(11)
    one, other = side(rng, rounds=30), side(rng, rounds=30)
    one[1] = side(rng, rounds=6)[1]
    found = effects(one, other)
    expected = one[8].logs.mean() - one[1].logs.mean()
    assert math.log(found.growth_one.at(8).value) == pytest.approx(expected)
    assert "Welch" in found.level.at(8).method


def test_only_common_thread_counts_count():
    rng = np.random.default_rng(12)
    one, other = side(rng), side(rng)
    del one[1], other[8]
    found = effects(one, other)
    assert found.base == 2
    assert found.level.threads == (2, 4)
    assert found.amplification.threads == found.growth_one.threads == (4,)
    with pytest.raises(ValueError, match="no thread count in common"):
        effects({1: one[2]}, {2: one[2]})


def test_one_thread_count_has_a_level_and_no_growth():
    rng = np.random.default_rng(13)
    found = effects({1: side(rng)[1]}, {1: side(rng)[1]})
    assert found.level.threads == (1,)
    assert found.amplification.estimates == found.growth_other.estimates == ()


def test_statistics_other_than_the_geometric_mean():
    rng = np.random.default_rng(14)
    one, other = ({n: cell(rng.normal(0, 0.2, (4, 3, 3))) for n in THREADS} for _ in range(2))
    means = effects(one, other, statistic="mean").level.at(2)
    arithmetic = [np.exp(x[2].logs).mean() for x in (one, other)]
    assert means.value == pytest.approx(arithmetic[0] / arithmetic[1])
    medians = effects(one, other, statistic="median").level.at(2)
    middle = [np.median(x[2].logs.reshape(12, 3), axis=1).mean() for x in (one, other)]
    assert math.log(medians.value) == pytest.approx(middle[0] - middle[1])
    assert means.low < means.value < means.high
    assert effects(one, other, statistic="mean", checks=True).level.at(2).checks == ()


def test_a_median_shrugs_off_one_wild_batch_a_process():
    calm = np.zeros((4, 3, 3))
    wild = calm.copy()
    wild[:, :, 1] = 5.0
    one, other = {1: cell(wild)}, {1: cell(calm)}
    assert effects(one, other, statistic="median").level.at(1).value == pytest.approx(1)
    assert effects(one, other).level.at(1).value > 5


def test_other_methods_stand_beside_and_roughly_agree():
    rng = np.random.default_rng(15)
    found = effects(*(side(rng, boots=10) for _ in range(2)), checks=True, resamples=2000)
    level, amplified = found.level.at(8), found.amplification.at(8)
    assert [check.method.split(",")[0] for check in level.checks] == [
        "hierarchical bootstrap",
        "ratio of arithmetic means",
    ]
    assert len(amplified.checks) == 1 and len(found.growth_one.at(8).checks) == 2
    for e in (level, amplified):
        for check in e.checks:
            assert check.low < e.value < check.high
            assert 0.5 < (check.high - check.low) / (e.high - e.low) < 2


def test_growth_and_cell_mean_are_those_of_the_pair():
    rng = np.random.default_rng(16)
    one, other = side(rng, boots=4), side(rng, boots=4)
    found = effects(one, other)
    alone = growths(one, resamples=300)
    assert ends(alone) == pytest.approx(ends(found.growth_one))
    means = {n: cell_mean(x) for n, x in one.items()}
    assert means[8].value / means[1].value == pytest.approx(alone.at(8).value)
    logs = one[8].boot_means()
    expected = reference.t.interval(0.95, 3, logs.mean(), logs.std(ddof=1) / 2)
    assert (math.log(means[8].low), math.log(means[8].high)) == pytest.approx(expected)
    assert means[8].family_low is None and means[8].checks[0].method.endswith("Kalibera-Jones")


def test_slopes_between_neighbours():
    rng = np.random.default_rng(17)
    exact = side(rng, truth=(0.0, 0.5, 1.0, 2.0), boots=5, sd=(0.1, 0, 0))
    found = slopes(exact, resamples=300)
    assert found.threads == (2, 4, 8)
    assert [e.value for e in found.estimates] == pytest.approx(
        [0.5 / math.log(2), 0.5 / math.log(2), 1.0 / math.log(2)]
    )
    noisy = slopes(side(rng, truth=(0.0, 0.5, 1.0, 2.0), boots=5), resamples=300).at(2)
    assert noisy.low < 0.5 / math.log(2) < noisy.high and noisy.low < noisy.value < noisy.high
    with pytest.raises(ValueError, match="one cell or more"):
        slopes({})


SETTINGS = {
    "six boots": {"boots": 6, "rounds": 2},
    "three boots": {"boots": 3, "rounds": 2},
    "one boot": {"rounds": 8},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_hold_the_truth_about_as_often_as_they_say(name):
    """200 experiments: at 95 % the count has a standard deviation of 1.5 %."""
    rng = np.random.default_rng(18)
    level = math.log(1.4)
    grown, amplified = np.array([0.3, 0.6, 1.0]), np.array([0.05, 0.1, 0.2])
    hits = {"level": 0, "amplification": 0}
    families = dict(hits)
    sd = (0.02, 0.03, 0.02) if SETTINGS[name].get("boots", 1) > 1 else (0, 0.03, 0.02)
    for trial in range(200):
        one = side(rng, level + np.append(0, grown + amplified), sd=sd, **SETTINGS[name])
        other = side(rng, np.append(0, grown), sd=sd, **SETTINGS[name])
        found = effects(one, other, seed=trial, resamples=500)
        truths = {"level": level + np.append(0, amplified), "amplification": amplified}
        for kind, truth in truths.items():
            e = np.log(ends(getattr(found, kind)))
            hits[kind] += np.mean((e[:, 1] <= truth) & (truth <= e[:, 2])) / 200
            families[kind] += np.all((e[:, 3] <= truth) & (truth <= e[:, 4])) / 200
    for share in (*hits.values(), *families.values()):
        assert 0.90 <= share <= 0.99
