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
from collections import defaultdict
from collections.abc import Sequence
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
_LONGEST = 2_000  # PELT of a flat series takes time in the square of its length
_WEIGHED = 10_000_000  # those squares, summed over a cell's processes
_CHUNK = 50_000  # values of the series that are weighed together


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


def classify(series: Sequence[Floats]) -> list[Course]:
    """Class of each series of logarithms in the order of time, shape (n,); n may differ.

    A series longer than 2,000 is classified by the means of equal runs of its values.
    """
    courses = [Course("too short to tell", (), None)] * len(series)
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, logs in enumerate(series):
        if logs.size >= FEWEST:
            by_length[logs.size].append(place)
    for length, places in by_length.items():
        run = math.ceil(length / _LONGEST)
        found = _change_points(_in_runs(np.array([series[place] for place in places]), run))
        for place, starts in zip(places, found, strict=True):
            courses[place] = _course(series[place], [start * run for start in starts])
    return courses


def classify_processes(cell: Nested) -> tuple[State, ...]:
    """Class of each process's series of batches, shape (n_processes,).

    Very many long series are classified by the means of equal runs of their values, 20 or
    more, so that time is bounded.
    """
    states: list[State] = ["too short to tell"] * cell.n_processes
    lengths = np.diff(cell.process_starts)
    for length in np.unique(lengths[lengths >= FEWEST]).tolist():
        same = np.flatnonzero(lengths == length)
        logs = cell.logs[cell.process_starts[same][:, None] + np.arange(length)]
        most = min(max(math.isqrt(_WEIGHED // same.size), FEWEST), _LONGEST)
        run = max(1, length // most)
        for place, series, starts in zip(
            same.tolist(), logs, _change_points(_in_runs(logs, run)), strict=True
        ):
            whole = len(starts) == 1
            states[place] = "flat" if whole else _course(series, [s * run for s in starts]).state
    return tuple(states)


def classify_rounds(cells: Sequence[Nested]) -> list[Course]:
    """Class of the sequence of each cell's processes over its periods and rounds."""
    return classify(
        [cell.process_means()[np.lexsort((cell.rounds, cell.periods))] for cell in cells]
    )


def _in_runs(logs: Floats, run: int) -> Floats:
    """Means of runs of ``run`` values, shape (n_series, n // run), from (n_series, n)."""
    if run == 1:
        return logs
    count = logs.shape[1] // run
    means: Floats = logs[:, : count * run].reshape(-1, count, run).mean(axis=2)
    return means


def _change_points(values: Floats) -> list[list[int]]:
    """Where segments begin, 0 included, of each series of ``values``, shape (n_series, n).

    PELT (Killick, Fearnhead, Eckley 2012): a segment costs its length times the logarithm of
    its variance. The candidates for the last change before each end are weighed together, and
    so are all series, as arrays.
    """
    step = max(1, _CHUNK // values.shape[1])
    return [
        starts
        for first in range(0, values.shape[0], step)
        for starts in _pelt(np.ascontiguousarray(values[first : first + step].T))
    ]


def _pelt(values: Floats) -> list[list[int]]:
    """``_change_points`` of a few series, shape (n, n_series)."""
    n, count = values.shape
    spread = values.std(axis=0)
    still = spread < 1e-12
    scaled = (values - values.mean(axis=0)) / np.where(still, 1.0, spread)
    sums, squares = np.zeros((2, n + 1, count))
    np.cumsum(scaled, axis=0, out=sums[1:])
    np.cumsum(scaled**2, axis=0, out=squares[1:])
    penalty = _PENALTY * math.log(n)
    best = np.full((n + 1, count), np.inf)
    best[0] = -penalty
    before = np.zeros((n + 1, count), np.int64)
    starts = np.zeros(1, np.int64)
    costs = best[starts]  # of what lies before each start; infinite once it is given up
    for end in range(_SHORTEST, n + 1):
        length = (end - starts)[:, None]
        mean = (sums[end] - sums[starts]) / length
        variance = (squares[end] - squares[starts]) / length - mean**2
        total = costs + length * np.log(np.maximum(variance, _FLOOR))
        before[end] = starts[total.argmin(axis=0)]
        best[end] = total.min(axis=0) + penalty
        # A start that is worse by the penalty now is worse at every later end.
        costs[total > best[end]] = np.inf
        kept = np.isfinite(costs).any(axis=1)
        coming = end - _SHORTEST + 1
        starts = np.append(starts[kept], coming)
        costs = np.concatenate((costs[kept], best[[coming]]))
    found = []
    for series in range(count):
        back = [n]
        while back[-1] > 0 and not still[series]:
            back.append(int(before[back[-1], series]))
        found.append(back[:0:-1] or [0])
    return found


def _course(logs: Floats, starts: list[int]) -> Course:
    length = logs.size
    segments = tuple(
        Segment(a, b, float(logs[a:b].mean()), float(logs[a:b].std()))
        for a, b in pairwise([*starts, length])
    )
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
