"""Facts side by side: which rows differ, and what changed during the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from labctl.analysis.differences import topic_of
from labctl.analysis.words import fact_text, plain
from labctl.hypervisor import uri
from labctl.report.model import FactRow, FactState
from labctl.sweep.records import FactsRecord

Facts = dict[str, tuple[str, ...]]
"""Each fact's distinct values over all boots and moments, in the order seen, as text."""

# Shown first, in this order; all other facts follow below, for whoever looks for them.
_ORDER = (
    "system",
    "os_release",
    "arch",
    "kernel",
    "kernel_version",
    "cmdline",
    "kernel_options",
    "hypervisor",
    "vm_guest",
    "smbios_product",
    "container",
    "accelerator",
    "qemu_version",
    "host_kernel",
    "image",
    "image_key",
    "cpu_model",
    "cpu_model_virtual",
    "machine_type",
    "disk_bus",
    "nic",
    "video",
    "asked_smbios_product",
    "asked_cmdline",
    "asked_tunables",
    "asked_sysctls",
    "cpu_microcode",
    "cpus_online",
    "vcpus",
    "cpus_allowed",
    "cpu_quota",
    "threads_per_core",
    "numa_nodes",
    "memory_kib",
    "clocksource",
    "tsc",
    "hz",
    "mitigations",
    "smt",
    "governor",
    "turbo",
    "aslr",
    "thp",
    "preemption",
    "scheduler",
    "isolated",
    "nohz_full",
    "cpuidle_driver",
    "cpuidle_governor",
    "irqbalance",
    "compiler",
    "compiler_target",
    "libc",
    "program_origin",
    "program_build",
)
# Of the moment: different at every look, and no difference between two machines.
_VOLATILE = {
    "boot_id",
    "clock_epoch_s",
    "uptime_s",
    "load",
    "load1",
    "load5",
    "load15",
    "processes_running",
    "steal_ticks",
    "total_ticks",
    "interrupts",
    "cpu_mhz",
    "temperature_c",
}
_ONLY_GUESTS = {
    "accelerator",
    "vcpus",
    "cpu_model_virtual",
    "machine_type",
    "disk_bus",
    "nic",
    "video",
    "asked_smbios_product",
    "asked_cmdline",
    "asked_tunables",
    "asked_sysctls",
    "qemu_version",
    "host_kernel",
    "image",
    "image_key",
}
_SHOWN = 3


def collect_facts(records: Iterable[FactsRecord]) -> dict[str, Facts]:
    """Facts by target; a fact that has no value is left out."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for record in records:
        facts = found.setdefault(record.target, {})
        for key, value in {"boot_id": record.boot_id, **record.facts}.items():
            is_uri = isinstance(value, str) and str(key).endswith("uri")
            if text := fact_text(uri.shown(value) if is_uri else value):
                facts.setdefault(str(key), {})[text] = None
    return {
        target: {key: tuple(values) for key, values in facts.items()}
        for target, facts in found.items()
    }


def shown(values: Sequence[str]) -> str:
    """A fact's values over time as one text: ``a → b``; "" is unknown."""
    more = f" → … ({len(values)} values)" if len(values) > _SHOWN else ""
    return " → ".join(values[:_SHOWN]) + more


def facts_table(
    targets: Sequence[str], facts: Mapping[str, Facts], counted: Collection[str] = ()
) -> list[FactRow]:
    """One row a fact that any target has, the known ones first.

    Args:
        counted: facts that differ between the sides of a pair. What only one side told
            differs, there as here, and so does what else tells the same thing.
    """
    keys = {key for name in targets for key in facts.get(name, {})}
    topics = {topic_of(key) for key in counted}
    ordered = [key for key in _ORDER if key in keys] + sorted(keys - set(_ORDER))
    rows = []
    for key in ordered:
        values = [shown(facts.get(name, {}).get(key, ())) for name in targets]
        minor = key not in _ORDER
        state = _state(key, values)
        if state == "unknown" and key in counted:
            state = "differs"
        told = state == "differs" and topic_of(key) in topics
        rows.append(FactRow(key=plain(key), values=values, state=state, counted=told, minor=minor))
    return rows


def _state(key: str, values: Sequence[str]) -> FactState:
    if key in _VOLATILE:
        return "volatile"
    known = {value for value in values if value}
    if len(known) > 1:
        return "differs"
    if key not in _ONLY_GUESTS and not all(values):
        return "unknown"
    return "same"


def changed_facts(facts: Mapping[str, Facts]) -> list[str]:
    """Sentences on what changed on a target while the run went on."""
    return [
        f"{plain(target)}: {plain(key)} changed during the run: {shown(values)}"
        for target, own in facts.items()
        for key, values in own.items()
        if len(values) > 1 and key not in _VOLATILE
    ]
