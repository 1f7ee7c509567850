"""A report's cells as CSV: one row a cell, for a spreadsheet or another program.

RFC 4180, UTF-8, a header line. Texts that a spreadsheet would take for a formula (they
begin with = + - @, a tab or a carriage return, after any spaces) are preceded by an
apostrophe; numbers stay numbers. What is not known is an empty field.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from labctl import paths
from labctl.report.model import Point, ReportModel, Section, Series
from labctl.stats import Estimate
from labctl.sweep.aggregate import params_text

COLUMNS = (
    "workload", "program", "params", "target", "run", "role", "functional", "simulated",
    "threads", "unit", "us_per_op", "us_per_op_low", "us_per_op_high", "growth", "growth_low",
    "growth_high", "median_us", "min_us", "q1_us", "q3_us", "cv", "vcsw_per_op",
    "ivcsw_per_op", "user_us_per_op", "sys_us_per_op", "p50_us", "p99_us", "max_us", "boots",
    "processes", "batches", "outliers", "method", "warnings",
)  # fmt: skip
"""Columns: a cell; what its machine is; T(N), microseconds an operation, geometric mean with
its 95 % interval; T(N) / T(least N); quantiles of the batches; context switches and CPU time
an operation; latency of single operations; counts; how the interval was made and what is to
be said against it."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(model: ReportModel, path: Path) -> Path:
    """Write the table, whole or not at all; returns its path."""
    paths.write_atomic(path, render_csv(model))
    return path


def render_csv(model: ReportModel) -> str:
    """The table as text, lines ended by CR LF."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(COLUMNS)
    for section in model.sections:
        for one in section.series:
            for point in one.points:
                cells = _row(model, section, one, point)
                table.writerow([_safe(cells[name]) for name in COLUMNS])
    return out.getvalue()


def _row(model: ReportModel, section: Section, one: Series, point: Point) -> dict[str, object]:
    target = model.target(one.target)
    latency = point.latency
    return {
        "workload": section.workload,
        "program": one.program,
        "params": params_text(one.params),
        "target": one.target,
        "run": target.run,
        "role": target.role,
        "functional": int(target.functional),
        "simulated": int(target.simulated),
        "threads": point.threads,
        "unit": one.unit,
        **dict(_ends("us_per_op", point.time)),
        **dict(_ends("growth", point.growth)),
        "median_us": point.median,
        "min_us": point.minimum,
        "q1_us": point.q1,
        "q3_us": point.q3,
        "cv": point.cv,
        "vcsw_per_op": point.vcsw_per_op,
        "ivcsw_per_op": point.ivcsw_per_op,
        "user_us_per_op": point.user_us_per_op,
        "sys_us_per_op": point.sys_us_per_op,
        "p50_us": latency and latency.p50_us,
        "p99_us": latency and latency.p99_us,
        "max_us": latency and latency.max_us,
        "boots": point.time.n_boots,
        "processes": point.time.n_processes,
        "batches": point.time.n_batches,
        "outliers": point.quality.outliers,
        "method": point.time.method,
        "warnings": "; ".join(point.time.warnings),
    }


def _ends(name: str, estimate: Estimate | None) -> Iterator[tuple[str, float | None]]:
    yield name, None if estimate is None else estimate.value
    yield f"{name}_low", None if estimate is None else estimate.low
    yield f"{name}_high", None if estimate is None else estimate.high


def _safe(value: object) -> object:
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return f"'{value}"
    if isinstance(value, float):
        return f"{value:.15g}"  # a logarithm and its inverse cost the last digits: 5, not 4.99...
    return "" if value is None else value
