"""What a guest is, as a value, and its libvirt XML. Pure: no hypervisor is asked.

The XML carries the spec itself in its metadata, so that a domain found running can
be compared with what is wanted, field by field (``parse``, ``differences``).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jinja2

from labctl.errors import ConfigError

METADATA_URI = "urn:labctl:domain:1"
_UUIDS = uuid.uuid5(uuid.NAMESPACE_URL, METADATA_URI)
_PATHS = ("disk", "console_log", "kernel", "initrd")


@dataclass(frozen=True)
class DomainSpec:
    """One guest.

    Attributes:
        name: the domain's name; its UUID and MAC address follow from it.
        title: one line for people (``virsh list --title``).
        machine: QEMU's machine type: "pc" or "q35".
        cpu: "host" (KVM only), "max", or a CPU model of QEMU's ("Nehalem").
        accel: "kvm" or "tcg".
        disk_format: "qcow2" or "raw".
        disk_bus: "virtio", "ide" (machine pc) or "sata".
        nic: a QEMU network device: "virtio-net-pci", "e1000" ...
        kernel, initrd, cmdline: direct kernel boot; without ``kernel`` the disk boots.
        console_log: file that the first serial port is appended to.
        ssh_port: port on 127.0.0.1 that leads to the guest's ``guest_ssh_port``.
        video: "none", or "vga" for boot code that prints by the BIOS alone.
        smbios_product: SMBIOS type 1 product name (some guests look at it); "" is QEMU's own.
        pinning: host CPU of each vCPU, in order; () leaves them to the scheduler.
        rng: whether it has a virtio entropy device.
        run_as: "+uid:+gid" that QEMU runs as under a system daemon, "" for its default.
    """

    name: str
    title: str
    vcpus: int
    memory_mib: int
    accel: Literal["kvm", "tcg"]
    disk: Path
    console_log: Path
    ssh_port: int
    machine: str = "pc"
    cpu: str = "max"
    disk_format: Literal["qcow2", "raw"] = "qcow2"
    disk_bus: Literal["virtio", "ide", "sata"] = "virtio"
    nic: str = "virtio-net-pci"
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    guest_ssh_port: int = 22
    video: Literal["none", "vga"] = "none"
    smbios_product: str = ""
    pinning: tuple[int, ...] = ()
    rng: bool = True
    run_as: str = ""


def render(spec: DomainSpec) -> str:
    """The domain's XML.

    Raises:
        ConfigError: a text has characters that XML cannot hold, or the pinning
            does not name one CPU for each vCPU.
    """
    for field, value in _plain(spec).items():
        if isinstance(value, str) and any(ord(c) < 32 or c in "\x7f\ufffe\uffff" for c in value):
            raise ConfigError(f"control character in {field}: {value!r}", where=repr(spec.name))
    if not spec.name or "/" in spec.name:
        raise ConfigError(f"not a name for a domain: {spec.name!r}")
    if spec.pinning and len(spec.pinning) != spec.vcpus:
        raise ConfigError(
            f"pinning names {len(spec.pinning)} CPUs for {spec.vcpus} vCPUs", where=spec.name
        )
    if not spec.nic.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"not a network device: {spec.nic!r}", where=spec.name)
    identity = uuid.uuid5(_UUIDS, spec.name)
    express = not spec.machine.startswith("pc")
    return _template().render(
        spec=spec,
        uuid=str(identity),
        mac="52:54:00:" + ":".join(f"{byte:02x}" for byte in identity.bytes[:3]),
        metadata_uri=METADATA_URI,
        stored=json.dumps(_plain(spec), sort_keys=True),
        bus="pcie.0" if express else "pci.0",
        # libvirt puts it behind a root port of its own, where QEMU makes it a device of
        # virtio 1.0, which systems of before 2015 do not know; on the root bus it is both.
        disk_on_root_bus=express and spec.disk_bus == "virtio" and spec.kernel is None,
        disk_target={"virtio": "vda", "ide": "hda", "sata": "sda"}[spec.disk_bus],
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("labctl.hypervisor"),
        autoescape=True,  # names and paths come from the user
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("domain.xml.j2")


def parse(xml: str) -> DomainSpec | None:
    """The spec that a domain's XML carries; None where labctl did not make it."""
    element = ET.fromstring(xml).find(f"./metadata/{{{METADATA_URI}}}spec")  # noqa: S314 - libvirt's own
    if element is None or not element.text:
        return None
    known = {field.name for field in dataclasses.fields(DomainSpec)}
    try:
        values = {key: value for key, value in json.loads(element.text).items() if key in known}
        for key in _PATHS:
            values[key] = Path(values[key]) if values.get(key) else None
        values["pinning"] = tuple(values.get("pinning", ()))
        return DomainSpec(**values)
    except (ValueError, TypeError, AttributeError):
        return None  # of another version of labctl


def differences(found: DomainSpec, wanted: DomainSpec) -> list[str]:
    """What differs, in words: ``["vcpus is 2, not 4"]``; ``title`` does not count."""
    ours, theirs = _plain(wanted), _plain(found)
    return [
        f"{key} is {theirs[key]!r}, not {value!r}"
        for key, value in ours.items()
        if key != "title" and theirs[key] != value
    ]


def _plain(spec: DomainSpec) -> dict[str, Any]:
    return {
        key: str(value) if isinstance(value, Path) else list(value) if key == "pinning" else value
        for key, value in dataclasses.asdict(spec).items()
    }
