"""Facts side by side: which rows differ, and which of them confound a pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labctl.report.model import Confounder, FactRow, FactState
from labctl.report.words import plain
from labctl.sweep.records import FactsRecord

Facts = dict[str, tuple[str, ...]]
"""Each fact's distinct values over all boots and moments, in the order seen, as text."""

_ORDER = (
    "system",
    "os_release",
    "kernel",
    "cmdline",
    "hypervisor",
    "accelerator",
    "cpu_model",
    "cpu_model_virtual",
    "cpus_online",
    "vcpus",
    "memory_kib",
    "clocksource",
    "mitigations",
    "compiler",
    "libc",
    "image",
    "image_key",
    "qemu_version",
    "load",
    "uptime_s",
    "boot_id",
)
_VOLATILE = {"load", "uptime_s", "boot_id"}
_ONLY_GUESTS = {
    "accelerator",
    "vcpus",
    "cpu_model_virtual",
    "qemu_version",
    "image",
    "image_key",
}
_CONFOUNDING = (
    "system",
    "os_release",
    "kernel",
    "cmdline",
    "libc",
    "compiler",
    "cpu_model",
    "cpus_online",
    "memory_kib",
    "clocksource",
    "mitigations",
)
_SHOWN = 3


def fact_text(value: Any) -> str:
    """A fact's value as one line of text; unknown (None, empty) is ""."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "; ".join(f"{plain(str(k))}: {fact_text(v)}" for k, v in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(fact_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return plain(str(value)).strip()


def collect_facts(records: Iterable[FactsRecord]) -> dict[str, Facts]:
    """Facts by target; a fact that has no value is left out."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for record in records:
        facts = found.setdefault(record.target, {})
        for key, value in {"boot_id": record.boot_id, **record.facts}.items():
            if text := fact_text(value):
                facts.setdefault(str(key), {})[text] = None
    return {
        target: {key: tuple(values) for key, values in facts.items()}
        for target, facts in found.items()
    }


def shown(values: Sequence[str]) -> str:
    """A fact's values over time as one text: ``a → b``; "" is unknown."""
    more = f" → … ({len(values)} values)" if len(values) > _SHOWN else ""
    return " → ".join(values[:_SHOWN]) + more


def facts_table(targets: Sequence[str], facts: Mapping[str, Facts]) -> list[FactRow]:
    """One row a fact that any target has, the known ones first."""
    keys = {key for name in targets for key in facts.get(name, {})}
    ordered = [key for key in _ORDER if key in keys] + sorted(keys - set(_ORDER))
    rows = []
    for key in ordered:
        values = [shown(facts.get(name, {}).get(key, ())) for name in targets]
        rows.append(FactRow(key=plain(key), values=values, state=_state(key, values)))
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


def confounders(guest: Facts, metal: Facts) -> list[Confounder]:
    """Facts in which the sides of a pair differ, or of which one side is unknown."""
    rows = [(key, shown(guest.get(key, ())), shown(metal.get(key, ()))) for key in _CONFOUNDING]
    return [
        Confounder(key=key, guest=g or "unknown", metal=m or "unknown")
        for key, g, m in rows
        if g != m or not g
    ]
