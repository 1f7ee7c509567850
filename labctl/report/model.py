"""The report as data: what the terminal, the page and JSON all show.

``to_json`` is part of the interface: ``schema`` changes when a reader would break.
Times are microseconds of wall time an operation unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from labctl.stats import Estimate
from labctl.workloads import ParamValue

FactState = Literal["same", "differs", "unknown", "volatile"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TargetView(_Part):
    """A machine and what it may be called.

    ``role`` is what its facts establish ("bare metal", "guest, TCG", ...); ``functional``
    that its times mean nothing (emulation), only shapes and switches an operation.
    """

    name: str
    kind: str
    role: str
    guest: bool
    functional: bool
    note: str = ""

    @property
    def label(self) -> str:
        """Name and role, with the word that results of an emulator must carry."""
        return f"{self.name}: {self.role}{', functional' if self.functional else ''}"


class ProcessPoint(_Part):
    """One process: the geometric mean of its batches."""

    us_per_op: float
    boot: str
    round: int
    batches: int


class LatencyView(_Part):
    """Time of single operations: medians over batches, and the greatest of all."""

    p50_us: float
    p99_us: float
    max_us: float


class Point(_Part):
    """One cell. ``growth`` is T(threads) / T(base threads); None for the base itself."""

    threads: int
    time: Estimate
    growth: Estimate | None
    median: float
    minimum: float
    q1: float
    q3: float
    cv: float | None
    vcsw_per_op: float
    ivcsw_per_op: float
    user_us_per_op: float
    sys_us_per_op: float
    latency: LatencyView | None
    processes: list[ProcessPoint]


class Series(_Part):
    """One target and variant over the numbers of threads.

    ``program_label`` ("epoll (eptest)") is "" where all series run the workload asked for;
    ``own_params`` are those that other series have otherwise; ``variant`` is both.
    """

    target: str
    program: str
    form: str
    params: dict[str, ParamValue]
    program_label: str
    own_params: str
    variant: str
    base_threads: int
    points: list[Point]


class RatioPoint(_Part):
    """T of the guest / T of the metal at one number of threads."""

    threads: int
    ratio: Estimate


class Confounder(_Part):
    """What differs between the two sides besides the thing compared."""

    key: str
    guest: str
    metal: str


class PairView(_Part):
    """One pair of the lab file in one workload and variant."""

    guest: str
    metal: str
    guest_variant: str
    metal_variant: str
    functional: bool
    points: list[RatioPoint]
    confounders: list[Confounder]

    @property
    def title(self) -> str:
        """Both sides in words."""
        if self.guest_variant == self.metal_variant:
            return f"{self.guest} / {self.metal} {self.guest_variant}".strip()
        sides = ((self.guest, self.guest_variant), (self.metal, self.metal_variant))
        return " / ".join(f"{name} {variant}".strip() for name, variant in sides)


class SeedSeriesPoint(_Part):
    """One published number; ``threads`` None where the source does not say."""

    threads: int | None
    us_per_op: float


class SeedSeries(_Part):
    """Published numbers of one system: another machine, another year, one run a cell."""

    label: str
    source: str
    year: int
    workload: str
    variant: str
    system: str
    environment: str
    points: list[SeedSeriesPoint]


class Section(_Part):
    """One workload as it was asked for."""

    workload: str
    unit: str
    question: str
    common_params: str
    threads: list[int]
    series: list[Series]
    pairs: list[PairView]
    seeds: list[SeedSeries]


class FactRow(_Part):
    """One fact of all targets, in the order of ``ReportModel.targets``; "" is unknown.

    ``state`` says whether the targets differ; ``minor`` is what few readers look for.
    """

    key: str
    values: list[str]
    state: FactState
    minor: bool


class FailureView(_Part):
    """An attempt that ended in an error."""

    cell: str
    attempt: int
    status: int | None
    message: str
    detail: str


class DesignView(_Part):
    """How the sweep was laid out, and how much of it was done."""

    seed: int
    rounds: int
    boots: int
    batches: int
    warmup: int
    min_batch_ms: int
    plan_digest: str
    planned: int
    completed: int
    unfinished_attempts: int
    uncounted_samples: int
    skipped: list[str]
    failures: list[FailureView]
    journal_notes: list[str]


class ReportModel(_Part):
    """A whole run."""

    schema_version: Literal[1] = Field(default=1, serialization_alias="schema")
    run: str
    created: str
    labctl: str
    journal_sha256: str | None
    level: float
    targets: list[TargetView]
    sections: list[Section]
    facts: list[FactRow]
    design: DesignView
    notes: list[str]
    commands: list[str]

    def target(self, name: str) -> TargetView:
        """The target called ``name``."""
        return next(target for target in self.targets if target.name == name)


def to_json(model: ReportModel) -> str:
    """The report as one JSON document with ``"schema": 1``, indented."""
    return model.model_dump_json(by_alias=True, indent=2)
