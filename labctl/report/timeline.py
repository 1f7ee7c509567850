"""Samples in the order in which they were taken: where drift and disturbances show.

Each sample is taken relative to its cell's geometric mean, so that cells of all thread
counts lie on one line. Long runs are thinned: successive samples become one entry with
their mean, least and greatest, and how many is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from labctl.analysis.curves import Curve
from labctl.report.model import Timeline
from labctl.sweep.aggregate import counted

if TYPE_CHECKING:
    import pandas as pd

MOST = 3000
"""Entries of all series of a report together; a screen is not much wider in pixels."""
_KEYS = ["target", "program", "params"]


def timelines(samples: pd.DataFrame, curves: Sequence[Curve], most: int = MOST) -> list[Timeline]:
    """A timeline a curve; ``curves`` are of one workload, and get some ``most`` entries."""
    rows = counted(samples, ["workload", *_KEYS, "threads", "order", "us_per_op"])
    rows = rows[rows["workload"] == curves[0].workload]
    each = max(1, math.ceil(len(rows) / most))
    logs = np.log(rows["us_per_op"])
    keys = [*_KEYS, "threads"]
    rows = rows.assign(log=logs)
    rows["log"] -= rows.groupby(keys, observed=True)["log"].transform("mean")
    found = {
        tuple(str(part) for part in key): group
        for key, group in rows.groupby(_KEYS, observed=True, sort=False)
    }
    return [
        _timeline(found[curve.target, curve.program, curve.params_text], each) for curve in curves
    ]


def _timeline(rows: pd.DataFrame, each: int) -> Timeline:
    logs, order = rows["log"].to_numpy(), rows["order"].to_numpy(float)
    starts = np.arange(0, len(logs), each)
    sizes = np.diff([*starts, len(logs)])

    def told(values: np.ndarray) -> list[float]:
        return [float(f"{value:.4g}") for value in values]

    return Timeline(
        each=each,
        order=[round(x, 1) for x in np.add.reduceat(order, starts) / sizes],
        mean=told(np.exp(np.add.reduceat(logs, starts) / sizes)),
        least=told(np.exp(np.minimum.reduceat(logs, starts))),
        greatest=told(np.exp(np.maximum.reduceat(logs, starts))),
    )
