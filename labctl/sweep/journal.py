"""The journal: the append-only record of a run, and what it says of what is left to do.

A line is one write(2) of a whole record, so a killed process leaves whole lines; after
a power cut the last one may be torn, and is then cut off at the next opening. The end
of an execution is fsynced, single samples are not: between batches on this machine a
flush to disk would disturb what is measured next, and a lost tail costs one execution.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from labctl.errors import ConfigError, PartialError, UnavailableError
from labctl.findings import findings
from labctl.paths import write_atomic
from labctl.sweep.records import (
    Begin,
    CalibrationRecord,
    EndRecord,
    Execution,
    Failure,
    Header,
    PhaseRecord,
    Record,
    of_kind,
)

_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)
JOURNAL = "journal.jsonl"
SAMPLE = b'{"type":"sample",'
"""How the lines of samples begin: nearly all of a long journal."""
_BLOCK = 1 << 16


def now() -> str:
    """The time in UTC, ISO 8601 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class JournalView:
    """A journal as read: its header and all records after it, in order."""

    path: Path
    header: Header
    records: list[Record]

    @property
    def phases(self) -> list[PhaseRecord]:
        """The phases after the first, in the order in which they were decided."""
        return of_kind(self.records, PhaseRecord)

    @property
    def executions(self) -> list[Execution]:
        """Everything planned so far: the header's executions and those of all phases."""
        later = [e for phase in self.phases for e in phase.executions]
        return self.header.executions + later

    @property
    def batches(self) -> dict[int, int]:
        """Measured batches of each execution's process."""
        first = {e.id: self.header.batches for e in self.header.executions}
        return first | {e.id: phase.batches for phase in self.phases for e in phase.executions}

    @property
    def done(self) -> set[int]:
        """Executions that have a complete attempt."""
        return {r.execution for r in of_kind(self.records, EndRecord)}

    @property
    def failed(self) -> set[int]:
        """Executions whose last attempt ended in an error, and that never completed."""
        last: dict[int, bool] = {}
        for record in self.records:
            if isinstance(record, Failure | Begin):
                last[record.execution] = isinstance(record, Failure)
        return {number for number, bad in last.items() if bad} - self.done

    @property
    def attempts(self) -> dict[int, int]:
        """How often each execution was begun."""
        counts: defaultdict[int, int] = defaultdict(int)
        for record in of_kind(self.records, Begin):
            counts[record.execution] += 1
        return counts

    @property
    def calibrations(self) -> dict[str, CalibrationRecord]:
        """Operations a batch, by cell key."""
        return {r.cell: r for r in of_kind(self.records, CalibrationRecord)}

    def pending(self, *, retry_failed: bool = False) -> list[Execution]:
        """What is left to execute, in the plan's order. A failure is a result and is only
        tried again when that is asked for."""
        settled = self.done | (set() if retry_failed else self.failed)
        return [e for e in self.executions if e.id not in settled]


def iterate(path: Path, *, samples: bool = True) -> Iterator[Record]:
    """Records of a journal, one by one; a torn last line is passed over. Without ``samples``
    their lines are not even parsed: what is left is small however long a run was.

    Raises:
        ConfigError: the file cannot be read, or a line is not a record (names the line).
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    return
                if not samples and line.startswith(SAMPLE):
                    continue
                yield parse(line, path, number)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None


def parse(line: bytes, path: Path, number: int) -> Record:
    """One line of a journal.

    Raises:
        ConfigError: it is not a record; names the file and line.
    """
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError as error:
        raise ConfigError(
            "this line is not a journal record",
            where=f"{path}:{number}",
            detail=findings(error),
            hint="the file was edited or is damaged; restore it or remove the line",
        ) from None


def read_journal(path: Path, *, samples: bool = True) -> JournalView:
    """A whole journal, or all but its samples. ``path`` is the file or its run's directory.

    Raises:
        ConfigError: as ``iterate``, or the first line is not a header.
    """
    path = path / JOURNAL if path.is_dir() else path
    return view_of(path, iterate(path, samples=samples))


def view_of(path: Path, records: Iterable[Record]) -> JournalView:
    """Records of the journal at ``path``, the first of which must be a header.

    Raises:
        ConfigError: it is not.
    """
    records = iter(records)
    header = next(records, None)
    if not isinstance(header, Header):
        raise ConfigError(
            "the journal does not begin with a whole header",
            where=f"{path}:1",
            hint="restore the file, or remove the run's directory",
        )
    return JournalView(path, header, list(records))


def create_run(results: Path, header: Header, records: Iterable[Record] = ()) -> Path:
    """Make ``results/<run>/`` with a journal that holds its header, and ``records`` where all of
    them are known: whole or not at all."""
    directory = results / header.run
    temporary = results / f".{header.run}.{os.getpid()}.tmp"
    try:
        temporary.mkdir(parents=True)
        lines = [record.model_dump_json() + "\n" for record in (header, *records)]
        write_atomic(temporary / JOURNAL, "".join(lines))
        temporary.rename(directory)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        if directory.exists():
            raise UnavailableError(
                "another labctl has just begun a run of this name",
                where=str(directory),
                hint="once more, and it has another",
            ) from None
        raise UnavailableError(
            f"the run cannot be written: {error.strerror}",
            where=str(directory),
            hint="make room, or make the directory writable",
        ) from None
    return directory


class Journal:
    """The journal of a run opened for appending; one process at a time may hold it.

    ``view`` is what it held when it was opened, without the samples.
    """

    def __init__(self, directory: Path) -> None:
        """Open, under an exclusive lock that the kernel releases whatever ends the process.

        Raises:
            UnavailableError: another process is writing to this run.
            ConfigError: as ``read_journal``.
        """
        self.path = directory / JOURNAL
        self._writing = threading.Lock()
        self._lock = FileLock(directory / ".lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise UnavailableError(
                "another labctl is at work on this run",
                where=str(directory),
                hint="wait for it, or stop it and resume",
            ) from None
        try:
            self.view = read_journal(self.path, samples=False)  # what is no journal stays as it is
            self._cut_torn_line()
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except BaseException:
            self._lock.release()
            raise

    def append(self, record: Record, *, durable: bool = False) -> None:
        """Write one record; with ``durable`` it has reached the disk on return.

        Raises:
            PartialError: the disk is full or gone; nothing half-written is left.
        """
        line = record.model_dump_json().encode() + b"\n"
        with self._writing:
            self._write(line, durable)

    def _write(self, line: bytes, durable: bool) -> None:
        size = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError("the disk is full")
            if durable:
                os.fsync(self._fd)
                self._check_in_place()
        except OSError as error:
            os.ftruncate(self._fd, size)
            raise PartialError(
                f"cannot write the journal: {error}",
                where=str(self.path),
                hint="make room and resume",
            ) from None

    def _check_in_place(self) -> None:
        """What is written to a file that was removed would be lost without a word."""
        try:
            there = os.path.samestat(self.path.stat(), os.fstat(self._fd))
        except FileNotFoundError:
            there = False
        if not there:
            raise PartialError(
                "the journal was removed or replaced while the sweep ran",
                where=str(self.path),
                hint="what was measured so far is gone; start a new sweep",
            )

    def close(self) -> None:
        """Close the file and release the lock."""
        os.close(self._fd)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cut_torn_line(self) -> None:
        """Cut off what stands behind the last newline, found from the end."""
        with self.path.open("r+b") as stream:
            end = at = stream.seek(0, os.SEEK_END)
            whole = 0
            while at and not whole:
                begin = max(0, at - _BLOCK)
                stream.seek(begin)
                newline = stream.read(at - begin).rfind(b"\n")
                whole = begin + newline + 1 if newline >= 0 else 0
                at = begin
            if whole != end:
                stream.truncate(whole)
