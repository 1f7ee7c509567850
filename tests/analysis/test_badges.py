"""Each effect's own reason: what differs for an unknown cause is not what is too imprecise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labctl.analysis.badges import LEGEND, level_badge, scaling_badge
from tests.analysis.made import GUEST, METAL
from tests.analysis.test_verdicts import AMPLIFIED, FLAT, GROWS, change, only, times

PAIR = [{"guest": "linux", "metal": "metal"}]
OTHER_KERNEL = GUEST | {"kernel": "6.12"}
FEW = {"boots": 1, "rounds": 3, "noise": 0.08}
VERDICTS = Path(__file__).parents[2] / "docs" / "verdicts.md"


@pytest.mark.parametrize(
    ("guest", "metal", "badges"),
    [
        (FLAT, FLAT, ("neither", "neither")),
        (times(1.9, AMPLIFIED), GROWS, ("virtualization", "both")),
        (times(1.1, FLAT), FLAT, ("too imprecise (n=24)", "neither")),
    ],
)
def test_what_can_be_told_is_the_verdict_itself(guest, metal, badges):
    found = only(guest, metal)
    assert (level_badge(found), scaling_badge(found)) == badges


def test_two_effects_of_one_pair_have_their_own_reasons():
    found = only(times(8.0, AMPLIFIED), GROWS, guest_facts=OTHER_KERNEL, pairs=PAIR, **FEW)
    assert (found.level.call, found.scaling.call) == ("cannot tell", "cannot tell")
    assert level_badge(found) == "differs, cause unknown"
    assert scaling_badge(found) == "too imprecise (n=3)"


def test_emulation_is_its_own_reason():
    emulated = GUEST | {"accelerator": "tcg"}
    found = only(times(8.0, AMPLIFIED), GROWS, guest_facts=emulated, pairs=PAIR)
    assert level_badge(found) == scaling_badge(found) == "emulated, no verdict"


def test_what_is_alike_may_be_so_by_a_confounder():
    found = only(FLAT, FLAT, guest_facts=OTHER_KERNEL, pairs=PAIR)
    assert level_badge(found) == scaling_badge(found) == "alike, but confounded"


def test_a_baseline_with_a_hypervisor_of_its_own_grows_for_an_unknown_cause():
    found = only(GROWS, GROWS, metal_facts=METAL | {"hypervisor": "firecracker"}, pairs=PAIR)
    assert found.scaling.call == "cannot tell"
    assert scaling_badge(found) == "both grow, cause unknown"


def test_growth_that_only_one_side_leaves_open_is_that_sides():
    found = only({1: 2.0, 4: 2.2}, {1: 2.0, 4: 2.2})
    assert found.scaling.call == "cannot tell"
    assert scaling_badge(found) == "growth of metal: too imprecise (n=24)"


def test_one_process_gives_no_interval():
    found = only(FLAT, FLAT, boots=1, rounds=1)
    assert level_badge(found) == scaling_badge(found) == "no interval"


def test_where_nothing_can_grow_nothing_is_said():
    assert scaling_badge(only({1: 4.0}, {1: 2.0})) == ""


def test_a_change_has_them_too():
    assert level_badge(change(1.1, 1.0)) == "too imprecise (n=24)"
    assert level_badge(change(1.3, 1.0)) == "slower"


def test_the_documentation_has_every_reason():
    text = VERDICTS.read_text("utf-8")
    for words in LEGEND:
        assert re.search(rf"^\| {re.escape(words)}", text, re.MULTILINE), words
