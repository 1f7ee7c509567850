"""Reading what the script printed: hostile text, the judgement on guests, differences."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import UnavailableError
from labctl.observe.facts import Facts, differences, parse, script
from labctl.observe.parse import BEGIN, END, LONGEST_VALUE, raw_values
from labctl.observe.virtualization import hypervisor


def framed(*lines: str) -> str:
    return "\n".join([BEGIN, *lines, END, ""])


def test_only_what_stands_between_the_markers_counts() -> None:
    text = (
        f"kernel=motd\nWelcome!\n{framed('kernel=6.1', 'garbage', 'cmdline=a=b c==d')}kernel=after"
    )
    assert raw_values(text) == {"kernel": "6.1", "cmdline": "a=b c==d"}


def test_the_first_value_of_a_key_stands() -> None:
    assert raw_values(framed("kernel=6.1", "kernel=injected")) == {"kernel": "6.1"}


@pytest.mark.parametrize("text", ["", "sh: syntax error", f"{BEGIN}\nkernel=6.1\n", f"{END}\n"])
def test_incomplete_facts_are_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        parse(text)
    assert caught.value.hint


def test_control_characters_and_broken_bytes_become_printable() -> None:
    raw = b"hostname=a\x1b[31mb\xff\x00c\x85\n".decode("utf-8", "surrogateescape")
    facts = parse(framed("system=Linux", raw.strip("\n")))
    assert facts.hostname == "a�[31mb��c"
    assert json.loads(json.dumps(facts.model_dump()))["hostname"] == facts.hostname
    facts.model_dump_json().encode("utf-8")


def test_a_value_without_end_is_cut() -> None:
    facts = parse(framed("system=Linux", "hostname=" + "x" * 1_000_000))
    assert facts.hostname == "x" * LONGEST_VALUE


KEYS = [
    *(f"{name}" for name in Facts.model_fields),
    *("cpu_flags", "cpus_online_list", "cpus_allowed_list", "cpu_quota_us", "cpu_period_us"),
    *("loadavg", "bsd_loadavg", "cpu_ticks", "bsd_ticks", "clockrate", "boottime", "thp", "smt"),
    *("temperature_mc", "memory_bytes", "page_bytes", "preempt", "mains_online", "no_turbo"),
    *("evidence.vm_guest", "evidence.sys_vendor", "kvm.x", "interrupts.RES", "mitigations.mds"),
]
VALUES = st.one_of(
    st.text(),
    st.from_regex(r"[0-9 .,\-/]{0,40}", fullmatch=True),
    st.sampled_from(["9" * 5000, "9" * 400 + ".0", "٣.٥", "-1", "0", "{ sec = ", "nan", "inf"]),
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=20))
def test_no_value_whatever_breaks_the_model_or_its_json(pairs: list[tuple[str, str]]) -> None:
    facts = parse(framed(*(f"{key}={value}" for key, value in pairs)))
    text = json.dumps(facts.model_dump(), allow_nan=False)
    assert Facts.model_validate_json(text) == facts
    assert "\n" not in "".join(value for value in facts.evidence.values())


def test_values_without_a_field_are_kept() -> None:
    facts = parse(framed("system=Linux", "numa_balancing=1"))
    assert facts.model_dump()["numa_balancing"] == "1"


def test_lists_of_cpus_and_quotas_are_counted() -> None:
    facts = parse(
        framed("cpus_online_list=0-3,8,10-11", "cpus_allowed_list=2", "cpu_quota=150000/100000")
    )
    assert (facts.cpus_online, facts.cpus_allowed, facts.cpu_quota) == (7, 1, 1.5)
    assert parse(framed("cpu_quota_us=-1", "cpu_period_us=100000")).cpu_quota is None


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        (["preempt=none voluntary (full)"], "full"),
        (["kernel_version=#1 SMP PREEMPT_DYNAMIC Debian"], "dynamic"),
        (["kernel_version=#1 SMP PREEMPT_RT"], "rt"),
        (["kernel_version=#1 SMP PREEMPT Tue"], "full"),
        (["kernel_version=#1 SMP Debian"], "none or voluntary"),
        ([], None),
    ],
)
def test_preemption(lines: list[str], model: str | None) -> None:
    assert parse(framed("system=Linux", *lines)).preemption == model


def test_options_after_the_double_dash_are_not_the_kernels() -> None:
    facts = parse(framed("cmdline=root=/dev/vda idle=poll nosmt mitigations=off -- isolcpus=1"))
    assert facts.kernel_options == ["idle=poll", "mitigations=off", "nosmt"]


METAL_FLAGS, GUEST_FLAGS = "fpu vme tsc", "fpu vme tsc hypervisor"


@pytest.mark.parametrize(
    ("evidence", "cpu_flags", "clocksources", "expected"),
    [
        ({}, METAL_FLAGS, "tsc hpet acpi_pm", "none"),
        ({"sys_vendor": "Dell Inc.", "product_name": "R750"}, METAL_FLAGS, "tsc", "none"),
        ({}, GUEST_FLAGS, "tsc", "unknown"),
        ({"sys_vendor": "Somebody Cloud"}, GUEST_FLAGS, "tsc", "unknown"),
        ({}, GUEST_FLAGS, "tsc kvm-clock", "kvm"),
        ({"acpi_oem": "FIRECK"}, GUEST_FLAGS, "tsc kvm-clock", "firecracker"),
        ({"sys_vendor": "QEMU"}, GUEST_FLAGS, "kvm-clock tsc", "kvm"),
        ({"sys_vendor": "QEMU", "product_name": "KVM"}, GUEST_FLAGS, "tsc hpet", "qemu"),
        ({"sys_vendor": "QEMU"}, METAL_FLAGS, "tsc hpet", "qemu"),
        ({"sys_vendor": "VMware, Inc."}, GUEST_FLAGS, "tsc", "vmware"),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
         GUEST_FLAGS, "hyperv_clocksource_tsc_page", "microsoft"),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Surface"},
         METAL_FLAGS, "tsc", "none"),
        ({"sys_vendor": "Amazon EC2", "product_name": "c5.metal"}, METAL_FLAGS, "tsc", "none"),
        ({"sys_vendor": "Amazon EC2", "product_name": "c5.large"}, GUEST_FLAGS, "tsc", "kvm"),
        ({"xen_type": "xen"}, GUEST_FLAGS, "xen tsc", "xen"),
        ({"sys_vendor": "coreboot", "bios_vendor": "SeaBIOS"}, METAL_FLAGS, "tsc", "none"),
        # ARM shows no such flag: a maker of machines is needed to say "none".
        ({}, "fp asimd evtstrm", "arch_sys_counter", None),
        ({"sys_vendor": "Ampere"}, "fp asimd", "arch_sys_counter", "none"),
        ({"dt_compatible": "linux,dummy-virt"}, "fp asimd", "arch_sys_counter", "qemu"),
        # FreeBSD and NetBSD
        ({"vm_guest": "none"}, None, "TSC-low HPET", None),
        ({"vm_guest": "none", "smbios_maker": "Supermicro"}, None, "TSC-low", "none"),
        ({"vm_guest": "none", "cpu_features": "Features2=0x80b82201<SSE3,CX16,HV>"},
         None, "TSC-low", "unknown"),
        ({"vm_guest": "none", "cpu_features": "Features2=0x202201<SSE3,CX16>"},
         None, "TSC-low", "none"),
        ({"vm_guest": "generic"}, None, "HPET", "unknown"),
        ({"vm_guest": "hv"}, None, "HPET", "microsoft"),
        ({"vm_guest": "kvm"}, None, "HPET", "kvm"),
    ],
)  # fmt: skip
def test_who_is_a_guest(
    evidence: dict[str, str], cpu_flags: str | None, clocksources: str, expected: str | None
) -> None:
    assert hypervisor(evidence, cpu_flags=cpu_flags, clocksources=clocksources) == expected


def test_the_cpu_can_name_qemu() -> None:
    assert hypervisor({}, cpu_model="QEMU Virtual CPU version 2.5+") == "qemu"


def test_differences_name_what_may_explain_an_effect() -> None:
    metal = Facts(
        system="linux",
        kernel="6.1",
        cpu_model="Some CPU",
        cpus_online=2,
        clocksource="tsc",
        memory_kib=1_048_576,
        hypervisor="none",
        governor="performance",
        mitigations={"mds": "Not affected", "l1tf": "Mitigation: PTE Inversion"},
        load1=0.5,
    )
    guest = metal.model_copy(
        update={
            "kernel": "5.10",
            "memory_kib": 1_010_000,  # what a kernel keeps for itself is no difference
            "hypervisor": "kvm",  # the thing that is compared
            "governor": None,
            "mitigations": {"mds": "Vulnerable", "l1tf": "Mitigation: PTE Inversion"},
            "load1": 3.0,
        }
    )
    assert differences(guest, metal) == [
        ("kernel", "5.10", "6.1"),
        ("mitigations.mds", "Vulnerable", "Not affected"),
        ("governor", None, "performance"),
    ]
    assert differences(metal, metal) == []
    # What a kernel does not list it does nothing about.
    older = metal.model_copy(update={"mitigations": {"l1tf": "Mitigation: PTE Inversion"}})
    assert differences(older, metal) == []
    unmitigated = metal.model_copy(update={"mitigations": {"mds": "Not affected"}})
    assert [key for key, _, _ in differences(unmitigated, metal)] == ["mitigations.l1tf"]
    smaller = metal.model_copy(update={"memory_kib": 524_288})
    assert differences(smaller, metal) == [("memory_kib", 524_288, 1_048_576)]
    # What nobody told may differ as well, where it matters most.
    silent = metal.model_copy(update={"clocksource": None})
    assert differences(silent, silent) == [("clocksource", None, None)]


def test_what_only_one_side_can_have_is_compared_where_both_do() -> None:
    metal = {"system": "freebsd", "kernel": "9.3", "cpu_model": "x", "cpus_online": 2}
    metal |= {
        "clocksource": "HPET",
        "hz": 1000,
        "program_build": {"kqtest": "gcc", "mmapsem": "gcc"},
    }
    guest = metal | {"nic": "e1000", "cpu_model_virtual": "Nehalem", "vm_guest": "generic"}
    assert differences(guest, metal) == []
    other = guest | {"nic": "virtio", "hz": 100, "vm_guest": "none", "smbios_product": "KVM"}
    other |= {"program_build": {"kqtest": "clang", "urandom": "gcc"}}
    set_otherwise = guest | {"asked_sysctls": {"kern.timecounter.hardware": "HPET"}}
    assert differences(guest | {"asked_sysctls": {}}, set_otherwise) == [
        ("asked_sysctls", {}, {"kern.timecounter.hardware": "HPET"})
    ]
    assert differences(guest, other) == [
        ("hz", 1000, 100),
        ("vm_guest", "generic", "none"),
        ("nic", "e1000", "virtio"),
        ("program_build.kqtest", "gcc", "clang"),
    ]


def test_facts_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Facts(system="linux").kernel = "7"


def test_the_script_fits_one_argument_of_any_system() -> None:
    assert len(script().encode()) < 16_384
    assert "\n#" not in script()
