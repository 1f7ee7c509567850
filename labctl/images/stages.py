"""Running a build's stages, each kept whole under its content key or not at all.

A stage works in a directory of its own that is renamed into place as its last act, so an
interrupted build (Ctrl-C, kill -9, power cut) begins again at the stage that it was in. A
record of its files goes with it: a result that is no longer what was made is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from labctl.errors import LabctlError, UnavailableError
from labctl.images.builder import Progress, Stage, StageContext
from labctl.images.digest import FileRecord
from labctl.paths import write_atomic

KEY_LENGTH = 16
RECORD = "stage.json"
WAIT_STEP_S = 1.0


class StageRecord(BaseModel):
    """The files of a stage's result, by path relative to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: dict[str, FileRecord]

    @classmethod
    def read(cls, directory: Path) -> StageRecord | None:
        """The record of the result in ``directory``; None where there is none that makes sense."""
        try:
            return cls.model_validate_json((directory / RECORD).read_bytes())
        except (OSError, ValueError):
            return None


def digest(value: Any) -> str:
    """A content key: hash of ``value`` (JSON values) as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def stage_keys(stages: Sequence[Stage]) -> dict[str, str]:
    """The content key of each stage; those that it builds on go into it."""
    keys: dict[str, str] = {}
    for stage in stages:
        after = {name: keys[name] for name in stage.after}
        keys[stage.name] = digest({"inputs": stage.inputs, "stage": stage.name, "after": after})
    return keys


def hash_files(directory: Path) -> dict[str, str]:
    """Hash of each file below ``directory`` (or of that one file), by relative path."""
    files = [directory] if directory.is_file() else sorted(directory.rglob("*"))
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }


def run_stages(
    stages: Sequence[Stage], kept: Path, work: Path, progress: Progress
) -> dict[str, Path]:
    """Run what is not in ``kept`` yet, in order; the result directory of each stage.

    Args:
        kept: where finished stages are, as ``<stage>-<key>``.
        work: directory for unfinished ones, on the same file system.

    Raises:
        UnavailableError: not enough disk space, or a stage's own.
    """
    keys = stage_keys(stages)
    results: dict[str, Path] = {}
    for stage in stages:
        target = kept / f"{stage.name}-{keys[stage.name]}"
        results[stage.name] = target
        if target.exists():
            progress(stage.name, None, "checking what is kept")
            if _is_whole(target):
                continue
            remove_tree(target)
        _check_space(stage, work)
        progress(stage.name, None, "begins")
        _run_one(stage, target, work, results, progress)
        progress(stage.name, 1.0, "done")
    return results


@contextlib.contextmanager
def locked(root: Path, name: str, progress: Progress) -> Iterator[None]:
    """One build of ``name`` below ``root`` at a time; a second waits and says for whom."""
    root.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(root / f".{name}.lock"), root / f".{name}.holder"
    while True:
        try:
            lock.acquire(timeout=WAIT_STEP_S)
            break
        except Timeout:
            who = holder.read_text().strip() if holder.exists() else "another process"
            progress("waiting", None, f"{name} is in use by {who}")
    try:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomic(holder, f"process {os.getpid()} on {socket.gethostname()} since {now}")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _run_one(
    stage: Stage, target: Path, work: Path, results: Mapping[str, Path], progress: Progress
) -> None:
    directory, scratch = work / stage.name, work / f"{stage.name}.scratch"
    for path in (directory, scratch):
        path.mkdir(parents=True)
    context = StageContext(
        directory=directory,
        scratch=scratch,
        results={name: results[name] for name in stage.after},
        progress=lambda fraction, detail: progress(stage.name, fraction, detail),
    )
    try:
        stage.run(context)
    except LabctlError as error:
        error.where = error.where or f"stage {stage.name}"
        raise
    remove_tree(scratch)
    made = [path for path in sorted(directory.rglob("*")) if _is_file(path)]
    files = {str(path.relative_to(directory)): FileRecord.of(path) for path in made}
    write_atomic(directory / RECORD, StageRecord(files=files).model_dump_json(indent=1) + "\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    directory.rename(target)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_whole(result: Path) -> bool:
    record = StageRecord.read(result)
    return record is not None and all(
        file.fits(result / name) for name, file in record.files.items()
    )


def recorded(path: Path) -> FileRecord:
    """What is recorded of ``path``, which lies in a stage's result.

    Raises:
        LabctlError: nothing is: a builder's ``assemble`` names a file that no stage made.
    """
    record = StageRecord.read(path.parent)
    if record is None or path.name not in record.files:
        raise LabctlError("no stage has made this file", where=str(path))
    return record.files[path.name]


def forget_others(stages: Sequence[Stage], kept: Path) -> None:
    """Remove results of the same stages under other keys."""
    keys = stage_keys(stages)
    for path in kept.glob("*-*"):
        name, _, key = path.name.rpartition("-")
        if name in keys and key != keys[name]:
            remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a tree, however deep, unless something is still mounted in it; what resists stays.

    By rm, which neither recurses nor needs paths that are as long as the tree is deep.
    """
    inside = f"{path.resolve()}/"
    with contextlib.suppress(OSError):
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        if any(line.split()[1].startswith(inside) for line in mounts):
            return
    subprocess.run(["rm", "-rf", "--", path.absolute()], capture_output=True, check=False)


def _check_space(stage: Stage, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(work).free // 2**20
    if free_mib < stage.needs_mib:
        raise UnavailableError(
            f"not enough disk space: {stage.needs_mib} MiB are needed, {free_mib} MiB are free",
            where=f"stage {stage.name}, {work}",
            hint="free some, or let XDG_CACHE_HOME name a directory elsewhere",
        )
