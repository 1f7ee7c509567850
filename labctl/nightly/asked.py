"""What a night is asked to do, and who is told how it goes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from labctl import provision
from labctl.errors import LabctlError
from labctl.images.catalogue import Recipe
from labctl.lab import Lab
from labctl.request import Request
from labctl.session import Session
from labctl.sweep.plan import Design
from labctl.sweep.runner import Event

NIGHTLY = Design(boots=6, rounds=4)
"""A night's design where nothing else is asked: with several boots an interval covers what
differs between boots, and one is not compared with another's chance (docs/nightly.md)."""


class Watch(Protocol):
    """Who is told how a night goes."""

    def say(self, text: str) -> None:
        """A line of what is done next."""

    def warn(self, text: str) -> None:
        """A line that nobody should miss."""

    def up(self, names: list[str]) -> Mapping[str, LabctlError]:
        """Bring these targets up; errors of those that do not come."""

    def steps(self) -> AbstractContextManager[provision.Progress]:
        """Show what several targets are doing."""

    def measuring(self, opened: Session) -> AbstractContextManager[Callable[[Event], None]]:
        """Show a run's events."""


@dataclass(frozen=True)
class Asked:
    """What a night is to do.

    Attributes:
        request: what is measured; its seed is a new night's.
        directory: where the nights' directories are.
        limit_s: seconds that a process may take.
    """

    lab: Lab
    catalogue: Mapping[str, Recipe]
    request: Request
    directory: Path
    limit_s: int = 120

    @property
    def digest(self) -> str:
        """Of what is measured and how, but for the seed."""
        r = self.request
        design = replace(r.design, seed=0)
        params = {name: list(values) for name, values in r.params.items()}
        threads = None if r.threads is None else list(r.threads)
        told = [list(r.workloads), list(r.targets), threads, params, design.__dict__]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def directory_of(lab: Lab, given: Path | None) -> Path:
    """Where the nights' directories are: as given, as the lab file says, or ``results/nightly``."""
    if given is not None:
        return given
    if lab.nightly and lab.nightly.directory:
        return lab.beside(lab.nightly.directory)
    return lab.results_dir / "nightly"
