"""Who is compared with whom: declared, or found by facts."""

from __future__ import annotations

import pytest

from labctl.analysis.pairs import Pair, declared, discover, version_key
from tests.analysis.test_confounders import side

METAL = side("metal", "local")
LINUX = side("linux", image_key="k", image="debian-12")
OLD = side("old", image_key="k", image="debian-12", kernel="5.10.0-28-amd64")


def test_a_guest_and_a_host_of_one_system_are_a_pair():
    (pair,) = discover([METAL, LINUX])
    assert (pair.one, pair.other, pair.subject) == ("linux", "metal", "virtualization")
    assert pair.found == "both run Debian GNU/Linux 12 with the kernel 6.1.0-18-amd64"


@pytest.mark.parametrize("key", ["system", "kernel", "os_release"])
@pytest.mark.parametrize("value", ["other", None])
def test_another_or_an_unknown_system_is_none(key, value):
    assert discover([METAL, side("linux", **{key: value})]) == []


def test_two_kernels_on_one_image_are_a_pair_the_newer_against_the_older():
    for sides in ([LINUX, OLD], [OLD, LINUX]):
        (pair,) = discover(sides)
        assert (pair.one, pair.other, pair.subject) == ("linux", "old", "kernel")
        assert "guests of debian-12" in pair.found


@pytest.mark.parametrize(
    "other",
    [
        side("old", image_key="another", kernel="5.10"),
        side("old", image_key="k"),
        side("old", image_key="k", kernel=None),
        side("old", image_key="k", kernel="5.10", accelerator="tcg"),
        side("old", image_key="k", kernel="5.10", machine="box"),
    ],
)
def test_what_differs_in_more_or_in_nothing_is_not_a_pair_of_kernels(other):
    assert discover([LINUX, other]) == []


def test_what_is_declared_is_never_found_in_either_direction():
    known = [Pair("metal", "linux", "virtualization"), Pair("old", "linux", "kernel")]
    assert discover([METAL, LINUX, OLD], known) == []


def test_declared_pairs_are_those_whose_sides_were_measured():
    raw = [
        {"guest": "linux", "metal": "metal"},
        {"kernel": "linux", "against": "old"},
        {"guest": "linux", "metal": "absent"},
        {"guest": "linux", "metal": "metal"},
        {"guest": "linux", "metal": "linux"},
        {},
        "nonsense",
    ]
    assert declared(raw, ["linux", "metal", "old"]) == [
        Pair("linux", "metal", "virtualization"),
        Pair("linux", "old", "kernel"),
    ]
    assert declared(None, ["linux"]) == declared("text", ["t"]) == []


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("5.10.0-28-amd64", "5.9.1"),
        ("6.1.0-18", "6.1.0-9"),
        ("6.1", "6.1-rc3"),
        ("14.1-RELEASE", "9.3-RELEASE"),
    ],
)
def test_versions_are_ordered_by_their_numbers(newer, older):
    assert version_key(newer) > version_key(older)
