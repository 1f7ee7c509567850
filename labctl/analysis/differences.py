"""What differs between two sides, counted once and named alike wherever it is told.

Several facts may tell one thing: a kernel's release and its build, a command line and the
options that were read from it. They are one thing with several facts, and one in a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from labctl.analysis.confounders import WEIGHTS, Bars

_TOPICS = {
    "accelerator": "hypervisor",
    "asked_cmdline": "kernel_options",
    "baseline": "hypervisor",
    "cmdline": "kernel_options",
    "direction": "hypervisor",
    "emulation": "hypervisor",
    "ground": "hypervisor",
    "image_key": "image",
    "kernel_digest": "kernel",
    "kernel_version": "kernel",
    "simulation": "hypervisor",
    "vm_guest": "hypervisor",
}
_NAMES = {
    "asked_cmdline": "kernel command line",
    "asked_tunables": "tunables",
    "arch": "architecture",
    "aslr": "ASLR",
    "cpu_flags_digest": "CPU flags",
    "cpu_microcode": "microcode",
    "cpu_model": "CPU model",
    "cpu_model_virtual": "virtual CPU model",
    "clocksource": "clock",
    "clock_reading": "time of a clock's reading",
    "compiler_target": "compiler's target",
    "cpus_online": "number of CPUs",
    "cmdline": "kernel command line",
    "host_kernel": "the host's kernel",
    "hostname": "host name",
    "image": "image",
    "image_key": "build of the image",
    "kernel_version": "build of the kernel",
    "labctl": "version of labctl",
    "hz": "clock ticks a second",
    "memory_kib": "memory",
    "machine": "physical machine",
    "model": "stated model",
    "numa_nodes": "NUMA nodes",
    "os_release": "distribution",
    "qemu_version": "QEMU",
    "program_build": "how programs were compiled",
    "program_source": "source of the workload's program",
    "smt": "SMT",
    "thp": "transparent huge pages",
    "threads_per_core": "threads a core",
}


class Row(Protocol):
    """A fact of which the two sides tell something else (``confounders.Confounder``)."""

    @property
    def key(self) -> str:
        """The fact's name."""

    @property
    def one(self) -> str:
        """Its value on the one side."""

    @property
    def other(self) -> str:
        """And on the other."""

    @property
    def bars(self) -> Bars:
        """What it makes impossible to say."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Thing(Generic[R]):
    """One thing that differs.

    Attributes:
        topic: what it is counted as.
        name: in words.
        rows: the facts that tell it.
        bars: the most that any of them makes impossible to say.
    """

    topic: str
    name: str
    rows: tuple[R, ...]
    bars: Bars

    @property
    def values(self) -> list[tuple[str, str, str]]:
        """Label, value of the one and of the other side; no label where it would repeat the name.
        Two facts that tell the same in the same words are one line; two mitigations are not."""
        lines: dict[tuple[str, str, str], str] = {}
        for row in self.rows:
            part = row.key.partition(".")[2]
            label = part or name_of(row.key)
            lines.setdefault((part, row.one, row.other), "" if label == self.name else label)
        return [(label, one, other) for (_, one, other), label in lines.items()]


def topic_of(key: str) -> str:
    """What a fact tells something of."""
    name = key.partition(".")[0]
    return _TOPICS.get(name, name)


def name_of(key: str) -> str:
    """A fact's name in words."""
    name = key.partition(".")[0]
    return _NAMES.get(name, name.replace("_", " "))


def things(rows: Iterable[R]) -> list[Thing[R]]:
    """What ``rows`` tell, each thing once, in their order."""
    found: dict[str, list[R]] = {}
    for row in rows:
        found.setdefault(topic_of(row.key), []).append(row)
    return [
        Thing(
            topic,
            name_of(own[0].key if len(own) == 1 else topic),
            tuple(own),
            min((row.bars for row in own), key=WEIGHTS.index),
        )
        for topic, own in found.items()
    ]


def tally(found: Sequence[Thing[R]]) -> str:
    """``14 things, of which 3 bar a verdict or a part of it``."""
    text = f"{len(found)} thing{'' if len(found) == 1 else 's'}"
    barring = sum(thing.bars != "nothing" for thing in found)
    if not barring:
        return text
    verb = "bars" if barring == 1 else "bar"
    which = "which" if len(found) == 1 else f"of which {barring}"
    return f"{text}, {which} {verb} a verdict or a part of it"
