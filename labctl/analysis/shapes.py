"""Shapes of growth, and whether measured families have them. Pure.

A shape is a few bounds on T(N) / T(base), the time an operation at N threads against that
at the least count. Growth has the shape if every bound's interval lies inside, by each
one's own interval (an intersection-union test); it contradicts the shape if one of them
lies outside with the interval that holds for all thread counts at once; else it is open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from labctl.stats.effects import Family

Verdict = Literal["agrees", "contradicts", "not testable"]

ACROSS = "the interval reaches across the bound"
NO_INTERVAL = "there are too few measurements for an interval"


@dataclass(frozen=True)
class Bound:
    """One bound on one measured quantity.

    Attributes:
        what: the quantity, in words.
        value, low, high: its estimate, with its own interval.
        family_low, family_high: the interval that holds for all at once.
        least, most: what the shape allows.
    """

    what: str
    value: float
    low: float | None
    high: float | None
    family_low: float | None
    family_high: float | None
    least: float = 0.0
    most: float = math.inf

    @property
    def holds(self) -> bool:
        """Whether its own interval lies inside."""
        return self.low is not None and self.least <= self.low and (self.high or 0) <= self.most

    @property
    def broken(self) -> bool:
        """Whether the interval for all lies outside."""
        return self.family_low is not None and (
            self.family_low > self.most or (self.family_high or 0) < self.least
        )

    @property
    def excess(self) -> float:
        """How far the estimate is beyond the nearer end, as a logarithm; below 0 inside."""
        ends = [math.log(self.value / self.most)] if self.most < math.inf else []
        ends += [math.log(self.least / self.value)] if self.least > 0 else []
        return max(ends)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.what} is {self.value:.2f}{interval}; {self.allowed} was expected"

    @property
    def allowed(self) -> str:
        """What the shape allows, in words."""
        if self.least <= 0:
            return f"at most {self.most:.2f}"
        if self.most == math.inf:
            return f"at least {self.least:.2f}"
        return f"{self.least:.2f} to {self.most:.2f}"


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Flat(_Shape):
    """The time an operation stays within a share of that at the least count."""

    kind: Literal["flat"]
    within: float = Field(default=0.25, gt=0)

    @property
    def words(self) -> str:
        """For people."""
        return f"time an operation stays within {self.within:.0%} at any number of threads"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One for each thread count."""
        least, most = 1 / (1 + self.within), 1 + self.within
        return [_bound(growth, n, least, most) for n in growth.threads]


class NearFlat(_Shape):
    """T(N) / T(base) is at most (N / base) ^ exponent."""

    kind: Literal["near-flat"]
    exponent: float = Field(default=0.5, gt=0)

    @property
    def words(self) -> str:
        """For people."""
        return f"time an operation grows at most as N^{self.exponent:g} with N threads"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One for each thread count."""
        return [_bound(growth, n, 0, (n / base) ** self.exponent) for n in growth.threads]


class Rises(_Shape):
    """T(N) / T(base) is at least (N / base) ^ exponent at the greatest N."""

    kind: Literal["rises"]
    exponent: float = Field(default=0.5, gt=0)

    @property
    def words(self) -> str:
        """For people."""
        return f"time an operation grows at least as N^{self.exponent:g} with N threads"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One, at the greatest thread count."""
        return [_alone(_bound(growth, n, (n / base) ** self.exponent)) for n in growth.threads[-1:]]


class Step(_Shape):
    """A step of ``at_least`` from the least count to the next, then flat to a factor."""

    kind: Literal["step"]
    at_least: float = Field(default=2.0, gt=1)
    then_within: float = Field(default=0.5, gt=0)

    @property
    def words(self) -> str:
        """For people."""
        return (
            f"time an operation grows at least {self.at_least:g}-fold in one step, then stays "
            f"within {self.then_within:.0%}"
        )

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One for the step, one for each thread count after it."""
        first, *later = growth.threads
        least, most = 1 / (1 + self.then_within), 1 + self.then_within
        return [
            _bound(growth, first, self.at_least),
            *(_between(growth, n, first, least, most) for n in later),
        ]


class Serial(_Shape):
    """More threads do not get more done: throughput at N is at most ``gain`` times that at
    the least count."""

    kind: Literal["serial"]
    gain: float = Field(default=1.5, ge=1)

    @property
    def words(self) -> str:
        """For people."""
        return f"all threads together do at most {self.gain:g} times what one does"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One for each thread count."""
        return [_bound(growth, n, 1 / self.gain) for n in growth.threads]


class Parallel(_Shape):
    """Throughput rises with the CPUs in use, to ``share`` of that many times at least."""

    kind: Literal["parallel"]
    share: float = Field(default=0.75, gt=0, le=1)

    @property
    def words(self) -> str:
        """For people."""
        return f"throughput rises with the CPUs in use, to {self.share:.0%} of in proportion"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One for each thread count; beyond the number of CPUs it does not rise on."""
        used = min(base, cpus)
        return [
            _bound(growth, n, 0, 1 / max(1, self.share * min(n, cpus) / used))
            for n in growth.threads
        ]


class Ratio(_Shape):
    """This variant takes so many times as long as another one, at the greatest count.

    Attributes:
        against: parameters in which the other variant differs.
    """

    kind: Literal["ratio"]
    against: dict[str, str | int] = Field(min_length=1)
    at_least: float = Field(default=0.0, ge=0)
    at_most: float = Field(default=math.inf, gt=0)

    @property
    def other(self) -> str:
        """The other variant, in words."""
        return ", ".join(f"{name}={value}" for name, value in self.against.items())

    @property
    def words(self) -> str:
        """For people."""
        ends = [f"at least {self.at_least:g}"] if self.at_least > 0 else []
        ends += [f"at most {self.at_most:g}"] if self.at_most < math.inf else []
        return f"{' and '.join(ends)} times as long as with {self.other}"

    def bounds(self, growth: Family, base: int, cpus: int) -> list[Bound]:
        """One, at the greatest thread count; ``growth`` is the family of the ratios."""
        return [
            _alone(_bound(growth, n, self.at_least, self.at_most, f"time against {self.other}"))
            for n in growth.threads[-1:]
        ]


Shape = Annotated[
    Flat | NearFlat | Rises | Step | Serial | Parallel | Ratio, Field(discriminator="kind")
]
SHAPES: dict[str, type[_Shape]] = {
    "flat": Flat,
    "near-flat": NearFlat,
    "rises": Rises,
    "step": Step,
    "serial": Serial,
    "parallel": Parallel,
    "ratio": Ratio,
}


def weigh(bounds: Iterable[Bound]) -> tuple[Verdict, Bound | None, str]:
    """Verdict on all bounds, the one that says most, and why it is open ("" if it is not)."""
    found = sorted(bounds, key=lambda bound: bound.excess, reverse=True)
    if not found:
        return "not testable", None, "it was measured at one thread count alone"
    broken = [bound for bound in found if bound.broken]
    if broken:
        return "contradicts", broken[0], ""
    if all(bound.holds for bound in found):
        return "agrees", found[0], ""
    unknown = any(bound.low is None for bound in found)
    first = next(bound for bound in found if not bound.holds)
    return "not testable", first, NO_INTERVAL if unknown else ACROSS


def _bound(
    family: Family,
    threads: int,
    least: float = 0.0,
    most: float = math.inf,
    what: str = "growth of the time an operation",
) -> Bound:
    estimate = family.at(threads)
    return Bound(
        what=f"{what} at {threads} threads",
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        family_low=estimate.family_low,
        family_high=estimate.family_high,
        least=least,
        most=most,
    )


def _alone(bound: Bound) -> Bound:
    """The only bound of a shape: its own interval is the one for all."""
    return replace(bound, family_low=bound.low, family_high=bound.high)


def _between(family: Family, threads: int, first: int, least: float, most: float) -> Bound:
    """T(threads) / T(first). No method gives it an interval of its own; the quotient of two
    intervals that hold at once does hold, if it is wide."""
    one, other = family.at(threads), family.at(first)
    low = high = None
    if one.family_low is not None and other.family_high is not None:
        low = one.family_low / other.family_high
    if one.family_high is not None and other.family_low:
        high = one.family_high / other.family_low
    return Bound(
        what=f"time an operation at {threads} threads against that at {first}",
        value=one.value / other.value,
        low=low,
        high=high,
        family_low=low,
        family_high=high,
        least=least,
        most=most,
    )
