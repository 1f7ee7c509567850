"""Every shape on growth that has it, growth that has not, and growth that cannot say."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from labctl.analysis.shapes import ACROSS, NO_INTERVAL, SHAPES, Shape, weigh
from tests.analysis.families import family

ADAPTER: TypeAdapter = TypeAdapter(Shape)

# Growth of the source reports: FreeBSD 9.0 and NetBSD 6 in guests, Linux on its host.
FREEBSD = {2: 1.44, 3: 2.1, 4: 4.3, 8: 24.0}
NETBSD = {2: 4.1, 4: 4.0, 8: 4.2, 16: 3.9}
LINUX = {2: 1.05, 4: 1.2, 8: 1.4, 16: 1.6}
FLAT = {2: 1.02, 4: 0.97, 8: 1.1}
LOCKED = {2: 1.0, 4: 1.1, 8: 1.3}
SHARED_OUT = {2: 0.52, 4: 0.27, 8: 0.27}


def verdict(shape: dict, values: dict[int, float], *, half: float | None = 0.02, cpus: int = 4):
    made = ADAPTER.validate_python(shape)
    return weigh(made.bounds(family(values, half), 1, cpus))


@pytest.mark.parametrize(
    ("shape", "has", "has_not"),
    [
        ({"kind": "flat"}, FLAT, LINUX),
        ({"kind": "flat"}, FLAT, SHARED_OUT),
        ({"kind": "near-flat"}, LINUX, FREEBSD),
        ({"kind": "rises"}, FREEBSD, LINUX),
        ({"kind": "rises"}, FREEBSD, NETBSD),
        ({"kind": "step"}, NETBSD, FREEBSD),
        ({"kind": "step"}, NETBSD, LINUX),
        ({"kind": "serial"}, LOCKED, SHARED_OUT),
        ({"kind": "parallel"}, SHARED_OUT, LOCKED),
        ({"kind": "ratio", "against": {"lock": "mutex"}, "at_least": 5}, FREEBSD, LINUX),
        ({"kind": "ratio", "against": {"lock": "mutex"}, "at_most": 2}, LINUX, FREEBSD),
    ],
)
def test_growth_has_a_shape_or_contradicts_it(shape, has, has_not):
    assert verdict(shape, has)[0] == "agrees"
    found, bound, why = verdict(shape, has_not)
    assert (found, why) == ("contradicts", "")
    assert bound.broken


def test_every_shape_is_tested_here():
    marks = test_growth_has_a_shape_or_contradicts_it.pytestmark
    assert {case[0]["kind"] for mark in marks for case in mark.args[1]} == set(SHAPES)


@pytest.mark.parametrize("kind", sorted(set(SHAPES) - {"ratio"}))
def test_a_wide_interval_says_nothing(kind):
    for values in (FLAT, LINUX, FREEBSD, NETBSD, SHARED_OUT):
        found, bound, why = verdict({"kind": kind}, values, half=100.0)
        assert (found, why) == ("not testable", ACROSS)
        assert bound is not None


@pytest.mark.parametrize("kind", sorted(set(SHAPES) - {"ratio"}))
def test_without_an_interval_nothing_is_said(kind):
    assert verdict({"kind": kind}, FLAT, half=None)[::2] == ("not testable", NO_INTERVAL)


def test_to_contradict_takes_the_interval_that_holds_for_all_counts():
    # 1.30 by 3 % lies beyond 1.25 with its own interval, and not with the one for all.
    assert verdict({"kind": "flat"}, {2: 1.0, 4: 1.30}, half=0.03)[0] == "not testable"
    assert verdict({"kind": "flat"}, {2: 1.0, 4: 1.34}, half=0.03)[0] == "contradicts"


def test_more_threads_than_cpus_are_not_to_get_more_done():
    two = {2: 0.5, 4: 0.5, 8: 0.51}
    assert verdict({"kind": "parallel"}, two, cpus=2)[0] == "agrees"
    assert verdict({"kind": "parallel"}, two, cpus=8)[0] == "contradicts"


def test_a_step_from_another_least_count_is_told_by_its_first():
    found, bound, _ = verdict({"kind": "step"}, {4: 1.2, 8: 1.2})
    assert found == "contradicts"
    assert str(bound).startswith(
        "growth of the time an operation at 4 threads is 1.20 [1.18, 1.22]"
    )
    assert "at least 2.00 was expected" in str(bound)
