"""Looking at several things side by side, each under a deadline of its own.

A probe that raises becomes a failed check with its hint; one that does not come back
is left to its thread and reported. What there is to look at is ``labctl.doctor``'s.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from labctl.errors import LabctlError

Status = Literal["ok", "warn", "fail", "unknown"]
Progress = Callable[[str, str], None]


class Check(BaseModel):
    """One finding. ``remedy`` says what to do about it ("" when nothing is to be done)."""

    model_config = ConfigDict(frozen=True)

    group: str
    name: str
    status: Status
    finding: str
    remedy: str = ""


@dataclass(frozen=True)
class Probe:
    """Something to look at: ``look`` may raise, and is given ``deadline`` seconds."""

    group: str
    name: str
    deadline: float
    look: Callable[[], Check | Sequence[Check]]


def run_probes(probes: Sequence[Probe], progress: Progress | None = None) -> list[Check]:
    """Run probes side by side, each under its deadline; their checks in the given order.

    A probe that does not come back is left to its (daemon) thread and reported.
    """
    tell = progress or (lambda name, step: None)
    finished: queue.SimpleQueue[tuple[int, list[Check]]] = queue.SimpleQueue()
    begun = time.monotonic()
    for index, probe in enumerate(probes):
        tell(probe.name, "checking")
        work = threading.Thread(
            target=_work, args=(index, probe, finished), name=f"check-{probe.name}", daemon=True
        )
        work.start()
    found: dict[int, list[Check]] = {}
    while pending := [index for index in range(len(probes)) if index not in found]:
        next_deadline = begun + min(probes[index].deadline for index in pending)
        try:
            index, checks = finished.get(timeout=max(0.0, next_deadline - time.monotonic()))
            found.setdefault(index, checks)
            tell(probes[index].name, "done")
        except queue.Empty:
            for index in pending:
                if begun + probes[index].deadline <= next_deadline:
                    found[index] = [_late(probes[index])]
                    tell(probes[index].name, "no answer")
    return [check for index in range(len(probes)) for check in found[index]]


def _work(index: int, probe: Probe, finished: queue.SimpleQueue[tuple[int, list[Check]]]) -> None:
    finished.put((index, _look(probe)))


def _look(probe: Probe) -> list[Check]:
    try:
        result = probe.look()
    except LabctlError as error:
        return [_failed(probe, str(error), error.hint)]
    except Exception as error:
        return [_failed(probe, f"{type(error).__name__}: {error}", "")]
    return [result] if isinstance(result, Check) else list(result)


def _failed(probe: Probe, finding: str, remedy: str) -> Check:
    return Check(group=probe.group, name=probe.name, status="fail", finding=finding, remedy=remedy)


def _late(probe: Probe) -> Check:
    return _failed(
        probe,
        f"no answer within {probe.deadline:g} s",
        "see what it waits for, or check it by hand",
    )
