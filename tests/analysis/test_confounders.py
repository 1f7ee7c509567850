"""What differs between two sides, and what that makes impossible to say."""

from __future__ import annotations

import pytest

from labctl.analysis.confounders import Work, confounders, reasons
from labctl.analysis.roles import role_of
from labctl.analysis.sides import Side

COMMON = {
    "system": "linux",
    "arch": "x86_64",
    "kernel": "6.1.0-18-amd64",
    "kernel_version": "#1 SMP Debian 6.1.76-1",
    "os_release": "Debian GNU/Linux 12",
    "cpu_model": "Some CPU",
    "cpus_online": 8,
    "clocksource": "tsc",
    "mitigations": {"meltdown": "Mitigation: PTI", "l1tf": "Not affected"},
}
WORK = Work("eptest", "rearm=oneshot", 1)


def side(name, kind="vm", machine="local", **facts):
    default = (
        {"accelerator": "kvm", "hypervisor": "kvm"} if kind == "vm" else {"hypervisor": "none"}
    )
    told = {key: value for key, value in (COMMON | default | facts).items() if value is not None}
    keys = ("accelerator", "hypervisor")
    role = role_of(kind, {key: (told[key],) for key in keys if key in told})
    return Side(name, kind, role, machine, told)


def found(subject="virtualization", guest=None, metal=None, ran=WORK, other_ran=WORK):
    guest = guest or side("linux")
    return confounders(subject, guest, metal or side("metal", "local"), ran, other_ran)


def bars(rows):
    return {row.key: row.bars for row in rows}


def test_two_sides_that_are_alike_but_for_the_subject_have_none():
    assert found() == []
    newer = side("new", kernel="6.12", kernel_version="#2")
    assert found("kernel", newer, side("old")) == []


@pytest.mark.parametrize(
    ("fact", "value", "text"),
    [
        ("system", "freebsd", "the systems differ (freebsd and linux)"),
        ("kernel", "5.10", "the kernels differ (5.10 and 6.1.0-18-amd64)"),
        ("kernel", None, "it is not known whether both have one kernel"),
        ("kernel_version", "#2 SMP Debian 6.1.90-1", "the builds of the kernel differ (#2"),
        ("arch", "aarch64", "the architectures differ (aarch64 and x86_64)"),
        ("accelerator", "tcg", "linux is emulated (TCG), where times mean nothing"),
        ("accelerator", None, "the accelerator that ran linux is unknown"),
        (
            "mitigations",
            {"meltdown": "Vulnerable", "l1tf": "Not affected"},
            "of meltdown is on at one",
        ),
        ("cpus_online", 1, "the sides have 1 and 8 CPUs"),
    ],
)
def test_what_bars_a_verdict_on_virtualization(fact, value, text):
    rows = found(guest=side("linux", **{fact: value}))
    assert rows[0].bars == "all"
    (why,) = reasons(rows, "all")
    assert text in why


def test_another_program_or_parameter_is_another_thing_measured():
    rows = found(other_ran=Work("kqtest", "rearm=oneshot", 1))
    assert reasons(rows, "all") == ["the programs differ (eptest and kqtest)"]
    rows = found(other_ran=Work("eptest", "", 1))
    assert reasons(rows, "all") == ["the parameters differ (rearm=oneshot and none)"]


def test_what_follows_from_another_system_is_not_said_again():
    rows = found(
        guest=side("bsd", system="freebsd", kernel="9.3", kernel_version="9", os_release="F")
    )
    assert {"kernel", "kernel_version"} <= bars(rows).keys()
    assert reasons(rows, "all") == ["the systems differ (freebsd and linux)"]


def test_fewer_cpus_bar_scaling_and_the_level_only_where_they_are_short():
    rows = found(guest=side("linux", cpus_online=2))
    assert bars(rows) == {"cpus_online": "scaling"}
    rows = found(guest=side("linux", cpus_online=2), ran=Work("eptest", "rearm=oneshot", 2))
    assert bars(rows)["cpus_online"] == "all"


def test_what_belongs_to_virtualization_is_named_alone():
    guest = side("linux", clocksource="kvm-clock", cpu_model="Virtual", threads_per_core=1)
    rows = found(guest=guest)
    assert bars(rows) == {
        "cpu_model": "nothing",
        "clocksource": "nothing",
        "threads_per_core": "nothing",
    }
    cheap = {"meltdown": "Mitigation: PTI", "l1tf": "Mitigation: PTE Inversion"}
    assert bars(found(guest=side("linux", mitigations=cheap))) == {"mitigations.l1tf": "nothing"}


def test_on_two_machines_the_processor_must_be_the_same():
    far = side("metal", "ssh", machine="box")
    assert bars(found(metal=far)) == {"machine": "nothing"}
    other = side("metal", "ssh", machine="box", cpu_model="Another")
    assert bars(found(metal=other))["cpu_model"] == "all"


def test_a_baseline_that_is_a_guest_cannot_show_a_kernels_growth():
    rows = found(metal=side("metal", "local", hypervisor="firecracker"))
    assert bars(rows) == {"baseline": "growth"}
    assert "metal is itself a guest of firecracker" in rows[0].why
    assert bars(found(metal=side("metal", "local", hypervisor=None))) == {"baseline": "growth"}
    away = side("metal", "ssh", machine="box", hypervisor="xen")
    assert bars(found(metal=away))["baseline"] == "all"


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (side("a"), side("b"), "b is a guest of the lab too"),
        (side("a", "local"), side("b"), "a is not a guest"),
        (side("a", "ssh", hypervisor=None), side("b", "local"), "a is not known to be a guest"),
    ],
)
def test_the_direction_of_a_pair_is_checked_against_facts(one, other, why):
    assert why in reasons(found(guest=one, metal=other), "all")


def test_two_kernels_take_one_ground():
    old = side("old", image_key="k", image="debian-12")
    new = {"kernel": "6.12", "kernel_version": "#2", "image_key": "k"}
    assert found("kernel", side("new", **new), old) == []
    emulated = side("new", **new, accelerator="tcg")
    assert "one is a guest, TCG, the other a guest, KVM" in reasons(
        found("kernel", emulated, old), "all"
    )
    both = side("old", image_key="k", accelerator="tcg")
    assert reasons(found("kernel", emulated, both), "all") == [], (
        "the effect is the emulated machines'"
    )
    image = side("new", **new | {"image_key": "other"})
    assert "the images differ" in " ".join(reasons(found("kernel", image, old), "all"))
    cpu = side("new", **new, cpu_model="Another")
    assert bars(found("kernel", cpu, old))["cpu_model"] == "all"
    told = side("new", **new, mitigations={"meltdown": "Vulnerable"})
    assert set(bars(found("kernel", told, old)).values()) == {"nothing"}, "a kernel brings them"


def test_two_kernels_on_two_machines_need_one_distribution():
    one = side("new", "ssh", kernel="6.12", os_release="Debian 13")
    rows = found("kernel", one, side("old", "ssh"))
    assert bars(rows)["os_release"] == "all"
    rows = found(
        "kernel", side("new", "ssh", hypervisor="xen"), side("old", "ssh", hypervisor="kvm")
    )
    assert reasons(rows, "all") == ["their hypervisors differ"]


def test_simulated_and_measured_do_not_mix():
    rows = found(guest=side("linux", "sim", accelerator="kvm", hypervisor="kvm"))
    assert reasons(rows, "all") == ["one side is simulated and the other measured"]


def test_mitigations_are_compared_one_by_one_where_both_tell_them():
    rows = found(metal=side("metal", "local", mitigations=None))
    assert bars(rows) == {"mitigations": "nothing"}
    assert (rows[0].one, rows[0].other) == (
        "l1tf: Not affected; meltdown: Mitigation: PTI",
        "unknown",
    )


def test_memory_that_is_nearly_the_same_does_not_confound():
    guest = side("linux", memory_kib=1_000_000)
    assert found(guest=guest, metal=side("metal", "local", memory_kib=1_020_000)) == []
    rows = found(guest=guest, metal=side("metal", "local", memory_kib=2_000_000))
    assert bars(rows) == {"memory_kib": "nothing"}


def test_of_a_change_the_kernel_is_named_and_another_machine_bars():
    rows = found("change", side("now", kernel="6.12", kernel_version="#2"), side("before"))
    assert bars(rows) == {"kernel": "nothing"}, "its build follows from it"
    for now, why in (
        (side("now", cpu_model="Another"), "the CPU models differ"),
        (side("now", machine="elsewhere"), "the machines differ (elsewhere and local)"),
        (side("now", accelerator="tcg"), "one is a guest, TCG, the other a guest, KVM"),
    ):
        assert why in " ".join(reasons(found("change", now, side("before")), "all"))
    fewer = found("change", side("now", cpus_online=4), side("before"))
    assert bars(fewer) == {"cpus_online": "scaling"}


def test_of_a_change_what_was_asked_is_named_once():
    asked = {"asked_cmdline": "slub_debug=F", "kernel_options": ["slub_debug=F"]}
    now = side("now", cmdline="root=/dev/vda1 slub_debug=F", **asked)
    assert bars(found("change", now, side("before", cmdline="root=/dev/vda1"))) == {
        "asked_cmdline": "nothing"
    }
    now = side("now", cmdline="BOOT_IMAGE=/vmlinuz-2 quiet", image="debian-12", image_key="b")
    old = side("before", cmdline="BOOT_IMAGE=/vmlinuz-1 quiet", image="debian-12", image_key="a")
    assert bars(found("change", now, old)) == {"image_key": "nothing"}
    assert "cmdline" not in bars(found("kernel", now, old)), "of two kernels it is their own"


def test_of_a_change_the_program_and_its_batches_are_named():
    ran = Work("eptest", "rearm=oneshot", 1, {1: 1000, 4: 5000}, "a" * 64)
    before = Work("eptest", "rearm=oneshot", 1, {1: 1000, 4: 1000}, "b" * 64)
    rows = found("change", side("now"), side("before"), ran, before)
    assert {row.key: (row.one, row.other, row.bars) for row in rows} == {
        "program_source": ("a" * 12, "b" * 12, "nothing"),
        "operations a batch at N = 4": ("5000", "1000", "nothing"),
    }
    assert found("change", side("now"), side("before"), ran, ran) == []


def test_readings_of_the_clock_are_named_where_they_are_a_part_of_the_difference():
    def ran(op_ns: float, clock_read_ns: float | None) -> Work:
        return Work("urandom", "", 1, op_ns=op_ns, clock_read_ns=clock_read_ns)

    (row,) = found(ran=ran(30_000, 1_950), other_ran=ran(20_000, 16))
    assert (row.key, row.one, row.other, row.bars) == (
        "clock_reading", "1950 ns", "16 ns", "nothing",
    )  # fmt: skip
    assert not found(ran=ran(30_000, 100), other_ran=ran(20_000, 16)), "less than 1 %"
    assert not found(ran=ran(30_000, 1_950), other_ran=ran(20_000, None))
