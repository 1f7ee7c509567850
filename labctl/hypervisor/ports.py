"""Loopback ports for guests' SSH, each with an owner on record.

A directory holds one file a port, named by its number, with the owner in it. Two
labs that share the directory cannot claim one port; against the rest of the
machine there is a bind test, and ``domain.PortTakenError`` if it lost the race.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Collection
from pathlib import Path

import filelock
import psutil

from labctl import paths
from labctl.errors import UnavailableError

# Below the ports that Linux hands out by itself (from 32768).
FIRST = 22000
LAST = 29999


def default_directory() -> Path:
    """The directory that all labs of this user share."""
    return paths.private_dir(paths.state_dir() / "ports")


def claim_port(owner: str, directory: Path, *, avoid: Collection[int] = ()) -> int:
    """The owner's port on 127.0.0.1: the one it had, else a free one.

    A port that another process listens on is given up for a new one, unless that
    process is the owner's own QEMU (``guest=OWNER`` on its command line).

    Args:
        owner: the domain's name.
        directory: where the records are; made if need be.
        avoid: ports that QEMU just failed to bind.

    Raises:
        UnavailableError: no port is free.
    """
    paths.private_dir(directory)
    with filelock.FileLock(directory / "lock", timeout=30):
        owned = _owned(owner, directory)
        for port in owned:
            if port not in avoid and (is_free(port) or _is_own_guest(port, owner)):
                return port
            (directory / str(port)).unlink()
        count = LAST - FIRST + 1
        start = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:4], "big") % count
        for offset in range(count):
            port = FIRST + (start + offset) % count
            record = directory / str(port)
            if port in avoid or record.exists() or not is_free(port):
                continue
            paths.write_atomic(record, owner + "\n", mode=0o600)
            return port
    raise UnavailableError(f"no free port from {FIRST} to {LAST} for {owner}", where=str(directory))


def release_port(owner: str, directory: Path) -> None:
    """Forget the owner's port. Nothing happens if it has none."""
    if not directory.is_dir():
        return
    with filelock.FileLock(directory / "lock", timeout=30):
        for port in _owned(owner, directory):
            (directory / str(port)).unlink(missing_ok=True)


def is_free(port: int) -> bool:
    """Whether ``port`` of 127.0.0.1 can be bound, as QEMU would bind it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _owned(owner: str, directory: Path) -> list[int]:
    records = (file for file in directory.iterdir() if file.name.isdecimal())
    return sorted(int(f.name) for f in records if f.read_text().rstrip("\n") == owner)


def _is_own_guest(port: int, owner: str) -> bool:
    try:
        listeners = [
            connection.pid
            for connection in psutil.net_connections("tcp4")
            if connection.status == psutil.CONN_LISTEN
            and connection.laddr[1:] == (port,)
            and connection.pid
        ]
        words = [word for pid in listeners for word in psutil.Process(pid).cmdline()]
    except psutil.Error:
        return False
    # libvirt: -name guest=OWNER,debug-threads=on, with commas in OWNER doubled
    guest = f"guest={owner.replace(',', ',,')}"
    return any(word.removesuffix(",debug-threads=on") == guest for word in words)
