"""Verdicts: by interval against the margin, and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.stats.effects import Family, PairEffects
from labctl.stats.estimate import Estimate
from labctl.stats.judge import beyond, judge_level, judge_scaling, standing

MARGIN = 0.1
logs = st.floats(-1, 1)


def number(value, half=0.01, family=None):
    """An estimate by its logarithm and half-widths; ``half`` None for no interval."""
    wide = half if family is None else family
    known = half is not None
    return Estimate(
        value=math.exp(value),
        low=math.exp(value - half) if known else None,
        high=math.exp(value + half) if known else None,
        level=0.95,
        method="stated",
        warnings=(),
        n_boots=6,
        n_processes=12,
        n_batches=24,
        family_low=math.exp(value - wide) if known else None,
        family_high=math.exp(value + wide) if known else None,
    )


def pair(level=(0.0,), amplified=(0.0,), grown=(0.0,), half=0.01, grown_half=0.01):
    threads = (1, *(2 ** (i + 1) for i in range(len(amplified))))

    def family(name, values, counts, h):
        return Family(name, counts, tuple(number(v, h) for v in values))

    levels = (*level, *(level[0] + a for a in amplified))
    return PairEffects(
        base=1,
        level=family("level", levels, threads, half),
        amplification=family("amplification", amplified, threads[1:], half),
        growth_one=family(
            "growth", [a + g for a, g in zip(amplified, grown, strict=True)], threads[1:], half
        ),
        growth_other=family("growth", grown, threads[1:], grown_half),
    )


@pytest.mark.parametrize(
    ("estimates", "expected"),
    [
        ((number(0.0),), "within"),
        ((number(0.0), number(0.3)), "above"),
        ((number(-0.3), number(0.0)), "below"),
        ((number(-0.3), number(0.3)), "above"),
        ((number(0.09, 0.02),), "open"),
        ((number(0.0), number(0.09, 0.02)), "open"),
        ((number(0.0, None),), "open"),
        ((number(0.0, None), number(0.3)), "above"),
        ((), "open"),
        # Beyond takes the interval of all at once, within each one's own.
        ((number(0.2, 0.05, 0.15),), "open"),
        ((number(0.0, 0.05, 0.15),), "within"),
    ],
)
def test_standing(estimates, expected):
    assert standing(estimates, MARGIN) == expected


def test_the_margin_is_the_same_share_up_and_down():
    edge = math.log(1 + MARGIN)
    assert standing((number(edge + 0.011),), MARGIN) == "above"
    assert standing((number(-edge - 0.011),), MARGIN) == "below"
    assert standing((number(edge - 0.011),), MARGIN) == "within"
    assert standing((number(-edge + 0.011),), MARGIN) == "within"
    for margin in (0, -0.1):
        with pytest.raises(ValueError, match="above 0"):
            standing((), margin)


@given(st.lists(st.tuples(logs, st.floats(0.001, 1), st.floats(1, 3)), min_size=1, max_size=5))
def test_a_standing_needs_its_whole_interval(members):
    estimates = tuple(number(v, h, h * f) for v, h, f in members)
    found = standing(estimates, MARGIN)
    top = 1 + MARGIN
    above = any(e.family_low > top for e in estimates)
    below = any(e.family_high < 1 / top for e in estimates)
    within = all(1 / top <= e.low and e.high <= top for e in estimates)
    assert above == (found == "above")
    assert (below and not above) == (found == "below")
    assert within == (found == "within")


@given(logs, st.floats(0.001, 1))
def test_inverting_turns_above_into_below(value, half):
    there, back = (standing((number(v, half),), MARGIN) for v in (value, -value))
    turned = {"above": "below", "below": "above"}
    assert turned.get(there, there) == back


@pytest.mark.parametrize(
    ("level", "half", "call"),
    [(0.5, 0.01, "it"), (-0.5, 0.01, "it"), (0.0, 0.01, "neither"), (0.1, 0.05, "cannot tell")],
)
def test_level(level, half, call):
    for subject in ("virtualization", "kernel"):
        found = judge_level(pair(level=(level,), half=half), MARGIN, subject)
        assert found.call == (subject if call == "it" else call)
        assert found.threads == 1
        assert bool(found.reason) == (call == "cannot tell")


UP, DOWN, FLAT = (0.05, 0.5), (-0.05, -0.5), (0.02, -0.01)


@pytest.mark.parametrize(
    ("amplified", "grown", "call", "threads"),
    [
        (UP, UP, "both", 4),
        (UP, FLAT, "virtualization", 4),
        (UP, DOWN, "virtualization", 4),
        (FLAT, UP, "kernel", 4),
        (FLAT, FLAT, "neither", 2),
        (FLAT, DOWN, "neither", 2),
        (DOWN, UP, "kernel", 4),
        (DOWN, FLAT, "virtualization", 4),
    ],
)
def test_scaling(amplified, grown, call, threads):
    found = judge_scaling(pair(amplified=amplified, grown=grown), MARGIN, "virtualization")
    assert (found.call, found.threads, found.reason) == (call, threads, "")


@pytest.mark.parametrize(
    ("amplified", "call"), [(UP, "kernel"), (DOWN, "kernel"), (FLAT, "neither")]
)
def test_scaling_of_two_kernels_asks_the_amplification_alone(amplified, call):
    for grown in (UP, FLAT):
        found = judge_scaling(
            pair(amplified=amplified, grown=grown, grown_half=1.0), MARGIN, "kernel"
        )
        assert found.call == call


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"half": 1.0, "grown": UP}, "metal itself grows"),
        ({"half": 1.0, "grown": FLAT}, "the interval reaches"),
        ({"amplified": UP, "grown": FLAT, "grown_half": 1.0}, "the guest grows otherwise"),
        ({"amplified": FLAT, "grown": FLAT, "grown_half": 1.0}, "the interval reaches"),
        ({"amplified": FLAT, "grown": FLAT, "half": None}, "too few measurements"),
        ({"amplified": (), "grown": ()}, "one thread count alone"),
    ],
)
def test_scaling_that_cannot_be_told_says_why(given, reason):
    data = pair(**{"amplified": FLAT, **given})
    found = judge_scaling(data, MARGIN, "virtualization")
    assert found.call == "cannot tell"
    assert found.reason.startswith(reason) or reason in found.reason
    if not data.amplification.threads or given.get("half", 0) != 0:
        assert judge_scaling(data, MARGIN, "kernel").call == "cannot tell"


@pytest.mark.parametrize(
    ("amplified", "call", "threads"),
    [
        ((0.0, 0.02), "unchanged", 4),
        ((0.3, 0.2), "slower", 2),
        ((0.0, -0.4), "faster", 4),
        ((0.3, -0.3), "mixed", 2),
        ((0.0, 0.1), "cannot tell", 4),
        ((0.3, 0.1), "slower", 2),
    ],
)
def test_a_change_is_judged_at_all_thread_counts(amplified, call, threads):
    effects = pair(amplified=amplified, grown=(0.0, 0.0))
    found = judge_level(effects, MARGIN, "change")
    assert (found.call, found.threads) == (call, threads)
    assert bool(found.reason) == (call == "cannot tell")


@given(st.lists(st.tuples(logs, st.floats(0.001, 0.5)), min_size=1, max_size=4))
def test_what_is_beyond_is_so_by_itself(members):
    family = Family("level", tuple(range(1, len(members) + 1)), tuple(number(*m) for m in members))
    above, below = beyond(family, MARGIN)
    assert not set(above) & set(below)
    for n in family.threads:
        alone = standing((family.at(n),), MARGIN)
        assert (n in above, n in below) == (alone == "above", alone == "below")


@pytest.mark.parametrize(
    ("amplified", "call"),
    [(0.3, "grows more"), (-0.3, "grows less"), (0.0, "unchanged"), (0.1, "cannot tell")],
)
def test_growth_of_a_change(amplified, call):
    effects = pair(amplified=(amplified,), grown=(0.7,))
    assert judge_scaling(effects, MARGIN, "change").call == call
