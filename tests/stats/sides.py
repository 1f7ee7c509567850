"""Sides of a pair for the tests, drawn from a stated model."""

from __future__ import annotations

import numpy as np

from labctl.stats import Nested

THREADS = (1, 2, 4, 8)


def cell(logs, *, boots=None, order=None):
    """A cell from logarithms of shape (periods, rounds, batches).

    ``boots`` gives each period's boot (default: one each); ``order`` shuffles the samples.
    """
    logs = np.asarray(logs, float)
    period, turn, _ = np.indices(logs.shape)
    boot = period if boots is None else np.asarray(boots)[period]
    columns = [x.ravel() for x in (np.exp(logs), boot, period * logs.shape[1] + turn, period, turn)]
    if order is not None:
        columns = [column[order] for column in columns]
    values, boot, process, period, turn = columns
    return Nested.from_labels(values, boot, process, periods=period, rounds=turn)


def side(
    rng,
    truth=(0.0, 0.3, 0.6, 1.0),
    *,
    boots=1,
    rounds=6,
    batches=2,
    sd=(0.02, 0.03, 0.02),
    shift=0.0,
    one_boot=False,
):
    """Thread count -> cell; ``truth`` are the logarithms, ``shift`` is added to all rounds."""
    boot = rng.normal(0, sd[0], (boots, 1, 1))
    made = {}
    for threads, level in zip(THREADS, truth, strict=False):
        process = rng.normal(0, sd[1], (boots, rounds, 1))
        batch = rng.normal(0, sd[2], (boots, rounds, batches))
        made[threads] = cell(
            level + boot + process + batch + shift, boots=[0] * boots if one_boot else None
        )
    return made
