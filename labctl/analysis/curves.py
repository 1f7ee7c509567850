"""Samples grouped to curves: one target, program and parameters over the thread counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labctl.stats import Estimate, Family, Nested, cell_mean, growths
from labctl.sweep import aggregate
from labctl.sweep.records import Header
from labctl.workloads import ParamValue

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curve:
    """What one target ran for a workload, with one set of parameters.

    Attributes:
        workload: as asked for; ``program`` is what this target ran for it.
        form, unit: of the program; what one operation is.
        cells: thread count -> samples in microseconds an operation, rising.
        summary: thread count -> the cell's row of ``aggregate.cells_frame``.
        seed: of whatever is resampled.
    """

    workload: str
    target: str
    program: str
    form: str
    unit: str
    params: Mapping[str, ParamValue]
    cells: Mapping[int, Nested]
    summary: Mapping[int, Mapping[str, Any]]
    seed: int

    @property
    def base(self) -> int:
        """The least thread count."""
        return min(self.cells)

    @property
    def params_text(self) -> str:
        """All parameters as one string, "" where there are none."""
        return aggregate.params_text(dict(self.params))

    def ops(self, threads: int) -> int:
        """Operations of a batch at one thread count, the median over batches."""
        return round(float(self.summary[threads]["ops"]))

    @cached_property
    def times(self) -> dict[int, Estimate]:
        """Geometric mean of each cell, microseconds an operation."""
        return {n: cell_mean(cell) for n, cell in self.cells.items()}

    @cached_property
    def growth(self) -> Family:
        """T(N) / T(base) at each thread count above the base."""
        return growths(self.cells, seed=self.seed)


def curves_of(samples: pd.DataFrame, header: Header) -> list[Curve]:
    """All curves of a run: workloads in the order that they were asked for, which no shuffle of
    the sweep changes, targets in the header's order, then programs and parameters by name.

    Args:
        samples: as of ``aggregate.samples_frame``.
    """
    keys = ["workload", "target", "program", "params"]
    rows = aggregate.counted(samples, [*keys, "threads", *aggregate.NESTED])
    planned = {execution.cell.key: execution.cell for execution in header.executions}
    cells = planned.values()
    params = {aggregate.params_text(cell.params): cell.params for cell in cells}
    targets = [*header.targets, *sorted({cell.target for cell in cells})]
    workloads = list(dict.fromkeys([*header.workloads, *rows["workload"]]))
    nested: dict[tuple[str, ...], dict[int, Nested]] = {}
    for _, group in rows.groupby([*keys, "threads"], sort=True, observed=True):
        cell = group.iloc[0]
        names = tuple(str(cell[name]) for name in keys)
        nested.setdefault(names, {})[int(cell["threads"])] = aggregate.nested(group)
    summary: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
    for record in aggregate.cells_frame(samples).to_dict("records"):
        row = {str(name): value for name, value in record.items()}
        names_of = tuple(str(row[name]) for name in keys)
        summary.setdefault(names_of, {})[int(row["threads"])] = row

    def place(key: tuple[str, ...]) -> tuple[int, int, str, str]:
        return workloads.index(key[0]), targets.index(key[1]), key[2], key[3]

    made = []
    for key in sorted(nested, key=place):
        workload, target, program, text = key
        known = summary[key]
        first = next(iter(known.values()))
        made.append(
            Curve(
                workload=workload,
                target=target,
                program=program,
                form=str(first["form"]),
                unit=str(first["unit"]),
                params=params[text],
                cells=nested[key],
                summary=known,
                seed=abs(header.seed),
            )
        )
    return made


def common_params(curves: Sequence[Curve]) -> dict[str, ParamValue]:
    """The parameters that all curves share."""
    first, *others = [curve.params for curve in curves]
    return {
        name: value
        for name, value in first.items()
        if all(params.get(name) == value for params in others)
    }


def own_params(curve: Curve, curves: Sequence[Curve]) -> str:
    """The parameters of a curve that others have otherwise, as text."""
    common = common_params(curves)
    own = {name: value for name, value in curve.params.items() if name not in common}
    return aggregate.params_text(own)


def matching(curves: Sequence[Curve], one: str, other: str) -> list[tuple[Curve, Curve]]:
    """Curves of two targets with the same parameters; where each has but one, those two,
    whatever their parameters (their difference is a confounder)."""
    left = [curve for curve in curves if curve.target == one]
    right = [curve for curve in curves if curve.target == other]
    same = [(a, b) for a in left for b in right if a.params == b.params]
    if not same and len(left) == len(right) == 1:
        return [(left[0], right[0])]
    return same
