"""The Target protocol: what every kind of machine offers to the rest of labctl.

Adding a kind of target takes one class here and one model in ``labctl.lab``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class CommandResult:
    """What one command left behind.

    >>> CommandResult("uname -s", 0, "Linux\\n", "").ok
    True
    """

    command: str
    status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether the command's exit status was 0."""
        return self.status == 0


class Shell(Protocol):
    """A POSIX shell kept open on a target over one channel.

    Replies are framed, so a command costs about one round trip. One command at a time,
    each in a subshell: ``cd``, variables and ``exit`` end with it.

    Attributes:
        pid, pgid: the shell's process and process group on the target; all that it
            runs is in that group.
        token: a random word in the shell's argument list: tells it from another
            process that is given the same pid later.
    """

    pid: int
    pgid: int
    token: str

    def run(self, command: str, *, timeout: float) -> CommandResult:
        """Run one shell command (stdin is /dev/null) and wait for its end.

        Raises:
            UnavailableError: the connection is lost, or no reply came within
                ``timeout`` seconds (what ran is then killed, the shell closed).
        """

    def stream(self, command: str, *, timeout: float) -> Iterator[str]:
        """Run a command that asks for leave between steps (``--step``).

        Yields its lines of standard output as they come, without the newline.
        After the consumer has dealt with a line and asks for the next, a line
        ``"go"`` has been sent to the command's standard input if that line was
        a JSON object of type "batch"; so the command rests while the consumer works.
        The result is kept in ``last`` once the iterator is exhausted; an iterator dropped
        before that kills the command and closes the shell. ``timeout`` (seconds) is for
        the whole command, the consumer's time included.

        Raises:
            UnavailableError: as ``run``.
        """

    @property
    def last(self) -> CommandResult:
        """Status and stderr of the command that ``stream`` ran (stdout is empty)."""

    def close(self) -> None:
        """End the shell and whatever it still runs. Never raises."""


class Target(Protocol):
    """One machine that runs workloads: local, ssh, vm or sim.

    Attributes:
        name: the key in lab.yaml.
        kind: "local", "ssh", "vm" or "sim".
        machine: name of the physical machine that it runs on; two targets with the
            same machine never run cells at the same time.
        workdir: absolute directory on the target that labctl may use.
        can_reboot: whether the lab file lets labctl reboot it.
    """

    name: str
    kind: str
    machine: str
    workdir: str
    can_reboot: bool

    def connect(self) -> None:
        """Open the connection; does nothing when it is open.

        Raises:
            UnavailableError: not reachable, host key unknown or changed,
                authentication refused.
        """

    def run(self, command: str, *, input: bytes = b"", timeout: float = 60.0) -> CommandResult:
        """Run ``command`` by /bin/sh (whatever the login shell is) and wait for it.

        It finds ``input`` on its standard input (/dev/null if empty). Output that is not
        UTF-8 comes as ``\\xNN``. Nothing is ever retried.

        Raises:
            UnavailableError: connection lost or ``timeout`` seconds passed.
        """

    def put(self, source: Path, destination: str, mode: int = 0o644) -> None:
        """Copy a local file to the absolute path ``destination`` on the target."""

    def get(self, source: str) -> bytes:
        """The content of the file at the absolute path ``source`` on the target."""

    def shell(self) -> Shell:
        """Open a persistent shell, on a channel of its own."""

    def boot_id(self) -> str:
        """What changes with every boot, and only then (Linux: kernel's boot_id)."""

    def reboot(self, *, timeout: float) -> None:
        """Reboot, and return when a new boot identity answers.

        Raises:
            ConfigError: ``can_reboot`` is false.
            UnavailableError: it did not come back within ``timeout`` seconds.
        """

    def ansible_vars(self) -> dict[str, Any]:
        """Inventory variables by which Ansible reaches the same machine."""

    def close(self) -> None:
        """Close the connection; the target can be connected again. Never raises."""
