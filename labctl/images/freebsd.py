"""The FreeBSD builder: GPT, pmbr, gptboot, UFS1, loader and kernel on the serial console."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from labctl.errors import ConfigError
from labctl.images.bsd import (
    ADDRESS,
    GATEWAY,
    NETMASK,
    BsdBuilder,
    BsdSettings,
    lines,
    need,
)
from labctl.images.builder import GuestSettings
from labctl.images.layout import make_gpt_disk
from labctl.images.ufs import Tree

if TYPE_CHECKING:
    from labctl.images.catalogue import Recipe

_INTERFACES = {"e1000": "em0", "virtio-net-pci": "vtnet0"}
_LOADER = "boot/loader.conf.local"
_PMBR, _GPTBOOT = "boot/pmbr", "boot/gptboot"

_NEEDED = {
    _PMBR: "boot code of the first sector",
    _GPTBOOT: "boot code of the boot partition",
    "boot/loader": "the boot loader",
    "boot/kernel/kernel": "the kernel",
    "boot/defaults/loader.conf": "the boot loader's defaults",
}


class FreeBSDBuilder(BsdBuilder):
    """FreeBSD 9 and later, from base.txz and kernel.txz."""

    name = "freebsd"
    # Two entropy files: /entropy is read by /etc/rc.d, /boot/entropy by the loader of 11 on.
    boot_slots: ClassVar = {_LOADER: 512, "entropy": 4096, "boot/entropy": 4096}

    def configure(self, tree: Tree) -> None:
        """Serial terminal on, screens off."""
        for path, what in _NEEDED.items():
            need(tree, path, what)
        if "etc/ttys" in tree:
            tree.add_file("etc/ttys", serial_ttys(tree.read("etc/ttys").decode("latin-1")).encode())

    def lay_out(
        self, tree: Tree, root: Path, disk: Path, recipe: Recipe, settings: BsdSettings
    ) -> None:
        """GPT with boot code, root and swap; the labels are those of the recipe's fstab."""
        make_gpt_disk(
            disk,
            pmbr=tree.read(_PMBR),
            gptboot=tree.read(_GPTBOOT),
            root=root,
            root_mib=settings.root_mib,
            swap_mib=settings.swap_mib,
            disk_mib=recipe.disk_mib,
            seed=recipe.name,
        )

    def network(self, settings: GuestSettings, nic: str) -> list[str]:
        """A known address where there is one: DHCP costs seconds."""
        if settings.network == "dhcp":
            return ['ifconfig_DEFAULT="SYNCDHCP"']
        if nic not in _INTERFACES:
            raise ConfigError(f"FreeBSD has no driver for {nic}", hint=", ".join(_INTERFACES))
        return [
            f'ifconfig_{_INTERFACES[nic]}="inet {ADDRESS} netmask {NETMASK}"',
            f'defaultrouter="{GATEWAY}"',
        ]

    def boot_contents(self, settings: GuestSettings, disk_bus: str) -> dict[str, str]:
        """The loader's tunables. The entropy is written once, at random."""
        return {_LOADER: lines([f'{key}="{value}"' for key, value in settings.tunables.items()])}


def serial_ttys(text: str) -> str:
    """``/etc/ttys`` with a login on the first serial port and none on screens.

    A getty on a screen that is not there would be started again and again.
    """
    return lines([_tty(line) for line in text.splitlines()])


def _tty(line: str) -> str:
    if re.match(r"ttyu0\s", line):
        return 'ttyu0\t"/usr/libexec/getty std.115200"\tvt100\ton  secure'
    if re.match(r"ttyv[0-9a-f]\s", line):
        return re.sub(r"\s(on|onifexists)(\s|$)", r"\toff\2", line)
    return line
