"""What a journal's lines are: typed records, one JSON object a line.

``results/<run-id>/journal.jsonl`` begins with a Header; the rest is appended in the
order in which it happened. A sample counts only if its attempt has an End, so an
interrupted execution is measured anew and nothing is counted twice; the samples of
attempts without an End are kept, marked incomplete.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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

    @property
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


class Header(_Record):
    """First line: what was planned and by whom. ``plan_digest`` guards a resume."""

    type: Literal["header"] = "header"
    schema_version: Literal[1] = 1
    run: str
    created: str
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
    """One measured batch (or warm-up batch, ``warmup`` true)."""

    type: Literal["sample"] = "sample"
    time: str
    execution: int
    attempt: int
    batch: int
    warmup: bool
    ops: int
    wall_ns: int
    user_ns: int
    sys_ns: int
    vcsw: int
    ivcsw: int
    min_thread_ops: int
    max_thread_ops: int
    latency: Latency | None = None


class EndRecord(_Record):
    """An attempt is complete: its samples count. ``program_ns`` is the program's own time,
    ``total_ns`` what the controller saw; the difference is the lab's overhead."""

    type: Literal["end"] = "end"
    time: str
    execution: int
    attempt: int
    program_ns: int
    total_ns: int


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
    Header | FactsRecord | CalibrationRecord | Begin | Sample | EndRecord | Failure | Note,
    Field(discriminator="type"),
]
