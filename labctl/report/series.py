"""Samples grouped to series, each cell with its estimates; resampled once a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labctl.report.model import LatencyView, Point, ProcessPoint, Series
from labctl.analysis.words import plain
from labctl.stats import Estimate, Nested, Resampled, geometric_mean, growth, resample
from labctl.sweep import aggregate
from labctl.sweep.records import Header
from labctl.workloads import ParamValue

if TYPE_CHECKING:
    import pandas as pd

_Key = tuple[str, str, str, str, int]  # workload, target, program, params, threads


class Cells:
    """The cells of a run that have a complete result."""

    def __init__(self, samples: pd.DataFrame, header: Header, level: float) -> None:
        """``samples`` as of ``samples_frame``; the sweep's seed seeds the resampling too."""
        rows = aggregate.counted(samples)
        cells = [execution.cell for execution in header.executions]
        self._targets = [*header.targets, *sorted({cell.target for cell in cells})]
        self._params = {aggregate.params_text(cell.params): cell.params for cell in cells}
        self._level = level
        self._rows: dict[_Key, pd.DataFrame] = {}
        self._summary: dict[_Key, dict[str, Any]] = {}
        self._resampled: dict[_Key, Resampled] = {}
        summary = aggregate.cells_frame(samples)
        keys = ["workload", "target", "program", "params", "threads"]
        for record in summary.to_dict("records"):
            self._summary[self._key(record)] = {str(name): v for name, v in record.items()}
        for number, (_, group) in enumerate(rows.groupby(keys, sort=False, observed=True)):
            nested = Nested.from_labels(
                group["us_per_op"], aggregate.boot_labels(group), group["execution"]
            )
            key = self._key(group.iloc[0])
            self._rows[key] = group
            self._resampled[key] = resample(nested, seed=(abs(header.seed), number))

    def _order(self, item: tuple[tuple[str, str, str], Any]) -> tuple[int, str, str]:
        target, program, params = item[0]
        return self._targets.index(target), program, params

    @staticmethod
    def _key(row: Mapping[Any, Any] | pd.Series[Any]) -> _Key:
        return (
            str(row["workload"]),
            str(row["target"]),
            str(row["program"]),
            str(row["params"]),
            int(row["threads"]),
        )

    @property
    def workloads(self) -> list[str]:
        """Workloads as asked for, in the order in which they were first measured."""
        return list(dict.fromkeys(key[0] for key in self._rows))

    def unit(self, workload: str) -> str:
        """What one operation of a workload is."""
        return next(str(s["unit"]) for key, s in self._summary.items() if key[0] == workload)

    def resampled(self, workload: str, target: str, one: Series, threads: int) -> Resampled:
        """A cell's data and draws; ``target`` by its name in the journal."""
        params = aggregate.params_text(one.params)
        return self._resampled[workload, target, one.program, params, threads]

    def common_params(self, workload: str) -> str:
        """The parameters that all series of a workload share, as text."""
        same, _ = self._split_params(workload)
        return plain(aggregate.params_text(same))

    def _split_params(self, workload: str) -> tuple[dict[str, ParamValue], bool]:
        """What all series share, and whether they run different programs."""
        keys = [key for key in self._rows if key[0] == workload]
        each = [self._params[key[3]] for key in keys]
        same = {
            name: value
            for name, value in each[0].items()
            if all(params.get(name) == value for params in each)
        }
        return same, len({key[2] for key in keys}) > 1

    def series(self, workload: str) -> list[Series]:
        """All series of a workload: by target, then variant; points by rising threads."""
        same, several = self._split_params(workload)
        groups: dict[tuple[str, str, str], list[_Key]] = {}
        for key in self._rows:
            if key[0] == workload:
                groups.setdefault(key[1:4], []).append(key)
        made = []
        for (target, program, _), group in sorted(groups.items(), key=self._order):
            keys = sorted(group, key=lambda key: key[4])
            params = self._params[keys[0][3]]
            form = str(self._summary[keys[0]]["form"])
            own = {name: value for name, value in params.items() if name not in same}
            foreign = several or program != workload
            words = [f"{form} ({program})" if foreign else "", aggregate.params_text(own)]
            label, own_text = (plain(word) for word in words)
            made.append(
                Series(
                    target=plain(target),
                    program=program,
                    form=plain(form),
                    params=params,
                    program_label=label,
                    own_params=own_text,
                    variant=f"{label} {own_text}".strip(),
                    base_threads=keys[0][4],
                    points=[self._point(key, keys[0]) for key in keys],
                )
            )
        return made

    def _point(self, key: _Key, base: _Key) -> Point:
        summary = self._summary[key]
        cell = self._resampled[key]
        grown: Estimate | None = None
        if key != base:
            grown = growth(cell, self._resampled[base], level=self._level)
        return Point(
            threads=key[4],
            time=geometric_mean(cell, level=self._level),
            growth=grown,
            median=summary["median"],
            minimum=summary["min"],
            q1=summary["q1"],
            q3=summary["q3"],
            cv=_known(summary["cv"]),
            vcsw_per_op=summary["vcsw_per_op"],
            ivcsw_per_op=summary["ivcsw_per_op"],
            user_us_per_op=summary["user_us_per_op"],
            sys_us_per_op=summary["sys_us_per_op"],
            latency=_latency(summary),
            processes=_processes(self._rows[key]),
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _latency(summary: Mapping[str, Any]) -> LatencyView | None:
    if _known(summary["p50_ns"]) is None:
        return None
    return LatencyView(
        p50_us=summary["p50_ns"] / 1e3,
        p99_us=summary["p99_ns"] / 1e3,
        max_us=summary["max_ns"] / 1e3,
    )


def _processes(rows: pd.DataFrame) -> list[ProcessPoint]:
    import numpy as np

    logs = np.log(rows["us_per_op"])
    frame = rows.assign(_log=logs, _boot=aggregate.boot_labels(rows))
    grouped = frame.groupby("execution", sort=True).agg(
        log=("_log", "mean"), boot=("_boot", "first"), round=("round", "first"), n=("_log", "size")
    )
    return [
        ProcessPoint(
            us_per_op=float(np.exp(log)), boot=plain(str(boot)), round=int(r), batches=int(n)
        )
        for log, boot, r, n in grouped.itertuples(index=False)
    ]
