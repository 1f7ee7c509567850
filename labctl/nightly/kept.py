"""The nights of a directory: the one to go on with, the one to accept, and what they need."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from labctl.analysis import open_run
from labctl.errors import ConfigError, UnavailableError
from labctl.lab import Lab
from labctl.nightly.asked import Asked, Watch
from labctl.nightly.baseline import changing, read_baseline
from labctl.nightly.gate import Measured, references
from labctl.nightly.record import Night, nights, stamp
from labctl.paths import check_directory
from labctl.sweep.journal import now

NIGHTLY, AGAIN = "-nightly", "-again"
"""How the names of a night's runs end."""
LATEST = "latest"
"""A link beside the nights' directories to the one that was finished last."""


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """One night at a time.

    Raises:
        UnavailableError: another labctl is at work in this directory.
        ConfigError: nights cannot be kept in it.
    """
    check_directory(directory)
    if os.path.lexists(directory / LATEST) and not (directory / LATEST).is_symlink():
        raise ConfigError(
            "this is the place of the link to the latest night",
            where=str(directory / LATEST),
            hint="move away what is there",
        )
    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UnavailableError(
            "another labctl nightly is at work here", where=str(directory), hint="wait for it"
        ) from None
    try:
        yield
    finally:
        lock.release()


def opened(asked: Asked, watch: Watch) -> Night:
    """The night to go on with, or a new one."""
    for path in nights(asked.directory)[-1:]:
        night = Night.read(path)
        if night.finished:
            break
        if night.goes_on(datetime.now(UTC)) and night.asked == asked.digest:
            watch.say(f"going on with the night {night.night}")
            return night
        why = "it is too old" if night.asked == asked.digest else "another one is asked for now"
        watch.warn(f"night {night.night} was not finished, and is given up: {why}")
        give_up(asked.directory, night, why)
    return begun(asked)


def begun(asked: Asked) -> Night:
    """A new night."""
    at = datetime.now(UTC)
    name, number = stamp(at), 2
    while (asked.directory / name).exists() or (
        asked.lab.results_dir / f"{name}{NIGHTLY}"
    ).exists():
        name, number = f"{stamp(at)}-{number}", number + 1
    night = Night(
        night=name,
        begun=at.isoformat(timespec="seconds"),
        asked=asked.digest,
        seed=asked.request.design.seed,
        margin=asked.lab.margin,
        baseline=list(read_baseline(asked.lab.results_dir).references.values()),
        run=f"{name}{NIGHTLY}",
        again=f"{name}{NIGHTLY}{AGAIN}",
    )
    night.write(asked.directory / name)
    return night


def give_up(directory: Path, night: Night, why: str) -> None:
    """End a night that is not gone on with."""
    ended = {"finished": now(), "outcome": "given up", "why": why}
    night.model_copy(update=ended).write(directory / night.night)


def accept(lab: Lab, directory: Path) -> Night:
    """Make the latest night's measurement the baseline of all that it measured.

    Raises:
        ConfigError: there is no finished night, or its run is gone.
    """
    with alone(directory):
        found = [night for path in nights(directory) if (night := Night.read(path)).finished]
        found = [night for night in found if night.outcome != "given up"]
        if not found:
            raise ConfigError(
                "there is no finished night", where=str(directory), hint="labctl nightly"
            )
        night = found[-1]
        lost = night.missing or {}
        run = open_run(lab.results_dir / night.run)
        unfit = Measured(run, {}).unfit()
        taken = [
            r
            for r in references(run, "accepted")
            if r.target not in lost and (r.target, r.workload) not in unfit
        ]
        if not taken:
            raise ConfigError(
                "nothing of the latest night was measured as a whole",
                where=str(directory / night.night),
                hint=f"labctl report {night.run} says what failed",
            )
        with changing(lab.results_dir) as baseline:
            baseline.take(taken)
        changes = [f"{r.target}, {r.workload}: accepted as the baseline" for r in taken]
        told = list(dict.fromkeys([*night.changes, *changes]))
        night = night.model_copy(update={"changes": told})
        night.write(directory / night.night)
        return night


def kept_runs(lab: Lab, runs: Sequence[str]) -> dict[str, str]:
    """Those of a lab's ``runs`` (the oldest first) that must stay, and why: what the baseline
    refers to, and the latest night's, which may still be gone on with or accepted. Runs of
    nights are told by their names, since nights may be kept anywhere.

    Raises:
        ConfigError: the baseline is damaged.
    """
    kept: dict[str, str] = {}
    for run in [run for run in runs if run.endswith(NIGHTLY)][-1:]:
        kept |= dict.fromkeys((run, f"{run}{AGAIN}"), "the latest night's")
    return kept | dict.fromkeys(read_baseline(lab.results_dir).runs, "the baseline refers to it")


def link(directory: Path, name: str) -> None:
    """``latest`` leads to the night that was finished last."""
    temporary = directory / ".latest.new"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name)
    temporary.rename(directory / LATEST)
