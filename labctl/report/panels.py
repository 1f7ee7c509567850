"""What may share an axis: series with one unit and one set of parameters.

A message of a one-shot registration and one of a level-triggered one are different work;
drawn on one axis, their distance would be read as a difference between machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.report.model import Section, SeedSeries, Series
from labctl.report.pair_model import PairView


@dataclass(frozen=True)
class Panel:
    """Series of a section that may be drawn together, and the pairs among them.

    ``name`` says which ("rearm=level"), "" where the section has one panel alone.
    """

    name: str
    unit: str
    series: Sequence[Series]
    pairs: Sequence[PairView]

    def shows(self, seed: SeedSeries) -> bool:
        """Whether published numbers are of this panel's work, as far as their source says."""
        return seed.variant in ("", *map(str, self.series[0].params.values()))


def panels(section: Section) -> list[Panel]:
    """The panels of a section, in the order of its series.

    A pair of two different sets of parameters (each side had but one) stands in the panel
    of its first side.
    """
    groups: dict[tuple[str, str], list[Series]] = {}
    for one in section.series:
        groups.setdefault((one.unit, one.own_params), []).append(one)
    units = {unit for unit, _ in groups}
    made = []
    for (unit, params), series in groups.items():
        mine = {(one.target, one.variant) for one in series}
        words = [params, f"per {unit}" if len(units) > 1 else ""]
        name = ", ".join(word for word in words if word)
        pairs = [pair for pair in section.pairs if (pair.one, pair.one_variant) in mine]
        made.append(Panel(name if len(groups) > 1 else "", unit, series, pairs))
    return made
