"""One run of a playbook by ansible-runner, and what became of each host in plain words.

Ansible gets a configuration of its own: no ansible.cfg and no ANSIBLE_* variable of the
user's is read. Its artifacts stay in the private directory (the last few runs).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import labctl
from labctl.errors import InterruptedByUser, LabctlError, UnavailableError
from labctl.paths import write_atomic

_KEPT_RUNS = 5
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "TMPDIR")

_CONFIG = """\
[defaults]
# Written by labctl: stands in place of any ansible.cfg of the user's.
host_key_checking = True
deprecation_warnings = False
interpreter_python = auto_silent
"""


@dataclass
class HostOutcome:
    """What happened on one host: the tasks that changed something, and how it ended."""

    changed: set[str] = field(default_factory=set)
    failed_task: str = ""
    failure: dict[str, Any] = field(default_factory=dict)
    unreachable: bool = False

    @property
    def ok(self) -> bool:
        """Whether no task failed."""
        return not self.failed_task

    @property
    def reason(self) -> str:
        """Why it failed, in the target's or the transport's own words."""
        texts = (self.failure.get(key) for key in ("stderr", "stdout", "msg"))
        said = next((str(text).strip() for text in texts if text and str(text).strip()), "")
        return said.removeprefix("Failed to connect to the host via ssh: ").strip()


def run_playbook(
    playbook: Path,
    hosts: Mapping[str, Mapping[str, Any]],
    *,
    private_dir: Path,
    on_task: Callable[[str, str], None],
    timeout: float,
) -> dict[str, HostOutcome]:
    """Run ``playbook`` on ``hosts`` (name to variables), all at the same time.

    Args:
        private_dir: for inventory and artifacts; created with mode 0700.
        on_task: called with (host, task) when a task begins on a host, from a thread.
        timeout: seconds for all of it.

    Raises:
        UnavailableError: Ansible is not there, could not start, or ``timeout`` passed.
        InterruptedByUser: Ctrl-C; Ansible and its children have been ended.
    """
    _kill(p for p in _ansible_of(private_dir) if p.ppid() == 1)  # of a labctl that was killed
    outcomes = {name: HostOutcome() for name in hosts}
    cancel = threading.Event()
    runner = _prepare(
        playbook,
        hosts,
        private_dir,
        event_handler=lambda event: _note(event, outcomes, on_task),
        cancel_callback=cancel.is_set,
    )
    problem: list[BaseException] = []

    def work() -> None:
        try:
            runner.run()
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=work, name="ansible", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout
    try:
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(0.2)
    except KeyboardInterrupt:
        _cancel(cancel, thread, private_dir)
        raise InterruptedByUser("deployment was interrupted", hint="run it again") from None
    artifacts = str(runner.config.artifact_dir)
    if thread.is_alive():
        _cancel(cancel, thread, private_dir)
        raise UnavailableError(
            f"deployment did not end within {timeout:g} s",
            hint=f"what Ansible did is in {artifacts}",
        )
    if problem or (runner.rc != 0 and all(outcome.ok for outcome in outcomes.values())):
        raise LabctlError(
            "Ansible itself failed",
            detail=str(problem[0]) if problem else _output_tail(Path(artifacts)),
            hint=f"what it did is in {artifacts}",
        )
    return outcomes


def _cancel(cancel: threading.Event, thread: threading.Thread, private_dir: Path) -> None:
    """End Ansible and all of it: its workers have sessions of their own and would go on."""
    mine = psutil.Process().children(recursive=True)
    workers = [process for process in _ansible_of(private_dir) if process in mine]
    cancel.set()
    thread.join(10)
    _kill(workers)


def _ansible_of(private_dir: Path) -> Iterator[psutil.Process]:
    """Ansible's processes that work with the inventory in ``private_dir``."""
    inventory = str(private_dir / "inventory" / "hosts.json")
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if inventory in process.cmdline():
                yield process


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in list(processes):
        with contextlib.suppress(psutil.Error):
            process.kill()


def end_masters(control_dir: Path) -> None:
    """End the shared ssh connections whose sockets are in ``control_dir``."""
    for sock in control_dir.iterdir():
        argv = ["ssh", "-F", "/dev/null", "-O", "exit", "-S", str(sock), "any"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(argv, capture_output=True, check=False, timeout=10)


def _prepare(
    playbook: Path,
    hosts: Mapping[str, Mapping[str, Any]],
    private_dir: Path,
    **callbacks: Any,
) -> Any:
    import ansible_runner

    config_file = private_dir / "ansible.cfg"
    write_atomic(config_file, _CONFIG)
    own = {
        "PATH": _path(),
        "ANSIBLE_CONFIG": str(config_file),
        "ANSIBLE_HOME": str(private_dir / "home"),
        "ANSIBLE_LOCAL_TEMP": str(private_dir / "home" / "tmp"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner would switch it off
        "ANSIBLE_PIPELINING": "False",
        "ANSIBLE_NOCOLOR": "True",
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(Path(labctl.__file__).parents[1]),  # for our action plugin
    }
    runner = ansible_runner.interface.init_runner(
        private_data_dir=str(private_dir),
        project_dir=str(playbook.parent),
        playbook=playbook.name,
        inventory={"all": {"hosts": {name: _literal(values) for name, values in hosts.items()}}},
        envvars=own,
        settings={"pexpect_timeout": 1},
        suppress_env_files=True,
        forks=max(1, len(hosts)),
        ident=f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:6]}",
        rotate_artifacts=_KEPT_RUNS,
        quiet=True,
        **callbacks,
    )
    runner.config.env = _clean(runner.config.env, own)
    return runner


def _literal(value: Any) -> Any:
    """``value`` with each string marked as no template, in the words of Ansible's JSON: else
    ``{{ }}`` in a path would be evaluated, on this machine, and could run programs."""
    if isinstance(value, str):
        return {"__ansible_unsafe": value}
    if isinstance(value, Mapping):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    return value


def _clean(env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What ansible-runner made, without what it took over from our caller's environment."""
    kept = {k: v for k, v in env.items() if k in _PASSED_ON or os.environ.get(k) != v} | dict(own)
    plugins = kept.get("ANSIBLE_CALLBACK_PLUGINS", "")
    kept["ANSIBLE_CALLBACK_PLUGINS"] = plugins.rpartition(":")[2]
    kept.pop("ORIGINAL_STDOUT_CALLBACK", None)
    return kept


def _path() -> str:
    """PATH with the programs of our own environment first: it need not be activated."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(filter(None, (own, os.environ.get("PATH", os.defpath))))
    if not shutil.which("ansible-playbook", path=path):
        raise UnavailableError(
            "ansible-playbook is not installed",
            hint="pip install ansible-core, into the environment that labctl is in",
        )
    return path


def _note(
    event: Mapping[str, Any],
    outcomes: Mapping[str, HostOutcome],
    on_task: Callable[[str, str], None],
) -> bool:
    """Take one event of ansible-runner in; True so that it is kept as an artifact."""
    data = event.get("event_data", {})
    host, task = str(data.get("host", "")), str(data.get("task", ""))
    if host not in outcomes:
        return True
    kind, outcome, result = event.get("event"), outcomes[host], data.get("res", {}) or {}
    if kind == "runner_on_start":
        on_task(host, task)
    elif kind == "runner_on_ok" and result.get("changed"):
        outcome.changed.add(task)
    elif kind in ("runner_on_failed", "runner_on_unreachable"):
        outcome.failed_task, outcome.failure = task, dict(result)
        outcome.unreachable = kind == "runner_on_unreachable"
    return True


def _output_tail(artifacts: Path) -> str:
    try:
        return (artifacts / "stdout").read_text(errors="replace")[-4000:].strip()
    except OSError:
        return ""
