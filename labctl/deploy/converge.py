"""Bring the workloads on any number of targets up to date, each in its own fate.

A target that is current is left alone; the others are claimed (so that nothing compiles
beside a measurement). Those with a compiler compile, all in one run of Ansible; then the
others are brought programs that were made elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from labctl import paths
from labctl.deploy.compile import TIMEOUT, compile_on, end_installer
from labctl.deploy.deliver import deliver
from labctl.deploy.job import DeployResult, Job
from labctl.deploy.sources import sources_for, with_given
from labctl.deploy.state import look
from labctl.deploy.supply import binaries_for
from labctl.deploy.turn import claim_target, turn
from labctl.errors import LabctlError, UnavailableError
from labctl.targets.base import Target
from labctl.targets.preflight import check
from labctl.workloads import load_workloads

Progress = Callable[[str, str], Any]
"""``progress(target, stage)``; called from threads."""

_T = TypeVar("_T")


def deploy(
    targets: Sequence[Target],
    workloads: Sequence[str],
    *,
    workloads_dir: Path,
    private_dir: Path,
    progress: Progress,
    binaries: Mapping[str, Path] | None = None,
    force: bool = False,
) -> dict[str, DeployResult]:
    """See that the targets have the programs of the workloads, made from these sources.

    Args:
        targets: connected or not; a target whose system runs none of ``workloads`` is ok. One
            that is current already can still be where another's programs are taken from.
        workloads: names; each target gets those that its system can run.
        workloads_dir: the tree of sources.
        private_dir: for Ansible's files, mode 0700; one deployment at a time uses it.
        progress: told (target, stage).
        binaries: by target, a directory of programs that were made elsewhere.
        force: make and copy even what is current.

    Returns: one result a target, by name; errors of single targets are in the results.

    Raises:
        InterruptedByUser: Ctrl-C.
        LabctlError: Ansible itself cannot work.
    """
    results: dict[str, DeployResult] = {}
    jobs: dict[str, Job] = {}
    stop = threading.Event()
    given = binaries or {}

    def see(target: Target) -> None:
        with _into(results, target.name):
            target.connect()
            state = look(target)
            sources = sources_for(workloads_dir, workloads, state.system)
            sources = with_given(sources, given.get(target.name))
            jobs[target.name] = Job(target, state, sources, force)

    def make_ready(job: Job) -> None:
        name = job.target.name
        with _into(results, name):
            check(job.target)
            job.lease = claim_target(
                job.target, timeout=TIMEOUT, waiting=lambda who: progress(name, who), stop=stop
            )
            job.state = look(job.target)  # another deployment may have done it meanwhile
            if not job.todo:
                results[name] = job.current()

    def bring(job: Job) -> None:
        _bring(job, jobs, workloads_dir, private_dir, progress, stop)

    _side_by_side(see, targets, stop)
    todo = {name: job for name, job in jobs.items() if job.todo}
    results |= {name: job.current() for name, job in jobs.items() if name not in todo}
    if todo:
        paths.private_dir(private_dir)

        def wait(who: str) -> None:
            for name in todo:
                progress(name, who)

        with turn(private_dir, timeout=TIMEOUT, waiting=wait), _held(todo):
            _side_by_side(make_ready, list(todo.values()), stop)
            todo = {name: job for name, job in todo.items() if name not in results}
            compiling = {name: job for name, job in todo.items() if job.to_compile}
            if compiling:
                compile_on(
                    compiling,
                    workloads_dir=workloads_dir,
                    private_dir=private_dir,
                    progress=progress,
                )
            _side_by_side(bring, [job for job in todo.values() if job.to_bring], stop)
            results |= {name: _result(job) for name, job in todo.items()}
    return {target.name: results[target.name] for target in targets}


def _bring(
    job: Job,
    jobs: Mapping[str, Job],
    workloads_dir: Path,
    private_dir: Path,
    progress: Progress,
    stop: threading.Event,
) -> None:
    """Bring a target what it does not compile itself."""
    target = job.target
    donors = [other for other in jobs.values() if other is not job and other.state.compiler]
    try:
        known = load_workloads(workloads_dir)
        found = binaries_for(
            job,
            donors,
            workloads_dir=workloads_dir,
            private_dir=private_dir,
            progress=lambda what: progress(target.name, what),
            stop=stop,
        )
        for binary in found:
            progress(target.name, f"copying {binary.source.program}")
            deliver(target, binary, known[binary.source.name])
            job.changed = True
    except LabctlError as error:
        job.error = job.error or error


@contextlib.contextmanager
def _into(results: dict[str, DeployResult], name: str) -> Iterator[None]:
    """Make an error of one target its result."""
    try:
        yield
    except LabctlError as error:
        results[name] = DeployResult(name, False, False, error)


@contextlib.contextmanager
def _held(jobs: Mapping[str, Job]) -> Iterator[None]:
    """Give back what was claimed; if interrupted, first end what was started there."""
    try:
        yield
    except BaseException:
        for job in jobs.values():
            if job.lease:  # without it what runs there is somebody else's
                end_installer(job)
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


def _result(job: Job) -> DeployResult:
    """How it went, by what lies on the target."""
    name = job.target.name
    try:
        state = look(job.target)
    except LabctlError as lost:
        return DeployResult(name, False, job.changed, job.error or lost)
    missing = [source.name for source in state.stale(job.sources)]
    if missing and not job.error:  # whatever Ansible said
        job.error = UnavailableError(
            f"{', '.join(missing)} are not there after deployment",
            where=name,
            hint="does something clean the work directory? Run it again with --force",
        )
    builds = state.builds(job.sources)
    return DeployResult(name, job.error is None, job.changed, job.error, builds)
