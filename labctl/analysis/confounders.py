"""What differs between the two sides of a pair besides its subject, and what that bars.

Most differences are named and no more. Some make it impossible to put an effect down to
the subject: those bar a verdict, or a part of it. Which, and why: docs/verdicts.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from labctl.analysis.sides import Side
from labctl.analysis.words import fact_text
from labctl.observe.facts import CONFOUNDERS, differences
from labctl.stats.judge import Subject

Bars = Literal["nothing", "growth", "scaling", "all"]
"""What cannot be said: nothing barred; that the other side's own growth is its kernel's;
anything of scaling; anything at all."""
WEIGHTS: tuple[Bars, ...] = ("all", "scaling", "growth", "nothing")
"""What bars most first."""

BARRED: dict[Bars, str] = {
    "all": "bars a verdict",
    "scaling": "bars a verdict on scaling",
    "growth": "bars saying that the kernel grows",
    "nothing": "",
}


_NOTHING: tuple[Bars, str] = ("nothing", "")


@dataclass(frozen=True)
class Confounder:
    """A difference that is not the pair's subject.

    Attributes:
        key: the fact's name, or "baseline", "emulation", "direction", "program", "parameters".
        one, other: its values, as text.
        bars: what it makes impossible to say.
        why: as a clause, of what bars something; else "".
    """

    key: str
    one: str
    other: str
    bars: Bars = "nothing"
    why: str = ""


@dataclass(frozen=True)
class Work:
    """What a side ran.

    Attributes:
        program, params: and its parameters, as text.
        threads: the least number of them.
        ops: operations of a batch, by the number of threads.
        source: digest of what the program was compiled from; "" where it is not known.
        op_ns: of one operation at the least number of threads; 0 where it is not known.
        clock_read_ns: of one reading of the clock, of which an operation holds two; None where
            single operations are not timed.
    """

    program: str
    params: str
    threads: int
    ops: Mapping[int, int] = field(default_factory=dict)
    source: str = ""
    op_ns: float = 0.0
    clock_read_ns: float | None = None


# Facts that bar everything where they differ, and what they are called.
_SYSTEM = {"system": "system", "arch": "architecture"}
_KERNEL = {"kernel": "kernel", "kernel_version": "build of the kernel"}
_CPUS = {
    "cpus_online": "the sides have {one} and {other} CPUs",
    "cpus_allowed": "the sides may use {one} and {other} CPUs",
    "cpu_quota": "the sides are held to {one} and {other} CPUs",
}
_FIRST = (
    "direction",
    "simulation",
    "system",
    "arch",
    "program",
    "parameters",
    "program_source",
    "model",
    "kernel",
    "image",
    "kernel_version",
    "image_key",
    "asked_cmdline",
    "cmdline",
    "kernel_options",
    "asked_tunables",
    "host_kernel",
    "qemu_version",
    "program_build",
    "ground",
    "emulation",
    "cpu_model",
    "cpus_online",
    "clocksource",
    "clock_reading",
    "mitigations",
    "compiler",
    "libc",
    "machine",
)
# What one target may have otherwise at another time, beside what two targets may.
_OVER_TIME = (
    "asked_cmdline", "asked_tunables", "cmdline", "host_kernel", "hostname", "image",
    "image_key", "labctl", "model", "qemu_version",
)  # fmt: skip
# What of that goes without saying where something else differs.
_IMPLIED = {
    "kernel_version": ("kernel",),
    "image_key": ("image",),
    "cmdline": ("asked_cmdline",),
    "kernel_options": ("asked_cmdline", "cmdline", "asked_tunables"),
}
_DIGITS = 12  # of a digest that is shown
_OTHER_BATCHES = 1.5  # batches whose operations differ by more than this factor are told of
CLOCK_READS = 2
"""Readings of the clock within an operation that is timed by itself."""
_CLOCK_SHARE = 0.01  # of an operation's time, by which readings of the clock may differ untold
_LONGEST = 60  # characters of a value that is shown in a sentence
# Mitigations that make every system call or switch dearer while they are on.
_DEAR = (
    "meltdown",
    "spectre_v2",
    "retbleed",
    "mds",
    "tsx_async_abort",
    "mmio_stale_data",
    "reg_file_data_sampling",
    "spec_rstack_overflow",
    "indirect_target_selection",
    "pti",
    "ibrs",
)


def confounders(
    subject: Subject, one: Side, other: Side, ran: Work, other_ran: Work
) -> list[Confounder]:
    """Everything that differs, what bars most first."""
    found = [*_standing(subject, one, other), *_work(ran, other_ran)]
    keys = (*CONFOUNDERS, *_OVER_TIME) if subject == "change" else CONFOUNDERS
    threads = max(ran.threads, other_ran.threads)
    for key, left, right in differences(one.facts, other.facts, keys=keys):
        if subject == "kernel" and key in _KERNEL:
            continue  # the subject itself
        if key == "cmdline" and _options(left) == _options(right):
            continue
        texts = [fact_text(value) or "unknown" for value in (left, right)]
        bars, why = _weigh(subject, key, (left, right), (one, other), threads)
        why = why.format(one=texts[0], other=texts[1])
        found.append(Confounder(key, texts[0], texts[1], bars, why))
    if one.machine != other.machine:
        machines = one.machine or "unknown", other.machine or "unknown"
        bars, why = _NOTHING
        if subject == "change":
            bars, why = "all", f"the machines differ ({' and '.join(machines)})"
        found.append(Confounder("machine", *machines, bars, why))
    if subject == "change":
        differing = {confounder.key for confounder in found}
        found = [c for c in found if differing.isdisjoint(_IMPLIED.get(c.key, ()))]
        found += _batches(ran, other_ran)
    return sorted(found, key=_weight)


def _options(cmdline: Any) -> list[str]:
    """Words of a command line but for the kernel's own file, which follows its version."""
    return [word for word in str(cmdline or "").split() if not word.startswith("BOOT_IMAGE=")]


def _batches(ran: Work, other: Work) -> Iterator[Confounder]:
    """Batches of another length: what is measured depends on it."""
    ratios = {n: ran.ops[n] / other.ops[n] for n in ran.ops if other.ops.get(n) and ran.ops[n]}
    if not ratios:
        return
    n = max(ratios, key=lambda n: abs(math.log(ratios[n])))
    if abs(math.log(ratios[n])) > math.log(_OTHER_BATCHES):
        yield Confounder(f"operations a batch at N = {n}", str(ran.ops[n]), str(other.ops[n]))


def _weight(confounder: Confounder) -> tuple[int, int]:
    """What bars most first, and of that what says most."""
    key = confounder.key
    return WEIGHTS.index(confounder.bars), _FIRST.index(key) if key in _FIRST else len(_FIRST)


def reasons(found: Sequence[Confounder], *bars: Bars) -> list[str]:
    """Why something is barred, without what only repeats another: a system's kernel is its own."""
    keys = {confounder.key for confounder in found}
    implied = {"kernel": "system", "os_release": "system", "kernel_version": "kernel"}
    return [c.why for c in found if c.bars in bars and implied.get(c.key) not in keys]


def _weigh(
    subject: Subject, key: str, values: tuple[Any, Any], sides: tuple[Side, Side], threads: int
) -> tuple[Bars, str]:
    """What a difference of facts bars, and the words for it."""
    barring = _SYSTEM | (_KERNEL if subject == "virtualization" else {})
    if sides[0].machine != sides[1].machine or subject in ("kernel", "change"):
        barring["cpu_model"] = "CPU model"
    if subject == "kernel" and not _one_image(sides):
        barring["os_release"] = "distribution"
    if key in barring:
        return "all", _differ(barring[key], values)
    if key in _CPUS:
        scarce = any(isinstance(value, int | float) and value <= threads for value in values)
        return ("all" if scarce else "scaling"), _CPUS[key]
    name = key.removeprefix("mitigations.")
    if subject == "virtualization" and name in _DEAR and _is_on(values[0]) != _is_on(values[1]):
        return "all", f"the mitigation of {name} is on at one side alone"
    return _NOTHING


def _differ(what: str, values: tuple[Any, Any]) -> str:
    texts = [fact_text(value) for value in values]
    if not all(texts):
        return f"it is not known whether both have one {what}"
    plural = what.replace("build", "builds") if what.startswith("build") else f"{what}s"
    if max(map(len, texts)) > _LONGEST:
        return f"the {plural} differ"
    return f"the {plural} differ ({{one}} and {{other}})"


def _is_on(value: Any) -> bool:
    """Whether a kernel spends time on a vulnerability."""
    text = str(value or "").lower()
    return not text.startswith(("not affected", "vulnerable", "unknown", "none", "0", "false"))


def _one_image(sides: tuple[Side, Side]) -> bool:
    keys = {side.fact("image_key") for side in sides}
    return len(keys) == 1 and keys != {""}


def _standing(subject: Subject, one: Side, other: Side) -> Iterator[Confounder]:
    """What follows from what each side is."""

    def make(key: str, bars: Bars, why: str) -> Confounder:
        return Confounder(key, one.role.text, other.role.text, bars, why)

    if one.role.simulated != other.role.simulated:
        yield make("simulation", "all", "one side is simulated and the other measured")
    for side in (one, other):
        if side.role.accelerator in ("unknown", "mixed"):
            why = f"the accelerator that ran {side.name} is {side.role.accelerator}"
            yield make("emulation", "all", why)
    if subject in ("kernel", "change"):
        yield from _ground(one, other, make, images=subject == "kernel")
        return
    emulated = [side.name for side in (one, other) if side.role.functional]
    if emulated:
        names = " and ".join(emulated)
        verb = "is" if len(emulated) == 1 else "are"
        yield make("emulation", "all", f"{names} {verb} emulated (TCG), where times mean nothing")
    if one.role.virtual is not True:
        what = "is not known to be" if one.role.virtual is None else "is not"
        yield make("direction", "all", f"{one.name} {what} a guest")
    elif other.role.guest:
        yield make("direction", "all", f"{other.name} is a guest of the lab too")
    elif other.role.virtual:
        what = f"{other.name} is itself a guest of {fact_text(other.facts.get('hypervisor'))}"
        if one.machine != other.machine:
            yield make("baseline", "all", f"{what}, on another machine")
        else:
            why = f"{what}: what grows there may be that hypervisor's doing"
            yield make("baseline", "growth", why)
    elif other.role.virtual is None:
        what = f"{other.name} is not known to be bare metal"
        yield make("baseline", "growth", f"{what}: what grows there may be a hypervisor's doing")


def _ground(
    one: Side, other: Side, make: Callable[[str, Bars, str], Confounder], *, images: bool
) -> Iterator[Confounder]:
    """Two kernels, or two times, are compared on one ground: the same virtualization; two
    kernels (``images``) in the same image as well."""
    left, right = one.role, other.role
    alike = (left.guest, left.virtual, left.accelerator) == (
        right.guest,
        right.virtual,
        right.accelerator,
    )
    if not alike:
        yield make("ground", "all", f"one is a {left.text}, the other a {right.text}")
    elif not left.guest and one.fact("hypervisor") != other.fact("hypervisor"):
        yield make("ground", "all", "their hypervisors differ")
    keys = [side.fact("image_key") for side in (one, other)]
    if images and all(keys) and keys[0] != keys[1]:
        names = [fact_text(side.facts.get("image")) or "unknown" for side in (one, other)]
        yield Confounder("image", names[0], names[1], "all", "the images differ")


def _work(ran: Work, other: Work) -> Iterator[Confounder]:
    if ran.program != other.program:
        why = f"the programs differ ({ran.program} and {other.program})"
        yield Confounder("program", ran.program, other.program, "all", why)
    elif ran.params != other.params:
        texts = [side.params or "none" for side in (ran, other)]
        why = f"the parameters differ ({texts[0]} and {texts[1]})"
        yield Confounder("parameters", texts[0], texts[1], "all", why)
    if ran.program == other.program and ran.source and other.source and ran.source != other.source:
        yield Confounder("program_source", ran.source[:_DIGITS], other.source[:_DIGITS])
    if ran.clock_read_ns is not None and other.clock_read_ns is not None:
        apart = CLOCK_READS * abs(ran.clock_read_ns - other.clock_read_ns)
        if apart > _CLOCK_SHARE * min(ran.op_ns, other.op_ns):
            yield Confounder(
                "clock_reading", f"{ran.clock_read_ns:.0f} ns", f"{other.clock_read_ns:.0f} ns"
            )
