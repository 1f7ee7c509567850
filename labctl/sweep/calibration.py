"""How many operations a batch has: batches of one length on all targets that are compared.

On a machine that does other things too, what is measured depends on how long a batch is: a
target measured against itself, with batches of 8192 operations under one name and 16384 under
the other, was 8 % faster under the former (benchmarks/aa.py). The programs double their
operations until a batch is long enough, so lengths would differ by up to 2.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from labctl.errors import MeasurementError
from labctl.sweep.records import CalibrationRecord, Cell
from labctl.workloads import Batch, Calibration, parse_line

BATCHES = 3
"""Batches by whose median time a calibration is known."""

_NEAR = 2.0
"""Times an operation that differ by less take equally many operations: on a busy machine
three batches tell no more than that."""


def told(lines: Iterable[str]) -> Calibration | None:
    """What a process that calibrates says: the operations that it found, with the median time
    of its batches; None if it did not come to that.

    Raises:
        MeasurementError: it gives more batches than ``BATCHES``, perhaps without end.
    """
    found: Calibration | None = None
    times_ns: list[int] = []
    for line in lines:
        record = parse_line(line)
        if isinstance(record, Calibration):
            found = record
        elif isinstance(record, Batch):
            times_ns.append(record.wall_ns)
            if len(times_ns) > BATCHES:
                raise MeasurementError(f"more batches came than the {BATCHES} asked for")
    if found is None or not times_ns:
        return None
    return found.model_copy(update={"wall_ns": round(statistics.median(times_ns))})


def settle(
    cell: Cell,
    found: Calibration,
    others: Iterable[CalibrationRecord],
    machine_of: Callable[[str], str],
) -> tuple[int, int]:
    """Operations of a cell's batches, and the nanoseconds that one is expected to take.

    Args:
        found: what the program found for itself; its time is one batch's.
        others: calibrations of the run so far; the first on the same physical machine, of a
            cell that differs in the target alone, is followed: equally many operations, or
            equally long batches.
        machine_of: the physical machine of a target, by name.
    """
    each_ns = found.wall_ns / found.ops
    for other in others:
        if _beside(other.cell, cell, machine_of):
            ops = max(cell.threads, round(other.wall_ns / each_ns))
            if other.ops / _NEAR <= ops <= other.ops * _NEAR:
                ops = other.ops
            return ops, round(ops * each_ns)
    return found.ops, found.wall_ns


def _beside(key: str, cell: Cell, machine_of: Callable[[str], str]) -> bool:
    """Whether a cell's key differs from ``cell`` in the target alone, on the same machine."""
    target, _, work = key.partition("/")
    return (
        target != cell.target
        and work == cell.key.partition("/")[2]
        and machine_of(target) == machine_of(cell.target)
    )
