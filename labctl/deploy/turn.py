"""Waiting for other deployments from this machine: those of the same lab take turns, and a
target that one of another lab is using is waited for. A measurement is never waited for.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from labctl import paths
from labctl.errors import InterruptedByUser, UnavailableError
from labctl.targets.base import Target
from labctl.targets.lock import BusyError, Lease, claim

RUN_ID = "deployment"
"""Under this name, in place of a run's, a deployment claims targets."""

_POLL = 0.2  # seconds


@contextlib.contextmanager
def turn(private_dir: Path, *, timeout: float, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold ``private_dir`` for one deployment.

    Args:
        timeout: seconds to wait for another one that holds it.
        waiting: told once, in words, who is waited for.

    Raises:
        UnavailableError: the other one did not end within ``timeout``.
    """
    lock, owner = FileLock(private_dir / "deploy.lock"), private_dir / "deploy.owner"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        who = f"another deployment ({_read(owner)})"
        waiting(f"waiting for {who}")
        try:
            lock.acquire(timeout=timeout, poll_interval=_POLL)
        except Timeout:
            raise UnavailableError(
                f"{who} did not end within {timeout:g} s",
                hint="look what it waits for, or end that process",
            ) from None
    try:
        paths.write_atomic(owner, f"process {os.getpid()}")
        yield
    finally:
        lock.release()


def claim_target(
    target: Target, *, timeout: float, waiting: Callable[[str], None], stop: threading.Event
) -> Lease:
    """Claim ``target`` for a deployment, once other deployments from this machine are done.

    Args:
        timeout: seconds to wait for them.
        waiting: told once, in words, who is waited for.
        stop: ends the waiting.

    Raises:
        BusyError: a measurement holds it, or a deployment from elsewhere, or ``timeout`` passed.
        InterruptedByUser: ``stop`` was set.
        UnavailableError: it cannot be claimed.
    """
    deadline = time.monotonic() + timeout
    told = False
    while True:
        try:
            return claim(target, RUN_ID)
        except BusyError as busy:
            holder = busy.holder
            ours = holder.run == RUN_ID and holder.controller_is_local
            if not ours or time.monotonic() > deadline:
                raise
            if not told:
                waiting(f"waiting for another deployment (process {holder.pid})")
                told = True
        if stop.wait(_POLL):
            raise InterruptedByUser("deployment was interrupted", hint="run it again")


def _read(owner: Path) -> str:
    try:
        return owner.read_text()
    except OSError:
        return "of this lab"
