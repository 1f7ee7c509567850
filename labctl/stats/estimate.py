"""What every statistical method returns: a value, its interval, and honest warnings."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Fewest independent units for a 95 % interval of a median (2 * 0.5^6 < 0.05).
FEWEST_UNITS = 6

ONE_BATCH = "one batch: no interval can be given"
ONE_PROCESS = "one process: the interval covers variation between batches only"
ONE_BOOT = "one boot: the interval covers variation between processes only"
FEW_BOOTS = "fewer than 6 boots: the percentile interval is too narrow"
FEW_PROCESSES = "fewer than 6 processes"
NO_VARIANCE = "no variance"
ONE_UNIT = "one process a boot and one boot: no interval can be given"
TWO_BOOTS = "two boots: the interval is true but very wide"
FEW_ROUNDS = "fewer than 6 rounds of one boot: correlation between them would not be seen"


@dataclass(frozen=True)
class Check:
    """Another method's interval of the same quantity, to be looked at beside the first."""

    method: str
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    Attributes:
        value: the point estimate.
        low, high: ends of the interval; None where the data allow none.
        level: confidence level, 0.95 for 95 %.
        method: how it was made, in words.
        warnings: what is to be said against it, as sentences without a full stop.
        n_boots, n_processes, n_batches: data behind it; of two sides, the lesser number.
        family_low, family_high: ends of the interval that holds for all estimates of its
            family at once (all thread counts); None for an estimate that stands alone.
        checks: the same by other methods.
    """

    value: float
    low: float | None
    high: float | None
    level: float
    method: str
    warnings: tuple[str, ...]
    n_boots: int
    n_processes: int
    n_batches: int
    family_low: float | None = None
    family_high: float | None = None
    checks: tuple[Check, ...] = ()

    @property
    def half_width(self) -> float | None:
        """Half the interval's width as a share of the value (0.04 for 4 %), or None."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / abs(self.value)

    def as_family(self) -> Estimate:
        """With the interval that holds for all of its family as its own."""
        return replace(self, low=self.family_low, high=self.family_high)


def warnings_for(n_boots: int, n_processes: int, n_batches: int, spread: float) -> tuple[str, ...]:
    """What is to be said against an interval from data of this shape.

    Args:
        n_boots, n_processes, n_batches: numbers of units (of two sides the lesser).
        spread: high - low of the interval of the logarithm, about 0 if the data do not vary.
    """
    if n_batches == 1:
        return (ONE_BATCH,)
    found = []
    if n_processes == 1:
        found.append(ONE_PROCESS)
    elif n_boots == 1:
        found.append(ONE_BOOT)
    elif n_boots < FEWEST_UNITS:
        found.append(FEW_BOOTS)
    if n_processes < FEWEST_UNITS:
        found.append(FEW_PROCESSES)
    if spread < 1e-12:
        found.append(NO_VARIANCE)
    return tuple(found)


def warnings_for_units(
    n_boots: int, n_units: int, n_batches: int, spread: float
) -> tuple[str, ...]:
    """What is to be said against a t interval over units.

    Args:
        n_boots, n_units, n_batches: numbers, of two sides the lesser; a unit is a boot, or
            a round where there is one boot.
        spread: as of ``warnings_for``.
    """
    if n_units < 2:
        return (ONE_BATCH if n_batches == 1 else ONE_UNIT,)
    found = []
    if n_boots == 1:
        found.append(ONE_BOOT)
        if n_units < FEWEST_UNITS:
            found.append(FEW_ROUNDS)
    elif n_boots == 2:
        found.append(TWO_BOOTS)
    if spread < 1e-12:
        found.append(NO_VARIANCE)
    return tuple(found)
