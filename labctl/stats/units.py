"""From nested samples to the units that a t interval counts: boots, or rounds of one boot.

The lowest unit is the process: whatever correlation there is between the batches of one
process stays inside its value. Where a side has several planned boots (periods), a unit
is the mean of a period's processes; where it has several boots without periods, of a
boot's; where it has one boot alone, each round is a unit and what is said holds for that
boot only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from labctl.stats.nested import Floats, Nested, run_means

Statistic = Literal["geometric", "median", "mean"]
Kind = Literal["period", "boot", "round"]


@dataclass(frozen=True)
class Units:
    """One side's values, unit by unit, in the order of time.

    Attributes:
        kind: what a unit is.
        labels: number of the period or round, or name of the boot; shape (n_units,).
        values: on the logarithm, shape (n_units, n_threads); NaN where a unit has no
            process of a cell.
        boots: number of boots behind them.
    """

    kind: Kind
    labels: tuple[Any, ...]
    values: Floats
    boots: int

    def over(self, lower: Floats, span: Floats | float) -> Units | None:
        """Each unit's own rise from ``lower`` to the columns above the first, per ``span``;
        shape (n_units, n_threads - 1). None where too few units have both cells."""
        risen = replace(self, values=(self.values[:, 1:] - lower) / span)
        return risen if _matches(risen, self) else None

    def against(self, other: Units) -> Units | None:
        """Differences to the units of ``other`` with the same label; None where the two
        were not measured side by side, or too few of their units match."""
        if self.kind != other.kind or self.kind == "boot":
            return None
        places = {label: row for row, label in enumerate(other.labels)}
        common = [label for label in self.labels if label in places]
        rows = [row for row, label in enumerate(self.labels) if label in places]
        paired = Units(
            self.kind,
            tuple(common),
            self.values[rows] - other.values[[places[label] for label in common]],
            max(self.boots, other.boots),
        )
        return paired if _matches(paired, self, other) else None


def _matches(paired: Units, *sides: Units) -> bool:
    """Whether pairing leaves three quarters of every cell's units, and two at the least."""
    if not paired.values.size:
        return False
    left = int(counts(paired.values).min())
    most = max(int(counts(side.values).max()) for side in sides)
    return left >= 2 and left >= 0.75 * most


def counts(values: Floats) -> Any:
    """Units of each column, shape (n_columns,)."""
    return np.isfinite(values).sum(axis=0)


def units_of(side: Mapping[int, Nested], statistic: Statistic = "geometric") -> Units:
    """Units of the cells of a side, columns in rising order of the thread count.

    Args:
        side: thread count -> samples; one cell or more.
        statistic: how the batches of a process become one value: "geometric" their mean
            logarithm, "median" the logarithm of their median, "mean" their arithmetic mean,
            as a linear departure from the logarithm of the cell's arithmetic mean.
    """
    cells = [side[n] for n in sorted(side)]
    boots = len({name for cell in cells for name in cell.boots})
    kind: Kind = "round"
    if any(np.unique(cell.periods).size > 1 for cell in cells):
        kind = "period"
    elif any(cell.n_boots > 1 for cell in cells):
        kind = "boot"
    columns = [_column(cell, kind, statistic) for cell in cells]
    labels = np.unique(np.concatenate([own for own, _ in columns]))
    values = np.full((labels.size, len(columns)), np.nan)
    for number, (own, means) in enumerate(columns):
        values[np.searchsorted(labels, own), number] = means
    return Units(kind, tuple(labels.tolist()), values, boots)


def _column(cell: Nested, kind: Kind, statistic: Statistic) -> tuple[Any, Floats]:
    """Labels of a cell's units, sorted, and their values; each of shape (n_units,)."""
    names: Any = {
        "round": cell.rounds,
        "period": cell.periods,
        "boot": np.repeat(np.asarray(cell.boots), np.diff(cell.boot_starts)),
    }[kind]
    labels, unit = np.unique(names, return_inverse=True)
    processes = process_values(cell, statistic)
    sums = np.bincount(unit, processes)
    means: Floats = sums / np.bincount(unit)
    if statistic == "mean":
        centre = means.mean()
        means = np.log(centre) + (means - centre) / centre
    return labels, means


def process_values(cell: Nested, statistic: Statistic) -> Floats:
    """One value a process, shape (n_processes,): a logarithm, or a time for "mean"."""
    if statistic == "geometric":
        return cell.process_means()
    if statistic == "mean":
        return run_means(np.exp(cell.logs), cell.process_starts)
    lengths = np.diff(cell.process_starts)
    process = np.repeat(np.arange(cell.n_processes), lengths)
    ordered = cell.logs[np.lexsort((cell.logs, process))]
    first = cell.process_starts[:-1]
    middle: Floats = (ordered[first + (lengths - 1) // 2] + ordered[first + lengths // 2]) / 2
    return middle
