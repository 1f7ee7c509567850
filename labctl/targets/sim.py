"""A simulated machine as a target: real shells and files, drawn times, a virtual clock.

Its disk is a directory of the lab's state and its commands are run by this machine's
``/bin/sh``, so claims, shells and the journal are the real ones. Only what it says of
itself (boot, facts, ``uname``) and what its programs measure is made up. The clock is
virtual and belongs to the physical machine that is simulated: nothing sleeps.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl.errors import ConfigError
from labctl.observe.facts import CONFOUNDERS, Facts
from labctl.sim import clock, program
from labctl.sim.spec import Times
from labctl.targets.base import CommandResult
from labctl.targets.channel import ByteChannel, PipeChannel
from labctl.targets.local import LocalTarget
from labctl.targets.shell import PersistentShell
from labctl.workloads import Workload, load_workloads

_FACTS: dict[str, Any] = {
    "system": "Linux",
    "kernel": "6.1.0-sim",
    "kernel_version": "#1 SMP simulated",
    "os_release": "Simulated 1",
    "arch": "x86_64",
    "cpu_model": "Simulated CPU",
    "cpus_online": 8,
    "memory_kib": 8 * 1024 * 1024,
    "page_kib": 4,
    "clocksource": "tsc",
    "governor": "performance",
    "smt": "off",
    "load1": 0.0,
    "processes_running": 1,
}
_METAL = {"hypervisor": "none"}
_GUEST = {"hypervisor": "kvm", "accelerator": "kvm"}
# What a run records of a machine besides its own facts and the confounders.
_OF_A_RUN = ("accelerator", "image", "image_key", "vcpus", "memory_mib", "kernel_package")
_BUILD = "compiler=none\nflags=\nlink=\nsource_sha=simulated\norigin=simulated\n"


def simulated_facts(given: Mapping[str, Any], *, guest: bool) -> dict[str, Any]:
    """The facts of a simulated machine: those given, and plausible ones for the rest.

    Raises:
        ConfigError: a fact that labctl does not know, or a value that it cannot have; ``where``
            is the fact's name.
    """
    known = {*Facts.model_fields, *CONFOUNDERS, *_OF_A_RUN}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {near[0]}?" if near else "docs/observe.md lists them"
            raise ConfigError(f"there is no fact {name!r}", where=name, hint=hint)
    values = _FACTS | (_GUEST if guest else _METAL) | dict(given)
    try:
        Facts.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ConfigError(f"{name} cannot be {first['input']!r}", where=name) from None
    return values


class SimTarget(LocalTarget):
    """A machine that does not exist. Whatever it tells is simulated."""

    kind = "sim"

    def __init__(
        self,
        name: str,
        *,
        home: Path,
        times: Times,
        machine: str,
        seed: int = 0,
        can_reboot: bool = True,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """A machine on the simulated host ``home``, a directory that its targets share.

        Args:
            times: the model that its programs' times are drawn from.
            machine: name of the physical machine, for the runner and a shared drift.
            seed: of all that is drawn; the name is part of it.
            facts: as ``simulated_facts`` gives them.
        """
        super().__init__(name, str(home / name), machine)
        self.can_reboot = can_reboot
        self._times = times
        self._seed = seed
        self._facts = dict(facts or simulated_facts({}, guest=False))
        self._clock = home / ".clock"
        self._workloads: dict[str, Workload] = {}

    @property
    def model_digest(self) -> str:
        """Hash of the model and its seed: another one would be another machine."""
        text = f"{self._times.model_dump_json()}/{self._seed}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def connect(self) -> None:
        """Switch the machine on: its directory and programs are made if need be."""
        self._plant()
        super().connect()

    def boot_id(self) -> str:
        """The present boot's identity."""
        digest = hashlib.sha256(f"{self.workdir}/{self._seed}/{self._state()['boot']}".encode())
        return str(uuid.UUID(bytes=digest.digest()[:16]))

    def reboot(self, *, timeout: float) -> None:
        """Begin another boot, on the virtual clock; see ``base.Target.reboot``."""
        self._refuse_reboot()
        self.close()
        self._write({"boot": self._state()["boot"] + 1, "processes": {}})
        self._pass(clock.BOOT_S)

    def facts(self) -> dict[str, Any]:
        """What it says of itself, with the keys of ``observe.facts``."""
        moment = {"boot_id": self.boot_id(), "hostname": self.name, "uptime_s": self._seconds()}
        return Facts.model_validate(self._facts | moment).model_dump(mode="json")

    def shell(self) -> SimShell:
        """Open a persistent shell in which the lab's programs are simulated."""
        channel = self._open_channel(self.connect_timeout)
        shell = SimShell(channel, self._execute, where=self.name, kill_group=self.kill_group)
        self._shells = [old for old in self._shells if not old.closed] + [shell]
        return shell

    def forget(self) -> None:
        """Remove all that is kept of it; the last of a host's machines takes its clock along."""
        self.close()
        home = Path(self.workdir).parent
        shutil.rmtree(self.workdir, ignore_errors=True)
        if home.is_dir() and not any(entry.is_dir() for entry in home.iterdir()):
            shutil.rmtree(home)

    # -- its programs -----------------------------------------------------------------

    def _execute(self, words: list[str]) -> Iterator[str] | None:
        """Lines of a simulated program; None where the command is none.

        Raises:
            ValueError: a program that does not accept its arguments.
        """
        if not words or Path(words[0]).parent != Path(self.workdir, "bin"):
            return None
        arguments = program.Arguments.parse(words)
        return self._run(arguments)

    def _run(self, arguments: program.Arguments) -> Iterator[str]:
        from labctl.sim.model import SimulatedMachine

        a, state = arguments, self._state()
        workload = self._workloads[a.program]
        cell = f"{int(a.cell):016x}"
        number = state["processes"].get(cell, 0)
        machine = SimulatedMachine(self._times, name=self.name, host=self.machine)
        logs = machine.draw(
            seed=self._seed, threads=a.threads, cell=a.cell, boot=state["boot"], process=number,
            hours=self._seconds() / 3600, batches=a.warmup + a.batches,
        )  # fmt: skip
        import numpy as np

        yield from program.protocol_lines(
            a, logs, form=workload.form, unit=workload.unit,
            expected_us=float(np.exp(machine.log_mean(a.threads))),
        )  # fmt: skip
        if not a.ops:
            return  # it calibrated: nothing of it counts, and no time has passed
        state["processes"][cell] = number + 1
        self._write(state)
        self._pass(clock.process_s(a.batches, a.warmup, a.min_ms))

    def _plant(self) -> None:
        """The machine's disk: a ``uname``, and programs that say what they could do."""
        system = self._facts["system"]
        self._workloads = {
            w.program: w for w in load_workloads().values() if system.lower() in w.systems
        }
        told = {"s": system, "r": self._facts["kernel"], "m": self._facts["arch"], "n": self.name}
        cases = "".join(f"-{key}) echo {shlex.quote(str(text))};;\n" for key, text in told.items())
        files = {"tools/uname": f'#!/bin/sh\ncase "${{1--s}}" in\n{cases}*) exit 64;;\nesac\n'}
        for name, workload in self._workloads.items():
            params = {key: p.values for key, p in workload.params.items() if p.values}
            line = program.capabilities(name, workload.form, params)
            files[f"bin/{name}"] = (
                f'#!/bin/sh\n[ "$*" = --capabilities ] && {{ echo {shlex.quote(line)}; exit; }}\n'
                'echo "this program is simulated: only a sweep can run it" >&2\nexit 69\n'
            )
            files[f"bin/{name}.build"] = _BUILD
        for name, text in files.items():
            path = Path(self.workdir, name)
            if not path.is_file() or path.read_text() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                _replace(path, text, 0o755)

    def _open_channel(self, timeout: float) -> ByteChannel:
        path = f"{self.workdir}/tools:{os.environ.get('PATH', '/bin:/usr/bin')}"
        return PipeChannel(["/bin/sh"], env={**os.environ, "LC_ALL": "C", "PATH": path})

    # -- its state --------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Boot, and how many processes each cell had in it. Not synced to disk: the journal is
        what counts."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(Path(self.workdir, "state.json").read_text())
            return found
        return {"boot": 0, "processes": {}}

    def _write(self, state: Mapping[str, Any]) -> None:
        Path(self.workdir).mkdir(parents=True, exist_ok=True)
        _replace(Path(self.workdir, "state.json"), json.dumps(state))

    def _seconds(self) -> float:
        """Virtual seconds since the host was first switched on."""
        with contextlib.suppress(OSError, ValueError):
            return float(self._clock.read_text())
        return 0.0

    def _pass(self, seconds: float) -> None:
        _replace(self._clock, repr(self._seconds() + seconds))


class SimShell(PersistentShell):
    """A shell of this machine in which programs of the lab are simulated."""

    def __init__(
        self,
        channel: ByteChannel,
        execute: Callable[[list[str]], Iterator[str] | None],
        *,
        where: str,
        kill_group: Callable[[int], bool],
    ) -> None:
        """``execute`` gives the lines of a program, or None for a command that is none."""
        super().__init__(channel, where=where, kill_group=kill_group)
        self._execute = execute

    def stream(self, command: str, *, timeout: float) -> Iterator[str]:
        """Run a command; a program's lines come at once. See ``base.Shell.stream``."""
        try:
            lines = self._execute(shlex.split(command))
        except ValueError as error:
            self._last = CommandResult(command, 64, "", str(error))
            return
        if lines is None:
            yield from super().stream(command, timeout=timeout)
            return
        with self._command(command, timeout):
            for line in lines:
                if self.closed:
                    raise EOFError("the shell was closed")
                yield line
            self._last = CommandResult(command, 0, "", "")


def _replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)
