"""Vagrant boxes: an image in the form that the plugin vagrant-libvirt takes.

Also the only place that says a guest's hardware in that plugin's words; the top-level
Vagrantfile gets them by ``labctl lab --json``, a box carries those that it cannot boot without.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from labctl import paths
from labctl.images.builder import GuestSettings
from labctl.images.catalogue import Hardware, Recipe

DISK, KERNEL, INITRD = "box.img", "vmlinuz", "initrd"
_GIB = 1 << 30
_LEVEL = 1
"""Of gzip: a box is unpacked on the machine that made it, or on the next one; 6 takes thrice as
long for a tenth less."""

_NEEDED = ("machine_type", "disk_bus", "disk_device", "nic_model_type")
"""Options that fit what is written on the disk, such as the mounts."""


@dataclass(frozen=True)
class BoxFiles:
    """What a box is made of. Without ``kernel`` its disk boots by itself.

    Attributes:
        disk: a qcow2 image with nothing behind it.
        virtual_bytes: size of the disk that the guest sees.
    """

    disk: Path
    virtual_bytes: int
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""


def plain_settings(recipe: Recipe) -> GuestSettings:
    """What a guest has that chooses nothing itself."""
    return GuestSettings(
        init=recipe.default_init or None,
        tunables=recipe.tunables,
        sysctls=recipe.sysctls,
        nic=recipe.hardware.nic,
        disk_bus=recipe.hardware.disk_bus,
    )


def box_label(recipe: Recipe, settings: GuestSettings, kernel: str = "") -> str:
    """The image's name; with a digest behind it where its guests have settings of their own,
    which are written on the disk, or a kernel of their own, as it was asked for."""
    own = replace(settings, network="user", kernel=None)
    if own == plain_settings(recipe) and not kernel:
        return recipe.name
    values = {name: value for name, value in asdict(own).items() if name != "kernel"}
    content = json.dumps(values | ({"kernel": kernel} if kernel else {}), sort_keys=True)
    return f"{recipe.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def box_path(label: str) -> Path:
    """Where a box is kept, unless it is exported elsewhere."""
    return paths.cache_dir() / "boxes" / f"{label}.box"


def guest_options(recipe: Recipe) -> dict[str, Any]:
    """How Vagrant deals with the guest: ``guest`` (its plugin for the system) and ``ssh``."""
    return {
        "guest": recipe.system,
        "ssh": {
            "username": recipe.ssh.user,
            "shell": "sh",  # root's own may be csh
            "sudo_command": "%c",  # the user is root, and there is no sudo
            "insert_key": False,
        },
    }


def provider_options(hardware: Hardware, *, cpu: str) -> dict[str, Any]:
    """The hardware by vagrant-libvirt's names of options; ``cpu`` is for the accelerator used.

    What is not said would be the plugin's default: a virtio disk, the host's CPU model, a
    VGA card, a memory balloon. Not here: ``driver``, ``cpus`` and ``memory``.
    """
    model = {"host": "host-passthrough", "max": "maximum"}.get(cpu, cpu)
    options: dict[str, Any] = {
        "machine_type": hardware.machine,
        "disk_bus": hardware.disk_bus,
        "disk_device": {"virtio": "vda", "ide": "hda", "sata": "sda"}[hardware.disk_bus],
        "nic_model_type": "virtio" if hardware.nic == "virtio-net-pci" else hardware.nic,
        "graphics_type": "none",
        "memballoon_enabled": False,
        "usbctl_dev": {"model": "none"},
    }
    if model in ("host-passthrough", "maximum"):
        options["cpu_mode"] = model
    else:
        options |= {"cpu_mode": "custom", "cpu_model": model, "cpu_fallback": "forbid"}
    if hardware.video == "vga":  # the plugin gives a video card only along with a display
        options |= {"graphics_type": "vnc", "video_type": "vga"}
    if hardware.smbios_product:
        options["sysinfo"] = {"system": {"product": hardware.smbios_product}}
    return options


def write_box(
    target: Path,
    files: BoxFiles,
    recipe: Recipe,
    hardware: Hardware,
    *,
    progress: Callable[[float], None] = lambda part: None,
) -> None:
    """Write a box; the same files give the same bytes.

    Args:
        target: written in place, mode 0600: a box holds its guests' private host key.
        progress: called with the fraction done.

    Raises:
        OSError: the disk is full, or a file cannot be read.
    """
    metadata = {
        "provider": "libvirt",
        "format": "qcow2",
        "virtual_size": -(-files.virtual_bytes // _GIB),
    }
    members: dict[str, Path | bytes] = {
        "metadata.json": json.dumps(metadata).encode() + b"\n",
        "Vagrantfile": vagrantfile(files, recipe, hardware).encode(),
    }
    members |= {KERNEL: files.kernel} if files.kernel else {}
    members |= {INITRD: files.initrd} if files.initrd else {}
    members[DISK] = files.disk
    sizes = [
        member.stat().st_size if isinstance(member, Path) else len(member)
        for member in members.values()
    ]
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(done / sum(sizes))

    target.touch(mode=0o600)
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for (name, member), size in zip(members.items(), sizes, strict=True):
            entry = tarfile.TarInfo(name)  # owner 0, time 0
            entry.size, entry.mode = size, 0o644 if isinstance(member, bytes) else 0o600
            with _open(member) as stream:
                archive.addfile(entry, _Told(stream, tell))


def vagrantfile(files: BoxFiles, recipe: Recipe, hardware: Hardware) -> str:
    """The box's own Vagrantfile: what it needs to boot and to be logged in to."""
    guest = guest_options(recipe)
    options = provider_options(hardware, cpu="max")
    lines = [
        "# Made by `labctl image export`: what this box cannot do without.",
        'Vagrant.configure("2") do |config|',
        f"  config.vm.guest = :{guest['guest']}",
        '  config.vm.synced_folder ".", "/vagrant", disabled: true',
        *(f"  config.ssh.{key} = {_ruby(value)}" for key, value in guest["ssh"].items()),
        "  config.vm.provider :libvirt do |libvirt|",
        *(f"    libvirt.{key} = {_ruby(options[key])}" for key in _NEEDED),
    ]
    if files.kernel:
        lines.append(f"    libvirt.kernel = File.expand_path({_ruby(KERNEL)}, __dir__)")
        lines.append(f"    libvirt.cmd_line = {_ruby(files.cmdline)}")
    if files.initrd:
        lines.append(f"    libvirt.initrd = File.expand_path({_ruby(INITRD)}, __dir__)")
    return "\n".join([*lines, "  end", "end", ""])


def _ruby(value: str | int | bool) -> str:
    """A literal of Ruby's."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _open(member: Path | bytes) -> IO[bytes]:
    return io.BytesIO(member) if isinstance(member, bytes) else member.open("rb")


class _Told:
    """A stream to read from that says how far the reading is."""

    def __init__(self, stream: IO[bytes], tell: Callable[[int], None]) -> None:
        self._stream, self._tell = stream, tell

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._tell(len(data))
        return data
