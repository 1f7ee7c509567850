"""What is done with guests that were brought up: look, describe, shut down, remove."""

from __future__ import annotations

import contextlib
import platform
import shutil
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from labctl.errors import LabctlError, UnavailableError
from labctl.guests.record import RECORD, GuestRecord, directory, domain_name, uri_of, user_key
from labctl.hypervisor import domain, ports
from labctl.hypervisor.connection import Connection, connect
from labctl.hypervisor.uri import shown
from labctl.images.catalogue import Recipe
from labctl.lab import Lab
from labctl.targets import VMTarget

T = TypeVar("T")
WORKDIR = "/var/lib/labctl"
SSH_PATIENCE_S = 8.0
"""How long a guest that is to shut down has to answer SSH; then the power button is pressed."""


@dataclass
class Seen:
    """A guest as its hypervisor shows it."""

    state: str
    accelerator: str = ""
    address: str = ""
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def make_target(lab: Lab, name: str, recipe: Recipe) -> VMTarget:
    """The SSH side of a guest that was brought up.

    Raises:
        UnavailableError: it never was.
    """
    record = GuestRecord.read(lab, name)
    return _target(lab, name, record, reboot_command=recipe.ssh.reboot)


def _target(lab: Lab, name: str, record: GuestRecord, **options: Any) -> VMTarget:
    return VMTarget(
        name=name,
        port=record.port,
        user=record.user,
        identity=user_key(lab),
        host_key=record.host_key,
        workdir=WORKDIR,
        machine=lab.machine_of(name),
        **options,
    )


def listens(lab: Lab, name: str) -> bool:
    """Whether something listens on the port of a guest that was brought up before."""
    try:
        port = GuestRecord.read(lab, name).port
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except (UnavailableError, OSError):
        return False


def stop(lab: Lab, names: Sequence[str], *, timeout: float) -> dict[str, str | LabctlError]:
    """Shut guests down in order: by their own command over SSH, else by the power button.

    What does not end within ``timeout`` seconds is powered off, and it is said.
    """
    # By SSH first, and all at once: that needs no libvirt, which others may wait for.
    told = dict(zip(names, side_by_side(lambda name: _tell_to_stop(lab, name), names), strict=True))

    def end(connection: Connection, name: str) -> str:
        domain_id = domain_name(lab, name)
        state = domain.state(connection, domain_id)
        if state in ("paused", "crashed", "suspended"):
            domain.destroy(connection, domain_id)
            return f"was {state}; it was powered off, its file system is checked when it starts"
        if state != "running" and not told[name]:
            return "is down already"
        patience = timeout / 2 if told[name] else 0.0
        if domain.shutdown(connection, domain_id, timeout=timeout, press_after=patience):
            return "shut down"
        domain.destroy(connection, domain_id)
        return (
            f"did not shut down within {timeout:g} s and was powered off; its file system is "
            f"checked when it starts again"
        )

    return each(lab, names, end)


def _tell_to_stop(lab: Lab, name: str) -> bool:
    """Whether a guest took its command to shut down."""
    try:
        record = GuestRecord.read(lab, name)
        if not record.poweroff or not listens(lab, name):
            return False
        target = _target(lab, name, record, connect_timeout=SSH_PATIENCE_S)
        target.connect()
    except LabctlError:
        return False
    with contextlib.closing(target):
        try:
            return target.run(record.poweroff, timeout=SSH_PATIENCE_S).ok
        except UnavailableError:
            return True  # it was quicker than its answer


def remove(lab: Lab, names: Sequence[str]) -> dict[str, str | LabctlError]:
    """Power guests off and remove all that was made for them."""

    def end(connection: Connection, name: str) -> str:
        domain_id, home = domain_name(lab, name), directory(lab, name)
        existed = home.is_dir() or domain.state(connection, domain_id) != "absent"
        domain.destroy(connection, domain_id)
        domain.undefine(connection, domain_id)
        ports.release_port(domain_id, ports.default_directory())
        shutil.rmtree(home, ignore_errors=True)
        return "removed" if existed else "was not there"

    return each(lab, names, end)


def look(lab: Lab, names: Sequence[str]) -> dict[str, Seen]:
    """State of guests, without contacting them."""

    def see(connection: Connection, name: str) -> Seen:
        domain_id = domain_name(lab, name)
        seen = Seen(domain.state(connection, domain_id))
        if seen.state == "absent":
            return seen
        record = GuestRecord.read(lab, name)
        seen.address = f"127.0.0.1:{record.port}"
        seen.details = record.model_dump() | {"uri": connection.shown, "why": connection.why}
        if seen.state == "running":
            seen.accelerator = domain.query_accelerator(connection, domain_id)
            if seen.accelerator == "tcg":
                seen.note = record.notice
        return seen

    found = each(lab, names, see)
    return {
        name: Seen("unknown", note=str(seen)) if isinstance(seen, LabctlError) else seen
        for name, seen in found.items()
    }


def describe(lab: Lab, name: str) -> dict[str, Any]:
    """What the hypervisor and QEMU say of a guest, for the record of a run.

    Raises:
        UnavailableError: the guest does not run.
    """
    record = GuestRecord.read(lab, name)
    with connect(uri_of(lab, name)) as connection:
        return (
            record.model_dump(exclude={"host_key", "port", "user", "poweroff"})
            | {
                "accelerator": domain.query_accelerator(connection, record.domain),
                "qemu_version": domain.qemu_version(connection, record.domain),
                "uri": shown(record.uri),
                "hypervisor_uri": connection.shown,
            }
            | ({"host_kernel": platform.release()} if lab.machine_of(name) == "local" else {})
        )


def ports_of(lab: Lab, names: Sequence[str]) -> dict[str, int]:
    """Loopback ports of those guests that were brought up before and do not run now."""
    seen = look(lab, names)
    stopped = [name for name in names if seen[name].state != "running"]
    return {
        name: GuestRecord.read(lab, name).port
        for name in stopped
        if (directory(lab, name) / RECORD).is_file()
    }


def side_by_side(step: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """What a step gives for each name, done at the same time; an exception is raised."""
    if not names:
        return []
    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(step, names))


@contextlib.contextmanager
def into(results: dict[str, Any], name: str) -> Iterator[None]:
    """An error of one guest becomes its result and does not stop the others."""
    try:
        yield
    except LabctlError as error:
        results[name] = error


def each(
    lab: Lab, names: Sequence[str], step: Callable[[Connection, str], T]
) -> dict[str, T | LabctlError]:
    """Do a step for each guest over its hypervisor's connection, opened once."""
    results: dict[str, T | LabctlError] = {}
    by_uri: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_uri[uri_of(lab, name)].append(name)
    for uri, mine in by_uri.items():
        try:
            with connect(uri) as connection:
                for name in mine:
                    with into(results, name):
                        results[name] = step(connection, name)
        except LabctlError as error:
            results |= {name: error for name in mine if name not in results}
    return results
