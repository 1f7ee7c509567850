"""Checks of a machine for what disturbs a measurement. Pure: facts in, checks out.

A check is "ok" only where the machine said so; what it did not say is "unknown".
Checks warn and never stop a measurement: that is for the reader of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from labctl.observe.facts import Facts

Status = Literal["ok", "warn", "unknown"]

# Share of stolen time above which the numbers are somebody else's, too.
STEAL_LIMIT = 0.01
# Other work, in CPUs, that is tolerated before a measurement.
LOAD_LIMIT = 0.5
TEMPERATURE_LIMIT_C = 85.0


@dataclass(frozen=True)
class Check:
    """One finding about noise.

    Attributes:
        name: what was looked at, e.g. "governor".
        status: "ok", "warn" or "unknown" (the machine did not say; never to be read as ok).
        value: what was found, as text ("" when nothing).
        why: what it does to a measurement.
        remedy: what to do about it ("" when there is nothing to do).
    """

    name: str
    status: Status
    value: str
    why: str
    remedy: str = ""


def noise_checks(
    facts: Facts, before: Facts | None = None, after: Facts | None = None
) -> list[Check]:
    """All checks of one machine.

    Args:
        facts: the machine as it is (of any moment).
        before: its facts when the measurement began. The load is taken from here:
            later, the measurement itself is the load.
        after: its facts when the measurement ended. What only a span can tell (steal,
            throttling, trouble in the kernel, a reboot) is told from ``before`` to ``after``.
    """
    start = before or facts
    checks = [check(start) for check in (_load, _running)]
    checks += [check(facts) for check in _STATES]
    if before is not None and after is not None:
        checks += list(_span(before, after))
    else:
        checks.append(_steal_since_boot(facts))
    return checks


def _load(facts: Facts) -> Check:
    why = "other work takes CPU time, caches and memory bandwidth"
    if facts.load1 is None:
        return Check("load", "unknown", "", why, "look at `uptime` on the machine")
    value = f"{facts.load1:g} in the last minute"
    if facts.load1 < LOAD_LIMIT:
        return Check("load", "ok", value, why)
    return Check("load", "warn", value, why, "stop other work, or wait for it to end")


def _running(facts: Facts) -> Check:
    why = "a runnable process competes with the threads that are measured"
    if facts.processes_running is None:
        return Check("processes", "unknown", "", why, "look at `top` on the machine")
    others = max(0, facts.processes_running - 1)  # one of them is the asking shell
    value = f"{others} runnable besides the one that asks"
    limit = max(1, (facts.cpus_online or 1) // 4)
    if others <= limit:
        return Check("processes", "ok", value, why)
    return Check("processes", "warn", value, why, "find them with `top` and stop them")


def _guest(facts: Facts) -> Check:
    why = "a hypervisor below takes time and adds exits; it cannot serve as bare metal"
    if facts.hypervisor is None:
        return Check("guest", "unknown", "", why, "find out what this machine runs on")
    if facts.hypervisor == "none":
        return Check("guest", "ok", "no hypervisor", why)
    return Check(
        "guest", "warn", f"runs under {facts.hypervisor}", why, "take a real machine as baseline"
    )


def _cpu_limit(facts: Facts) -> Check:
    why = "a quota stops threads in mid-run; fewer CPUs than are shown queue them"
    remedy = "lift the cgroup's cpu.max or the affinity"
    if facts.cpu_quota is not None:
        return Check("cpu limit", "warn", f"{facts.cpu_quota:g} CPUs' worth", why, remedy)
    if facts.cpus_allowed is None or facts.cpus_online is None:
        return Check("cpu limit", "unknown", "", why, "check affinity and limits by hand")
    value = f"{facts.cpus_allowed} of {facts.cpus_online} CPUs"
    if facts.cpus_allowed < facts.cpus_online:
        return Check("cpu limit", "warn", value, why, remedy)
    return Check("cpu limit", "ok", value, why)


def _governor(facts: Facts) -> Check:
    why = "the clock frequency follows the load, so a batch's start is slower than its end"
    if facts.governor is None:
        hint = "set it on the host" if facts.is_guest else "see the firmware's power settings"
        return Check("governor", "unknown", "", why, hint)
    if facts.governor == "performance":
        return Check("governor", "ok", facts.governor, why)
    return Check("governor", "warn", facts.governor, why, "cpupower frequency-set -g performance")


def _turbo(facts: Facts) -> Check:
    why = "one busy core runs faster than many: T(1) looks better than T(N) for that alone"
    if facts.turbo is None:
        return Check("turbo", "unknown", "", why, "see the firmware's settings of the host")
    if facts.turbo == "off":
        return Check("turbo", "ok", "off", why)
    remedy = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 > .../cpufreq/boost"
    return Check("turbo", "warn", facts.turbo, why, remedy)


def _smt(facts: Facts) -> Check:
    why = "two threads may share a core, others not"
    if facts.smt is None:
        return Check("SMT", "unknown", "", why, "see `lscpu` on the host")
    if facts.smt == "on":
        remedy = "echo off > /sys/devices/system/cpu/smt/control, or pin to one thread a core"
        return Check("SMT", "warn", "on", why, remedy)
    if facts.is_guest is not False:
        value = "off as far as the guest can see"
        return Check("SMT", "unknown", value, why, "see `lscpu` on the host")
    return Check("SMT", "ok", "off", why)


def _aslr(facts: Facts) -> Check:
    why = "without it every process has the same layout, lucky or not; many processes average it"
    if facts.aslr is None:
        return Check("ASLR", "unknown", "", why)
    full = "2" if facts.system == "linux" else "1"
    if facts.aslr == full:
        return Check("ASLR", "ok", facts.aslr, why)
    remedy = "sysctl kernel.randomize_va_space=2" if facts.system == "linux" else ""
    return Check("ASLR", "warn", facts.aslr, why, remedy)


def _isolation(facts: Facts) -> Check:
    why = "the scheduler does not balance over isolated CPUs: threads pile up on one"
    if facts.isolated is None:
        return Check("isolated CPUs", "unknown", "", why)
    if facts.isolated == "":
        return Check("isolated CPUs", "ok", "none", why)
    remedy = "boot without isolcpus; use cpusets and vcpupin"
    return Check("isolated CPUs", "warn", facts.isolated, why, remedy)


def _nohz_full(facts: Facts) -> Check:
    why = "CPUs without a tick pay more for each system call: the CPUs are not alike"
    if facts.nohz_full is None:
        # The file is there only in kernels that can; the command line is the other way to it.
        options = facts.kernel_options
        if options is None or any(option.startswith("nohz_full") for option in options):
            return Check("nohz_full", "unknown", "", why)
        return Check("nohz_full", "ok", "not asked for at boot", why)
    if facts.nohz_full == "":
        return Check("nohz_full", "ok", "none", why)
    return Check("nohz_full", "warn", facts.nohz_full, why, "boot without nohz_full")


def _clock(facts: Facts) -> Check:
    why = "reading a slow clock costs microseconds and, in a guest, leaves it"
    if facts.clocksource is None:
        return Check("clock", "unknown", "", why)
    name = facts.clocksource.lower()
    quick = name.startswith(("tsc", "kvm-clock", "hyperv_clocksource_tsc", "arch_sys_counter"))
    if quick or name in ("timebase", "tod", "riscv_clocksource"):
        return Check("clock", "ok", facts.clocksource, why)
    known_slow = name.startswith(("hpet", "acpi", "jiffies", "i8254", "refined-jiffies", "pit"))
    status: Status = "warn" if known_slow else "unknown"
    remedy = f"choose another of: {facts.clocksource_available or 'what the kernel offers'}"
    return Check("clock", status, facts.clocksource, why, remedy)


def _irqbalance(facts: Facts) -> Check:
    why = "it moves interrupts between CPUs while they are measured"
    if facts.irqbalance == "yes":
        return Check("irqbalance", "warn", "running", why, "stop it while measuring")
    return Check("irqbalance", "unknown", "", why, "check that no irqbalance runs")


def _power(facts: Facts) -> Check:
    why = "on battery the firmware slows the CPU"
    if facts.power is None:
        return Check("power", "unknown", "", why)
    if facts.power == "mains":
        return Check("power", "ok", "mains", why)
    return Check("power", "warn", facts.power, why, "plug it in")


def _temperature(facts: Facts) -> Check:
    why = "a hot CPU throttles"
    if facts.temperature_c is None:
        return Check("temperature", "unknown", "", why, "see the sensors of the host")
    value = f"{facts.temperature_c:.0f} °C"
    if facts.temperature_c < TEMPERATURE_LIMIT_C:
        return Check("temperature", "ok", value, why)
    return Check("temperature", "warn", value, why, "let it cool down; see to its fans")


_STATES: tuple[Callable[[Facts], Check], ...] = (
    _guest,
    _cpu_limit,
    _governor,
    _turbo,
    _smt,
    _aslr,
    _isolation,
    _nohz_full,
    _clock,
    _irqbalance,
    _power,
    _temperature,
)
_STEAL_WHY = "time in which a vCPU was ready and its host ran something else"


def _steal_since_boot(facts: Facts) -> Check:
    return _steal(facts.steal_ticks, facts.total_ticks, facts, "since boot")


def _steal(stolen: int | None, total: int | None, facts: Facts, span: str) -> Check:
    if facts.hypervisor == "none":
        return Check("steal", "ok", "no hypervisor that could steal", _STEAL_WHY)
    remedy = "measure on a host that does nothing else; pin the vCPUs"
    if stolen is None or not total or total < 0 or stolen < 0:
        return Check("steal", "unknown", "", _STEAL_WHY, "see vcpu.N.delay of `virsh domstats`")
    share = stolen / total
    value = f"{share:.2%} {span}"
    if share > STEAL_LIMIT:
        return Check("steal", "warn", value, _STEAL_WHY, remedy)
    if not facts.steal_ticks:
        # Many hypervisors do not tell their guests: nought since boot may mean nothing.
        why = f"{_STEAL_WHY}; a guest that is never told shows 0, too"
        return Check("steal", "unknown", value, why, "see vcpu.N.delay of `virsh domstats`")
    return Check("steal", "ok", value, _STEAL_WHY)


def _span(before: Facts, after: Facts) -> Iterator[Check]:
    """What only two moments together can tell."""
    why = "counters and caches start anew; the span is not one boot"
    if before.boot_id is None or after.boot_id is None:
        yield Check("same boot", "unknown", "", why)
    elif before.boot_id != after.boot_id:
        yield Check("same boot", "warn", "it was rebooted", why, "discard what was measured")
        return
    else:
        yield Check("same boot", "ok", after.boot_id, why)
    yield _steal(
        _grown(before.steal_ticks, after.steal_ticks),
        _grown(before.total_ticks, after.total_ticks),
        after,
        "while measuring",
    )
    throttled = _grown(before.throttle_count, after.throttle_count)
    yield _unchanged(
        "throttling",
        None if throttled is None else throttled == 0,
        "" if throttled is None else f"{throttled} times",
        "a hot CPU ran slower than its clock says",
        "let it cool down; lower its power limit",
    )
    tainted = None if None in (before.tainted, after.tainted) else before.tainted != after.tainted
    yield _unchanged(
        "kernel trouble",
        None if tainted is None else not tainted,
        f"taint flags {before.tainted} -> {after.tainted}" if tainted else "",
        "the kernel warned of a fault (lock-up, machine check, oops) or took a module",
        "read `dmesg` on the machine",
    )
    clocks = (before.clocksource, after.clocksource)
    yield _unchanged(
        "clock kept",
        None if None in clocks else clocks[0] == clocks[1],
        " -> ".join(dict.fromkeys(str(clock) for clock in clocks if clock)),
        "the kernel gives up a clock that it finds unstable",
        "discard what was measured; read `dmesg`",
    )


def _grown(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None else last - first


def _unchanged(name: str, same: bool | None, value: str, why: str, remedy: str) -> Check:
    if same is None:
        return Check(name, "unknown", value, why)
    return Check(name, "ok" if same else "warn", value, why, "" if same else remedy)
