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
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from labctl import paths
from labctl.deploy.ansible import HostOutcome, end_masters, run_playbook
from labctl.deploy.inventory import host_vars
from labctl.deploy.sources import Source, archive, sources_for
from labctl.deploy.state import Deployed, look
from labctl.deploy.turn import claim_target, turn
from labctl.errors import LabctlError, UnavailableError
from labctl.targets.base import Target
from labctl.targets.lock import Lease
from labctl.targets.preflight import check, no_compiler

Progress = Callable[[str, str], Any]
"""``progress(target, stage)``; called from threads."""

_T = TypeVar("_T")

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

    @property
    def stale(self) -> list[Source]:
        """What is not current there."""
        return self.state.stale(self.sources)

    def current(self) -> DeployResult:
        """The result where nothing is to be done."""
        builds = self.state.builds(self.sources)
        return DeployResult(self.target.name, True, False, None, builds)


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
    stop = threading.Event()

    def need(target: Target) -> None:
        with _into(results, target):
            job = _look(target, workloads, workloads_dir)
            if force or job.stale:
                jobs[target.name] = job
            else:
                results[target.name] = job.current()

    def make_ready(job: _Job) -> None:
        target = job.target
        with _into(results, target):
            if not job.state.compiler:
                raise no_compiler(target.name, job.state.system)
            check(target)
            job.lease = claim_target(
                target, timeout=_TIMEOUT, waiting=lambda who: progress(target.name, who), stop=stop
            )
            job.state = look(target)  # another deployment may have done it meanwhile
            if not force and not job.stale:
                results[target.name] = job.current()

    def wait(who: str) -> None:
        for name in jobs:
            progress(name, who)

    _side_by_side(need, targets, stop)
    if jobs:
        paths.private_dir(private_dir)
        with turn(private_dir, timeout=_TIMEOUT, waiting=wait), _held(jobs):
            _side_by_side(make_ready, list(jobs.values()), stop)
            todo = {name: job for name, job in jobs.items() if name not in results}
            if todo:
                outcomes = _converge(todo, workloads_dir, private_dir, progress, force)
                results |= {name: _result(jobs[name], had) for name, had in outcomes.items()}
    return {target.name: results[target.name] for target in targets}


@contextlib.contextmanager
def _into(results: dict[str, DeployResult], target: Target) -> Iterator[None]:
    """Make an error of one target its result."""
    try:
        yield
    except LabctlError as error:
        results[target.name] = DeployResult(target.name, False, False, error)


@contextlib.contextmanager
def _held(jobs: Mapping[str, _Job]) -> Iterator[None]:
    """Give back what was claimed; if interrupted, first end what was started there."""
    try:
        yield
    except BaseException:
        for job in jobs.values():
            if job.lease:  # without it what runs there is somebody else's
                _end_installer(job)
        raise
    finally:
        for job in jobs.values():
            if job.lease:
                job.lease.release()


def _side_by_side(step: Callable[[_T], None], items: Sequence[_T], stop: threading.Event) -> None:
    """Do a step for each item at the same time; ``stop`` is set if that is interrupted."""
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        try:
            list(pool.map(step, items))
        except BaseException:
            stop.set()
            raise


def _look(target: Target, workloads: Sequence[str], workloads_dir: Path) -> _Job:
    target.connect()
    state = look(target)
    return _Job(target, state, sources_for(workloads_dir, workloads, state.system))


def _converge(
    jobs: Mapping[str, _Job],
    workloads_dir: Path,
    private_dir: Path,
    progress: Progress,
    force: bool,
) -> dict[str, HostOutcome]:
    data = archive(workloads_dir)
    stages = {"Copy the sources": "copying the sources", "Compile": "compiling"}

    def on_task(host: str, task: str) -> None:
        if task in stages:
            progress(host, stages[task])

    with _control_dir() as control:
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
        try:
            end_masters(directory)
        finally:  # a second Ctrl-C may come
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
