"""Who is compared with whom: pairs that the lab file declares, and pairs found by facts.

A pair has a subject, the one thing in which its sides are meant to differ. What else
they differ in is ``confounders``' to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from labctl.analysis.sides import Side
from labctl.stats.judge import Subject

NO_PAIRS = (
    "none: no pair was measured. `pairs:` in the lab file declares them; two targets with one "
    "system and kernel, or two guests of one image with two kernels, are found by themselves"
)
NO_CHANGES = "none: there is no workload and thread count that both runs measured on one target"


@dataclass(frozen=True)
class Pair:
    """Two targets to compare, ``one`` against ``other``.

    Attributes:
        one, other: names: guest and metal, or new kernel and old.
        subject: "virtualization" or "kernel".
        found: why it was found, as a clause; "" where the lab file declares it.
    """

    one: str
    other: str
    subject: Subject
    found: str = ""


def declared(raw: Any, names: Collection[str]) -> list[Pair]:
    """The pairs of a lab file as a journal keeps them, as far as both sides were measured."""
    return [pair for pair in _every(raw) if pair.one in names and pair.other in names]


def halves(raw: Any, names: Collection[str]) -> list[tuple[Pair, str]]:
    """The declared pairs of which one side was measured, and the name of the other."""
    return [
        (pair, pair.one if pair.other in names else pair.other)
        for pair in _every(raw)
        if (pair.one in names) != (pair.other in names)
    ]


def _every(raw: Any) -> list[Pair]:
    """What is not a pair is passed over."""
    found: dict[Pair, None] = {}
    for pair in raw if isinstance(raw, Sequence) else ():
        if not isinstance(pair, Mapping):
            continue
        if {"guest", "metal"} <= pair.keys():
            made = Pair(str(pair["guest"]), str(pair["metal"]), "virtualization")
        elif {"kernel", "against"} <= pair.keys():
            made = Pair(str(pair["kernel"]), str(pair["against"]), "kernel")
        else:
            continue
        if made.one != made.other:
            found[made] = None
    return list(found)


def discover(sides: Iterable[Side], known: Iterable[Pair] = ()) -> list[Pair]:
    """Pairs that the facts allow; never of two targets that are paired already, nor of one whose
    numbers were imported.

    A guest and a machine that is not the lab's guest, with one system, distribution and
    kernel, ask for the virtualization. Two guests of one image, accelerator and machine
    with two kernels ask for the kernel, the newer against the older.
    """
    taken = {frozenset((pair.one, pair.other)) for pair in known}
    made = []
    measured = [side for side in sides if not side.role.imported]
    for left, right in combinations(measured, 2):
        if frozenset((left.name, right.name)) in taken:
            continue
        pair = _kernels(left, right) if _both_guests(left, right) else _metal(left, right)
        if pair is not None:
            made.append(pair)
    return made


def _both_guests(left: Side, right: Side) -> bool:
    return bool(left.role.virtual and right.role.virtual and left.fact("image_key"))


def _metal(left: Side, right: Side) -> Pair | None:
    if left.role.guest == right.role.guest:
        return None
    guest, metal = (left, right) if left.role.guest else (right, left)
    if not all(_same(left, right, key) for key in ("system", "os_release", "kernel")):
        return None
    why = f"both run {guest.fact('os_release')} with the kernel {guest.fact('kernel')}"
    return Pair(guest.name, metal.name, "virtualization", why)


def _kernels(left: Side, right: Side) -> Pair | None:
    if not _same(left, right, "image_key") or left.role.accelerator != right.role.accelerator:
        return None
    kernels = [side.fact("kernel") for side in (left, right)]
    if left.machine != right.machine or kernels[0] == kernels[1] or not all(kernels):
        return None
    new, old = sorted((left, right), key=lambda side: version_key(side.fact("kernel")))[::-1]
    image = new.fact("image") or "one image"
    why = f"both are guests of {image} with kernels of their own"
    return Pair(new.name, old.name, "kernel", why)


def _same(left: Side, right: Side, key: str) -> bool:
    value = left.fact(key)
    return bool(value) and value == right.fact(key)


def version_key(text: str) -> tuple[tuple[int, str], ...]:
    """A release's parts, numbers by value: 5.10 comes after 5.9.

    >>> version_key("5.10.0-28-amd64") > version_key("5.9.1")
    True
    """
    parts = re.findall(r"[0-9]+|[A-Za-z]+", text)
    numbers = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return (*numbers, (0, ""))  # so that 6.1-rc3 comes before 6.1
