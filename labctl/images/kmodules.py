"""Choosing the few kernel modules that a guest needs, out of a kernel package's many.

Works on an unpacked package without depmod: each module says itself what it depends on.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ConfigError, UnavailableError
from labctl.images.process import require, run

DRIVERS: dict[str, tuple[str, ...]] = {
    "virtio": ("virtio_pci", "virtio_blk"),
    "ide": ("ata_piix", "sd_mod"),
    "sata": ("ahci", "sd_mod"),
    "virtio-net-pci": ("virtio_pci", "virtio_net"),
    "e1000": ("e1000",),
}
"""Drivers for each disk bus and network card of ``catalogue.Hardware``."""

ALWAYS = ("ext4", "button", "evdev")
"""Root file system and power button."""

_SUFFIX = re.compile(r"\.ko(\.xz|\.zst)?$")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class Module:
    """A module with its content uncompressed. ``depends``: names of all modules that must
    be loaded before it, in that order."""

    name: str
    data: bytes
    depends: tuple[str, ...]


def choose(
    modules: Path,
    version: str,
    wanted: Sequence[str],
    scratch: Path,
    *,
    optional: Sequence[str] = (),
) -> list[Module]:
    """``wanted`` and what they depend on, each after what it depends on.

    Args:
        modules: the package's ``lib/modules/<version>``.
        version: the kernel's release, for the error.
        scratch: directory for temporary files.
        optional: taken as well where the kernel has them.

    Raises:
        ConfigError: the kernel has no such module, neither apart nor built in.
    """
    files = {_name(path): path for path in sorted(modules.rglob("*.ko*")) if _name(path)}
    builtin = {_name(Path(line)) for line in (modules / "modules.builtin").read_text().splitlines()}
    chosen: dict[str, Module] = {}

    def add(name: str) -> None:
        if name in chosen or (name in builtin and name not in files):
            return
        if name not in files:
            raise ConfigError(
                f"the kernel {version} has no driver {name}",
                hint="its hardware wants another kernel package, such as linux-image-amd64",
            )
        data = _read(files[name], scratch)
        match = _DEPENDS.search(data)
        depends = [_plain(n) for n in match[1].decode().split(",") if n] if match else []
        before: dict[str, None] = {}
        for dependency in depends:
            add(dependency)
            if dependency in chosen:  # or it is built in
                before |= dict.fromkeys((*chosen[dependency].depends, dependency))
        chosen[name] = Module(name, data, tuple(before))

    for name in (*wanted, *(name for name in optional if _plain(name) in files)):
        add(_plain(name))
    return list(chosen.values())


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _name(path: Path) -> str:
    """``virtio-rng.ko.xz`` -> ``virtio_rng``; "" when it is no module."""
    stem, found = _SUFFIX.subn("", path.name)
    return _plain(stem) if found else ""


def _read(path: Path, scratch: Path) -> bytes:
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zst":
        plain = scratch / path.stem
        run([require("zstd", "zstd"), "-q", "-d", "-f", path, "-o", plain])
        return plain.read_bytes()
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnavailableError(f"the module {path.name} cannot be read: {error}") from None
