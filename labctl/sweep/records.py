"""What a journal's lines are: typed records, one JSON object a line.

``results/<run-id>/journal.jsonl`` begins with a Header; the rest is appended in the
order in which it happened. A sample counts only if its attempt has an End, so an
interrupted execution is measured anew and nothing is counted twice; the samples of
attempts without an End are kept, marked incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from labctl.workloads import Latency, ParamValue


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Cell(_Record):
    """One combination that is measured. ``workload`` is what was asked for and ``program``
    what this target runs for it (kqtest asked of Linux runs eptest)."""

    target: str
    workload: str
    program: str
    form: str
    unit: str
    params: dict[str, ParamValue]
    threads: int

    @cached_property
    def key(self) -> str:
        """Stable name of the cell, unique within a run."""
        params = ",".join(f"{name}={value}" for name, value in sorted(self.params.items()))
        return f"{self.target}/{self.program}/{params}/{self.threads}"


class Execution(_Record):
    """One planned process: a cell in a round of a boot. ``id`` is its place in the plan."""

    id: int
    boot: int
    round: int
    cell: Cell


class Goal(_Record):
    """What an adaptive sweep measures until, cell by cell.

    Attributes:
        half_width: of the 95 % interval of a cell's mean time, as a share of it (0.03 for 3 %).
        at_most: hard cap: no cell gets more than this many times the first phase's batches.
        max_seconds: of measuring on one machine, None for no limit.
    """

    half_width: float
    at_most: float = 10.0
    max_seconds: float | None = None


def _moment(text: str) -> str:
    """An ISO 8601 time with its zone, as it is."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("this time has no zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""A time that is reckoned with, ISO 8601 with its zone."""


class Imported(_Record):
    """The file that a run's numbers were imported from: its name, sha256, and number of rows."""

    file: str
    sha256: str
    rows: int


class Header(_Record):
    """First line: what was planned and by whom. ``plan_digest`` guards a resume. ``executions``
    is the whole plan, or with ``until`` its first phase. ``missing`` are targets that were asked
    for and could not be had, with the reason; ``skipped`` says these too. ``imported`` says that
    labctl measured none of it; it stands near the beginning, to be found without reading all."""

    type: Literal["header"] = "header"
    schema_version: Literal[1] = 1
    run: str
    created: Moment
    imported: Imported | None = None
    labctl: str
    lab: dict[str, Any]
    targets: dict[str, dict[str, Any]]
    workloads: list[str]
    seed: int
    rounds: int
    boots: int
    batches: int
    warmup: int
    min_batch_ms: int
    plan_digest: str
    executions: list[Execution]
    skipped: list[str] = []
    missing: dict[str, str] = {}
    until: Goal | None = None

    def machine_of(self, target: str) -> str:
        """The physical machine that a target ran on ("" where it was not recorded)."""
        return str(self.targets.get(target, {}).get("machine", ""))


StopReason = Literal["narrow", "cap", "time", "boots", "failed"]


class Stop(_Record):
    """Why a cell is measured no further.

    Attributes:
        reason: "narrow": the interval is narrow enough; "cap": ``at_most`` is reached;
            "time": ``max_seconds`` is; "boots": what is left varies from boot to boot, and
            no boot can be added; "failed": a process of the cell failed.
        half_width: what was reached, as in Goal; None where there is no interval.
        boots, processes, batches: counts behind it.
    """

    cell: str
    reason: StopReason
    half_width: float | None
    boots: int
    processes: int
    batches: int


class PhaseRecord(_Record):
    """A decision at the end of a phase: which cells stop, and what the others do next.

    One record holds the whole decision, so that it is either taken or not. With no
    ``executions`` the machine is done.

    Attributes:
        number: 1 for the first after the header's; counted by machine.
        boots, rounds, batches: design of this phase: ``rounds`` in each of ``boots`` new boots,
            or with ``boots`` 0 in the boot of the phase before.
        executions: ids go on from the last phase of any machine.
        expected_s: how long it should take, seconds.
    """

    type: Literal["phase"] = "phase"
    time: str
    machine: str
    number: int
    boots: int
    rounds: int
    batches: int
    executions: list[Execution] = []
    stops: list[Stop] = []
    expected_s: float = 0.0


class FactsRecord(_Record):
    """Facts of a target (labctl.observe.facts) at the start or end of a boot."""

    type: Literal["facts"] = "facts"
    time: str
    target: str
    boot: int
    boot_id: str
    moment: Literal["start", "end"]
    facts: dict[str, Any]


class CalibrationRecord(_Record):
    """Operations a batch of a cell; found once a run, used by all its executions."""

    type: Literal["calibration"] = "calibration"
    time: str
    cell: str
    ops: int
    wall_ns: int


class Begin(_Record):
    """An attempt at an execution starts. ``attempt`` counts from 1."""

    type: Literal["begin"] = "begin"
    time: str
    execution: int
    attempt: int
    boot_id: str


class Sample(_Record):
    """One measured batch (or warm-up batch, ``warmup`` true). What was not taken is None: latency
    by most workloads, and of imported results all but the time."""

    type: Literal["sample"] = "sample"
    time: str
    execution: int
    attempt: int
    batch: int
    warmup: bool
    ops: int
    wall_ns: int
    user_ns: int | None = None
    sys_ns: int | None = None
    vcsw: int | None = None
    ivcsw: int | None = None
    min_thread_ops: int | None = None
    max_thread_ops: int | None = None
    latency: Latency | None = None


class EndRecord(_Record):
    """An attempt is complete: its samples count. ``program_ns`` is the program's own time,
    ``total_ns`` what the controller saw; the difference is the lab's overhead. ``clock_read_ns``
    is what one reading of the clock took, where the workload times single operations: there each
    of them holds two."""

    type: Literal["end"] = "end"
    time: str
    execution: int
    attempt: int
    program_ns: int
    total_ns: int
    clock_read_ns: int | None = None


class Failure(_Record):
    """An attempt ended in an error and is not tried again by itself."""

    type: Literal["failure"] = "failure"
    time: str
    execution: int
    attempt: int
    status: int | None
    message: str
    detail: str = ""


class Note(_Record):
    """Something that a reader of the numbers should know (interrupted, resumed, ...)."""

    type: Literal["note"] = "note"
    time: str
    message: str
    target: str = ""


Record = Annotated[
    Header
    | PhaseRecord
    | FactsRecord
    | CalibrationRecord
    | Begin
    | Sample
    | EndRecord
    | Failure
    | Note,
    Field(discriminator="type"),
]

_Kind = TypeVar("_Kind", bound=_Record)


def of_kind(records: Iterable[Record], kind: type[_Kind]) -> list[_Kind]:
    """The records of one kind. Of long journals much faster than ``isinstance``, which for
    classes of Pydantic is a function in Python."""
    return [record for record in records if type(record) is kind]
