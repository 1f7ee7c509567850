"""Colours, dashes and markers: a colour and marker a target, a dash a variant.

Okabe and Ito's colours, which people with colour blindness tell apart, in an order that
puts first those with a contrast of 3:1 or so on white and on near-black alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labctl.report.model import Series

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("solid", "dashed", "dotted", "dotdash", "dashdot")
_MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle")
GREY = "#8a8a8a"
_SEED_DASHES = ("dashed", "dotted", "dashdot", "dotdash")


@dataclass(frozen=True)
class Look:
    """How a series is drawn; ``width`` of the line in pixels, markers in proportion."""

    colour: str
    dash: str
    marker: str
    width: float = 2.0


def colour_of(number: int) -> str:
    """The colour of a report's target ``number``."""
    return _COLOURS[number % len(_COLOURS)]


def looks(series: Sequence[Series], targets: Sequence[str]) -> list[Look]:
    """One look a series; a target has the same colour in all sections of a report."""
    variants = list(dict.fromkeys(one.own_params for one in series))
    return [
        Look(
            colour=colour_of(targets.index(one.target)),
            dash=_DASHES[variants.index(one.own_params) % len(_DASHES)],
            marker=_MARKERS[targets.index(one.target) % len(_MARKERS)],
        )
        for one in series
    ]


def seed_look(number: int) -> Look:
    """How the published series ``number`` is drawn: grey, thinner, never solid."""
    return Look(GREY, _SEED_DASHES[number % len(_SEED_DASHES)], "x", 1.5)


def pair_look(look: Look, number: int) -> Look:
    """How the pair ``number`` of a side that is drawn with ``look`` is drawn."""
    return replace(look, dash=_DASHES[(_DASHES.index(look.dash) + number) % len(_DASHES)])
