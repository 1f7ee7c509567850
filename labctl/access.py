"""Getting at a target by hand: a login's command line, a guest's console log."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from labctl import guests
from labctl.errors import ConfigError
from labctl.lab import Lab, LocalSpec, SimSpec, VMSpec
from labctl.provision import not_running


def login_command(lab: Lab, name: str, command: Sequence[str]) -> list[str]:
    """The command line that opens a shell on a target, or runs ``command`` there: one word
    is a shell command, several are a program and its arguments."""
    spec = lab.targets[name]
    if isinstance(spec, SimSpec):
        raise ConfigError(
            f"{name} is simulated: there is nothing to log in to", where=lab.place("targets", name)
        )
    line = command[0] if len(command) == 1 else shlex.join(command)
    if isinstance(spec, LocalSpec):
        return ["sh", "-c", line] if command else ["sh"]
    if isinstance(spec, VMSpec):
        words = guests.ssh_words(lab, name)
        if not guests.listens(lab, name):
            raise not_running(name)
    else:
        words = ["ssh", "-p", str(spec.port)]
        if spec.identity:
            words += ["-i", str(spec.identity), "-o", "IdentitiesOnly=yes"]
        if spec.known_hosts:
            words += ["-o", f"UserKnownHostsFile={spec.known_hosts}"]
        words += ["-o", "StrictHostKeyChecking=yes", f"{spec.user}@{spec.host}"]
    return words + ([line] if command else [])


def console_log(lab: Lab, name: str) -> Path:
    """Path of a guest's serial console log.

    Raises:
        ConfigError: the target is not a guest.
    """
    if not isinstance(lab.targets[name], VMSpec):
        raise ConfigError(f"{name} is not a vm, it has no console", where=str(lab.path))
    return guests.directory(lab, name) / guests.CONSOLE
