"""From what facts.sh printed to typed facts. Pure; the text is not to be trusted.

A target's text may hold anything: bytes that are not UTF-8, control characters,
'=' in values, a login banner around it. Only lines between the script's two markers
count, of each key the first.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from labctl.errors import UnavailableError
from labctl.observe.virtualization import hypervisor

BEGIN, END = "labctl_facts=begin", "labctl_facts=end"
LONGEST_VALUE = 8192

_KEY = re.compile(r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)?$")
_CPU_LIST = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What of the CPU's flags says something about clocks, sleeping and virtualization.
_TELLING_FLAGS = re.compile(
    r"^(hypervisor|constant_tsc|nonstop_tsc|tsc_known_freq|tsc_reliable|rdtscp|"
    r"tsc_deadline_timer|ht|vmx|svm|ept|npt|avic|mwait|monitor|waitpkg|pti|ibrs_enhanced|"
    r"x2apic|invpcid|pcid)$"
)
# Options of the kernel's command line that change how threads run or what a switch costs.
_TELLING_OPTIONS = re.compile(
    r"^(mitigations|nosmt|smt|isolcpus|nohz|nohz_full|rcu_nocbs|rcu_nocb_poll|idle|preempt|"
    r"clocksource|tsc|notsc|threadirqs|irqaffinity|transparent_hugepage|skew_tick|nopti|pti|"
    r"nospectre_v[12]|spectre_v2|spec_store_bypass_disable|mds|l1tf|tsx|maxcpus|nr_cpus|noapic|"
    r"nox2apic|hpet|no_timer_check|nokaslr|kpti|audit|lapic|highres|numa|numa_balancing|"
    r"intel_idle\..*|intel_pstate|amd_pstate|processor\..*|cpuidle.*|haltpoll\..*|kvm.*|"
    r"no-kvmclock|sched_.*|rcutree\..*|rcupdate\..*|psi)(=.*)?$"
)


def raw_values(text: str) -> dict[str, str]:
    """The key=value lines between the markers, cleaned.

    Raises:
        UnavailableError: the markers are not there, so the text is not (all of) the facts.
    """
    values: dict[str, str] = {}
    inside = False
    for line in text.split("\n"):
        if line.rstrip("\r") == BEGIN and not inside:
            inside = True
        elif line.rstrip("\r") == END and inside:
            return values
        elif inside:
            key, equals, value = line.partition("=")
            if equals and _KEY.match(key):
                values.setdefault(key, clean(value))
    raise UnavailableError(
        "the target's facts are incomplete" if inside else "the target's facts did not come",
        hint="does /bin/sh on the target run scripts? see the detail",
        detail=clean(text[-2000:]),
    )


def clean(value: str) -> str:
    """One printable line that any encoding and database can hold."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value[:LONGEST_VALUE]).strip(
        " \N{REPLACEMENT CHARACTER}"
    )


def facts_values(text: str) -> dict[str, Any]:
    """Fields of :class:`labctl.observe.facts.Facts` from the script's text.

    Keys that have no field of their own are kept as they are.

    Raises:
        UnavailableError: as ``raw_values``.
    """
    raw = raw_values(text)
    system = raw.pop("system", "unknown").lower()
    groups = {name: _group(raw, name) for name in ("evidence", "mitigations", "kvm", "interrupts")}
    flags = raw.pop("cpu_flags", None)
    result: dict[str, Any] = {"system": system}
    result |= _identity(raw, system)
    result |= _cpu(raw, flags)
    result |= _settings(raw)
    result |= _now(raw)
    result["hypervisor"] = hypervisor(
        groups["evidence"],
        cpu_flags=flags,
        cpu_model=result["cpu_model"],
        clocksources=result["clocksource_available"],
    )
    for name in ("mitigations", "kvm", "evidence"):
        result[name] = groups[name]
    if system != "linux":  # whose kernels decide by these what they trust and how they tick
        told = groups["evidence"]
        result["vm_guest"] = told.get("vm_guest")
        result["smbios_product"] = told.get("smbios_product") or told.get("product_name")
    result["interrupts"] = {
        name: number
        for name, text in groups["interrupts"].items()
        if (number := _int(text)) is not None
    }
    for key, value in raw.items():
        result.setdefault(key, value)
    return result


def _group(raw: dict[str, str], name: str) -> dict[str, str]:
    """Take the keys ``name.x`` out of ``raw``, as a dictionary over x."""
    keys = [key for key in raw if key.startswith(f"{name}.")]
    return {key.partition(".")[2]: raw.pop(key) for key in keys}


def _identity(raw: dict[str, str], system: str) -> dict[str, Any]:
    kernel, clock = raw.pop("kernel", None), _int(raw.pop("clock_epoch_s", None))
    release = raw.pop("os_release", None)
    if release is None and system != "linux" and kernel:
        names = {"freebsd": "FreeBSD", "netbsd": "NetBSD"}
        release = f"{names.get(system, system)} {kernel}"
    booted = raw.pop("boottime", None)
    boottime = _boot_seconds(booted)
    uptime = _float(raw.pop("uptime_s", None))
    if uptime is None and clock is not None and boottime:
        uptime = float(clock - int(boottime))
    cmdline = raw.pop("cmdline", None)
    jailed = raw.pop("jailed", None)
    container = raw.pop("container", None)
    if container is None and jailed is not None:
        container = "jail" if jailed == "1" else "none"
    return {
        "kernel": kernel,
        "clock_epoch_s": clock,
        "os_release": release.strip("\"'") if release else None,
        # The same text as labctl.targets gives for Target.boot_id.
        "boot_id": raw.pop("boot_id", None) or (booted or "").partition(", usec")[0] or None,
        "uptime_s": uptime,
        "cmdline": cmdline,
        "kernel_options": _tunables(raw.pop("kernel_tunables", None)) or _options(cmdline),
        "container": container,
    }


def _options(cmdline: str | None) -> list[str] | None:
    if cmdline is None:
        return None
    mine = cmdline.partition(" -- ")[0].split()  # what follows is init's
    return sorted(option for option in mine if _TELLING_OPTIONS.match(option))


def _tunables(text: str | None) -> list[str] | None:
    """What FreeBSD's loader set: ``kern.hz="100" | hw.use_xsave="0"``."""
    if text is None:
        return None
    return sorted(line.replace('"', "").strip() for line in text.split(" | "))


def _boot_seconds(text: str | None) -> str | None:
    """kern.boottime: FreeBSD's ``{ sec = 1405000000, usec = 5 } Thu ...`` or bare seconds, as
    NetBSD's and OpenBSD's ``sysctl -n`` print."""
    match = re.search(r"\bsec = ([0-9]{1,18})\b", text or "") or re.match(
        r"([0-9]{1,18})\b", text or ""
    )
    return match[1] if match else None


def _cpu(raw: dict[str, str], flags: str | None) -> dict[str, Any]:
    online = _count(raw.pop("cpus_online_list", None)) or _int(raw.pop("cpus_online", None))
    possible = _count(raw.pop("cpus_possible_list", None)) or _int(raw.pop("cpus_possible", None))
    per_socket = _int(raw.pop("threads_per_socket", None))
    cores = _int(raw.pop("cores_per_socket", None))
    model = raw.pop("cpu_model", None)
    if model is None and (part := raw.pop("cpu_part", None)):
        model = f"implementer {raw.pop('cpu_implementer', '?')} part {part}"
    words = sorted(set(flags.split())) if flags else None
    digest = hashlib.sha256(" ".join(words).encode()).hexdigest()[:12] if words else None
    whole = bool(online and per_socket and online % per_socket == 0)
    return {
        "cpu_model": model,
        "cpu_mhz": _float(raw.pop("cpu_mhz", None)),
        "cpu_flags_digest": digest,
        "cpu_flags": [word for word in words if _TELLING_FLAGS.match(word)] if words else None,
        "cpus_online": online,
        "cpus_possible": possible,
        "cpus_allowed": _count(raw.pop("cpus_allowed_list", None)),
        "cpu_quota": _quota(raw),
        "sockets": online // per_socket if whole and online and per_socket else None,
        "threads_per_core": per_socket // cores if per_socket and cores else None,
        "numa_nodes": _count(raw.pop("numa_nodes_list", None)),
        "smt": _smt(raw),
        "turbo": _turbo(raw),
        "tsc": _tsc(raw, words),
    }


def _quota(raw: dict[str, str]) -> float | None:
    """CPUs' worth of time that a cgroup allows; None: no limit was seen."""
    quota, _, period = raw.pop("cpu_quota", "").partition("/")
    older, older_period = raw.pop("cpu_quota_us", ""), raw.pop("cpu_period_us", "")
    if not quota:
        quota, period = older, older_period
    granted, each = _int(quota), _int(period)
    return granted / each if granted and each and granted > 0 else None


def _smt(raw: dict[str, str]) -> str | None:
    """ "on" or "off": whether two threads share a core now."""
    control, active = raw.pop("smt", None), raw.pop("smt_active", None)
    if active in ("0", "1"):
        return "on" if active == "1" else "off"
    if control is None:
        return None
    return "on" if control in ("on", "1") else "off"


def _turbo(raw: dict[str, str]) -> str | None:
    no_turbo, boost = raw.pop("no_turbo", None), raw.pop("boost", None)
    if no_turbo in ("0", "1"):
        return "off" if no_turbo == "1" else "on"
    return {"0": "off", "1": "on"}.get(boost or "")


def _tsc(raw: dict[str, str], flags: list[str] | None) -> str | None:
    """What is said of the time-stamp counter, e.g. "constant nonstop"."""
    said = []
    for flag, word in (
        ("constant_tsc", "constant"),
        ("nonstop_tsc", "nonstop"),
        ("tsc_known_freq", "known frequency"),
        ("tsc_reliable", "reliable"),
    ):
        if flag in (flags or ()):
            said.append(word)
    for key, word in (("tsc_invariant", "invariant"), ("tsc_smp", "synchronous")):
        value = raw.pop(key, None)
        if value is not None:
            said.append(word if value == "1" else f"not {word}")
    return ", ".join(said) or None


def _settings(raw: dict[str, str]) -> dict[str, Any]:
    thp = raw.pop("thp", None)
    available = raw.pop("clocksource_available", None)
    if (
        available is not None
    ):  # the BSDs: "TSC(q=3000, f=... Hz) HPET(q=950, ...)" or "TSC-low(1000)"
        available = " ".join(re.sub(r"\([^)]*\)", "", available).split())
    clockrate = re.search(r"\bhz = ([0-9]{1,9})\b", raw.pop("clockrate", ""))
    return {
        "clocksource": raw.pop("clocksource", None),
        "clocksource_available": available,
        "thp": _bracketed(thp),
        "aslr": raw.pop("aslr", None),
        "isolated": _cpu_set(raw.pop("isolated", None)),
        "nohz_full": _cpu_set(raw.pop("nohz_full", None)),
        "preemption": _preemption(raw),
        "hz": int(clockrate[1]) if clockrate else None,
        "throttle_count": _int(raw.pop("throttle_count", None)),
        "tainted": _int(raw.pop("tainted", None)),
    }


def _cpu_set(text: str | None) -> str | None:
    return "" if text == "(null)" else text


def _bracketed(text: str | None) -> str | None:
    """The chosen one of ``always [madvise] never``."""
    match = re.search(r"[\[(](\w+)[\])]", text or "")
    return match[1] if match else text


def _preemption(raw: dict[str, str]) -> str | None:
    """The preemption model: from debugfs where it is mounted, else from the version."""
    chosen, realtime = raw.pop("preempt", None), raw.pop("realtime", None)
    version = raw.get("kernel_version", "")
    if chosen:
        return _bracketed(chosen)
    if realtime == "1" or "PREEMPT_RT" in version:
        return "rt"
    if "PREEMPT_DYNAMIC" in version:
        return "dynamic"
    if re.search(r"\bPREEMPT\b", version):
        return "full"
    return "none or voluntary" if version.startswith("#") else None


def _now(raw: dict[str, str]) -> dict[str, Any]:
    loads = re.findall(
        r"\b[0-9]{1,6}\.[0-9]{1,6}\b", raw.pop("bsd_loadavg", "") or raw.get("loadavg", "")
    )
    running = re.search(r" ([0-9]{1,9})/[0-9]+ ", raw.pop("loadavg", ""))
    memory_bytes = _int(raw.pop("memory_bytes", None))
    page_bytes = _int(raw.pop("page_bytes", None))
    steal, total = _ticks(raw)
    mains = raw.pop("mains_online", None)
    temperature = _int(raw.pop("temperature_mc", None))
    one, five, fifteen = ([float(load) for load in loads[:3]] + [None] * 3)[:3]
    return {
        "memory_kib": _int(raw.pop("memory_kib", None))
        or (memory_bytes // 1024 if memory_bytes else None),
        "page_kib": _int(raw.pop("page_kib", None)) or (page_bytes // 1024 if page_bytes else None),
        "load1": one,
        "load5": five,
        "load15": fifteen,
        "processes_running": int(running[1]) if running else None,
        "steal_ticks": steal,
        "total_ticks": total,
        "power": {"1": "mains", "0": "battery"}.get(mains or ""),
        "temperature_c": temperature / 1000 if temperature is not None else None,
    }


def _ticks(raw: dict[str, str]) -> tuple[int | None, int | None]:
    """Steal and all ticks of all CPUs since boot. Linux counts guest time in user time."""
    words = raw.pop("cpu_ticks", "").split()[1:]
    linux = [number for word in words if (number := _int(word)) is not None]
    if len(linux) >= 8:
        return linux[7], sum(linux[:8])
    bsd = [int(word) for word in re.findall(r"\b[0-9]{1,18}\b", raw.pop("bsd_ticks", ""))]
    return None, sum(bsd) or None


def _count(cpu_list: str | None) -> int | None:
    """``0-3,8`` -> 5."""
    if not cpu_list or not _CPU_LIST.fullmatch(cpu_list):
        return None
    total = 0
    for part in cpu_list.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total if total > 0 else None


def _int(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _float(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,9})?", text) else None
