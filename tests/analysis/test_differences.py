"""What differs is counted once, and alike wherever it is told."""

from __future__ import annotations

import pytest

from labctl.analysis.confounders import Confounder
from labctl.analysis.differences import name_of, tally, things, topic_of

KERNEL = Confounder("kernel", "6.1", "6.12", "all", "the kernels differ")
BUILD = Confounder("kernel_version", "#1", "#2", "all", "the builds differ")
CLOCK = Confounder("clocksource", "tsc", "hpet")
EMULATED = Confounder("emulation", "guest, TCG", "host", "all", "emulated")
BELOW = Confounder("baseline", "guest, TCG", "host", "growth", "a guest itself")


def test_facts_that_tell_one_thing_are_one():
    found = things([KERNEL, EMULATED, BUILD, BELOW, CLOCK])
    assert [(thing.topic, thing.name, thing.bars) for thing in found] == [
        ("kernel", "kernel", "all"),
        ("hypervisor", "hypervisor", "all"),
        ("clocksource", "clock", "nothing"),
    ]
    assert tally(found) == "3 things, of which 2 bar a verdict or a part of it"


def test_each_fact_of_a_thing_has_its_values_and_equal_ones_stand_once():
    kernel, hypervisor, clock = things([KERNEL, BUILD, EMULATED, BELOW, CLOCK])
    assert kernel.values == [("", "6.1", "6.12"), ("build of the kernel", "#1", "#2")]
    assert [ends[1:] for ends in hypervisor.values] == [("guest, TCG", "host")]
    assert clock.values == [("", "tsc", "hpet")]
    (mitigations,) = things([Confounder("mitigations.mds", "on", "off")])
    assert (mitigations.name, mitigations.values) == ("mitigations", [("mds", "on", "off")])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], "0 things"),
        ([CLOCK], "1 thing"),
        ([KERNEL], "1 thing, which bars a verdict or a part of it"),
        ([KERNEL, CLOCK], "2 things, of which 1 bars a verdict or a part of it"),
    ],
)
def test_the_count_in_words(rows, text):
    assert tally(things(rows)) == text


def test_a_thing_with_one_fact_has_that_facts_name():
    (alone,) = things([Confounder("asked_cmdline", "a", "b")])
    assert (alone.topic, alone.name) == ("kernel_options", "kernel command line")
    assert topic_of("operations a batch at N = 4") == name_of("operations a batch at N = 4")
