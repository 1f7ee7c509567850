"""Outliers: flagged, never dropped.

Krun's rule: a value is an outlier if it lies outside median +- 3 (P90 - P10) of a window of 200
values around it. The rule is applied to times, not their logarithms, as in Krun.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labctl.stats.nested import Nested

WINDOW = 200
REACH = 3.0


def flagged(times: Any) -> npt.NDArray[np.bool_]:
    """Which of ``times``, in the order in which they were taken, are outliers; shape (n,)."""
    values = np.asarray(times, np.float64)
    if values.size <= WINDOW:
        low, middle, high = np.quantile(values, (0.1, 0.5, 0.9)) if values.size else (0, 0, 0)
    else:
        from scipy import ndimage

        low, middle, high = (
            ndimage.percentile_filter(values, share, size=WINDOW, mode="nearest")
            for share in (10, 50, 90)
        )
    outside: npt.NDArray[np.bool_] = np.abs(values - middle) > REACH * (high - low)
    return outside


def outliers(cell: Nested) -> npt.NDArray[np.bool_]:
    """Which samples of a cell are outliers, shape (n_batches,), in the order of ``logs``.

    The window runs over the processes by period and round.
    """
    lengths = np.diff(cell.process_starts)
    turn = np.empty(cell.n_processes, np.int64)
    turn[np.lexsort((cell.rounds, cell.periods))] = np.arange(cell.n_processes)
    order = np.argsort(np.repeat(turn, lengths), kind="stable")
    found = np.empty(cell.n_batches, np.bool_)
    found[order] = flagged(np.exp(cell.logs[order]))
    return found
