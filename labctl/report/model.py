"""The report as data: what the terminal, the page and JSON all show.

``to_json`` is part of the interface: ``schema`` changes when a reader would break.
Times are microseconds of wall time an operation unless a name says otherwise. What is of pairs
is ``pair_model``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from labctl.analysis.pairs import NO_CHANGES, NO_PAIRS
from labctl.analysis.quality import CellQuality
from labctl.analysis.shapes import Verdict as Answered
from labctl.analysis.words import WIDE
from labctl.report.pair_model import PairView, VerdictView
from labctl.stats import Estimate
from labctl.sweep.records import StopReason
from labctl.workloads import ParamValue

FactState = Literal["same", "differs", "unknown", "volatile"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class TargetView(_Part):
    """A machine and what it may be called.

    ``role`` is what its facts establish ("bare metal", "guest, TCG", ...); ``functional``
    that its times mean nothing (emulation), only shapes and switches an operation; ``run`` is
    the run that measured it.
    """

    name: str
    kind: str
    role: str
    guest: bool
    functional: bool
    simulated: bool = False
    note: str = ""
    run: str = ""

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


class BootPoint(_Part):
    """One boot: the geometric mean of its processes."""

    us_per_op: float
    boot: str
    processes: int


class LatencyView(_Part):
    """Time of single operations: medians over batches, and the greatest of all."""

    p50_us: float
    p99_us: float
    max_us: float


class Point(_Part):
    """One cell. ``growth`` is T(threads) / T(base threads), None for the base itself; ``quality``
    has its outliers and its states over time (labctl.analysis.quality). ``histogram`` is of single
    operations: (least microseconds of the bucket, operations), rising, of all batches."""

    threads: int
    time: Estimate
    growth: Estimate | None
    median: float
    minimum: float
    q1: float
    q3: float
    cv: float | None
    vcsw_per_op: float | None
    ivcsw_per_op: float | None
    user_us_per_op: float | None
    sys_us_per_op: float | None
    latency: LatencyView | None
    quality: CellQuality
    boots: list[BootPoint]
    processes: list[ProcessPoint]
    histogram: list[tuple[float, int]] = []


class ScalabilityView(_Part):
    """The Universal Scalability Law X(N) = g N / (1 + a (N - 1) + b N (N - 1)), or why it is
    refused. ``rate`` g in operations a second; ``rms`` of the residuals of ln X."""

    refused: str
    rate: float | None = None
    contention: float | None = None
    coherency: float | None = None
    peak_threads: float | None = None
    limit: float | None = None
    rms: float | None = None


class Timeline(_Part):
    """A series' samples in the order in which they were taken, each relative to its cell's
    geometric mean.

    ``each`` successive samples are one entry: their mean ``order`` (of all samples of the run,
    from 0), geometric ``mean``, least and greatest.
    """

    each: int
    order: list[float]
    mean: list[float]
    least: list[float]
    greatest: list[float]


class Series(_Part):
    """One target and variant over the numbers of threads.

    ``program_label`` ("epoll (eptest)") is "" where all series run the workload asked for;
    ``own_params`` are those that other series have otherwise; ``variant`` is both.
    """

    target: str
    program: str
    form: str
    unit: str
    params: dict[str, ParamValue]
    program_label: str
    own_params: str
    variant: str
    base_threads: int
    scalability: ScalabilityView
    points: list[Point]
    timeline: Timeline


class AnswerView(_Part):
    """What a target says to an expectation."""

    target: str
    verdict: Answered
    sentence: str


class ExpectationView(_Part):
    """What is expected of the workload on a kernel, why, and what the targets say to it."""

    name: str
    params: str
    expected: str
    mechanism: str
    source: str
    answers: list[AnswerView]


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


class ParameterView(_Part):
    """A parameter of a workload: the values that were measured, and what it means."""

    name: str
    values: list[str]
    meaning: str


class Section(_Part):
    """One workload as it was asked for. ``oversubscribed`` says where there were more threads
    than CPUs."""

    workload: str
    unit: str
    question: str
    description: str = ""
    parameters: list[ParameterView] = []
    oversubscribed: list[str] = []
    common_params: str
    threads: list[int]
    series: list[Series]
    pairs: list[PairView]
    expectations: list[ExpectationView]
    seeds: list[SeedSeries]

    @property
    def any_interval(self) -> bool:
        """Whether a time stands with an interval; imported ones never do."""
        return any(point.time.low is not None for one in self.series for point in one.points)

    @property
    def any_wide(self) -> bool:
        """Whether an interval is so wide that its ends are shown."""
        shown = [x for one in self.series for p in one.points for x in (p.time, p.growth) if x]
        shown += [x for pair in self.pairs for p in pair.points for x in p.growths if x]
        return any((x.half_width or 0) > WIDE for x in shown)


class FactRow(_Part):
    """One fact of all targets, in the order of ``ReportModel.targets``; "" is unknown.

    ``state`` says whether the targets differ; ``counted`` that it is of what else differs
    between the two sides of a pair; ``minor`` is what few readers look for.
    """

    key: str
    values: list[str]
    state: FactState
    counted: bool = False
    minor: bool


class FailureView(_Part):
    """An attempt that ended in an error."""

    cell: str
    attempt: int
    status: int | None
    message: str
    detail: str


class StopView(_Part):
    """Why a cell of an adaptive sweep was measured no further, and what it had reached:
    ``half_width`` of its interval as a share of its mean, and counts; ``phase`` was its last."""

    target: str
    workload: str
    params: str
    threads: int
    reason: StopReason
    half_width: float | None
    boots: int
    processes: int
    batches: int
    phase: int


class DesignView(_Part):
    """How the sweep was laid out, and how much of it was done. ``goal_half_width`` is what an
    adaptive sweep measures until, None for a fixed one, which has no ``stops``."""

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
    goal_half_width: float | None
    stops: list[StopView]
    skipped: list[str]
    failures: list[FailureView]
    journal_notes: list[str]


class RunView(_Part):
    """A run that the report is made of. ``label`` marks its targets ("baseline", "new"), "" where
    they keep their names; ``commands`` repeat it with ``lab_file``, "" where the journal has
    none; ``ran_with`` says what each target was, which the lab file leaves to the machine;
    ``imported`` says from where, "" of a run that labctl measured."""

    run: str
    label: str
    created: str
    labctl: str
    journal_sha256: str | None
    imported: str = ""
    design: DesignView
    commands: list[str]
    lab_file: str = ""
    ran_with: list[str] = []


class ReportModel(_Part):
    """A run, or several as one. ``compared`` says that it is about what changed from the first
    of ``runs`` to the second."""

    schema_version: Literal[3] = Field(default=3, serialization_alias="schema")
    title: str
    compared: bool
    runs: list[RunView]
    level: float
    margin: float
    targets: list[TargetView]
    sections: list[Section]
    facts: list[FactRow]
    notes: list[str]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdicts(self) -> list[VerdictView]:
        """All verdicts, in the order of the sections."""
        return [pair.verdict for section in self.sections for pair in section.pairs]

    @property
    def no_pairs(self) -> str:
        """What is said where there is no verdict."""
        return NO_CHANGES if self.compared else NO_PAIRS

    def same_lab(self, run: RunView) -> RunView | None:
        """The first run before ``run`` that has the same lab file, which is shown once."""
        before = self.runs[: self.runs.index(run)]
        return next((one for one in before if one.lab_file and one.lab_file == run.lab_file), None)

    def target(self, name: str) -> TargetView:
        """The target called ``name``."""
        return next(target for target in self.targets if target.name == name)

    def any_functional(self, series: Sequence[Series]) -> bool:
        """Whether a target of ``series`` was emulated."""
        return any(self.target(one.target).functional for one in series)


def to_json(model: ReportModel) -> str:
    """The report as one JSON document with ``"schema": 3``, indented, in ASCII alone: it
    passes through whatever a terminal or a pipe takes for text."""
    text = model.model_dump_json(by_alias=True, indent=2)
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def json_schema() -> str:
    """The JSON Schema of what ``to_json`` returns."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = ReportModel.model_json_schema(mode="serialization")
    return json.dumps(dialect | schema, indent=1)
