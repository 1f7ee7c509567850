"""The wait for a guest that was started: its console, its hypervisor, its SSH server."""

from __future__ import annotations

import time
from collections.abc import Callable

from labctl.errors import UnavailableError
from labctl.guests.record import domain_name, uri_of
from labctl.hypervisor import domain
from labctl.hypervisor.boot_steps import NOTHING
from labctl.hypervisor.connection import connect
from labctl.hypervisor.console import Watcher, tail
from labctl.lab import Lab
from labctl.targets.base import Target
from labctl.targets.posix import HostKeyError

CONSOLE_INTERVAL_S = 0.05
SILENT_ATTEMPT_S = 30.0
"""How long after one attempt the next is made while the console does not say "ready"."""
HEARD_ATTEMPT_S = 1.0
"""The same once it did: the server is being started."""
HELD_AFTER_S, HELD_EVERY_S = 5.0, 10.0
"""After how much silence on the console the hypervisor is asked whether the guest still runs;
how often then."""
SETTLE_S = 2.0
"""How long a console is read on at most after it told of a failure."""


class HeldError(UnavailableError):
    """The hypervisor has stopped a guest's virtual CPUs, and they stay stopped."""


def check_runs(lab: Lab, name: str) -> None:
    """Ask the hypervisor whether a guest that says nothing still runs.

    Raises:
        HeldError: it is paused or crashed; with QEMU's last messages.
        UnavailableError: it is gone.
    """
    with connect(uri_of(lab, name)) as connection:
        state = domain.state(connection, domain_name(lab, name))
        if state in ("running", "shutting down", "unknown"):
            return
        kind = HeldError if state in ("paused", "crashed") else UnavailableError
        raise kind(
            f"the hypervisor says that the guest is {state}",
            where=name,
            detail=domain.messages(connection, domain_name(lab, name)),
            hint=f"labctl console {name}; with accel: tcg it may go on (times are functional)",
        )


def wait_ready(
    target: Target,
    watcher: Watcher,
    *,
    booting: bool,
    deadline: float,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Wait until SSH answers, reading the serial console for what goes wrong meanwhile.

    Args:
        watcher: reads the console of this boot.
        booting: whether it was started just now.
        deadline: on the clock of ``time.monotonic``.
        check: called now and then while the console is silent; raises if the guest is held.

    Raises:
        UnavailableError: it did not answer, or the console shows why it never will; the
            error says at which step it stopped and carries the console's tail.
    """
    # QEMU accepts on the host's port long before the guest listens; an attempt that is made
    # too early hangs. So the console's word comes first, and attempts without it are rare.
    attempt_at = time.monotonic() + (SILENT_ATTEMPT_S if booting else 0)
    last, heard = "no attempt was made", False
    offset, check_at = watcher.offset, time.monotonic() + HELD_AFTER_S
    while True:
        events = watcher.poll()
        if watcher.offset != offset:
            offset, check_at = watcher.offset, time.monotonic() + HELD_AFTER_S
        elif time.monotonic() >= check_at:
            check()
            check_at = time.monotonic() + HELD_EVERY_S
        ready = any(event.kind == "ready" for event in events)
        heard |= ready
        if watcher.failure:
            _settle(watcher)
            raise _did_not_boot(target, watcher, watcher.failure.text)
        if booting and any(event.name == "power off" for event in events):
            raise _did_not_boot(target, watcher, "it powered off")
        now = time.monotonic()
        if ready or now >= min(attempt_at, deadline):
            try:
                target.connect()
                return
            except HostKeyError:
                raise  # waiting does not make a wrong key right
            except UnavailableError as error:
                last = error.message
                attempt_at = now + (HEARD_ATTEMPT_S if heard else SILENT_ATTEMPT_S)
        if now > deadline:
            raise UnavailableError(
                f"no SSH within the time limit; its console stopped at: {watcher.step}",
                where=target.name,
                detail=tail(watcher.path),
                hint=f"the last attempt said: {last}",
            )
        time.sleep(CONSOLE_INTERVAL_S)


def _did_not_boot(target: Target, watcher: Watcher, why: str) -> UnavailableError:
    came_to = watcher.reached if watcher.reached != NOTHING else "no step that was told of"
    return UnavailableError(
        f"the guest did not boot: {why} (it had come to: {came_to})",
        where=target.name,
        detail=tail(watcher.path),
        hint=f"labctl console {target.name}",
    )


def _settle(watcher: Watcher) -> None:
    """Let the console end its sentence: what a panic is about stands below its first line."""
    quiet_since = began = time.monotonic()
    size = -1
    while (now := time.monotonic()) - began < SETTLE_S and now - quiet_since < SETTLE_S / 4:
        watcher.poll()
        if watcher.offset != size:
            size, quiet_since = watcher.offset, now
        time.sleep(CONSOLE_INTERVAL_S)
