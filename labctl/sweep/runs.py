"""The runs of a results directory: listing and finding them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.errors import ConfigError
from labctl.sweep.journal import JOURNAL, read_journal

LATEST = "latest"
"""The run that was measured last, wherever a run is named."""
RESERVED = frozenset({LATEST, "nightly", "baseline.json"})
"""Names in a results directory that are no run's."""


@dataclass(frozen=True)
class RunRow:
    """A run as ``labctl runs`` lists it, by the name of its directory."""

    run: str
    created: str
    workloads: list[str]
    targets: list[str]
    planned: int
    done: int
    failed: int
    size_bytes: int
    imported: bool = False
    link: bool = False
    damage: str = ""
    """What is wrong with its journal, where it cannot be read."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def list_runs(results: Path) -> list[RunRow]:
    """All runs of a results directory, oldest first."""
    rows = []
    for journal in _journals(results):
        try:
            view = read_journal(journal, samples=False)
        except ConfigError as error:
            if not journal.exists():
                continue  # another labctl has just removed it
            rows.append(RunRow(journal.parent.name, "", [], [], 0, 0, 0, 0, damage=str(error)))
            continue
        rows.append(
            RunRow(
                run=journal.parent.name,
                created=view.header.created,
                workloads=view.header.workloads,
                targets=list(view.header.targets),
                planned=len(view.executions),
                done=len(view.done),
                failed=len(view.failed),
                size_bytes=_size(journal.parent),
                imported=view.header.imported is not None,
                link=journal.parent.is_symlink(),
            )
        )
    return rows


def find_run(results: Path, run: str) -> Path:
    """Directory of the run named (in full, or by a beginning that only it has), or the latest
    that was measured.

    Raises:
        ConfigError: there is none.
    """
    present = _journals(results)
    if run == LATEST and present:
        measured = [path for path in present if _IMPORTED not in _head(path)]
        if not measured:
            raise ConfigError(
                "no run was measured yet",
                where=str(results),
                hint=f"labctl sweep kqtest makes one; imported: {_names(present)}",
            )
        return measured[-1].parent
    directory = results / run
    if directory / JOURNAL in present:
        return directory
    beginning = [path.parent for path in present if path.parent.name.startswith(run)]
    if run and len(beginning) == 1:
        return beginning[0]
    if run and beginning:
        raise ConfigError(
            f"{len(beginning)} runs begin with {run!r}",
            where=str(results),
            hint=", ".join(sorted(path.name for path in beginning)),
        )
    raise ConfigError(
        f"there is no run {run!r}" if present else "there is no run yet",
        where=str(results),
        hint="labctl runs lists them" if present else "labctl sweep kqtest makes one",
    )


def check_results(results: Path) -> None:
    """See that runs can be kept there.

    Raises:
        ConfigError: something that is no directory is there, or it may not be written to.
    """
    _check_kind(results)
    paths.check_directory(results)


def _check_kind(results: Path) -> None:
    if os.path.lexists(results) and not results.is_dir():
        raise ConfigError(
            "runs are kept under this name, and it is no directory",
            where=str(results),
            hint="move it away",
        )
    if results.exists() and not os.access(results, os.R_OK | os.X_OK):
        raise ConfigError(
            "this directory may not be read", where=str(results), hint="make it readable"
        )


def _names(journals: Sequence[Path]) -> str:
    return ", ".join(path.parent.name for path in journals)


def _journals(results: Path) -> list[Path]:
    """Journals of a results directory, oldest run first."""
    _check_kind(results)
    found = [path for path in results.glob(f"[!.]*/{JOURNAL}") if path.is_file()]
    return sorted(found, key=_created)


_IMPORTED = b',"imported":{'
"""What the head of an imported run's journal holds: ahead of any text of its maker's."""


def _size(directory: Path) -> int:
    """Bytes of the files in a directory; another process may be removing them."""
    total = 0
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def _head(journal: Path) -> bytes:
    """The first bytes of a journal: cheap however long it is; none of one that may not be
    read, which whoever opens it is told."""
    try:
        with journal.open("rb") as stream:
            return stream.read(400)
    except OSError:
        return b""


def _created(journal: Path) -> bytes:
    """When a run was made."""
    _, mark, rest = _head(journal).partition(b'"created":"')
    return rest[:32] if mark else b""
