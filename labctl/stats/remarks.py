"""Warnings about the data of a pair as a whole, in sentences without a full stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labctl.stats.correlation import between_batches, between_rounds
from labctl.stats.nested import Nested
from labctl.stats.quality import sample_warnings
from labctl.stats.units import Units

SIDES = ("the first side", "the second side")
ITS_ONE_BOOT = "has one boot: what is said holds for that boot"
_SURE = 0.01  # p value at which a correlation is named


def remarks_on(
    sides: Sequence[Mapping[int, Nested]], units: Sequence[Units], *, seed: int
) -> tuple[str, ...]:
    """Of both sides: one boot, serial correlation, samples that repeat or lie on a grid."""
    found = []
    for name, side, unit in zip(SIDES, sides, units, strict=True):
        if unit.boots == 1 and len(unit.values) > 1:  # of one alone nothing is said
            found.append(f"{name} {ITS_ONE_BOOT}")
        found += [f"{name}: {remark}" for remark in _correlations(side, unit, seed)]
        found += [f"{name}: {remark}" for remark in _samples(side)]
    return tuple(found)


def _correlations(side: Mapping[int, Nested], units: Units, seed: int) -> list[str]:
    found = []
    rounds = between_rounds(units.values, seed=seed)
    if rounds.p_value <= _SURE and units.boots == 1:
        found.append(
            f"successive {units.kind}s are correlated ({rounds.lag1:.2f}): drift or a slow "
            "disturbance; the interval is widened for it"
        )
    # Each cell is a chance to be wrong.
    sure = [n for n, cell in side.items() if between_batches(cell).p_value <= _SURE / len(side)]
    if sure:
        found.append(
            f"successive batches are correlated at N = {_list(sure)}: intervals rest on "
            "processes and boots, not on batches"
        )
    return found


def _samples(side: Mapping[int, Nested]) -> list[str]:
    """Each remark once, with the thread counts that it is true of."""
    at: dict[str, list[int]] = {}
    for n, cell in side.items():
        for remark in sample_warnings(cell):
            at.setdefault(remark, []).append(n)
    return [f"{remark} (N = {_list(counts)})" for remark, counts in at.items()]


def _list(threads: Sequence[int]) -> str:
    return ", ".join(str(n) for n in threads)
