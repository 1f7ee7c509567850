"""What a lab file says of a simulated machine: its times, and what disturbs them.

Sizes of disturbances are standard deviations and shifts of the natural logarithm of a
time: 0.03 is 3 %. How samples are drawn from it is ``model``.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Sd = Annotated[float, Field(ge=0, le=2)]
Correlation = Annotated[float, Field(ge=0, lt=1)]
Factor = Annotated[float, Field(gt=0, le=1e6)]
Threads = Annotated[int, Field(ge=1, le=1024)]

_PARAMETERS = {
    "flat": (),
    "linear": ("slope",),
    "power": ("exponent",),
    "usl": ("contention", "coherence"),
    "table": ("at",),
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Curve(_Part):
    """A factor for each thread count N, 1 at N = 1 unless a table says otherwise.

    - ``flat``: 1;
    - ``linear``: 1 + slope (N - 1);
    - ``power``: N ^ exponent;
    - ``usl``: (1 + contention (N - 1) + coherence N (N - 1)) / N, the time an operation by
      the Universal Scalability Law (Gunther 2007);
    - ``table``: ``at`` gives pairs (N, factor); between two counts the logarithm is interpolated
      over log N, beyond the ends it stays.
    """

    law: Literal["flat", "linear", "power", "usl", "table"] = "flat"
    slope: Annotated[float, Field(ge=0, le=1000)] = 0.0
    exponent: Annotated[float, Field(ge=-2, le=4)] = 0.0
    contention: Share = 0.0
    coherence: Share = 0.0
    at: tuple[tuple[Threads, Factor], ...] = ()

    @model_validator(mode="after")
    def _parameters_fit(self) -> Self:
        wanted = _PARAMETERS[self.law]
        given = self.model_fields_set - {"law"}
        if stray := sorted(given - set(wanted)):
            known = ", ".join(wanted) or "none"
            raise ValueError(f"{stray[0]} is not of the law {self.law}; its parameters: {known}")
        if self.law == "table" and not self.at:
            raise ValueError("the law table needs factors; write at: [[1, 1.0], [16, 1.8]]")
        if len({threads for threads, _ in self.at}) != len(self.at):
            raise ValueError("a thread count stands twice in at; remove one of the two")
        return self


class Noise(_Part):
    """Spread around the truth; defaults as of a quiet shared virtual machine.

    Attributes:
        boot: of a boot, alike at all thread counts. boot_cell: of a boot, each cell its own.
        process, batch: of a process, and of a batch within it.
        freedom: Student's t with so many degrees of freedom, scaled to the standard
            deviations above, for process and batch; None: normal.
        process_correlation: of a cell's processes one after the other in a boot, AR(1).
        batch_correlation: of a process's batches one after the other, AR(1).
    """

    boot: Sd = 0.02
    boot_cell: Sd = 0.0
    process: Sd = 0.03
    batch: Sd = 0.02
    freedom: Annotated[float | None, Field(gt=2, le=1000)] = None
    process_correlation: Correlation = 0.0
    batch_correlation: Correlation = 0.0


class Outliers(_Part):
    """Times that are ``factor`` as long, at random: whole processes, and single batches."""

    process_rate: Share = 0.0
    batch_rate: Share = 0.0
    factor: Factor = 2.0


class Warmup(_Part):
    """The first batch of a process takes ``factor`` as long; what it has too much (its
    logarithm) decays to 1/e over ``batches``."""

    factor: Factor = 1.0
    batches: Annotated[float, Field(gt=0, le=1e6)] = 1.0


class Drift(_Part):
    """What changes with the (virtual) time of day.

    Attributes:
        per_hour: growth of the logarithm an hour.
        cycle: amplitude of a sinusoid of period ``cycle_minutes``, its phase random.
        wander: standard deviation of a stationary process whose correlation falls to 1/e
            over ``wander_minutes``.
        shared: one course for all targets of the machine that share their drift;
            else each its own.
    """

    per_hour: Annotated[float, Field(ge=-2, le=2)] = 0.0
    cycle: Sd = 0.0
    cycle_minutes: Annotated[float, Field(gt=0, le=1e6)] = 60.0
    wander: Sd = 0.0
    wander_minutes: Annotated[float, Field(gt=0, le=1e6)] = 10.0
    shared: bool = True


class Times(_Part):
    """The stated model of a machine's times.

    T(N) = ``base_us`` x ``factor`` x ``growth`` (N) x ``amplification`` (N), the geometric
    mean time of an operation in us. ``growth`` is the kernel's; ``factor`` and
    ``amplification`` are what virtualization does to the level and to the growth.
    """

    base_us: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    factor: Factor = 1.0
    growth: Curve = Curve()
    amplification: Curve = Curve()
    noise: Noise = Noise()
    outliers: Outliers = Outliers()
    warmup: Warmup = Warmup()
    drift: Drift = Drift()

    @property
    def disturbed(self) -> float:
        """What outliers add to the mean logarithm of a time."""
        rate = self.outliers.process_rate + self.outliers.batch_rate
        return rate * math.log(self.outliers.factor)
