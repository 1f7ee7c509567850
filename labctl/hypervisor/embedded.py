"""Libvirt without a daemon: the root directory, its lock, the helper process.

``qemu:///embed?root=DIR`` runs libvirt's QEMU driver inside a process of ours
(see ``worker`` for why not in this one). This module prepares DIR, takes turns
with other labctl processes, and keeps one helper for all threads of this one.
It knows nothing of domains.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import filelock
import psutil

from labctl import paths
from labctl.errors import LabctlError, UnavailableError

Progress = Callable[[str], None]

# A unix socket's path has at most 107 bytes; libvirt's longest under the root is
# lib/qemu/domain-<id>-<name cut to 20>/monitor.sock.
_LONGEST_ROOT = 107 - len("/lib/qemu/domain-99999-") - 20 - len("/monitor.sock")
_BUSY = "Failed to acquire pid file"  # somebody else's libvirt holds the root


def root_dir() -> tuple[Path, Path]:
    """(name for libvirt, real directory) of the root, made if need be.

    The two differ where the state directory's path is too long for unix
    sockets: then a short symbolic link leads to it, and can be lost and made again.
    """
    real = paths.private_dir(paths.state_dir() / "libvirt")
    _write_config(real)
    if len(os.fsencode(real)) <= _LONGEST_ROOT:
        return real, real
    return _short_name(real), real


def _write_config(root: Path) -> None:
    lines = ['stdio_handler = "file"']  # virtlogd is not there
    if os.geteuid() == 0:
        lines += [
            'security_driver = "none"',
            'user = "root"',
            'group = "root"',
            "cgroup_controllers = []",
            "remember_owner = 0",
            # A mount namespace a guest needs CAP_SYS_ADMIN and trips over mounts in /dev.
            "namespaces = []",
        ]
    target = paths.private_dir(root / "etc") / "qemu.conf"
    content = "\n".join(lines) + "\n"
    if not target.is_file() or target.read_text() != content:
        paths.write_atomic(target, content)


def _short_name(real: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:10]
    name = f"labctl-{os.geteuid()}-{digest}"
    bases = [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"]  # noqa: S108
    for base in bases:
        link = Path(base) / name
        if base and Path(base).is_dir() and len(os.fsencode(link)) <= _LONGEST_ROOT:
            break
    else:
        raise UnavailableError(
            f"no directory is short enough for libvirt's sockets (at most {_LONGEST_ROOT} bytes)",
            where=str(real),
            hint="set XDG_STATE_HOME to a shorter path",
        )
    with contextlib.suppress(FileExistsError):
        link.symlink_to(real)
    if link.lstat().st_uid != os.geteuid() or not link.is_symlink() or link.readlink() != real:
        raise UnavailableError(
            "is there, but is not the link that labctl makes to its state directory",
            where=str(link),
            hint=f"remove it, or set XDG_STATE_HOME to a path shorter than {real}",
        )
    paths.write_atomic(real / "short-name", f"{link}\n")
    return link


def has_guests() -> bool:
    """Whether guests run under the root. Looks at files and processes, opens nothing."""
    for record in (paths.state_dir() / "libvirt" / "run" / "qemu").glob("*.pid"):
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            if psutil.Process(int(record.read_text())).name().startswith("qemu"):
                return True
    return False


class _Turn:
    """One process's turn at a root: a file lock, with the holder's name beside it."""

    def __init__(self, root: Path) -> None:
        self._lock = filelock.FileLock(root / "labctl.lock", thread_local=False)
        self._holder = root / "labctl.holder"

    def take(self, deadline: float, progress: Progress) -> None:
        said = ""
        while True:
            try:
                self._lock.acquire(timeout=0)
                break
            except filelock.Timeout:
                holder = self.holder()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"libvirt's embedded driver is in use by {holder}",
                    hint="wait for that command, or end it",
                )
            if holder != said:
                progress(f"waiting for libvirt's embedded driver, in use by {holder}")
                said = holder
            time.sleep(0.1)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        paths.write_atomic(self._holder, json.dumps({"pid": os.getpid(), "command": command}))

    def holder(self) -> str:
        try:
            record = json.loads(self._holder.read_text())
            return f"process {record['pid']} ({record['command']})"
        except (OSError, ValueError, KeyError):
            return "another process"

    def give_back(self) -> None:
        self._holder.unlink(missing_ok=True)
        self._lock.release()


class Helper:
    """The helper process and its turn, shared by the threads of this process."""

    def __init__(self, root: Path, real: Path, deadline: float, progress: Progress) -> None:
        self.uri = f"qemu:///embed?root={root}"
        self._real = real
        self.log_dir = real / "log" / "qemu"
        self._busy = threading.Lock()
        self._turn = _Turn(real)
        self._turn.take(deadline, progress)
        try:
            fresh = _borrow_capabilities(real)
            if fresh:
                progress("libvirt looks at what QEMU can do (once, some 10 s)")
            self._start(deadline)
            if fresh:
                self.call(_probe, (), timeout=max(60.0, deadline - time.monotonic()))
                _lend_capabilities(real)
        except BaseException:
            self.close()
            raise

    def _start(self, deadline: float) -> None:
        while True:
            ours, theirs = socket.socketpair()
            with theirs, (self._real / "helper.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "labctl.hypervisor.worker",
                        str(theirs.fileno()),
                        self.uri,
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for labctl, which closes it in order
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                )
            self._pipe = Pipe(ours.detach())
            try:
                self._answer(max(1.0, deadline - time.monotonic()), "open")
                return
            except UnavailableError as error:
                self._stop()
                # The helper of a labctl that was killed may need a moment to go.
                if _BUSY not in error.message or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], *, timeout: float
    ) -> Any:
        """Run ``function(raw, *arguments)`` in the helper (both must pickle)."""
        with self._busy:
            try:
                self._pipe.send((function, arguments))
            except OSError as error:
                raise self._lost() from error
            return self._answer(timeout, function.__name__)

    def _answer(self, timeout: float, what: str) -> Any:
        try:
            if not self._pipe.poll(timeout):
                self._process.kill()
                raise UnavailableError(f"libvirt did not answer {what!r} within {timeout:.0f} s")
            good, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        if good:
            return value
        assert isinstance(value, LabctlError)
        raise value

    def _lost(self) -> UnavailableError:
        log = self._real / "helper.log"
        tail = log.read_text(errors="replace").splitlines()[-10:] if log.is_file() else []
        return UnavailableError("libvirt's helper process ended by itself", detail="\n".join(tail))

    def _stop(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the helper and let the next process have the root."""
        if hasattr(self, "_pipe"):
            self._stop()
        self._turn.give_back()


_helpers: dict[Path, tuple[Helper, int]] = {}
_helpers_lock = threading.Lock()


@contextlib.contextmanager
def helper(timeout: float, progress: Progress) -> Iterator[Helper]:
    """The helper for the root under the state directory; the last user's exit ends it.

    Raises:
        UnavailableError: another process kept the root for ``timeout`` seconds,
            or libvirt cannot open it.
    """
    root, real = root_dir()
    with _helpers_lock:
        shared, users = _helpers.get(root, (None, 0))
        if shared is None:
            shared = Helper(root, real, time.monotonic() + timeout, progress)
        _helpers[root] = (shared, users + 1)
    try:
        yield shared
    finally:
        with _helpers_lock:
            shared, users = _helpers.pop(root)
            if users > 1:
                _helpers[root] = (shared, users - 1)
            else:
                shared.close()


def _probe(raw: Any) -> None:
    raw.getCapabilities()


def _borrow_capabilities(real: Path) -> bool:
    """Copy what libvirt learnt of QEMU under another root; True if nothing is known.

    Safe to share: libvirt checks each file against the binary's change time, its
    own version, the kernel and the CPU's microcode, and probes again if they differ.
    """
    mine = real / "cache" / "qemu" / "capabilities"
    if any(mine.glob("*.xml")):
        return False
    known = list((paths.cache_dir() / "libvirt-capabilities").glob("*.xml"))
    if known:
        paths.private_dir(mine)
    for file in known:
        paths.write_atomic(mine / file.name, file.read_bytes(), mode=0o600)
    return not known


def _lend_capabilities(real: Path) -> None:
    shelf = paths.private_dir(paths.cache_dir() / "libvirt-capabilities")
    for file in (real / "cache" / "qemu" / "capabilities").glob("*.xml"):
        paths.write_atomic(shelf / file.name, file.read_bytes(), mode=0o600)
