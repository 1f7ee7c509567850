"""What a night keeps of itself: ``night.json`` in its directory, from its first moment on.

It is written whole or not at all after each step, so that a night that was killed goes on
where it was; what was measured is in the runs that it names. Finished, it is the night's
result, of which Markdown and JUnit are made.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from labctl.analysis.words import number
from labctl.errors import ConfigError
from labctl.findings import findings
from labctl.nightly.baseline import Reference
from labctl.paths import write_atomic
from labctl.sweep.records import Moment

RECORD = "night.json"
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
GOES_ON = timedelta(hours=18)
"""A night that was not finished is gone on with if it began less than this ago."""

State = Literal[
    "same", "faster", "slower", "not confirmed", "not measured again", "cannot tell",
    "new baseline", "no baseline", "failed", "failed once", "missing",
]  # fmt: skip
Outcome = Literal["", "passed", "regressed", "failed", "partial", "given up"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Ratio(_Part):
    """T tonight / T baseline with a 95 % interval: that which holds for its group at once, or, of
    a cell that is the same, its own; the ends are None where the data do not allow one."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return number(self.value)
        return f"{number(self.value)} [{number(self.low)}, {number(self.high)}]"


class CellResult(_Part):
    """What a night says of one cell, or (``threads`` None) of all that a target was to run.

    Attributes:
        state: "same": within the margin. "faster", "slower": beyond it; slower in a second
            measurement too. "not confirmed": that one did not say so. "not measured again": it
            was to be, and could not be. "cannot tell": the interval reaches across the margin,
            or something bars it. "new baseline": another kernel or image than the baseline's, or
            there was none: tonight's is it. "no baseline": the baseline has other cells.
            "failed": the program failed, twice; "failed once": not the second time. "missing":
            the target was not there.
        baseline: the run that it was compared with, "" for none.
        ratio, again: of tonight's measurement, and of the second.
        reason: why, as a clause; "" where the numbers say it.
        causes: what else of the target is not as it was, as clauses.
    """

    target: str
    workload: str
    program: str = ""
    params: str = ""
    threads: int | None = None
    state: State
    baseline: str = ""
    ratio: Ratio | None = None
    again: Ratio | None = None
    reason: str = ""
    causes: list[str] = []

    @property
    def work(self) -> str:
        """What was measured: "kqtest rearm=level, 4 threads"."""
        threads = "" if self.threads is None else f", {self.threads} threads"
        if self.threads == 1:
            threads = ", 1 thread"
        return " ".join(filter(None, (self.workload, self.params))) + threads


class Night(_Part):
    """One night.

    Attributes:
        night: its name, which is its directory's.
        begun, finished: UTC, ISO 8601; ``finished`` "" until it is.
        asked: digest of what is measured and how; another request is another night.
        seed: of the order of both measurements.
        baseline: the references as they were when it began: it goes on with them.
        run, again: names of the runs, made or to be made, of the measurement and of the second
            one of what stood out.
        not_up: targets that did not come up, and why.
        missing: targets that were lost while measuring; None until the measurement is through.
            ``again_missing`` likewise, of the second.
        outcome: "" until it is finished.
        changes: what became of the baseline, as sentences.
        why: for "given up".
    """

    schema_version: Literal[1] = Field(
        default=1,
        serialization_alias="schema",
        validation_alias=AliasChoices("schema", "schema_version"),
    )
    night: _Name
    begun: Moment
    asked: str
    seed: int
    margin: float = Field(gt=0)
    baseline: list[Reference] = []
    run: _Name
    again: _Name
    not_up: dict[str, str] = {}
    missing: dict[str, str] | None = None
    again_missing: dict[str, str] | None = None
    finished: str = ""
    outcome: Outcome = ""
    why: str = ""
    cells: list[CellResult] = []
    changes: list[str] = []

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The night of a directory.

        Raises:
            ConfigError: its record cannot be read.
        """
        path = directory / RECORD
        try:
            return cls.model_validate_json(path.read_text())
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
        except ValueError as error:  # pydantic's is one, and so is that of a text not in UTF-8
            told = findings(error) if isinstance(error, ValidationError) else str(error)
            raise ConfigError(
                "this is not the record of a night",
                where=str(path),
                detail=told,
                hint="move the night's directory away",
            ) from None

    def write(self, directory: Path) -> None:
        """Keep it in its directory."""
        directory.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / RECORD, self.as_json() + "\n")

    def as_json(self) -> str:
        """As one JSON document, indented."""
        return self.model_dump_json(by_alias=True, indent=2)

    def goes_on(self, now: datetime) -> bool:
        """Whether it is unfinished and recent enough to be gone on with."""
        return not self.finished and now - datetime.fromisoformat(self.begun) < GOES_ON

    def having(self, *states: State) -> list[CellResult]:
        """The cells in one of ``states``."""
        return [cell for cell in self.cells if cell.state in states]


def nights(directory: Path) -> list[Path]:
    """Directories of all nights, the oldest first."""
    return sorted(path.parent for path in directory.glob(f"[!.]*/{RECORD}") if path.is_file()
                  and not path.parent.is_symlink())  # fmt: skip


def stamp(at: datetime) -> str:
    """A night's name by the time of its begin."""
    return at.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
