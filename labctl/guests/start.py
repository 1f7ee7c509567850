"""Bringing guests up: image, disk, keys, port, domain; then the wait for SSH."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from labctl.errors import ConfigError, LabctlError, UnavailableError
from labctl.guests.manage import into
from labctl.guests.record import (
    CONSOLE,
    RECORD,
    GuestRecord,
    directory,
    domain_name,
    uri_of,
    user_key,
)
from labctl.hypervisor import accel, domain, ports
from labctl.hypervisor.connection import Connection, connect
from labctl.hypervisor.console import Watcher, tail
from labctl.hypervisor.domain import DomainSpec
from labctl.images.builder import GuestIdentity, GuestSettings, get_builder
from labctl.images.catalogue import Recipe
from labctl.images.keys import ensure_keypair
from labctl.images.store import ImageStore
from labctl.lab import Lab
from labctl.paths import private_dir
from labctl.targets.base import Target
from labctl.targets.posix import HostKeyError

Progress = Callable[..., None]
PORT_ATTEMPTS = 5
CONSOLE_INTERVAL_S = 0.05
SILENT_ATTEMPT_S = 30.0
"""How long after one attempt the next is made while the console does not say "ready"."""


@dataclass
class Started:
    """A guest whose domain runs.

    Attributes:
        started: whether it was started just now.
        accelerator: "kvm" or "tcg", as QEMU itself says.
        watcher: reads its console from where this boot began.
        hypervisor: the libvirt URI, and why it was this one.
        notice: what the user must be told loudly.
    """

    started: bool
    accelerator: str
    watcher: Watcher
    hypervisor: str
    notice: str = ""


def start(
    lab: Lab, names: Sequence[str], catalogue: Mapping[str, Recipe], *, progress: Progress
) -> dict[str, Started | LabctlError]:
    """See that the domains of ``names`` run: build images, make disks, define, start."""
    results: dict[str, Started | LabctlError] = {}
    by_uri: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_uri[uri_of(lab, name)].append(name)
    for uri, mine in by_uri.items():
        try:
            with connect(uri, progress=partial(_tell, progress, mine)) as connection:
                for name in mine:
                    with into(results, name):
                        running = _running(connection, lab, name)
                        if running:
                            results[name] = running
            prepared = {}
            for name in [name for name in mine if name not in results]:
                with into(results, name):
                    prepared[name] = _prepare(lab, name, catalogue, progress)
            if prepared:
                with connect(uri) as connection:
                    for name, (spec, notice) in prepared.items():
                        with into(results, name):
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
    hypervisor = f"{connection.uri}: {record.uri_why}"
    return Started(False, accelerator, Watcher(home / CONSOLE), hypervisor, record.notice)


def _prepare(
    lab: Lab, name: str, catalogue: Mapping[str, Recipe], progress: Progress
) -> tuple[DomainSpec, str]:
    """Everything on disk that a domain needs, and its specification."""
    spec, recipe = lab.vm(name), catalogue[lab.vm(name).image]
    progress(name, "choosing the accelerator")
    choice = accel.choose(spec.accel or "auto")
    image = ImageStore().build(
        recipe,
        progress=lambda stage, part, text: progress(name, f"image, {stage}", part, text),
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
    boot = get_builder(recipe.builder).prepare_guest(
        image, home, identity, GuestSettings(init=spec.init, nic=recipe.hardware.nic)
    )
    hardware = recipe.hardware
    port = ports.claim_port(domain_name(lab, name), ports.default_directory())
    cpu = hardware.cpu.kvm if choice.accel == "kvm" else hardware.cpu.tcg
    vcpus = min(spec.vcpus or 1, hardware.max_vcpus)
    memory_mib = spec.memory or hardware.memory_mib
    record = GuestRecord(
        domain=domain_name(lab, name),
        uri=uri_of(lab, name),
        uri_why=GuestRecord.reason(lab, name),
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
    return made, record.notice


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
    if not record.uri_why:
        uri = "embed" if connection.is_embedded else connection.uri
        record = record.model_copy(update={"uri": uri, "uri_why": connection.why})
    record.write(directory(lab, name))
    accelerator = domain.query_accelerator(connection, spec.name)
    hypervisor = f"{connection.uri}: {record.uri_why}"
    return Started(True, accelerator, watcher, hypervisor, notice)


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
            except HostKeyError:
                raise  # waiting does not make a wrong key right
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


def _tell(progress: Progress, names: Sequence[str], text: str) -> None:
    for name in names:
        progress(name, text)
