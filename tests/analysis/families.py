"""Families with the intervals that a test wants, as the statistics would give them."""

from __future__ import annotations

from labctl.stats.effects import Family
from labctl.stats.estimate import Estimate


def estimate(value: float, half: float | None = 0.02) -> Estimate:
    """``value`` with an interval of ``half`` to either side as a share, the family's twice that;
    None: without any."""
    ends = [None] * 4
    if half is not None:
        ends = [
            value / (1 + half),
            value * (1 + half),
            value / (1 + 2 * half),
            value * (1 + 2 * half),
        ]
    low, high, family_low, family_high = ends
    return Estimate(
        value,
        low,
        high,
        0.95,
        "given",
        (),
        6,
        6,
        60,
        family_low=family_low,
        family_high=family_high,
    )


def family(values: dict[int, float], half: float | None = 0.02, name: str = "growth") -> Family:
    """Thread count -> value."""
    return Family(name, tuple(values), tuple(estimate(v, half) for v in values.values()))
