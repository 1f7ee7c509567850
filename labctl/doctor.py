"""Looking before ``up``: what of this machine and its surroundings is fit for a lab.

Every check is a value with its remedy; ``labctl.cli`` prints them. Checks run side by
side, each under a deadline of its own, and none takes the others with it. Nothing is
changed here but that missing directories of labctl's own are made.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import psutil

from labctl import paths
from labctl.observe import facts
from labctl.observe.noise import noise_checks
from labctl.observe.probes import Check, Probe, Progress, Status, run_probes
from labctl.targets.base import Target

_GIB = 1 << 30
CACHE_NEEDS_BYTES = 4 * _GIB  # a Linux tree, its disk, a second kernel
GUEST_NEEDS_BYTES = _GIB  # what one guest's overlay grows to

_Need = Literal["guests", "access", "bsd"]
# program, Debian package, what it is for
_PROGRAMS: tuple[tuple[str, str, _Need], ...] = (
    ("ssh", "openssh-client", "access"),
    ("ssh-keygen", "openssh-client", "access"),
    ("cc", "gcc libc6-dev", "access"),
    ("qemu-system-x86_64", "qemu-system-x86", "guests"),
    ("qemu-img", "qemu-utils", "guests"),
    ("mmdebstrap", "mmdebstrap", "guests"),
    ("mke2fs", "e2fsprogs", "guests"),
    ("makefs", "makefs", "bsd"),
    ("sgdisk", "gdisk", "bsd"),
)
_PURPOSE = {
    "access": "needed to reach and build on targets",
    "guests": "needed to make and start guests",
    "bsd": "needed to make FreeBSD and NetBSD images",
}
# module, distribution, what brings it where pip alone does not
_LIBRARIES = (
    ("libvirt", "libvirt-python", "apt install libvirt-dev pkg-config gcc, then reinstall labctl"),
    ("ansible", "ansible-core", ""),
    ("ansible_runner", "ansible-runner", ""),
    ("paramiko", "paramiko", ""),
)


@dataclass(frozen=True)
class Guest:
    """What one guest of the lab asks of this machine."""

    name: str
    vcpus: int
    memory_mib: int


def run_checks(
    *,
    uris: Mapping[str, str] | None = None,
    guests: Sequence[Guest] = (),
    targets: Sequence[Target] = (),
    ports: Mapping[str, int] | None = None,
    load_lab: Callable[[], str] | None = None,
    fresh: bool = False,
    deadline: float = 20.0,
    slow_deadline: float = 120.0,
    progress: Progress | None = None,
) -> list[Check]:
    """Look at everything that a lab needs.

    Args:
        uris: libvirt URI (or "auto") of each hypervisor, by its name in the lab file.
        guests: the guests that shall run on this machine.
        targets: targets that should already answer (ssh ones), not yet connected.
        ports: ports on 127.0.0.1 that guests shall use, by guest.
        load_lab: reads the lab file and says what it holds; raises where it is wrong.
        fresh: prove the accelerator anew, whatever is remembered.
        deadline: seconds that an ordinary check is given.
        slow_deadline: seconds for what boots a guest or starts a hypervisor.
        progress: told (check, step) as checks begin and end; called in this thread.

    Returns:
        The checks in a stable order. A check that raised is a "fail" with its hint, and
        so is one that was not done at its deadline.
    """
    # First and alone: the other checks are work for this machine, too.
    noise = run_probes(
        [Probe("noise here", "noise", deadline, partial(_noise, deadline))], progress
    )
    probes = [
        *_lab_probes(load_lab, deadline),
        Probe("python", "python", deadline, _python),
        Probe("programs", "programs", deadline, partial(_programs, bool(guests))),
        Probe("accelerator", "kvm", slow_deadline, partial(_kvm, fresh)),
    ]
    for name, uri in (uris or {}).items():
        probes.append(
            Probe("hypervisor", name, slow_deadline, partial(_libvirt, name, uri, slow_deadline))
        )
    probes += [
        Probe("room", "disk", deadline, partial(_disk, len(guests))),
        Probe("room", "memory", deadline, partial(_memory, guests)),
        Probe("room", "cpus", deadline, partial(_cpus, guests)),
        Probe("room", "ports", deadline, partial(_ports, ports or {})),
    ]
    for target in targets:
        probes.append(Probe("targets", target.name, deadline, partial(_target, target, deadline)))
    return run_probes(probes, progress) + noise


def _lab_probes(load_lab: Callable[[], str] | None, deadline: float) -> list[Probe]:
    if load_lab is None:
        return []

    def look() -> Check:
        return Check(group="lab", name="lab file", status="ok", finding=load_lab())

    return [Probe("lab", "lab file", deadline, look)]


def _python() -> list[Check]:
    version = sys.version.split()[0]
    checks = [Check(group="python", name="python", status="ok", finding=version)]
    for module, distribution, remedy in _LIBRARIES:
        try:
            importlib.import_module(module)
            finding, status = importlib.metadata.version(distribution), "ok"
        except ImportError as error:
            finding, status = f"cannot be imported: {error}", "fail"
        checks.append(
            Check.model_validate(
                {
                    "group": "python",
                    "name": distribution,
                    "status": status,
                    "finding": finding,
                    "remedy": "" if status == "ok" else remedy or f"pip install {distribution}",
                }
            )
        )
    return checks


def _programs(with_guests: bool) -> list[Check]:
    # /sbin is not on every user's PATH, and what is there is found by full path.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    checks = []
    for program, package, need in _PROGRAMS:
        found = shutil.which(program, path=path)
        required = need == "access" or (need == "guests" and with_guests)
        missing: Status = "fail" if required else "warn"
        checks.append(
            Check(
                group="programs",
                name=program,
                status="ok" if found else missing,
                finding=found or f"not found; {_PURPOSE[need]}",
                remedy="" if found else f"apt install {package}",
            )
        )
    return checks


def _kvm(fresh: bool) -> Check:
    from labctl.hypervisor.accel import prove_kvm

    verdict = prove_kvm(force=fresh)
    known = "remembered" if verdict.cached else "just tried"
    if verdict.usable:
        return Check(
            group="accelerator", name="kvm", status="ok", finding=f"{verdict.reason} ({known})"
        )
    return Check(
        group="accelerator",
        name="kvm",
        status="warn",
        finding=f"{verdict.reason} ({known}); under TCG, shapes mean something, times do not",
        remedy=verdict.hint or "use a host with hardware virtualization",
    )


def _libvirt(name: str, uri: str, deadline: float) -> Check:
    from labctl.hypervisor.connection import connect

    with connect(uri, timeout=deadline) as connection:
        return Check(
            group="hypervisor",
            name=name,
            status="ok",
            finding=f"{connection.shown} ({connection.why})",
        )


def _disk(guests: int) -> list[Check]:
    needs = [
        ("cache", paths.cache_dir(), CACHE_NEEDS_BYTES, "XDG_CACHE_HOME"),
        ("state", paths.state_dir(), max(1, guests) * GUEST_NEEDS_BYTES, "XDG_STATE_HOME"),
    ]
    checks = []
    for name, directory, needed, variable in needs:
        free = shutil.disk_usage(directory).free
        writable = os.access(directory, os.W_OK)
        finding = f"{free / _GIB:.1f} GiB free in {directory}, {needed / _GIB:.0f} GiB wanted"
        status: Status = "ok" if free >= needed else "warn"
        if not writable:
            status, finding = "fail", f"{directory} is not writable"
        checks.append(
            Check(
                group="room",
                name=f"disk for {name}",
                status=status,
                finding=finding,
                remedy="" if status == "ok" else f"make room, or set {variable} to another place",
            )
        )
    return checks


def _memory(guests: Sequence[Guest]) -> Check:
    memory = psutil.virtual_memory()
    wanted = sum(guest.memory_mib for guest in guests) << 20
    finding = (
        f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB available, "
        f"{wanted / _GIB:.1f} GiB asked for by {len(guests)} guests"
    )
    status: Status = "ok"
    if wanted > memory.total:
        status = "fail"
    elif wanted > memory.available:
        status = "warn"  # guests that run already are counted twice
    remedy = "" if status == "ok" else "lower `memory` in the lab file, or stop other work"
    return Check(group="room", name="memory", status=status, finding=finding, remedy=remedy)


def _cpus(guests: Sequence[Guest]) -> Check:
    here = len(os.sched_getaffinity(0))
    too_wide = [guest for guest in guests if guest.vcpus > here]
    total = sum(guest.vcpus for guest in guests)
    finding = f"{here} CPUs; {total} vCPUs in {len(guests)} guests"
    if not too_wide:
        return Check(group="room", name="cpus", status="ok", finding=finding)
    names = ", ".join(f"{guest.name} ({guest.vcpus})" for guest in too_wide)
    return Check(
        group="room",
        name="cpus",
        status="warn",
        finding=f"{finding}; more vCPUs than CPUs: {names}",
        remedy="vCPUs that take turns look like contention: lower `vcpus` unless that is the point",
    )


def _ports(ports: Mapping[str, int]) -> Check:
    busy = [f"{port} ({name})" for name, port in ports.items() if not _port_is_free(port)]
    if not _port_is_free(0):
        return Check(
            group="room",
            name="ports",
            status="fail",
            finding="no port of 127.0.0.1 can be bound",
            remedy="is the loopback interface up? (ip link set lo up)",
        )
    if busy:
        return Check(
            group="room",
            name="ports",
            status="warn",
            finding=f"in use on 127.0.0.1: {', '.join(busy)}",
            remedy="right where the lab is up; else see what holds them (ss -ltnp)",
        )
    return Check(
        group="room", name="ports", status="ok", finding=f"free on 127.0.0.1 ({len(ports)} planned)"
    )


def _port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _target(target: Target, deadline: float) -> Check:
    from labctl.targets import preflight

    try:
        target.connect()
        preflight.check(target)
        system = target.run("uname -srm", timeout=deadline).stdout.strip()
    finally:
        target.close()
    return Check(group="targets", name=target.name, status="ok", finding=system)


def _noise(deadline: float) -> list[Check]:
    result = subprocess.run(
        ["/bin/sh", "-c", facts.script(compiler=False)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline,
        check=False,
    )
    here = facts.parse(result.stdout.decode("utf-8", "replace"))
    return [
        Check(
            group="noise here",
            name=check.name,
            status=check.status,
            finding=": ".join(_worded(check.value or "not told", check.why, check.status)),
            remedy=check.remedy if check.status != "ok" else "",
        )
        for check in noise_checks(here)
    ]


def _worded(value: str, why: str, status: str) -> Iterable[str]:
    return (value,) if status == "ok" else (value, why)
