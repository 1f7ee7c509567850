"""The values of a figure as a table, and as the words that stand for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from labctl.analysis.words import listed, number, thread_count
from labctl.report.model import Point, ReportModel, Timeline

TENTHS = 10
"""Into how many parts of a run its samples over time are summed up."""


def by_threads(
    each: Sequence[tuple[str, Sequence[Any]]],
    threads: Sequence[int],
    cell: Callable[[Any], tuple[str, str]],
) -> tuple[list[list[str]], list[str]]:
    """Rows of a table by threads, and a sentence a row with its first and last values."""
    rows, texts = [], []
    for label, points in each:
        known = {point.threads: cell(point) for point in points}
        rows.append([label, *("\n".join(filter(None, known.get(n, ("–",)))) for n in threads)])
        told = [
            f"{known[n][0]} at {thread_count(n)}" for n in dict.fromkeys((min(known), max(known)))
        ]
        texts.append(f"{label}: {', '.join(told)}")
    return rows, texts


def switches_cell(point: Point) -> tuple[str, str]:
    """Voluntary context switches an operation, and beside them the involuntary ones."""
    if point.vcsw_per_op is None or point.ivcsw_per_op is None:
        return "–", ""
    return number(point.vcsw_per_op), f"invol. {number(point.ivcsw_per_op)}"


def survival(histogram: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """(time, share of operations in that bucket or a later one), from 1 down."""
    total = sum(count for _, count in histogram)
    left, found = total, []
    for time, count in histogram:
        found.append((time, left / total))
        left -= count
    return found


def quantile(points: Sequence[tuple[float, float]], share: float) -> str:
    """The bucket's bound below which at least ``share`` of the operations lie."""
    return next((number(time) for time, left in points if left <= 1 - share), "last bucket")


def tenths(line: Timeline, last: float) -> list[str]:
    """Mean of a timeline's entries in each tenth of the run."""
    found: list[list[float]] = [[] for _ in range(TENTHS)]
    for order, mean in zip(line.order, line.mean, strict=True):
        found[min(TENTHS - 1, int(order / (last + 1) * TENTHS))].append(math.log(mean))
    return [f"{math.exp(sum(logs) / len(logs)):.3f}" if logs else "–" for logs in found]


def not_shown(model: ReportModel) -> str:
    """What has a place in the order of samples and no point, as a sentence after another."""
    designs = [run.design for run in model.runs]
    left_out = ["warm-up batches"] if any(design.warmup for design in designs) else []
    if any(design.uncounted_samples for design in designs):
        left_out.append("interrupted or failed attempts")
    if len(model.sections) > 1:
        left_out.append("other workloads")
    return f" Places in the order that have no point: {listed(left_out)}." if left_out else ""
