"""Compiling on the targets: sources and installer copied there, and run, by Ansible.

All targets side by side in one run; which of them, and what for, is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.deploy.ansible import HostOutcome, end_masters, run_playbook
from labctl.deploy.inventory import host_vars
from labctl.deploy.job import Job
from labctl.deploy.sources import archive
from labctl.errors import LabctlError, UnavailableError

TIMEOUT = 1800.0
"""Seconds for all targets; a compiler in an emulated guest is slow."""


def compile_on(
    jobs: Mapping[str, Job],
    *,
    workloads_dir: Path,
    private_dir: Path,
    progress: Callable[[str, str], Any],
) -> None:
    """Compile what each job has ``to_compile``; sets ``changed`` and ``error`` of each.

    Raises:
        InterruptedByUser: Ctrl-C; what was started on the targets may run still.
        LabctlError: Ansible itself cannot work.
    """
    data = archive(workloads_dir)
    stages = {"Copy the sources": "copying the sources", "Compile": "compiling"}

    def on_task(host: str, task: str) -> None:
        if task in stages:
            progress(host, stages[task])

    with _control_dir() as control:
        paths.write_atomic(private_dir / "sources.tar", data)
        hosts = {
            name: host_vars(job.target, private_dir, control)
            | {
                "labctl_archive": str(private_dir / "sources.tar"),
                "labctl_force": job.force,
                "labctl_workdir": job.target.workdir,
                "labctl_compiler": job.state.compiler,
                "labctl_programs": [f"{s.name}:{s.program}:{s.sha}" for s in job.to_compile],
            }
            for name, job in jobs.items()
        }
        outcomes = run_playbook(
            paths.data_dir("playbooks") / "deploy.yml",
            hosts,
            private_dir=private_dir,
            on_task=on_task,
            timeout=TIMEOUT,
        )
    for name, outcome in outcomes.items():
        jobs[name].changed |= bool(outcome.changed)
        jobs[name].error = _error(jobs[name], outcome)


def end_installer(job: Job) -> None:
    """End what still compiles on a target: Ansible, killed, leaves it running."""
    script = "read -r group <install.pgid && kill -9 -$group; rm -f install.pgid"
    with contextlib.suppress(LabctlError):
        job.target.run(f"cd {shlex.quote(job.target.workdir)} && {{ {script}; }}", timeout=10.0)


@contextlib.contextmanager
def _control_dir() -> Iterator[Path]:
    """A directory for ssh's sockets: a socket's path has room for some 100 bytes only, which
    a state directory may exceed."""
    directory = Path(tempfile.mkdtemp(prefix="labctl-", dir="/tmp"))
    try:
        yield directory
    finally:
        try:
            end_masters(directory)
        finally:  # a second Ctrl-C may come
            shutil.rmtree(directory, ignore_errors=True)


def _error(job: Job, outcome: HostOutcome) -> LabctlError | None:
    if outcome.ok:
        return None
    where = job.target.name
    if outcome.unreachable:
        return UnavailableError(
            "Ansible could not reach it",
            where=where,
            hint="look whether `labctl ssh` can",
            detail=outcome.reason,
        )
    if outcome.failed_task != "Compile":
        return UnavailableError(
            "the sources could not be put there",
            where=where,
            hint=f"look at {job.target.workdir} there: owner, free space",
            detail=outcome.reason,
        )
    said = str(outcome.failure.get("stdout", ""))
    failed = [line.split()[-1] for line in said.splitlines() if line.startswith("labctl: failed")]
    what = ", ".join(failed) or "the workloads"
    return LabctlError(
        f"{what} cannot be compiled with {job.state.compiler}",
        where=where,
        hint="the compiler's messages tell the line; the sources are in "
        f"{job.target.workdir}/src there",
        detail=outcome.reason,
    )
