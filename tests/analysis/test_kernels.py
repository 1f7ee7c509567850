"""Which kernel a machine runs, from the words that real ones use of themselves."""

from __future__ import annotations

import pytest

from labctl.analysis.kernels import Kernel, kernel_of, parse_range, within

DEBIAN = "#1 SMP Debian 5.10.237-1 (2025-05-19)"
DYNAMIC = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)"
UBUNTU = "#115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024"


@pytest.mark.parametrize(
    ("system", "release", "built", "expected", "words"),
    [
        ("linux", "5.10.0-35-cloud-amd64", DEBIAN, ("debian", (5, 10, 237), True), "Linux 5.10.237 of Debian"),
        ("linux", "6.1.0-57-cloud-amd64", DYNAMIC, ("debian", (6, 1, 192), True), "Linux 6.1.192 of Debian"),
        ("linux", "5.15.0-105-generic", UBUNTU, ("ubuntu", (5, 15), False), "Linux 5.15.x of Ubuntu"),
        ("linux", "3.10.0-1160.el7.x86_64", "#1 SMP", ("redhat", (3, 10), False), "Linux 3.10.x of Red Hat"),
        ("linux", "6.5.6-300.fc39.x86_64", "#1 SMP", ("fedora", (6, 5, 6), True), "Linux 6.5.6 of Fedora"),
        ("linux", "6.8.0-lab", "#3 SMP", ("upstream", (6, 8, 0), True), "Linux 6.8.0"),
        ("freebsd", "9.3-RELEASE-p5", "FreeBSD 9.3", ("", (9, 3), True), "FreeBSD 9.3"),
        ("netbsd", "6.99.16", "NetBSD", ("", (6, 99, 16), True), "NetBSD 6.99.16"),
    ],
)  # fmt: skip
def test_a_kernel_is_known_by_its_own_words(system, release, built, expected, words):
    kernel = kernel_of({"system": system, "kernel": release, "kernel_version": built})
    assert kernel == Kernel(system, *expected)
    assert str(kernel) == words


def test_a_machine_that_names_no_version_has_no_kernel():
    assert kernel_of({"system": "linux", "kernel": None}) is None
    assert kernel_of({"system": "linux", "kernel": "custom"}) is None
    assert kernel_of({"kernel": "6.1"}) is None


@pytest.mark.parametrize(
    ("version", "ranges", "holds"),
    [
        ((5, 10, 118), [">=5.10.119 <5.11"], "no"),
        ((5, 10, 119), [">=5.10.119 <5.11"], "yes"),
        ((5, 11), [">=5.10.119 <5.11"], "no"),
        ((5, 11), [">=5.10.119 <5.11", ">=5.11"], "yes"),
        ((6, 8, 0), [">=6.8"], "yes"),
        ((6, 8, 0), ["<=6.8", ">7"], "yes"),
        ((6, 8, 1), ["<=6.8", ">7"], "no"),
        ((6, 8, 1), [], "yes"),
    ],
)
def test_a_version_lies_in_a_range_or_does_not(version, ranges, holds):
    assert within(Kernel("linux", "upstream", version), ranges) == holds


@pytest.mark.parametrize(
    ("ranges", "holds"),
    [
        ([">=5.15.44 <5.16"], "open"),
        (["<5.15.44"], "open"),
        ([">=5.10.2 <5.10.7"], "no"),
        ([">=5.15 <5.16"], "yes"),
        ([">=5.15.2 <5.15.7"], "open"),
        ([">5.15"], "open"),
        ([">=5.16"], "no"),
        ([], "yes"),
    ],
)
def test_what_a_distributor_leaves_open_stays_open(ranges, holds):
    assert within(Kernel("linux", "ubuntu", (5, 15), exact=False), ranges) == holds


@pytest.mark.parametrize("text", ["", "5.10", "=5", ">=5.x", ">=5 and <6", "~>5"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(ValueError, match="is not a range of versions"):
        parse_range(text)
