"""Curves as the report shows them: labels by what distinguishes them, and their points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labctl.analysis.curves import Curve, own_params
from labctl.analysis.quality import CellQuality, quality_of, scalability
from labctl.analysis.run import Run
from labctl.analysis.words import plain
from labctl.report.model import (
    BootPoint,
    LatencyView,
    Point,
    ProcessPoint,
    ScalabilityView,
    Series,
)
from labctl.report.timeline import MOST, timelines
from labctl.stats import Nested
from labctl.stats.usl import Refused
from labctl.sweep.histograms import Histogram
from labctl.workloads import Workload


@dataclass(frozen=True)
class Variant:
    """What distinguishes a curve from others of its section: program, and own parameters."""

    program: str
    params: str

    @property
    def text(self) -> str:
        """Both, "" where all run the same."""
        return f"{self.program} {self.params}".strip()


def variant_of(curve: Curve, curves: Sequence[Curve]) -> Variant:
    """How a curve is told from the others of its workload."""
    foreign = curve.program != curve.workload or len({c.program for c in curves}) > 1
    label = f"{curve.form} ({curve.program})" if foreign else ""
    return Variant(plain(label), plain(own_params(curve, curves)))


def series_of(run: Run, workload: str, known: Mapping[str, Workload]) -> list[Series]:
    """The curves of one workload; ``known`` are the programs' manifests."""
    curves = run.curves_of(workload)
    workloads = len({curve.workload for curve in run.curves})
    lines = timelines(run.samples, curves, MOST // workloads)
    made = []
    for curve, line, quality in zip(curves, lines, quality_of(curves), strict=True):
        variant = variant_of(curve, curves)
        taken = (workload, curve.target, curve.program, curve.params_text)
        made.append(
            Series(
                target=plain(curve.target),
                program=plain(curve.program),
                form=plain(curve.form),
                unit=plain(curve.unit),
                params={
                    plain(name): plain(value) if isinstance(value, str) else value
                    for name, value in curve.params.items()
                },
                program_label=variant.program,
                own_params=variant.params,
                variant=variant.text,
                base_threads=curve.base,
                scalability=_scalability(curve, known.get(curve.program)),
                points=[
                    _point(curve, n, seen, run.histograms.get((*taken, n), []))
                    for n, seen in quality.items()
                ],
                timeline=line,
            )
        )
    return made


def _scalability(curve: Curve, manifest: Workload | None) -> ScalabilityView:
    if manifest is None:
        return ScalabilityView(refused="it is not known whether the work is serial by design")
    found = scalability(curve, fixed_token=manifest.fixed_token)
    if isinstance(found, Refused):
        return ScalabilityView(refused=found.reason)
    return ScalabilityView(
        refused="",
        rate=found.rate,
        contention=found.contention,
        coherency=found.coherency,
        peak_threads=found.peak,
        limit=found.limit,
        rms=found.rms,
    )


def _point(curve: Curve, threads: int, quality: CellQuality, histogram: Histogram) -> Point:
    summary = curve.summary[threads]
    return Point(
        threads=threads,
        time=curve.times[threads],
        growth=None if threads == curve.base else curve.growth.at(threads),
        median=summary["median"],
        minimum=summary["min"],
        q1=summary["q1"],
        q3=summary["q3"],
        cv=_known(summary["cv"]),
        vcsw_per_op=_known(summary["vcsw_per_op"]),
        ivcsw_per_op=_known(summary["ivcsw_per_op"]),
        user_us_per_op=_known(summary["user_us_per_op"]),
        sys_us_per_op=_known(summary["sys_us_per_op"]),
        latency=_latency(summary),
        quality=quality,
        boots=_boots(curve.cells[threads]),
        processes=_processes(curve.cells[threads]),
        histogram=[(lower / 1e3, count) for lower, count in histogram],
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


def _boots(cell: Nested) -> list[BootPoint]:
    means, sizes = np.exp(cell.boot_means()).tolist(), np.diff(cell.boot_starts).tolist()
    return [
        BootPoint(us_per_op=us, boot=plain(name), processes=processes)
        for us, name, processes in zip(means, cell.boots, sizes, strict=True)
    ]


def _processes(cell: Nested) -> list[ProcessPoint]:
    boots = np.repeat(np.arange(cell.n_boots), np.diff(cell.boot_starts))
    names = [plain(name) for name in cell.boots]
    rows = zip(
        np.exp(cell.process_means()).tolist(),
        boots.tolist(),
        cell.rounds.tolist(),
        np.diff(cell.process_starts).tolist(),
        strict=True,
    )
    return [
        ProcessPoint(us_per_op=us, boot=names[boot], round=round_, batches=batches)
        for us, boot, round_, batches in rows
    ]
