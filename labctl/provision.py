"""Bringing a lab up and down: images, domains, targets and deployment in one order.

``up`` converges: what is already so is left alone. Each target goes its own way; one that
cannot come up is an error in its own result and does not take the others with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from labctl import guests
from labctl.deploy import DeployResult, is_current
from labctl.deploy import deploy as deploy_workloads
from labctl.deploy import summary as deployed_words
from labctl.errors import LabctlError, UnavailableError
from labctl.images.catalogue import Recipe
from labctl.lab import Lab, LocalSpec, SimSpec, SSHSpec, VMSpec
from labctl.machines import binaries_of, make_target, simulated_target, simulates, vms_of
from labctl.paths import data_dir, private_dir
from labctl.targets import check
from labctl.targets.base import Target
from labctl.workloads import load_workloads

Progress = Callable[..., None]
"""``progress(who, stage, fraction=None, detail="")``"""


@dataclass
class UpResult:
    """How one target came up. ``changed``: something had to be done."""

    name: str
    kind: str
    changed: bool = False
    accelerator: str = ""
    hypervisor: str = ""
    notice: str = ""
    seconds: float = 0.0
    error: LabctlError | None = None

    @property
    def summary(self) -> str:
        """One line for people."""
        how = f" ({self.accelerator})" if self.accelerator else ""
        return f"ready{how}" if self.changed else f"ready{how}, nothing to do"

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        values = asdict(self)
        values["error"] = str(self.error) if self.error else None
        return values | {"ready": self.error is None}


@dataclass
class StatusRow:
    """A target as ``labctl status`` shows it."""

    name: str
    kind: str
    state: str = ""
    accelerator: str = ""
    address: str = ""
    deployed: str = ""
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def up(
    lab: Lab,
    names: Sequence[str],
    catalogue: Mapping[str, Recipe],
    *,
    progress: Progress,
    timeout: float,
    failed: Callable[[str, LabctlError], None] = lambda name, error: None,
) -> dict[str, UpResult]:
    """Bring up the targets named and deploy the workloads on them.

    Returns one result a target, in the order of ``names``; errors are in the results, and
    ``failed`` is told of each as it comes, while the others go on.
    ``timeout`` is for all guests to answer SSH once they were started, in seconds.
    """
    begun = time.monotonic()
    results = {name: UpResult(name, lab.targets[name].kind) for name in names}
    running: dict[str, guests.Started] = {}
    with ThreadPoolExecutor(len(names)) as pool:
        # What runs already is connected to while libvirt is asked: it makes `up` quick.
        early = {
            name: pool.submit(_connected, lab, name, catalogue)
            for name in names
            if not isinstance(lab.targets[name], VMSpec) or guests.listens(lab, name)
        }
        vms = vms_of(lab, names)
        started = guests.start(lab, vms, catalogue, progress=progress, failed=failed)
        for name, had in started.items():
            if isinstance(had, LabctlError):
                results[name].error = had
            else:
                results[name].accelerator = had.accelerator
                results[name].hypervisor = had.hypervisor
                results[name].notice = had.notice
                results[name].changed = had.started
                running[name] = had
    targets: dict[str, Target] = {}
    current: set[str] = set()
    workloads = sorted(load_workloads())

    def reach(name: str) -> None:
        result, guest = results[name], running.get(name)
        try:
            if guest is None or (
                not guest.started and name in early and not early[name].exception()
            ):
                target = early[name].result()
            else:
                try:
                    target = _answered(lab, name, catalogue, guest, progress, timeout)
                except guests.HeldError as error:
                    guest = guests.start_without_kvm(
                        lab, name, catalogue, guest, error, progress=progress
                    )
                    result.accelerator, result.notice = guest.accelerator, guest.notice
                    target = _answered(lab, name, catalogue, guest, progress, timeout)
            # A sweep compares checksums before it measures; `up` is to be quick.
            if simulates(lab, name) or is_current(
                target, workloads, binaries=binaries_of(lab, name), sums=False
            ):
                current.add(name)
            else:
                check(target)
            targets[name] = target
        except LabctlError as error:
            result.error = error
            failed(name, error)
        result.seconds = time.monotonic() - begun

    guests.side_by_side(reach, [name for name in names if results[name].error is None])
    # What is current goes along: another target may have to take its programs from there.
    everything = targets if targets.keys() - current else {}
    deployed = _deploy(lab, everything, progress, force=False)
    for name, outcome in deployed.items():
        results[name].error = outcome.error
        results[name].changed |= outcome.changed
        results[name].seconds = time.monotonic() - begun
    for target in targets.values():
        target.close()
    return results


def _connected(lab: Lab, name: str, catalogue: Mapping[str, Recipe]) -> Target:
    target = make_target(lab, name, catalogue)
    try:
        target.connect()
    except UnavailableError:
        if isinstance(lab.targets[name], VMSpec) and not guests.listens(lab, name):
            raise not_running(name) from None
        raise
    return target


def not_running(name: str) -> UnavailableError:
    """The error for a guest that should run and does not."""
    return UnavailableError("the guest is not running", where=name, hint=f"labctl up {name}")


def ready(
    lab: Lab, names: Sequence[str], catalogue: Mapping[str, Recipe], *, progress: Progress
) -> dict[str, Target | LabctlError]:
    """Connect to targets that are up and see that the workloads on them are current.

    Nothing is started: a guest that is not running is an error in the result.
    """
    results: dict[str, Target | LabctlError] = {}
    targets: dict[str, Target] = {}

    def reach(name: str) -> None:
        try:
            progress(name, "connecting")
            targets[name] = _connected(lab, name, catalogue)
        except LabctlError as error:
            results[name] = error

    guests.side_by_side(reach, names)
    for name, outcome in _deploy(lab, targets, progress, force=False).items():
        results[name] = outcome.error or targets[name]
    return {name: results[name] for name in names}


def deploy(
    lab: Lab,
    names: Sequence[str],
    catalogue: Mapping[str, Recipe],
    *,
    progress: Progress,
    force: bool,
) -> dict[str, DeployResult]:
    """Compile the workloads on the targets named; with ``force`` even if nothing changed."""
    targets: dict[str, Target] = {}
    failed: dict[str, DeployResult] = {}

    def reach(name: str) -> None:
        try:
            target = _connected(lab, name, catalogue)
            if not simulates(lab, name):
                check(target)
            targets[name] = target
        except LabctlError as error:
            failed[name] = DeployResult(target=name, ok=False, changed=False, error=error)

    guests.side_by_side(reach, names)
    done = failed | _deploy(lab, targets, progress, force=force)
    return {name: done[name] for name in names}


def _deploy(
    lab: Lab, targets: Mapping[str, Target], progress: Progress, *, force: bool
) -> dict[str, DeployResult]:
    workloads = sorted(load_workloads())
    binaries = {n: path for n in targets if (path := binaries_of(lab, n)) is not None}
    stale: list[Target] = []
    done: dict[str, DeployResult] = {}

    def look(name: str) -> None:
        target, given = targets[name], binaries.get(name)
        try:
            if not simulates(lab, name) and (
                force or not is_current(target, workloads, binaries=given)
            ):
                stale.append(target)
            else:
                done[name] = DeployResult(target=name, ok=True, changed=False, error=None)
        except LabctlError as error:
            done[name] = DeployResult(target=name, ok=False, changed=False, error=error)

    guests.side_by_side(look, list(targets))
    if stale:
        for target in stale:
            progress(target.name, "deploying")
        failed = {name for name, result in done.items() if not result.ok}
        done |= deploy_workloads(
            [t for n, t in targets.items() if n not in failed and not simulates(lab, n)],
            workloads,
            workloads_dir=data_dir("workloads"),
            private_dir=private_dir(lab.state_dir / "ansible"),
            progress=progress,
            binaries=binaries,
            force=force,
        )
    return done


def down(lab: Lab, names: Sequence[str], *, timeout: float) -> dict[str, str | LabctlError]:
    """Shut guests down in order; returns what was done with each, by name."""
    return guests.stop(lab, vms_of(lab, names), timeout=timeout)


def destroy(lab: Lab, names: Sequence[str]) -> dict[str, str | LabctlError]:
    """Remove guests with their disks and keys, and what is kept of simulated machines."""
    done: dict[str, str | LabctlError] = {}
    for name in names:
        spec = lab.targets[name]
        if isinstance(spec, SimSpec):
            simulated_target(lab, name, spec).forget()
            done[name] = "removed"
    return done | guests.remove(lab, vms_of(lab, names))


def status(lab: Lab, names: Sequence[str], catalogue: Mapping[str, Recipe]) -> list[StatusRow]:
    """What each target is doing; contacts each, within seconds."""
    rows = {name: StatusRow(name, lab.targets[name].kind) for name in names}
    for name, seen in guests.look(lab, vms_of(lab, names)).items():
        row = rows[name]
        row.state, row.accelerator, row.address = seen.state, seen.accelerator, seen.address
        row.note, row.details = seen.note, seen.details

    def look(name: str) -> None:
        row, spec = rows[name], lab.targets[name]
        if isinstance(spec, SSHSpec):
            row.address = f"{spec.user}@{spec.host}:{spec.port}"
        elif isinstance(spec, LocalSpec):
            row.address = "this machine"
        elif isinstance(spec, SimSpec):
            row.address = "simulated"
        elif row.state != "running":
            return
        try:
            target = _connected(lab, name, catalogue)
            row.state = row.state or "reachable"
            if isinstance(spec, SimSpec):
                target.close()
                return
            row.deployed = deployed_words(
                target, sorted(load_workloads()), binaries=binaries_of(lab, name)
            )
            target.close()
        except LabctlError as error:
            row.state = f"{row.state}, no SSH" if row.state else "unreachable"
            row.note = error.message

    guests.side_by_side(look, names)
    return [rows[name] for name in names]


def describe(lab: Lab, name: str) -> dict[str, Any]:
    """What the hypervisor says of a guest (accelerator, vCPUs, image ...); else nothing."""
    return guests.describe(lab, name) if isinstance(lab.targets[name], VMSpec) else {}


def reboot(lab: Lab, target: Target, catalogue: Mapping[str, Recipe], *, timeout: float) -> None:
    """Reboot a target; on return another boot identity answers.

    A guest gets a new QEMU process: a warm reset would keep the host's memory layout of the
    old one, and takes several times as long under TCG.

    Raises:
        ConfigError: the lab file does not let this target be rebooted.
        UnavailableError: it did not come back within ``timeout`` seconds, or is the same boot.
    """
    name = target.name
    if not isinstance(lab.targets[name], VMSpec):
        target.reboot(timeout=timeout)
        return
    deadline = time.monotonic() + timeout
    before = target.boot_id()
    target.close()
    stopped = guests.stop(lab, [name], timeout=min(60.0, timeout))[name]
    if isinstance(stopped, LabctlError):
        raise stopped
    started = guests.start(lab, [name], catalogue, progress=lambda *_, **__: None)[name]
    if isinstance(started, LabctlError):
        raise started
    _wait(lab, target, started, deadline)
    if target.boot_id() == before:
        raise UnavailableError("it was not rebooted: its boot identity is the same", where=name)


def _answered(
    lab: Lab,
    name: str,
    catalogue: Mapping[str, Recipe],
    guest: guests.Started,
    progress: Progress,
    timeout: float,
) -> Target:
    """A guest's target, connected, once it answers."""
    progress(name, "waiting for SSH")
    target = make_target(lab, name, catalogue)
    _wait(lab, target, guest, time.monotonic() + timeout)
    return target


def _wait(lab: Lab, target: Target, guest: guests.Started, deadline: float) -> None:
    """Until a guest that was started answers, or ``deadline`` (``time.monotonic``)."""
    guests.wait_ready(
        target,
        guest.watcher,
        booting=guest.started,
        deadline=deadline,
        check=partial(guests.check_runs, lab, target.name),
    )
