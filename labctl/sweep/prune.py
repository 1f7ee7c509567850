"""Removing runs that nobody needs: which they are (pure), and doing it.

A run that is written to is never removed, whatever is asked.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from filelock import FileLock, Timeout

from labctl.paths import check_directory
from labctl.sweep.journal import JOURNAL
from labctl.sweep.runs import RunRow

_ENDING = ".removed"


@dataclass(frozen=True)
class Choice:
    """What pruning comes to: rows of runs to remove, and runs that stay, with the reason."""

    remove: list[RunRow]
    stay: dict[str, str]


def choose(
    rows: Sequence[RunRow],
    needed: Mapping[str, str],
    *,
    keep: int | None,
    older_than: timedelta | None,
    now: datetime,
) -> Choice:
    """Which runs may go.

    Args:
        rows: all runs, the oldest first.
        needed: runs that stay in any case, and why.
        keep: so many of the latest stay, of those that were measured and can be read.
        older_than: only older ones go. With ``keep`` a run must be both.
    """
    measured = [row.run for row in rows if not (row.damage or row.imported or row.link)]
    latest = set(measured[-keep:]) if keep else set()
    choice = Choice([], {})
    for row in rows:
        if row.damage:
            choice.stay[row.run] = f"it cannot be read: {row.damage}"
        elif row.imported:
            choice.stay[row.run] = "it is imported: remove its directory by hand"
        elif row.link:
            choice.stay[row.run] = "it is a symbolic link: remove it by hand"
        elif row.run in latest:
            choice.stay[row.run] = "it is one of the latest"
        elif older_than is not None and now - datetime.fromisoformat(row.created) < older_than:
            choice.stay[row.run] = "it is not that old"
        elif row.run in needed:
            choice.stay[row.run] = needed[row.run]
        else:
            choice.remove.append(row)
    return choice


def is_written(directory: Path) -> bool:
    """Whether a labctl is at work on the run."""
    path = directory / ".lock"
    if not path.exists():
        return False
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:  # it may not be written to, or another labctl has just removed it
        return False
    lock.release()
    return False


def remove(results: Path, run: str) -> bool:
    """Remove a run's directory, as a whole; False if a labctl is at work on it, or it is gone.

    It is renamed first: a removal that is cut short leaves nothing that looks like a run, and
    ``sweep_up`` ends it.

    Raises:
        ConfigError: it may not be written to.
    """
    directory = results / run
    if directory.exists():
        check_directory(directory)  # else a part of it would be removed
    lock = FileLock(directory / ".lock", timeout=0)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError):
        return False
    try:
        there = (directory / JOURNAL).is_file()  # the lock makes the directory if need be
        hidden = results / f".{run}.{os.getpid()}{_ENDING}"
        directory.rename(hidden)
        _clear(hidden)
    finally:
        lock.release()
    return there


def sweep_up(results: Path) -> None:
    """Remove what removals that were cut short have left."""
    for path in results.glob(f".*{_ENDING}"):
        shutil.rmtree(path, ignore_errors=True)


def _clear(directory: Path) -> None:
    """Remove a directory that another labctl may be sweeping up at the same time."""
    while directory.exists():
        try:
            shutil.rmtree(directory)
        except OSError as error:  # gone already, or looked into at this moment
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
