"""A target as one side of a comparison: name, role, physical machine, facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from labctl.analysis.roles import Role, role_of
from labctl.sweep.aggregate import executions_of
from labctl.sweep.records import EndRecord, FactsRecord, Header, Record, of_kind


@dataclass(frozen=True)
class Side:
    """A target of a run.

    Attributes:
        name: as in the lab file.
        kind: "local", "ssh", "vm", "sim", "imported"; "" where the journal does not say.
        role: what its facts establish.
        machine: the physical machine; "" where the journal does not say.
        facts: as it told them first (labctl.observe.facts, and what the run adds).
        run: the run that measured it.
        sources: digest of what each of its programs was compiled from, where that is known.
        clock_reads: nanoseconds that one reading of the clock took in each of its programs that
            time single operations, the median over processes.
    """

    name: str
    kind: str
    role: Role
    machine: str
    facts: Mapping[str, Any]
    run: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    clock_reads: Mapping[str, float] = field(default_factory=dict)

    def fact(self, key: str) -> str:
        """A fact as text; "" where it is not known."""
        value = self.facts.get(key)
        return "" if value is None else str(value)


def sides_of(header: Header, records: Sequence[Record]) -> dict[str, Side]:
    """All targets that the plan measures: in the header's order, then those that only the
    plan names."""
    clock_reads = _clock_reads(header, records)
    first: dict[str, Mapping[str, Any]] = {}
    told: dict[str, dict[str, dict[str, None]]] = {}
    for record in of_kind(records, FactsRecord):
        first.setdefault(record.target, record.facts)
        for key in ("accelerator", "hypervisor"):
            if value := record.facts.get(key):
                told.setdefault(record.target, {}).setdefault(key, {})[str(value)] = None
    used = {execution.cell.target for execution in header.executions}
    names = [*header.targets, *(execution.cell.target for execution in header.executions)]
    found = {}
    for name in dict.fromkeys(names):
        if name in used:
            identity = header.targets.get(name, {})
            kind = str(identity.get("kind", ""))
            values = {key: tuple(texts) for key, texts in told.get(name, {}).items()}
            machine = str(identity.get("machine", ""))
            role, facts = role_of(kind, values), first.get(name, {})
            sources = _sources(identity)
            reads = clock_reads.get(name, {})
            found[name] = Side(name, kind, role, machine, facts, header.run, sources, reads)
    return found


def _clock_reads(header: Header, records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Target -> program -> ns."""
    reads = [
        (record.execution, record.clock_read_ns)
        for record in of_kind(records, EndRecord)
        if record.clock_read_ns is not None
    ]
    if not reads:
        return {}
    cells = {e.id: e.cell for e in executions_of([header, *records])}
    taken: dict[str, dict[str, list[int]]] = {}
    for execution, read_ns in reads:
        programs = taken.setdefault(cells[execution].target, {})
        programs.setdefault(cells[execution].program, []).append(read_ns)
    return {
        target: {program: median(all_ns) for program, all_ns in programs.items()}
        for target, programs in taken.items()
    }


def _sources(identity: Mapping[str, Any]) -> dict[str, str]:
    builds = identity.get("builds")
    known = builds if isinstance(builds, Mapping) else {}
    told = {name: build for name, build in known.items() if isinstance(build, Mapping)}
    return {name: str(sha) for name, build in told.items() if (sha := build.get("source_sha"))}


def usable_cpus(facts: Mapping[str, Any]) -> int | None:
    """CPUs that a program may use: the fewest that the target tells of; None: it does not."""
    told = [facts.get("cpus_online"), facts.get("cpus_allowed"), facts.get("cpu_quota")]
    known = [int(value) for value in told if value]
    return max(1, min(known)) if known else None
