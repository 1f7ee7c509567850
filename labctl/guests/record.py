"""The record of a guest: what was made for it, and where its things lie."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from labctl.errors import UnavailableError
from labctl.lab import Lab
from labctl.paths import state_dir, write_atomic

CONSOLE = "console.log"
RECORD = "guest.json"


class GuestRecord(BaseModel):
    """``guest.json``: what was made, so that any later command finds it again.

    All but where it is and how it is entered goes into the facts of each run: what is
    chosen here changes what is measured. ``asked_...``: what the guest was told to be, for
    what it really is stands in the facts that it tells of itself. ``kernel_spec`` and
    ``kernel_key`` are "" for the image's own kernel; the package of one's own is "".
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    domain: str
    uri: str = "auto"
    uri_why: str = ""
    image: str
    image_key: str
    port: int
    user: str
    host_key: str
    accel: str
    asked_accel: str
    accel_reason: str
    vcpus: int
    memory_mib: int
    cpu_model_virtual: str
    init: str
    kernel_cmdline: str = ""
    # What follows may be missing in the record of a guest that an older labctl made.
    machine_type: str = ""
    disk_bus: str = ""
    nic: str = ""
    video: str = ""
    asked_smbios_product: str = ""
    asked_cmdline: str = ""
    asked_tunables: dict[str, str] = {}
    asked_sysctls: dict[str, str] = {}
    image_notes: dict[str, str] = {}
    kernel_spec: str = ""
    kernel_package: str = ""
    kernel_key: str = ""
    kernel_digest: str = ""
    poweroff: str = ""

    @classmethod
    def reason(cls, lab: Lab, name: str) -> str:
        """Why a guest is on the libvirt that it is on; "" before it was first started."""
        try:
            return cls.read(lab, name).uri_why
        except UnavailableError:
            return ""

    @property
    def notice(self) -> str:
        """What the user must be told loudly, or ""."""
        if self.accel == "tcg" and self.asked_accel == "auto":
            return (
                "no usable KVM here: guests run under TCG, where shapes mean something and times "
                "do not (labctl doctor says why)"
            )
        return ""

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
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise UnavailableError(
                "this guest was not brought up yet", where=name, hint=f"labctl up {name}"
            ) from None
        except (OSError, ValidationError):
            raise UnavailableError(
                "the record of this guest is damaged",
                where=str(path),
                hint=f"labctl destroy {name}, then labctl up {name}",
            ) from None


def directory(lab: Lab, name: str) -> Path:
    """Where a guest's disk, console and record are."""
    return lab.state_dir / "guests" / name


def domain_name(lab: Lab, name: str) -> str:
    """The libvirt name of a guest."""
    return f"labctl-{lab.ident}-{name}"


def uri_of(lab: Lab, name: str) -> str:
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


def ssh_words(lab: Lab, name: str) -> list[str]:
    """The OpenSSH command line that reaches a guest, host key verified."""
    record, home = GuestRecord.read(lab, name), directory(lab, name)
    return [
        "ssh", "-F", "none", "-p", str(record.port), "-i", str(user_key(lab)),
        "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
        "-o", f"UserKnownHostsFile={home / 'known_hosts'}", "-o", "LogLevel=ERROR",
        f"{record.user}@127.0.0.1",
    ]  # fmt: skip


def using(image: str) -> list[str]:
    """Guests of any lab of this user whose disks stand on an image: "lab/guest"."""
    found = []
    for path in sorted((state_dir() / "labs").glob(f"*/guests/*/{RECORD}")):
        with contextlib.suppress(ValidationError, OSError):
            if GuestRecord.model_validate_json(path.read_bytes()).image == image:
                found.append(f"{path.parents[2].name}/{path.parent.name}")
    return found
