"""Where kernel and virtualization changed at once: what is said first, and what to measure."""

from __future__ import annotations

import pytest

from labctl.analysis import Run
from labctl.analysis.remedies import instead, opening
from tests.analysis.made import GUEST, METAL, Made, records

FLAT = {1: 2.0, 4: 2.0}
TCG = GUEST | {"accelerator": "tcg", "image": "debian-12"}
PAIR = [{"guest": "linux", "metal": "metal"}]
LAB = {
    "targets": {
        "metal": {"kind": "local"},
        "linux": {"kind": "vm", "image": "debian-12", "kernel": None},
        "older": {"kind": "vm", "image": "debian-12", "kernel": {"suite": "bullseye"}},
        "bsd": {"kind": "vm", "image": "freebsd-9.3", "kernel": None},
    }
}


def pair(guest, metal=METAL, pairs=PAIR, kinds=("vm", "local")):
    made = {"linux": Made(FLAT, guest, kinds[0]), "metal": Made(FLAT, metal, kinds[1])}
    (found,) = Run(records(made), pairs=pairs).comparisons
    return found


def test_both_changed_is_said_first_and_each_question_has_its_measurement():
    found = pair(TCG | {"kernel": "6.12"})
    assert opening(found) == (
        "This run cannot separate the kernel from the emulation (TCG), because both changed "
        "between metal and linux."
    )
    virtualization, kernel = instead(found, {})
    assert "that of metal in linux too (`kernel: FILE` for linux" in virtualization
    assert "on a host that has working KVM" in virtualization and "working KVM" in kernel
    assert "`older: {kind: vm, image: debian-12, kernel: debian/bullseye}`" in kernel


def test_what_the_lab_offers_already_is_named():
    _, kernel = instead(pair(TCG | {"kernel": "6.12"}), LAB)
    assert "`labctl sweep kqtest --targets linux,older`" in kernel


def test_a_bsd_guest_is_measured_against_a_machine_with_its_system():
    bsd = GUEST | {"system": "freebsd", "kernel": "9.3-RELEASE", "image": "freebsd-9.3"}
    found = pair(bsd)
    assert "from the virtualization, because" in opening(found)
    virtualization, kernel = instead(found, LAB)
    assert "a machine that itself runs freebsd 9.3-RELEASE (`kind: ssh`)" in virtualization
    assert "KVM" not in virtualization and "two guests of one image" in kernel


@pytest.mark.parametrize(
    "guest", [GUEST, TCG, {k: v for k, v in GUEST.items() if k != "kernel"}, GUEST | {"arch": "x"}]
)
def test_nothing_of_it_where_the_kernels_are_not_known_to_differ(guest):
    found = pair(guest)
    assert opening(found) == "" and instead(found, LAB) == []


def test_two_kernels_on_two_grounds_are_not_separated_either():
    kernels = [{"kernel": "linux", "against": "metal"}]
    assert "because both changed" in opening(pair(GUEST | {"kernel": "6.12"}, pairs=kernels))
    both = pair(GUEST | {"kernel": "6.12"}, GUEST, kernels, ("vm", "vm"))
    assert opening(both) == ""


@pytest.mark.parametrize("lab", [{"targets": None}, {"targets": {"linux": 3}}, {"targets": []}])
def test_a_lab_that_says_nonsense_offers_nothing(lab):
    assert len(instead(pair(TCG | {"kernel": "6.12"}), lab)) == 2
