"""What a curve's samples are like: outliers, states over time, and the law of scalability.

Nothing is left out because of it: outliers are flagged and count, and a cell without a steady
state has its numbers; a reader is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.curves import Curve
from labctl.stats import usl
from labctl.stats.outliers import outliers
from labctl.stats.steady import State, classify_processes, classify_rounds


@dataclass(frozen=True)
class CellQuality:
    """One cell's samples.

    Attributes:
        outliers: how many samples lie outside of median +- 3 (P90 - P10).
        rounds: class of the sequence of its processes over the rounds: drift.
        processes: how many processes are of which class, over their batches: warm-up.
    """

    outliers: int
    rounds: State
    processes: dict[State, int]


def quality_of(curves: Sequence[Curve]) -> list[dict[int, CellQuality]]:
    """Of each curve's cells, by thread count."""
    cells = [cell for curve in curves for cell in curve.cells.values()]
    courses = iter(classify_rounds(cells))  # of all cells at once, which is much faster
    return [
        {
            threads: CellQuality(
                outliers=int(outliers(cell).sum()),
                rounds=next(courses).state,
                processes=dict(Counter(classify_processes(cell))),
            )
            for threads, cell in curve.cells.items()
        }
        for curve in curves
    ]


def scalability(curve: Curve, *, fixed_token: bool) -> usl.Usl | usl.Refused:
    """The Universal Scalability Law of a curve's throughput, or why it is refused.

    Args:
        fixed_token: the program's work is serial by design (its manifest says so).
    """
    times = curve.times
    return usl.fit(
        list(times), [1e6 / estimate.value for estimate in times.values()], fixed_token=fixed_token
    )
