"""What all kinds of target share: everything that a POSIX shell can do.

A kind adds how a channel to ``/bin/sh`` is opened (``_open_channel``) and how Ansible
reaches the same machine. Nothing here knows of SSH or of subprocesses.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from labctl.errors import ConfigError, UnavailableError
from labctl.targets.base import CommandResult
from labctl.targets.channel import ByteChannel
from labctl.targets.cksum import posix_cksum
from labctl.targets.shell import PersistentShell

# On FreeBSD and NetBSD kern.boottime moves when the clock is stepped, so a random identity
# is preferred where the kernel has one.
_BOOT_ID = r"""
if [ -r /proc/sys/kernel/random/boot_id ]; then exec cat /proc/sys/kernel/random/boot_id; fi
id=$(/sbin/sysctl -n kern.boot_id 2>/dev/null)
[ -n "$id" ] || id=$(/sbin/sysctl -n kern.boottime) || exit 1
echo "$id"
"""
_REBOOT_COMMAND = "/sbin/shutdown -r now"


class HostKeyError(UnavailableError):
    """The machine showed a host key that is not the one known; never passed over."""


class PosixTarget(ABC):
    """A ``labctl.targets.base.Target`` on a byte channel to /bin/sh."""

    kind = ""
    connect_timeout = 30.0

    def __init__(
        self,
        name: str,
        *,
        workdir: str,
        machine: str,
        can_reboot: bool = False,
        reboot_command: str = _REBOOT_COMMAND,
    ) -> None:
        """``workdir`` is an absolute path on the target; ``reboot_command`` is for its sh."""
        self.name = name
        self.machine = machine
        self.workdir = workdir.rstrip("/") or "/"
        self.can_reboot = can_reboot
        self.reboot_command = reboot_command
        self._shells: list[PersistentShell] = []
        self._control: PersistentShell | None = None
        self._control_lock = threading.Lock()

    @abstractmethod
    def _open_channel(self, timeout: float) -> ByteChannel:
        """A channel to a fresh /bin/sh that reads commands from its standard input."""

    @abstractmethod
    def ansible_vars(self) -> dict[str, Any]:
        """Inventory variables by which Ansible reaches the same machine."""

    def connect(self) -> None:
        """Open the connection, and see that a shell answers."""
        self.run(":", timeout=self.connect_timeout)

    def run(self, command: str, *, input: bytes = b"", timeout: float = 60.0) -> CommandResult:
        """Run ``command`` by /bin/sh and wait for it; see ``base.Target.run``.

        Commands without input share one open shell, so each costs about a round trip.
        """
        deadline = time.monotonic() + timeout
        if input or not self._control_lock.acquire(blocking=False):
            return self._run_apart(command, input, timeout)
        try:
            if self._control is None or self._control.closed:
                self._control = self._start_shell(timeout)
            return self._control.run(command, timeout=max(0.1, deadline - time.monotonic()))
        finally:
            self._control_lock.release()

    def put(self, source: Path, destination: str, mode: int = 0o644) -> None:
        """Copy a local file to ``destination``, whole or not at all (no SFTP needed).

        Raises:
            UnavailableError: it cannot be written; says the target's own reason.
        """
        goal, part = shlex.quote(destination), shlex.quote(f"{destination}.part")
        folder = shlex.quote(destination.rpartition("/")[0] or "/")
        script = f"mkdir -p {folder} && cat >{part} && chmod {mode:o} {part} && mv -f {part} {goal}"
        result = self._run_apart(script, source.read_bytes(), timeout=300.0)
        if not result.ok:
            raise UnavailableError(
                f"{destination} cannot be written",
                where=self.name,
                hint="look at the directory's owner and the free space",
                detail=result.stderr.strip(),
            )

    def get(self, source: str) -> bytes:
        """The content of the file ``source`` (no SFTP needed).

        Raises:
            UnavailableError: it cannot be read, or was damaged on the way.
        """
        file = shlex.quote(source)
        # The sum's line is empty where there is no cksum.
        script = f'echo "$(cksum <{file} 2>/dev/null)" && exec cat {file}'
        shell = self._start_shell(self.connect_timeout)
        try:
            result, output = shell.fetch(script, timeout=300.0)
        finally:
            shell.close()
        line, _, content = output.partition(b"\n")
        told = " ".join(line.decode("ascii", "replace").split())
        if not result.ok:
            raise UnavailableError(
                f"{source} cannot be read", where=self.name, detail=result.stderr.strip()
            )
        if told and told != posix_cksum(content):
            raise UnavailableError(f"{source} was damaged on the way", where=self.name)
        return content

    def shell(self) -> PersistentShell:
        """Open a persistent shell, on a channel of its own."""
        shell = self._start_shell(self.connect_timeout)
        self._shells = [old for old in self._shells if not old.closed] + [shell]
        return shell

    def boot_id(self) -> str:
        """What changes with every boot, and only then."""
        result = self.run(_BOOT_ID, timeout=self.connect_timeout)
        if not result.ok or not result.stdout.strip():
            raise UnavailableError(
                "the system does not tell its boot identity",
                where=self.name,
                detail=result.stderr.strip(),
            )
        # "{ sec = 1700000000, usec = 5 } Tue ..." on FreeBSD: the fraction is no part of it.
        return result.stdout.partition(", usec")[0].strip()

    def _refuse_reboot(self) -> None:
        """ConfigError where the lab file does not let this target be rebooted."""
        if not self.can_reboot:
            raise ConfigError(
                "labctl may not reboot this target",
                where=self.name,
                hint="allow it with `reboot: true` in the lab file",
            )

    def reboot(self, *, timeout: float) -> None:
        """Reboot, and return when a new boot identity answers; see ``base.Target.reboot``."""
        self._refuse_reboot()
        deadline = time.monotonic() + timeout
        before = self.boot_id()
        self._issue_reboot(timeout)
        reason = "nothing was heard of it"
        while (left := deadline - time.monotonic()) > 0.5:
            self.close()
            try:
                if self._boot_id_within(left) != before:
                    return
                reason = "it went on running"
            except HostKeyError:
                raise
            except UnavailableError as error:
                reason = error.message
            time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))
        raise UnavailableError(
            f"it did not come back within {timeout:g} s of its reboot",
            where=self.name,
            hint="look at its console",
            detail=reason,
        )

    def close(self) -> None:
        """Close the connection and end its shells. Never raises."""
        shells, self._shells = self._shells, []
        control, self._control = self._control, None
        for shell in [*shells, *([control] if control else [])]:
            shell.close()

    # -- for the kinds ----------------------------------------------------------------

    def kill_group(self, pgid: int) -> bool:
        """Kill a process group on the target; says whether it is gone."""
        return self._run_apart(f"kill -9 -{int(pgid)}", b"", timeout=10.0).ok

    def _start_shell(self, timeout: float) -> PersistentShell:
        deadline = time.monotonic() + timeout
        channel = self._open_channel(timeout)
        return PersistentShell(
            channel,
            where=self.name,
            kill_group=self.kill_group,
            timeout=max(0.1, deadline - time.monotonic()),
        )

    def _run_apart(self, command: str, data: bytes, timeout: float) -> CommandResult:
        """Run a command on a channel of its own, that goes away with it."""
        deadline = time.monotonic() + timeout
        shell = self._start_shell(timeout)
        try:
            return shell.run(command, timeout=max(0.1, deadline - time.monotonic()), input=data)
        finally:
            shell.close()

    def _issue_reboot(self, timeout: float) -> None:
        # Losing the connection, or hearing nothing more, is what success looks like.
        with contextlib.suppress(UnavailableError):
            result = self._run_apart(self.reboot_command, b"", min(5.0, timeout))
            if not result.ok and result.stderr.strip():
                raise ConfigError(
                    f"`{self.reboot_command}` failed on the target",
                    where=self.name,
                    hint="the account must be allowed to reboot the machine",
                    detail=result.stderr.strip(),
                )

    def _boot_id_within(self, seconds: float) -> str:
        usual = self.connect_timeout
        self.connect_timeout = min(usual, seconds)
        try:
            return self.boot_id()
        finally:
            self.connect_timeout = usual
