"""Guests: a ``vm`` target from its image to an SSH server that answers.

Joins images (what is booted), hypervisor (the domain) and targets (SSH). Everything a
later command needs to know of a guest stands in its directory, ``guest.json``.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from labctl.errors import ConfigError, LabctlError, UnavailableError
from labctl.hypervisor import accel, domain, ports
from labctl.hypervisor.connection import Connection, connect
from labctl.hypervisor.console import Watcher, tail
from labctl.hypervisor.domain import DomainSpec
from labctl.images.builder import GuestIdentity, get_builder
from labctl.images.catalogue import Recipe
from labctl.images.keys import ensure_keypair
from labctl.images.store import ImageStore
from labctl.lab import Lab
from labctl.paths import private_dir, state_dir, write_atomic
from labctl.targets import VMTarget
from labctl.targets.base import Target

T = TypeVar("T")
CONSOLE = "console.log"
RECORD = "guest.json"
WORKDIR = "/var/lib/labctl"
Progress = Callable[..., None]
PORT_ATTEMPTS = 5
CONSOLE_INTERVAL_S = 0.05
SILENT_ATTEMPT_S = 10.0
"""How long after one attempt the next is made while the console does not say "ready"."""


class GuestRecord(BaseModel):
    """``guest.json``: what was made, so that any later command finds it again."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    domain: str
    uri: str = "auto"
    image: str
    image_key: str
    port: int
    user: str
    host_key: str
    accel: str
    asked_accel: str
    accel_reason: str
    vcpus: int
    asked_vcpus: int
    memory_mib: int
    cpu_model_virtual: str
    init: str
    kernel_cmdline: str = ""

    def write(self, home: Path) -> None:
        """Keep it, and its host key for OpenSSH's clients."""
        write_atomic(home / RECORD, self.model_dump_json(indent=2), mode=0o600)
        known = f"[127.0.0.1]:{self.port} {self.host_key}\n"
        write_atomic(home / "known_hosts", known, mode=0o600)

    @classmethod
    def read(cls, lab: Lab, name: str) -> Self:
        """The record of a guest.

        Raises:
            UnavailableError: it was never brought up.
        """
        path = directory(lab, name) / RECORD
        try:
            return cls.model_validate_json(path.read_text())
        except (FileNotFoundError, ValidationError):
            raise UnavailableError(
                "this guest was not brought up yet", where=name, hint=f"labctl up {name}"
            ) from None


@dataclass
class Started:
    """A guest whose domain runs.

    Attributes:
        started: whether it was started just now.
        accelerator: "kvm" or "tcg", as QEMU itself says.
        watcher: reads its console from where this boot began.
        notice: what the user must be told loudly.
    """

    started: bool
    accelerator: str
    watcher: Watcher
    notice: str = ""


@dataclass
class Seen:
    """A guest as its hypervisor shows it."""

    state: str
    accelerator: str = ""
    address: str = ""
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def directory(lab: Lab, name: str) -> Path:
    """Where a guest's disk, console and record are."""
    return lab.state_dir / "guests" / name


def domain_name(lab: Lab, name: str) -> str:
    """The libvirt name of a guest."""
    return f"labctl-{lab.ident}-{name}"


def _uri(lab: Lab, name: str) -> str:
    """Where a guest is, or is to be. ``auto`` is settled when a guest is first started and
    kept until it is destroyed, so that it is found again if a daemon comes or goes."""
    declared = lab.hypervisors[lab.vm(name).hypervisor].uri
    if declared != "auto":
        return declared
    try:
        return GuestRecord.read(lab, name).uri
    except UnavailableError:
        return declared


def user_key(lab: Lab) -> Path:
    """The lab's private user key."""
    return lab.state_dir / "id_ecdsa"


# -- up ----------------------------------------------------------------------------------


def start(
    lab: Lab, names: Sequence[str], catalogue: Mapping[str, Recipe], *, progress: Progress
) -> dict[str, Started | LabctlError]:
    """See that the domains of ``names`` run: build images, make disks, define, start."""
    results: dict[str, Started | LabctlError] = {}
    by_uri: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_uri[_uri(lab, name)].append(name)
    for uri, mine in by_uri.items():
        try:
            with connect(uri, progress=partial(_tell, progress, mine)) as connection:
                for name in mine:
                    with _into(results, name):
                        running = _running(connection, lab, name)
                        if running:
                            results[name] = running
            prepared = {}
            for name in [name for name in mine if name not in results]:
                with _into(results, name):
                    prepared[name] = _prepare(lab, name, catalogue, progress)
            if prepared:
                with connect(uri) as connection:
                    for name, (spec, notice) in prepared.items():
                        with _into(results, name):
                            progress(name, "starting")
                            results[name] = _start(connection, lab, name, spec, notice)
        except LabctlError as error:
            results |= {name: error for name in mine if name not in results}
    return results


def _running(connection: Connection, lab: Lab, name: str) -> Started | None:
    """The guest if it runs already, as the lab file says.

    Raises:
        ConfigError: it runs, but the lab file says something else by now.
    """
    domain_id, home = domain_name(lab, name), directory(lab, name)
    if domain.state(connection, domain_id) != "running" or not (home / RECORD).is_file():
        return None
    record, spec = GuestRecord.read(lab, name), lab.vm(name)
    wanted = {
        "image": (record.image, spec.image),
        "vcpus": (record.asked_vcpus, spec.vcpus),
        "memory_mib": (record.memory_mib, spec.memory),
        "init": (record.init, spec.init),
        "accel": (record.asked_accel, spec.accel),
    }
    wrong = [
        f"{key}: it has {has}, the lab file says {want}"
        for key, (has, want) in wanted.items()
        if has != want
    ]
    if wrong:
        raise ConfigError(
            "the guest runs, but not as the lab file says",
            where=name,
            detail="\n".join(wrong),
            hint=f"labctl down {name} && labctl up {name}",
        )
    accelerator = domain.query_accelerator(connection, domain_id)
    return Started(False, accelerator, Watcher(home / CONSOLE), _notice(record))


def _notice(record: GuestRecord) -> str:
    if record.accel == "tcg" and record.asked_accel == "auto":
        return f"no KVM here, guests run under TCG (functional, not timed): {record.accel_reason}"
    return ""


def _prepare(
    lab: Lab, name: str, catalogue: Mapping[str, Recipe], progress: Progress
) -> tuple[DomainSpec, str]:
    """Everything on disk that a domain needs, and its specification."""
    spec, recipe = lab.vm(name), catalogue[lab.vm(name).image]
    progress(name, "choosing the accelerator")
    choice = accel.choose(spec.accel or "auto")
    image = ImageStore().build(
        recipe,
        progress=lambda stage, part, text: progress(spec.image, stage, part, text),
    )
    progress(name, "making its disk")
    home = private_dir(directory(lab, name))
    authorized = ensure_keypair(user_key(lab), f"labctl {lab.lab}")
    host_key_pub = ensure_keypair(home / "ssh_host_ecdsa_key", f"{name} of labctl {lab.lab}")
    identity = GuestIdentity(
        hostname=name.replace("_", "-").replace(".", "-"),
        host_key=home / "ssh_host_ecdsa_key",
        host_key_pub=host_key_pub,
        authorized_key=authorized,
    )
    boot = get_builder(recipe.builder).prepare_guest(image, home, identity, init=spec.init)
    hardware = recipe.hardware
    port = ports.claim_port(domain_name(lab, name), ports.default_directory())
    cpu = hardware.cpu.kvm if choice.accel == "kvm" else hardware.cpu.tcg
    vcpus = min(spec.vcpus or 1, hardware.max_vcpus)
    memory_mib = spec.memory or hardware.memory_mib
    record = GuestRecord(
        domain=domain_name(lab, name),
        uri=_uri(lab, name),
        image=recipe.name,
        image_key=image.key,
        port=port,
        user=recipe.ssh.user,
        host_key=boot.host_key,
        accel=choice.accel,
        asked_accel=spec.accel or "auto",
        accel_reason=choice.reason,
        vcpus=vcpus,
        asked_vcpus=spec.vcpus or vcpus,
        memory_mib=memory_mib,
        cpu_model_virtual=cpu,
        init=spec.init or "minimal",
        kernel_cmdline=boot.cmdline,
    )
    record.write(home)
    made = DomainSpec(
        name=record.domain,
        title=f"{lab.lab}: {name}",
        vcpus=vcpus,
        memory_mib=memory_mib,
        machine=hardware.machine,
        cpu=cpu,
        accel=choice.accel,
        disk=boot.disk,
        disk_format="qcow2",
        disk_bus=hardware.disk_bus,
        nic=hardware.nic,
        rng=recipe.system == "linux",
        kernel=boot.kernel,
        initrd=boot.initrd,
        cmdline=boot.cmdline,
        console_log=home / CONSOLE,
        ssh_port=port,
    )
    return made, _notice(record)


def _start(connection: Connection, lab: Lab, name: str, spec: DomainSpec, notice: str) -> Started:
    """Start the domain; if somebody took its port meanwhile, on another one."""
    watcher = Watcher(spec.console_log)
    record = GuestRecord.read(lab, name)
    taken: set[int] = set()
    while True:
        try:
            domain.ensure_running(connection, spec)
            break
        except domain.PortTakenError:
            taken.add(spec.ssh_port)
            if len(taken) == PORT_ATTEMPTS:
                raise
            port = ports.claim_port(spec.name, ports.default_directory(), avoid=taken)
            spec = replace(spec, ssh_port=port)
            record = record.model_copy(update={"port": port})
    uri = "embed" if connection.is_embedded else connection.uri
    record.model_copy(update={"uri": uri}).write(directory(lab, name))
    return Started(True, domain.query_accelerator(connection, spec.name), watcher, notice)


def make_target(lab: Lab, name: str, recipe: Recipe) -> VMTarget:
    """The SSH side of a guest that was brought up.

    Raises:
        UnavailableError: it never was.
    """
    record = GuestRecord.read(lab, name)
    return VMTarget(
        name=name,
        port=record.port,
        user=record.user,
        identity=user_key(lab),
        host_key=record.host_key,
        workdir=WORKDIR,
        machine=lab.machine_of(name),
        reboot_command=recipe.ssh.reboot,
    )


def wait_ready(target: Target, watcher: Watcher, *, booting: bool, deadline: float) -> None:
    """Wait until SSH answers, reading the serial console for what goes wrong meanwhile.

    Args:
        watcher: reads the console of this boot.
        booting: whether it was started just now.
        deadline: on the clock of ``time.monotonic``.

    Raises:
        UnavailableError: it did not answer, or the console shows why it never will; the
            error says at which step it stopped and carries the console's tail.
    """
    # QEMU accepts on the host's port long before the guest listens; an attempt that is made
    # too early hangs. So the console's word comes first, and attempts without it are rare.
    attempt_at = time.monotonic() + (SILENT_ATTEMPT_S if booting else 0)
    last = "no attempt was made"
    while True:
        ready = any(event.kind == "ready" for event in watcher.poll())
        if watcher.failure:
            raise UnavailableError(
                f"the guest did not boot: {watcher.failure.text}",
                where=target.name,
                detail=tail(watcher.path),
                hint=f"labctl console {target.name}",
            )
        now = time.monotonic()
        if ready or now >= min(attempt_at, deadline):
            try:
                target.connect()
                return
            except UnavailableError as error:
                last = error.message
                attempt_at = now + SILENT_ATTEMPT_S
        if now > deadline:
            raise UnavailableError(
                f"no SSH within the time limit; its console stopped at: {watcher.step}",
                where=target.name,
                detail=tail(watcher.path),
                hint=f"the last attempt said: {last}",
            )
        time.sleep(CONSOLE_INTERVAL_S)


# -- down, destroy, status -----------------------------------------------------------------


def stop(lab: Lab, names: Sequence[str], *, timeout: float) -> dict[str, str | LabctlError]:
    """Shut guests down in order; what does not end within ``timeout`` seconds is killed."""

    def end(connection: Connection, name: str) -> str:
        domain_id = domain_name(lab, name)
        if domain.state(connection, domain_id) != "running":
            return "is down already"
        if domain.shutdown(connection, domain_id, timeout=timeout):
            return "shut down"
        domain.destroy(connection, domain_id)
        return f"did not shut down within {timeout:g} s and was powered off"

    return _each(lab, names, end)


def remove(lab: Lab, names: Sequence[str]) -> dict[str, str | LabctlError]:
    """Power guests off and remove all that was made for them."""

    def end(connection: Connection, name: str) -> str:
        domain_id, home = domain_name(lab, name), directory(lab, name)
        existed = home.is_dir() or domain.state(connection, domain_id) != "absent"
        domain.destroy(connection, domain_id)
        domain.undefine(connection, domain_id)
        ports.release_port(domain_id, ports.default_directory())
        shutil.rmtree(home, ignore_errors=True)
        return "removed" if existed else "was not there"

    return _each(lab, names, end)


def look(lab: Lab, names: Sequence[str]) -> dict[str, Seen]:
    """State of guests, without contacting them."""

    def see(connection: Connection, name: str) -> Seen:
        domain_id = domain_name(lab, name)
        seen = Seen(domain.state(connection, domain_id))
        if seen.state == "absent":
            return seen
        record = GuestRecord.read(lab, name)
        seen.address = f"127.0.0.1:{record.port}"
        seen.details = record.model_dump() | {"uri": connection.uri, "why": connection.why}
        if seen.state == "running":
            seen.accelerator = domain.query_accelerator(connection, domain_id)
            if seen.accelerator == "tcg":
                seen.note = _notice(record)
        return seen

    found = _each(lab, names, see)
    return {
        name: Seen("unknown", note=str(seen)) if isinstance(seen, LabctlError) else seen
        for name, seen in found.items()
    }


def describe(lab: Lab, name: str) -> dict[str, Any]:
    """What the hypervisor and QEMU say of a guest, for the record of a run.

    Raises:
        UnavailableError: the guest does not run.
    """
    record = GuestRecord.read(lab, name)
    with connect(_uri(lab, name)) as connection:
        return record.model_dump(exclude={"host_key", "port", "user"}) | {
            "accelerator": domain.query_accelerator(connection, record.domain),
            "qemu_version": domain.qemu_version(connection, record.domain),
            "hypervisor_uri": connection.uri,
        }


def ssh_words(lab: Lab, name: str) -> list[str]:
    """The OpenSSH command line that reaches a guest, host key verified."""
    record, home = GuestRecord.read(lab, name), directory(lab, name)
    return [
        "ssh", "-F", "none", "-p", str(record.port), "-i", str(user_key(lab)),
        "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
        "-o", f"UserKnownHostsFile={home / 'known_hosts'}", "-o", "LogLevel=ERROR",
        f"{record.user}@127.0.0.1",
    ]  # fmt: skip


@contextlib.contextmanager
def _into(results: dict[str, Any], name: str) -> Iterator[None]:
    """An error of one guest becomes its result and does not stop the others."""
    try:
        yield
    except LabctlError as error:
        results[name] = error


def _tell(progress: Progress, names: Sequence[str], text: str) -> None:
    for name in names:
        progress(name, text)


def _each(
    lab: Lab, names: Sequence[str], step: Callable[[Connection, str], T]
) -> dict[str, T | LabctlError]:
    """Do a step for each guest over its hypervisor's connection, opened once."""
    results: dict[str, T | LabctlError] = {}
    by_uri: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_uri[_uri(lab, name)].append(name)
    for uri, mine in by_uri.items():
        try:
            with connect(uri) as connection:
                for name in mine:
                    with _into(results, name):
                        results[name] = step(connection, name)
        except LabctlError as error:
            results |= {name: error for name in mine if name not in results}
    return results


def ports_of(lab: Lab, names: Sequence[str]) -> dict[str, int]:
    """Loopback ports of those guests that were brought up before and do not run now."""
    seen = look(lab, names)
    stopped = [name for name in names if seen[name].state != "running"]
    return {
        name: GuestRecord.read(lab, name).port
        for name in stopped
        if (directory(lab, name) / RECORD).is_file()
    }


def using(image: str) -> list[str]:
    """Guests of any lab of this user whose disks stand on an image: "lab/guest"."""
    found = []
    for path in sorted((state_dir() / "labs").glob(f"*/guests/*/{RECORD}")):
        with contextlib.suppress(ValidationError, OSError):
            if GuestRecord.model_validate_json(path.read_text()).image == image:
                found.append(f"{path.parents[2].name}/{path.parent.name}")
    return found
