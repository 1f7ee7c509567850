"""Random numbers by place: each is a function of its keys, whatever was drawn before.

So one process drawn by itself gets the numbers that it has when a whole design is drawn
at once, in any order, and again after an interruption. The keys are mixed one by one by
the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from labctl.stats.nested import Floats

Keys = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def key(*words: object) -> Keys:
    """A key for names and numbers, shape ()."""
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).digest()
    return np.asarray(int.from_bytes(digest[:8], "little"), np.uint64)


def mixed(*keys: Any) -> Keys:
    """One key for several (arrays of integers from 0), with the shape they broadcast to."""
    state: Any = np.uint64(0)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        for part in keys:
            state = (state ^ np.asarray(part).astype(np.uint64)) + _STEP
            state = (state ^ (state >> np.uint64(30))) * _FIRST
            state = (state ^ (state >> np.uint64(27))) * _SECOND
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state, np.uint64)


def uniform(*keys: Any) -> Floats:
    """Uniform on (0, 1), one for each place."""
    high: Floats = (mixed(*keys) >> np.uint64(11)).astype(np.float64)
    return (high + 0.5) / 2.0**53


def normal(*keys: Any, freedom: float | None = None) -> Floats:
    """Mean 0 and variance 1, one for each place: normal, or Student's t with ``freedom``
    (above 2) scaled to that variance."""
    chance = uniform(*keys)
    if freedom is None:
        drawn: Floats = special.ndtri(chance)
    else:
        drawn = special.stdtrit(freedom, chance) * np.sqrt((freedom - 2) / freedom)
    return drawn
