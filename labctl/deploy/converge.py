"""Bring the workloads on any number of targets up to date, each in its own fate.

A target that is current is left alone; the others are claimed (so that nothing compiles
beside a measurement), and one run of Ansible does them all side by side.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from labctl import paths
from labctl.deploy.ansible import HostOutcome, end_masters, run_playbook
from labctl.deploy.inventory import host_vars
from labctl.deploy.sources import Source, archive, sources_for
from labctl.deploy.state import Deployed, look
from labctl.errors import LabctlError, UnavailableError
from labctl.targets.base import Target
from labctl.targets.lock import Lease, claim
from labctl.targets.preflight import check, no_compiler

Progress = Callable[[str, str], Any]
"""``progress(target, stage)``; called from threads."""

_TIMEOUT = 1800.0  # seconds for all targets; a compiler in an emulated guest is slow


@dataclass
class DeployResult:
    """How deployment went on one target.

    Attributes:
        ok: all workloads that its system can run are compiled there and current.
        changed: something was copied or compiled.
        error: why not ``ok``; its ``detail`` holds the compiler's own output.
        builds: keys compiler, flags, link and source_sha of each workload, by name.
    """

    target: str
    ok: bool
    changed: bool
    error: LabctlError | None = None
    builds: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class _Job:
    """One target that something is to be done on."""

    target: Target
    state: Deployed
    sources: list[Source]
    lease: Lease | None = None


def deploy(
    targets: Sequence[Target],
    workloads: Sequence[str],
    *,
    workloads_dir: Path,
    private_dir: Path,
    progress: Progress,
    force: bool = False,
) -> dict[str, DeployResult]:
    """Put the sources on the targets and compile there what is not current.

    Args:
        targets: connected or not; a target whose system runs none of ``workloads`` is ok.
        workloads: names; on each target those are built that its system can run.
        workloads_dir: the tree of sources.
        private_dir: for Ansible's files, mode 0700; one deployment at a time uses it.
        progress: told (target, stage).
        force: copy and compile even what is current.

    Returns: one result a target, by name; errors of single targets are in the results.

    Raises:
        ConfigError: there is no such workload.
        InterruptedByUser: Ctrl-C.
        LabctlError: Ansible itself cannot work.
    """
    results: dict[str, DeployResult] = {}
    jobs: dict[str, _Job] = {}

    def prepare(target: Target) -> None:
        try:
            job = _look(target, workloads, workloads_dir)
            if force or job.state.stale(job.sources):
                _make_ready(job)
                jobs[target.name] = job
            else:
                builds = job.state.builds(job.sources)
                results[target.name] = DeployResult(target.name, True, False, None, builds)
        except LabctlError as error:
            results[target.name] = DeployResult(target.name, False, False, error)

    try:
        with ThreadPoolExecutor(max(1, len(targets))) as pool:
            list(pool.map(prepare, targets))
        if jobs:
            outcomes = _converge(jobs, workloads_dir, private_dir, progress, force)
            for name, outcome in outcomes.items():
                results[name] = _result(jobs[name], outcome)
    except BaseException:
        for job in jobs.values():
            _end_installer(job)
        raise
    finally:
        for job in jobs.values():
            if job.lease:
                job.lease.release()
    return {target.name: results[target.name] for target in targets}


def _look(target: Target, workloads: Sequence[str], workloads_dir: Path) -> _Job:
    target.connect()
    state = look(target)
    return _Job(target, state, sources_for(workloads_dir, workloads, state.system))


def _make_ready(job: _Job) -> None:
    if not job.state.compiler:
        raise no_compiler(job.target.name, job.state.system)
    check(job.target)
    job.lease = claim(job.target, "deployment")


def _converge(
    jobs: Mapping[str, _Job],
    workloads_dir: Path,
    private_dir: Path,
    progress: Progress,
    force: bool,
) -> dict[str, HostOutcome]:
    paths.private_dir(private_dir)
    data = archive(workloads_dir)
    stages = {"Copy the sources": "copying the sources", "Compile": "compiling"}

    def on_task(host: str, task: str) -> None:
        if task in stages:
            progress(host, stages[task])

    with FileLock(private_dir / "deploy.lock"), _control_dir() as control:
        paths.write_atomic(private_dir / "sources.tar", data)
        todo = {
            "labctl_archive": str(private_dir / "sources.tar"),
            "labctl_archive_sha": hashlib.sha256(data).hexdigest(),
            "labctl_force": force,
        }
        hosts = {
            name: host_vars(job.target, private_dir, control)
            | todo
            | {
                "labctl_workdir": job.target.workdir,
                "labctl_compiler": job.state.compiler,
                "labctl_programs": [f"{s.name}:{s.program}:{s.sha}" for s in job.sources],
            }
            for name, job in jobs.items()
        }
        return run_playbook(
            paths.data_dir("playbooks") / "deploy.yml",
            hosts,
            private_dir=private_dir,
            on_task=on_task,
            timeout=_TIMEOUT,
        )


@contextlib.contextmanager
def _control_dir() -> Iterator[Path]:
    """A directory for ssh's sockets: a socket's path has room for some 100 bytes only, which
    a state directory may exceed."""
    directory = Path(tempfile.mkdtemp(prefix="labctl-", dir="/tmp"))
    try:
        yield directory
    finally:
        end_masters(directory)
        shutil.rmtree(directory, ignore_errors=True)


def _end_installer(job: _Job) -> None:
    """End what still compiles on a target: Ansible, killed, leaves it running."""
    script = "read -r group <install.pgid && kill -9 -$group; rm -f install.pgid"
    with contextlib.suppress(LabctlError):
        job.target.run(f"cd {shlex.quote(job.target.workdir)} && {{ {script}; }}", timeout=10.0)


def _result(job: _Job, outcome: HostOutcome) -> DeployResult:
    name = job.target.name
    try:
        state = look(job.target)
        error = _error(job, outcome) or _left_over(job, state)
    except LabctlError as lost:
        return DeployResult(name, False, bool(outcome.changed), _error(job, outcome) or lost)
    builds = state.builds(job.sources)
    return DeployResult(name, error is None, bool(outcome.changed), error, builds)


def _left_over(job: _Job, state: Deployed) -> LabctlError | None:
    """Whatever Ansible said: what counts is what lies on the target."""
    missing = [source.name for source in state.stale(job.sources)]
    if not missing:
        return None
    return UnavailableError(
        f"{', '.join(missing)} are not there after deployment",
        where=job.target.name,
        hint="does something clean the work directory? Run it again with --force",
    )


def _error(job: _Job, outcome: HostOutcome) -> LabctlError | None:
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
