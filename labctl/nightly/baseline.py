"""The baseline: for each target and workload the run that a night is compared with.

It is one file in the results directory, written whole or not at all and under a lock. It
holds references alone; the numbers are those runs' own, so `labctl runs prune` keeps them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from labctl.errors import ConfigError, UnavailableError
from labctl.findings import findings
from labctl.paths import write_atomic

BASELINE = "baseline.json"
LOCK_TIMEOUT_S = 30.0
_REMEDY = "restore the file; or remove it, and the next night becomes the baseline"

Why = Literal["first", "another system", "its run is gone", "accepted"]
"""Why a run became a baseline: there was none; the target has another kernel or image than
before; the run of the one before was removed; somebody said so."""

# What of a target's identity (labctl.identity) and facts makes it another system.
_IDENTITY = ("kind", "system", "kernel", "image", "image_key", "kernel_digest")
_FACTS = ("kernel_version",)


class Reference(BaseModel):
    """The baseline of one target in one workload.

    ``system`` is what the target was (``system_of``): another one is no regression's business.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    workload: str
    run: str
    since: str
    why: Why
    system: dict[str, str]


class _File(BaseModel):
    schema_version: Literal[1]
    references: list[Reference]


@dataclass
class Baseline:
    """All references, by target and workload."""

    references: dict[tuple[str, str], Reference] = field(default_factory=dict)

    def of(self, target: str, workload: str) -> Reference | None:
        """The reference of a target in a workload, if there is one."""
        return self.references.get((target, workload))

    def take(self, references: Iterable[Reference]) -> None:
        """Put references in the place of those of the same target and workload."""
        self.references |= {(r.target, r.workload): r for r in references}

    @property
    def runs(self) -> set[str]:
        """Every run that is referred to."""
        return {reference.run for reference in self.references.values()}


def system_of(identity: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """Kernel and image of a target, from a run's header and its first facts. Command line,
    tunables and virtual hardware are no part of it: they may be what makes it slower."""
    told = {key: identity.get(key) for key in _IDENTITY}
    told |= {key: facts.get(key) for key in _FACTS}
    return {key: str(value) for key, value in told.items() if value}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What makes one system another, as clauses; empty where it is the same."""
    return [
        f"{key} {before.get(key, 'unknown')} -> {after.get(key, 'unknown')}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]


def read_baseline(results: Path) -> Baseline:
    """The baseline of a results directory; empty where there is none yet.

    Raises:
        ConfigError: the file is damaged.
    """
    path = results / BASELINE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return Baseline()
    except OSError as error:
        raise ConfigError(
            f"the baseline cannot be read: {error.strerror}", where=str(path), hint=_REMEDY
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("this is not a baseline", where=str(path), hint=_REMEDY) from None
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(
            "this is not a baseline",
            where=str(path),
            detail=findings(error),
            hint=_REMEDY,
        ) from None
    found = Baseline()
    found.take(file.references)
    return found


@contextlib.contextmanager
def changing(results: Path) -> Iterator[Baseline]:
    """The baseline, to be changed within the block and written at its end.

    Raises:
        UnavailableError: another labctl has it.
        ConfigError: as ``read_baseline``.
    """
    results.mkdir(parents=True, exist_ok=True)
    lock = FileLock(results / f".{BASELINE}.lock", timeout=LOCK_TIMEOUT_S)
    try:
        lock.acquire()
    except Timeout:
        raise UnavailableError(
            "another labctl is changing the baseline", where=str(results / BASELINE)
        ) from None
    try:
        found = read_baseline(results)
        yield found
        ordered = sorted(found.references.values(), key=lambda r: (r.target, r.workload))
        text = _File(schema_version=1, references=ordered).model_dump_json(indent=2)
        write_atomic(results / BASELINE, text + "\n")
    finally:
        lock.release()
