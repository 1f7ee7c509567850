"""Facts side by side."""

from __future__ import annotations

from labctl.report.facts import collect_facts, facts_table
from labctl.sweep.records import FactsRecord


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


def test_what_few_look_for_is_minor():
    facts = collect_facts([record("a", kernel="1", cpu_flags=["x"], interrupts={"RES": 1})])
    minor = {row.key: row.minor for row in facts_table(["a"], facts)}
    assert minor == {"kernel": False, "boot_id": True, "cpu_flags": True, "interrupts": True}


def test_structured_facts_are_one_line():
    facts = collect_facts([record("a", mitigations={"b": "no", "a": "yes"}, cpus=[0, 1])])
    assert facts["a"]["mitigations"] == ("a: yes; b: no",)
    assert facts["a"]["cpus"] == ("0, 1",)


def test_an_uri_has_neither_password_nor_key_file():
    secret = "qemu+ssh://me:hunter2@far/system?keyfile=/home/me/k&no_tty=1"
    facts = collect_facts([record("a", hypervisor_uri=secret, uri=None), record("b", uri=7)])
    assert facts["a"]["hypervisor_uri"] == ("qemu+ssh://me@far/system?no_tty=1",)
    assert facts["b"]["uri"] == ("7",)
