"""Other methods' intervals of the same quantities, to be looked at beside the first.

- **hierarchical bootstrap, percentiles**: every level resampled. Too narrow with few boots or
  rounds, because n units drawn from n vary less than the units themselves do.
- **Fieller, Kalibera-Jones**: ratio of the arithmetic means of two cells, each with the
  half-width of Kalibera and Jones. It has no pairing: where both cells share a boot's or a
  drift's shift, it is too wide.

The amplification, a ratio of ratios, is checked by the bootstrap alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from labctl.stats.bootstrap import amplification, growth, ratio, resample
from labctl.stats.estimate import Check, Estimate
from labctl.stats.nested import Nested, run_means

BOOTSTRAP = "hierarchical bootstrap, percentiles"
FIELLER = "ratio of arithmetic means, Fieller with Kalibera-Jones half-widths"
KALIBERA_JONES = "arithmetic mean, Kalibera-Jones"

Side = Mapping[int, Nested]


class Checks:
    """The checks of one or two sides' effects; each cell is resampled once."""

    def __init__(self, sides: Sequence[Side], *, level: float, seed: int, resamples: int) -> None:
        self._sides = sides
        self._level = level
        self._cells = [
            {
                n: resample(cell, seed=(abs(seed), number, n), resamples=resamples)
                for n, cell in side.items()
            }
            for number, side in enumerate(sides)
        ]

    def of_level(self, estimate: Estimate, threads: int) -> Estimate:
        """With the checks of T_one / T_other."""
        one, other = (cells[threads] for cells in self._cells)
        found = _bootstrap(ratio(one, other, level=self._level))
        return _with(estimate, found, fieller(one.data, other.data, level=self._level))

    def of_growth(self, estimate: Estimate, base: int, threads: int, side: int) -> Estimate:
        """With the checks of T(N) / T(base) of one side."""
        cell, below = self._cells[side][threads], self._cells[side][base]
        found = _bootstrap(growth(cell, below, level=self._level))
        return _with(estimate, found, fieller(cell.data, below.data, level=self._level))

    def of_amplification(self, estimate: Estimate, base: int, threads: int) -> Estimate:
        """With the bootstrap of the ratio of both sides' growths."""
        one, other = ((cells[threads], cells[base]) for cells in self._cells)
        return _with(estimate, _bootstrap(amplification(one, other, level=self._level)))


def _bootstrap(estimate: Estimate) -> Check | None:
    if estimate.low is None or estimate.high is None:
        return None
    return Check(BOOTSTRAP, estimate.low, estimate.high)


def _with(estimate: Estimate, *checks: Check | None) -> Estimate:
    return replace(estimate, checks=tuple(check for check in checks if check is not None))


def kalibera_jones(cell: Nested, *, level: float) -> Check | None:
    """Interval of a cell's arithmetic mean, in the unit of its samples.

    mean +- t sqrt(S_n^2 / r_n) on the highest level that was repeated; None without one.
    """
    found = _mean(cell, level)
    if found is None:
        return None
    mean, half = found
    return Check(KALIBERA_JONES, mean - half, mean + half)


def fieller(one: Nested, other: Nested, *, level: float) -> Check | None:
    """Interval of the ratio of two cells' arithmetic means.

    None where a mean has no interval, or the denominator's holds 0 (the ratio is then
    without bound).
    """
    top, bottom = _mean(one, level), _mean(other, level)
    if top is None or bottom is None:
        return None
    return fieller_interval(*top, *bottom)


def fieller_interval(top: float, h_top: float, bottom: float, h_bottom: float) -> Check | None:
    """Fieller's interval of ``top / bottom`` of independent means with their half-widths."""
    below = bottom**2 - h_bottom**2
    if below <= 0:
        return None
    product = top * bottom
    root = math.sqrt(max(product**2 - (top**2 - h_top**2) * below, 0.0))
    return Check(FIELLER, (product - root) / below, (product + root) / below)


def _mean(cell: Nested, level: float) -> tuple[float, float] | None:
    """Arithmetic mean, level by level, and its half-width."""
    batches = np.exp(cell.logs)
    processes = run_means(batches, cell.process_starts)
    boots = run_means(processes, cell.boot_starts)
    candidates = (boots, processes, batches)
    units = next((values for values in candidates if values.size > 1), None)
    if units is None:
        return None
    t = float(special.stdtrit(units.size - 1, (1 + level) / 2))
    return float(boots.mean()), t * float(units.std(ddof=1)) / math.sqrt(units.size)
