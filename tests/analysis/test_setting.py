"""Whether two sides ran on one machine and took turns is said, and only where it is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labctl.analysis.setting import setting
from tests.analysis.made import Made
from tests.analysis.test_verdicts import FLAT, change, only


def between(one, other, **sides):
    """A comparison of two sides on these machines."""
    found = only(FLAT, FLAT) if not sides else only(*sides.values())
    return replace(
        found,
        one=replace(found.one, machine=one),
        other=replace(found.other, machine=other),
    )


def test_on_one_machine_they_took_turns():
    assert setting(only(FLAT, FLAT)) == (
        "Both sides ran on the same machine and took turns: in each round the cells of both were "
        "measured in one random order."
    )


def test_a_simulated_machine_is_called_so():
    found = only(Made(FLAT, kind="sim"), Made(FLAT, kind="sim"), pairs=[
        {"kernel": "linux", "against": "metal"}
    ])  # fmt: skip
    assert "the same simulated machine" in setting(found)


def test_on_two_machines_they_did_not():
    text = setting(between("local", "192.0.2.7"))
    assert "on two machines (local and 192.0.2.7)" in text and text.endswith("not in turns.")


@pytest.mark.parametrize("machines", [("", "local"), ("local", ""), ("", "")])
def test_what_was_not_recorded_is_not_claimed(machines):
    assert "was not recorded" in setting(between(*machines))


def test_two_runs_are_named():
    found = change(1.0, 1.0)
    assert "took turns" not in setting(found), "though both are called alike"
    later = replace(found, one=replace(found.one, run="later"))
    assert setting(later) == (
        "The sides were measured in two runs, made and then later, on the same machine: not in "
        "turns."
    )
    moved = replace(later, one=replace(later.one, machine="elsewhere"))
    assert "on another machine" in setting(moved)
