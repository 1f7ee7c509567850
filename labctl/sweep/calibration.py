"""How many operations a batch has: batches of one length on all targets that are compared.

On a machine that does other things too, what is measured depends on how long a batch is: a
target measured against itself, with batches of 8192 operations under one name and 16384 under
the other, was 8 % faster under the former (benchmarks/aa.py). The programs double their
operations until a batch is long enough, so lengths would differ by up to 2.
"""

from __future__ import annotations

from collections.abc import Iterable

from labctl.sweep.records import CalibrationRecord, Cell
from labctl.workloads import Calibration

_NEAR = 1.5
"""Times an operation that differ by less take equally many operations: a calibration is one
batch, and no better known than that."""


def settle(cell: Cell, found: Calibration, others: Iterable[CalibrationRecord]) -> tuple[int, int]:
    """Operations of a cell's batches, and the nanoseconds that one is expected to take.

    Args:
        found: what the program found for itself.
        others: calibrations of the same machine; the first of a cell that differs in the
            target alone is followed: equally many operations, or equally long batches.
    """
    each_ns = found.wall_ns / found.ops
    for other in others:
        if other.cell != cell.key and _work(other.cell) == _work(cell.key):
            ops = max(cell.threads, round(other.wall_ns / each_ns))
            if other.ops / _NEAR <= ops <= other.ops * _NEAR:
                ops = other.ops
            return ops, round(ops * each_ns)
    return found.ops, found.wall_ns


def _work(key: str) -> str:
    """A cell's key without its target."""
    return key.partition("/")[2]
