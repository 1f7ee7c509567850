"""What a machine may be called."""

from __future__ import annotations

import pytest

from labctl.report.facts import collect_facts, confounders, facts_table
from labctl.analysis.roles import label_target
from labctl.analysis.words import interval, number, plain, spread
from labctl.stats import Estimate
from labctl.sweep.records import FactsRecord


@pytest.mark.parametrize(
    ("kind", "facts", "role", "functional"),
    [
        ("local", {"hypervisor": ("none",)}, "bare metal", False),
        ("ssh", {"hypervisor": ("none",)}, "bare metal", False),
        ("local", {"hypervisor": ("kvm",)}, "host (itself a guest of kvm)", False),
        ("local", {"hypervisor": ("qemu",)}, "host (itself a guest of qemu)", False),
        ("local", {"hypervisor": ("none", "kvm")}, "host (itself a guest of kvm)", False),
        (
            "local",
            {"hypervisor": ("unknown",)},
            "host (itself a guest of an unknown hypervisor)",
            False,
        ),
        ("local", {"hypervisor": ("tcg",)}, "host (itself a guest of tcg)", True),
        ("local", {}, "host (not known to be bare metal)", False),
        ("vm", {"accelerator": ("tcg",), "hypervisor": ("none",)}, "guest, TCG", True),
        ("vm", {"accelerator": ("kvm",)}, "guest, KVM", False),
        ("vm", {"accelerator": ("kvm", "tcg")}, "guest, KVM and TCG mixed", True),
        ("vm", {"hypervisor": ("none",)}, "guest, accelerator unknown", False),
        ("", {"accelerator": ("tcg",)}, "guest, TCG", True),
        ("", {"hypervisor": ("none",)}, "bare metal", False),
    ],
)
def test_role_follows_from_facts(kind, facts, role, functional):
    found = label_target("t", kind, facts)
    assert (found.role, found.functional) == (role, functional)
    assert ("functional" in found.label) == functional


@pytest.mark.parametrize("facts", [{}, {"hypervisor": ("unknown",)}, {"hypervisor": ("xen",)}])
def test_a_doubtful_baseline_carries_a_note(facts):
    assert label_target("t", "ssh", facts).note


def record(target, **facts):
    return FactsRecord(time="", target=target, boot=0, boot_id="b", moment="start", facts=facts)


def test_rows_differ_are_unknown_or_volatile():
    facts = collect_facts(
        [
            record("a", kernel="1", libc="x", load=1.0, cpus_online=2, accelerator="kvm"),
            record("b", kernel="2", load=2.0, cpus_online=2, libc=None),
        ]
    )
    states = {row.key: row.state for row in facts_table(["a", "b"], facts)}
    assert states["kernel"] == "differs"
    assert states["libc"] == "unknown"
    assert states["cpus_online"] == "same"
    assert states["accelerator"] == "same"
    assert states["load"] == "volatile"


def test_a_fact_that_changed_shows_both_values():
    facts = collect_facts([record("a", clocksource="tsc"), record("a", clocksource="hpet")])
    row = next(row for row in facts_table(["a"], facts) if row.key == "clocksource")
    assert row.values == ["tsc → hpet"]


def keys(guest, metal):
    return {c.key: (c.guest, c.metal) for c in confounders(guest, metal)}


def test_what_is_unknown_on_one_side_confounds():
    found = keys({"libc": "glibc", "kernel": "6.1"}, {"kernel": "6.1", "libc": None})
    assert found["libc"] == ("glibc", "unknown")
    assert "kernel" not in found and "thp" not in found
    assert found["cpu_model"] == ("unknown", "unknown"), "nobody knows whether it is the same"


def test_mitigations_are_compared_one_by_one_where_both_tell_them():
    told = {"mitigations": {"meltdown": "no", "retbleed": "yes"}}
    other = {"mitigations": {"meltdown": "no", "retbleed": "no"}}
    found = keys(told, other)
    assert found["mitigations.retbleed"] == ("yes", "no")
    assert "mitigations.meltdown" not in found
    assert keys(told, {})["mitigations"] == ("meltdown: no; retbleed: yes", "unknown")


def test_memory_that_is_nearly_the_same_does_not_confound():
    assert "memory_kib" not in keys({"memory_kib": 1_000_000}, {"memory_kib": 1_020_000})
    assert "memory_kib" in keys({"memory_kib": 1_000_000}, {"memory_kib": 2_000_000})


def test_what_few_look_for_is_minor():
    facts = collect_facts([record("a", kernel="1", cpu_flags=["x"], interrupts={"RES": 1})])
    minor = {row.key: row.minor for row in facts_table(["a"], facts)}
    assert minor == {"kernel": False, "boot_id": True, "cpu_flags": True, "interrupts": True}


def test_structured_facts_are_one_line():
    facts = collect_facts([record("a", mitigations={"b": "no", "a": "yes"}, cpus=[0, 1])])
    assert facts["a"]["mitigations"] == ("a: yes; b: no",)
    assert facts["a"]["cpus"] == ("0, 1",)


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07", "a\rb", "\u202eevil", "\x9b31m", "\ud800", "nul\0"]
)
def test_nothing_that_steers_a_terminal_is_left(text):
    assert plain(text).isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.2149, "3.21"), (9.999, "10.0"), (99.96, "100"), (0.02134, "0.0213")],
)
def test_three_digits(value, text):
    assert number(value) == text


def test_an_interval_that_is_not_there_is_not_made_up():
    one = Estimate(3.0, None, None, 0.95, "", (), 1, 4, 4)
    assert (spread(one), interval(one)) == ("", "none")


def test_few_processes_are_counted_instead_of_an_interval_that_looks_sure():
    one = Estimate(3.0, 2.9, 3.1, 0.95, "", (), 1, 2, 6)
    assert (spread(one), interval(one)) == ("n=2", "none (n=2)")
    two = Estimate(2.0, 1.9, 2.1, 0.95, "", (), 1, 3, 9)
    assert (spread(two), interval(two)) == ("±5%", "1.90 to 2.10")
