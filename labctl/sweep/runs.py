"""The runs of a results directory: listing and finding them, writing their Parquet."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labctl.errors import ConfigError
from labctl.sweep.journal import read_journal


@dataclass(frozen=True)
class RunRow:
    """A run as ``labctl runs`` lists it."""

    run: str
    created: str
    workloads: list[str]
    targets: list[str]
    planned: int
    done: int
    failed: int
    size_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def list_runs(results: Path) -> list[RunRow]:
    """All runs of a results directory, oldest first."""
    rows = []
    for journal in sorted(results.glob("[!.]*/journal.jsonl"), key=_created):
        view = read_journal(journal)
        rows.append(
            RunRow(
                run=view.header.run,
                created=view.header.created,
                workloads=view.header.workloads,
                targets=list(view.header.targets),
                planned=len(view.header.executions),
                done=len(view.done),
                failed=len(view.failed),
                size_bytes=sum(f.stat().st_size for f in journal.parent.iterdir()),
            )
        )
    return rows


def find_run(results: Path, run: str) -> Path:
    """Directory of the run named, or of the latest.

    Raises:
        ConfigError: there is none.
    """
    present = sorted(results.glob("[!.]*/journal.jsonl"), key=_created)
    if run == "latest" and present:
        return present[-1].parent
    directory = results / run
    if run not in ("", ".", "..") and "/" not in run and (directory / "journal.jsonl").is_file():
        return directory
    raise ConfigError(
        f"there is no run {run!r}" if present else "there is no run yet",
        where=str(results),
        hint="labctl runs lists them" if present else "labctl sweep kqtest makes one",
    )


def write_samples(directory: Path) -> None:
    """Write ``samples.parquet`` beside a journal, from it and nothing else."""
    from labctl.sweep.aggregate import write_parquet

    view = read_journal(directory)
    write_parquet(directory, [view.header, *view.records])


def _created(journal: Path) -> str:
    with journal.open() as stream:
        head = stream.readline(400)
    mark = '"created":"'
    at = head.find(mark)
    return head[at + len(mark) : at + len(mark) + 32] if at >= 0 else ""
