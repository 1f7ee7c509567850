"""Statistics: arrays in, estimates and warnings out.

No I/O, no data frames, no knowledge of targets or kernels, and nothing is printed.
``nested`` holds the data as they were taken (boot, process, batch); each method is a
module of its own that takes those and returns an ``Estimate``, which says how it was
made and what is to be said against it. What effects let one conclude is in ``judge`` alone.
"""

from __future__ import annotations

from labctl.stats.bootstrap import Resampled, geometric_mean, growth, ratio, resample
from labctl.stats.effects import Family, PairEffects, cell_mean, growths, pair_effects, slopes
from labctl.stats.estimate import Check, Estimate
from labctl.stats.nested import Nested

__all__ = [
    "Check",
    "Estimate",
    "Family",
    "Nested",
    "PairEffects",
    "Resampled",
    "cell_mean",
    "geometric_mean",
    "growth",
    "growths",
    "pair_effects",
    "ratio",
    "resample",
    "slopes",
]
