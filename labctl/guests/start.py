"""Bringing guests up: image, disk, keys, port, domain."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from labctl.errors import ConfigError, LabctlError
from labctl.guests import kernels
from labctl.guests.hardware import GuestPlan, resolve
from labctl.guests.manage import into
from labctl.guests.ready import HeldError
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
from labctl.hypervisor.console import Watcher
from labctl.hypervisor.domain import DomainSpec
from labctl.images.builder import GuestBoot, GuestIdentity, get_builder
from labctl.images.catalogue import Recipe
from labctl.images.keys import ensure_keypair
from labctl.images.store import ImageStore
from labctl.lab import Lab, VMSpec
from labctl.paths import private_dir

Progress = Callable[..., None]
Failed = Callable[[str, LabctlError], None]
PORT_ATTEMPTS = 5
_CHOOSING = threading.Lock()
_NO_NOTES = ("slots", "kernel", "kernel_package")
"""What an image notes that is of no use, or stands in fields of its own."""


class DiffersError(ConfigError):
    """A guest runs otherwise than the lab file says by now: stopped and started it will not."""


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
    lab: Lab,
    names: Sequence[str],
    catalogue: Mapping[str, Recipe],
    *,
    progress: Progress,
    failed: Failed = lambda name, error: None,
) -> dict[str, Started | LabctlError]:
    """See that the domains of ``names`` run: build images, make disks, define, start.

    Each goes its own way at the same time: an archive that does not answer holds up only
    those that need it. ``failed`` is told of an error when it comes; it is in the result too.
    """
    results: dict[str, Started | LabctlError] = {}
    by_uri: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_uri[uri_of(lab, name)].append(name)
    for uri, mine in by_uri.items():
        try:
            with connect(uri, progress=partial(_tell, progress, mine)) as connection:
                for name in mine:
                    with into(results, name):
                        running = _running(connection, lab, name, catalogue[lab.vm(name).image])
                        if running:
                            results[name] = running
        except LabctlError as error:
            results |= {name: error for name in mine if name not in results}

    def bring(name: str) -> None:
        with into(results, name):
            spec, notice = _prepare(lab, name, catalogue, progress)
            with connect(uri_of(lab, name)) as connection:
                progress(name, "starting")
                results[name] = _start(connection, lab, name, spec, notice)
        tell(name)

    def tell(name: str) -> None:
        outcome = results.get(name)
        if isinstance(outcome, LabctlError):
            failed(name, outcome)

    for name in results:
        tell(name)
    missing = [name for name in names if name not in results]
    if missing:
        ensure_keypair(user_key(lab), f"labctl {lab.lab}")  # all have the same
        _at_once(bring, missing)
    return results


def _at_once(step: Callable[[str], None], names: Sequence[str]) -> None:
    """Do a step for each name at the same time; raise the first exception that one ended in.

    The threads do not outlive labctl: Ctrl-C ends a download at once, which a pool would
    wait for.
    """
    unexpected: list[BaseException] = []

    def run(name: str) -> None:
        try:
            step(name)
        except BaseException as error:  # raised again, where it belongs
            unexpected.append(error)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if unexpected:
        raise unexpected[0]


def _running(connection: Connection, lab: Lab, name: str, recipe: Recipe) -> Started | None:
    """The guest if it runs already, as the lab file says.

    Raises:
        DiffersError: it runs, but the lab file says something else by now.
    """
    domain_id, home = domain_name(lab, name), directory(lab, name)
    if domain.state(connection, domain_id) != "running" or not (home / RECORD).is_file():
        return None
    record = GuestRecord.read(lab, name)
    wrong = _differences(record, lab.vm(name), resolve(lab, name, recipe))
    if wrong:
        raise DiffersError(
            "the guest runs, but not as the lab file says",
            where=name,
            detail="\n".join(wrong),
            hint=f"labctl down {name} && labctl up {name}",
        )
    accelerator = domain.query_accelerator(connection, domain_id)
    hypervisor = f"{connection.shown}: {record.uri_why}"
    return Started(False, accelerator, Watcher(home / CONSOLE), hypervisor, record.notice)


def _differences(record: GuestRecord, spec: VMSpec, plan: GuestPlan) -> list[str]:
    """What a guest that runs has other than the lab file says, in words."""
    hardware, settings = plan.hardware, plan.settings
    wanted: dict[str, tuple[object, object]] = {
        "image": (record.image, spec.image),
        "vcpus": (record.vcpus, plan.vcpus),
        "memory_mib": (record.memory_mib, plan.memory_mib),
        "init": (record.init, plan.init),
        "accel": (record.asked_accel, spec.accel),
        "kernel": kernels.compared(record, plan),
    }
    if record.machine_type:
        wanted |= {
            "machine": (record.machine_type, hardware.machine),
            "cpu": (record.cpu_model_virtual, plan.cpu(record.accel)),
            "disk_bus": (record.disk_bus, hardware.disk_bus),
            "nic": (record.nic, hardware.nic),
            "video": (record.video, hardware.video),
            "smbios_product": (record.asked_smbios_product, hardware.smbios_product),
            "tunables": (record.asked_tunables, dict(settings.tunables)),
            "sysctls": (record.asked_sysctls, dict(settings.sysctls)),
            "cmdline": (record.asked_cmdline, settings.cmdline),
        }
    return [
        f"{key}: it has {_shown(has)}, the lab file says {_shown(want)}"
        for key, (has, want) in wanted.items()
        if has != want
    ]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = " ".join(f"{key}={text}" for key, text in sorted(value.items()))
    return str(value) if value != "" else "none"


def _prepare(
    lab: Lab, name: str, catalogue: Mapping[str, Recipe], progress: Progress
) -> tuple[DomainSpec, str]:
    """Everything on disk that a domain needs, and its specification."""
    spec, recipe = lab.vm(name), catalogue[lab.vm(name).image]
    plan = resolve(lab, name, recipe)
    progress(name, "choosing the accelerator")
    with _CHOOSING:  # the first asks KVM, the others remember
        choice = accel.choose(spec.accel or "auto")
    if choice.accel != "kvm" and plan.needs_kvm:
        raise ConfigError(
            "the host's own CPU needs KVM, which is not used here",
            where=lab.place("targets", name, "hardware", "cpu"),
            hint="name a CPU model of QEMU's, or max",
        )
    image = ImageStore().build(
        recipe,
        progress=lambda stage, part, text: progress(name, f"image, {stage}", part, text),
    )
    kernel = kernels.get(lab, name, recipe, plan, partial(progress, name))
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
    settings = replace(plan.settings, kernel=kernel)
    boot = get_builder(recipe.builder).prepare_guest(image, home, identity, settings)
    record = GuestRecord(
        domain=domain_name(lab, name),
        uri=uri_of(lab, name),
        uri_why=GuestRecord.reason(lab, name),
        image=recipe.name,
        image_key=image.key,
        image_notes={key: text for key, text in image.notes.items() if key not in _NO_NOTES},
        **kernels.recorded(image, plan, kernel),
        port=ports.claim_port(domain_name(lab, name), ports.default_directory()),
        user=recipe.ssh.user,
        poweroff=recipe.ssh.poweroff,
        host_key=boot.host_key,
        accel=choice.accel,
        asked_accel=spec.accel or "auto",
        accel_reason=choice.reason,
        vcpus=plan.vcpus,
        memory_mib=plan.memory_mib,
        cpu_model_virtual=plan.cpu(choice.accel),
        init=plan.init,
        kernel_cmdline=boot.cmdline,
        machine_type=plan.hardware.machine,
        disk_bus=plan.hardware.disk_bus,
        nic=plan.hardware.nic,
        video=plan.hardware.video,
        asked_smbios_product=plan.hardware.smbios_product,
        asked_cmdline=plan.settings.cmdline,
        asked_tunables=dict(plan.settings.tunables),
        asked_sysctls=dict(plan.settings.sysctls),
    )
    record.write(home)
    return _domain(lab, name, recipe, plan, record, boot), record.notice


def _domain(
    lab: Lab, name: str, recipe: Recipe, plan: GuestPlan, record: GuestRecord, boot: GuestBoot
) -> DomainSpec:
    hardware = plan.hardware
    return DomainSpec(
        name=record.domain,
        title=f"{lab.lab}: {name}",
        vcpus=record.vcpus,
        memory_mib=record.memory_mib,
        machine=hardware.machine,
        cpu=record.cpu_model_virtual,
        accel="kvm" if record.accel == "kvm" else "tcg",
        disk=boot.disk,
        disk_format="qcow2",
        disk_bus=hardware.disk_bus,
        nic=hardware.nic,
        video=hardware.video,
        smbios_product=hardware.smbios_product,
        rng=recipe.system == "linux",
        kernel=boot.kernel,
        initrd=boot.initrd,
        cmdline=boot.cmdline,
        console_log=directory(lab, name) / CONSOLE,
        ssh_port=record.port,
        guest_ssh_port=recipe.ssh.port,
    )


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
    hypervisor = f"{connection.shown}: {record.uri_why}"
    return Started(True, accelerator, watcher, hypervisor, notice)


def start_without_kvm(
    lab: Lab,
    name: str,
    catalogue: Mapping[str, Recipe],
    guest: Started,
    error: HeldError,
    *,
    progress: Progress,
) -> Started:
    """Start a guest that KVM holds once more, under TCG, where the lab file leaves the choice.

    KVM is not trusted from now on (``accel.distrust``).

    Raises:
        LabctlError: ``error`` itself where it was not KVM or not labctl's choice; or it
            could not be started again.
    """
    if guest.accelerator != "kvm" or lab.vm(name).accel != "auto":
        raise error
    with _CHOOSING:
        accel.distrust(f"held the guest {name}")
    progress(name, "KVM holds it: starting it again under TCG")
    with connect(uri_of(lab, name)) as connection:
        domain.destroy(connection, domain_name(lab, name))
    again = start(lab, [name], catalogue, progress=progress)[name]
    if isinstance(again, LabctlError):
        raise again
    return again


def _tell(progress: Progress, names: Sequence[str], text: str) -> None:
    for name in names:
        progress(name, text)
