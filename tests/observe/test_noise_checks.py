"""What the checks make of facts: every status of every check, and silence is never ok."""

from __future__ import annotations

from typing import Any

import pytest

from labctl.observe.facts import Facts
from labctl.observe.noise import Check, noise_checks

QUIET: dict[str, Any] = {
    "system": "linux",
    "boot_id": "b",
    "hypervisor": "none",
    "load1": 0.02,
    "processes_running": 1,
    "cpus_online": 4,
    "cpus_allowed": 4,
    "governor": "performance",
    "turbo": "off",
    "smt": "off",
    "aslr": "2",
    "isolated": "",
    "nohz_full": "",
    "clocksource": "tsc",
    "power": "mains",
    "temperature_c": 40.0,
    "steal_ticks": 0,
    "total_ticks": 1000,
    "throttle_count": 7,
    "tainted": 0,
}


def found(
    name: str, before: Facts | None = None, after: Facts | None = None, **changes: Any
) -> Check:
    checks = noise_checks(Facts(**(QUIET | changes)), before, after)
    return next(check for check in checks if check.name == name)


def test_a_quiet_machine_gives_no_warning() -> None:
    quiet = Facts(**QUIET)
    later = quiet.model_copy(update={"total_ticks": 2000})
    checks = noise_checks(quiet, quiet, later)
    assert {check.name for check in checks if check.status == "warn"} == set()
    # Whether an irqbalance runs is the one thing that no file tells for certain.
    assert {check.name for check in checks if check.status == "unknown"} == {"irqbalance"}


def test_a_machine_that_says_nothing_is_never_ok() -> None:
    silent = Facts(system="linux")
    for checks in (noise_checks(silent), noise_checks(silent, silent, silent)):
        assert len(checks) > 10
        assert {check.status for check in checks} == {"unknown"}


def test_whatever_warns_of_the_machine_says_what_to_do() -> None:
    loud = Facts(
        system="linux", hypervisor="kvm", load1=9, processes_running=9, cpus_online=4,
        cpus_allowed=2, governor="powersave", turbo="on", smt="on", aslr="0", isolated="2-3",
        nohz_full="2-3", clocksource="hpet", irqbalance="yes", power="battery",
        temperature_c=95.0, steal_ticks=50, total_ticks=1000,
    )  # fmt: skip
    for check in noise_checks(loud):
        assert (check.name, check.status) == (check.name, "warn")
        assert check.why and check.remedy and check.value


@pytest.mark.parametrize(
    ("name", "changes", "status"),
    [
        ("load", {"load1": 0.49}, "ok"),
        ("load", {"load1": 0.5}, "warn"),
        ("processes", {"processes_running": 2}, "ok"),
        ("processes", {"processes_running": 3}, "warn"),
        ("guest", {"hypervisor": "unknown"}, "warn"),
        ("guest", {"hypervisor": None}, "unknown"),
        ("cpu limit", {"cpu_quota": 2.0}, "warn"),
        ("cpu limit", {"cpus_allowed": 3}, "warn"),
        ("governor", {"governor": "performance powersave"}, "warn"),
        ("SMT", {"hypervisor": "kvm"}, "unknown"),  # a guest cannot see its host's threads
        ("ASLR", {"system": "freebsd", "aslr": "1"}, "ok"),
        ("nohz_full", {"nohz_full": None, "kernel_options": []}, "ok"),
        ("nohz_full", {"nohz_full": None, "kernel_options": ["nohz_full=1"]}, "unknown"),
        ("clock", {"clocksource": "TSC-low"}, "ok"),
        ("clock", {"clocksource": "kvm-clock"}, "ok"),
        ("clock", {"clocksource": "ACPI-fast"}, "warn"),
        ("clock", {"clocksource": "novel"}, "unknown"),
        ("steal", {"hypervisor": "kvm", "steal_ticks": 0}, "unknown"),
        ("steal", {"hypervisor": "kvm", "steal_ticks": 10}, "ok"),
        ("steal", {"hypervisor": "kvm", "steal_ticks": 11}, "warn"),
        ("steal", {"hypervisor": "kvm", "steal_ticks": None}, "unknown"),
    ],
)
def test_thresholds(name: str, changes: dict[str, Any], status: str) -> None:
    assert found(name, **changes).status == status


def test_steal_of_a_span_is_that_of_the_span() -> None:
    guest = Facts(**(QUIET | {"hypervisor": "kvm", "steal_ticks": 500, "total_ticks": 1000}))
    calm = guest.model_copy(update={"total_ticks": 3000})
    assert found("steal", guest, calm, hypervisor="kvm").status == "ok"
    robbed = guest.model_copy(update={"steal_ticks": 600, "total_ticks": 3000})
    check = found("steal", guest, robbed, hypervisor="kvm")
    assert (check.status, check.value) == ("warn", "5.00% while measuring")


def test_load_is_that_from_before_the_measurement() -> None:
    before = Facts(**QUIET)
    after = before.model_copy(update={"load1": 8.0, "total_ticks": 2000})
    assert found("load", before, after, load1=8.0).status == "ok"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("throttling", {"throttle_count": 9}),
        ("kernel trouble", {"tainted": 512}),
        ("clock kept", {"clocksource": "hpet"}),
        ("same boot", {"boot_id": "another"}),
    ],
)
def test_what_changes_in_a_span_is_a_warning(name: str, changes: dict[str, Any]) -> None:
    before = Facts(**QUIET)
    after = before.model_copy(update={"total_ticks": 2000})
    assert found(name, before, after).status == "ok"
    check = found(name, before, after.model_copy(update=changes))
    assert check.status == "warn" and check.remedy


def test_counters_are_not_compared_across_a_reboot() -> None:
    before = Facts(**QUIET)
    after = before.model_copy(update={"boot_id": "another", "throttle_count": 0})
    assert "throttling" not in {check.name for check in noise_checks(after, before, after)}
