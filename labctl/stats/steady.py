"""Warm-up and steady state of a series in time, by change points.

After Barrett et al., "Virtual machine warmup blows hot and cold" (OOPSLA 2017), and Krun:
PELT finds where mean and variance change (Gaussian likelihood, penalty 15 ln n). A segment is
like the last one if their means differ by no more than 1 %, or than the last one's standard
deviation. What the segments make of a series:

- flat: all are like the last;
- warm-up: some are slower than the last, and none is faster;
- slow-down: some segment before is faster than the last;
- no steady state: the last quarter of the series holds a change.

A series of fewer than 20 values is too short to tell: with that penalty only a change of
variance by a factor of 30 would be seen in 10. Runs of a few batches a process are such. Of
them the sequence of a cell's processes over the rounds can be classified, which shows drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from labctl.stats.nested import Floats, Nested

State = Literal["flat", "warm-up", "slow-down", "no steady state", "too short to tell"]

FEWEST = 20
SAME = 0.01  # on the logarithm: means that differ by less are one state
_PENALTY = 15.0
_SHORTEST = 3  # values of a segment
_FLOOR = 1e-6  # of a segment's variance, as a share of the whole's
_LONGEST = 5_000  # PELT of a flat series takes time in the square of its length


@dataclass(frozen=True)
class Segment:
    """A run of values between two change points.

    Attributes:
        start, stop: places in the series; ``stop`` is not in it.
        mean, deviation: of the logarithms.
    """

    start: int
    stop: int
    mean: float
    deviation: float


@dataclass(frozen=True)
class Course:
    """A series classified.

    Attributes:
        state: the class.
        segments: in the order of time; empty if too short to tell.
        steady_from: place of the first value of the steady state; None without one.
    """

    state: State
    segments: tuple[Segment, ...]
    steady_from: int | None


def classify(logs: Floats) -> Course:
    """Class of a series of logarithms in the order of time, shape (n,).

    A series longer than 5,000 is classified by the means of equal runs of its values.
    """
    if logs.size < FEWEST:
        return Course("too short to tell", (), None)
    run = math.ceil(logs.size / _LONGEST)
    values = logs[: logs.size // run * run].reshape(-1, run).mean(axis=1)
    edges = [edge * run for edge in _change_points(values)] + [logs.size]
    segments = tuple(
        Segment(a, b, float(logs[a:b].mean()), float(logs[a:b].std())) for a, b in pairwise(edges)
    )
    return _course(segments, logs.size)


def classify_processes(cell: Nested) -> tuple[Course, ...]:
    """Class of each process's series of batches, shape (n_processes,)."""
    starts = cell.process_starts
    return tuple(classify(cell.logs[a:b]) for a, b in pairwise(starts))


def classify_rounds(cell: Nested) -> Course:
    """Class of the sequence of a cell's processes over its periods and rounds."""
    return classify(cell.process_means()[np.lexsort((cell.rounds, cell.periods))])


def _change_points(values: Floats) -> list[int]:
    """Where segments begin, 0 included: PELT (Killick, Fearnhead, Eckley 2012).

    A segment costs its length times the logarithm of its variance. The candidates for the
    last change before each end are weighed together, as arrays.
    """
    spread = float(values.std())
    if spread < 1e-12:
        return [0]
    scaled = (values - values.mean()) / spread
    sums = np.concatenate(([0.0], np.cumsum(scaled)))
    squares = np.concatenate(([0.0], np.cumsum(scaled**2)))
    n = values.size
    penalty = _PENALTY * math.log(n)
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    before = np.zeros(n + 1, np.int64)
    starts = np.zeros(1, np.int64)
    for end in range(_SHORTEST, n + 1):
        length = end - starts
        mean = (sums[end] - sums[starts]) / length
        variance = (squares[end] - squares[starts]) / length - mean**2
        total = best[starts] + length * np.log(np.maximum(variance, _FLOOR))
        least = int(total.argmin())
        best[end], before[end] = total[least] + penalty, starts[least]
        # A start that is worse by the penalty now is worse at every later end.
        starts = np.append(starts[total <= best[end]], end - _SHORTEST + 1)
    found = [n]
    while found[-1] > 0:
        found.append(int(before[found[-1]]))
    return found[:0:-1]


def _course(segments: tuple[Segment, ...], length: int) -> Course:
    last = segments[-1]
    band = max(SAME, last.deviation)
    steady = last.start
    for segment in reversed(segments):
        if abs(segment.mean - last.mean) > band:
            break
        steady = segment.start
    if steady == 0:
        return Course("flat", segments, 0)
    if steady > 0.75 * length:
        return Course("no steady state", segments, None)
    faster = any(segment.mean < last.mean - band for segment in segments)
    return Course("slow-down" if faster else "warm-up", segments, steady)
