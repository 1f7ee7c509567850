"""The NetBSD builder: MBR, disklabel, bootxx, UFS1, boot and kernel on the serial console."""

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
from labctl.images.layout import make_mbr_disk
from labctl.images.ufs import Tree

if TYPE_CHECKING:
    from labctl.images.catalogue import Recipe

_INTERFACES = {"e1000": "wm0", "virtio-net-pci": "vioif0"}
_DISKS = {"ide": "wd0", "sata": "wd0", "virtio": "ld0", "scsi": "sd0"}
_MBR, _BOOTXX, _BOOT = "usr/mdec/mbr", "usr/mdec/bootxx_ffsv1", "usr/mdec/boot"
_NEEDED = {
    "netbsd": "the kernel (of the set kern-GENERIC)",
    "etc/rc": "the start-up scripts (of the set etc)",
    _MBR: "boot code of the first sector",
    _BOOTXX: "boot code of the slice",
    _BOOT: "the boot loader",
}


class NetBSDBuilder(BsdBuilder):
    """NetBSD 6 and later, from base, etc, kern-GENERIC and comp.

    No device nodes are made: without /dev/console init makes a /dev in memory.
    """

    name = "netbsd"
    tunable = False
    boot_slots: ClassVar = {"etc/fstab": 1024}

    def configure(self, tree: Tree) -> None:
        """The second boot stage in its place; serial terminal on, screens off."""
        for path, what in _NEEDED.items():
            need(tree, path, what)
        tree.add_file("boot", tree.read(_BOOT), mode=0o444)
        tree.add_dir("proc")
        tree.add_dir("kern")
        if "etc/ttys" in tree:
            tree.add_file("etc/ttys", serial_ttys(tree.read("etc/ttys").decode("latin-1")).encode())

    def lay_out(
        self, tree: Tree, root: Path, disk: Path, recipe: Recipe, settings: BsdSettings
    ) -> None:
        """One MBR slice whose disklabel has root and swap."""
        make_mbr_disk(
            disk,
            mbr=tree.read(_MBR),
            bootxx=tree.read(_BOOTXX),
            root=root,
            root_mib=settings.root_mib,
            swap_mib=settings.swap_mib,
            disk_mib=recipe.disk_mib,
        )

    def network(self, settings: GuestSettings, nic: str) -> list[str]:
        """A known address where there is one: DHCP costs seconds."""
        if settings.network == "dhcp":
            return ["dhcpcd=YES"]
        if nic not in _INTERFACES:
            raise ConfigError(f"NetBSD has no driver for {nic}", hint=", ".join(_INTERFACES))
        return [
            f'ifconfig_{_INTERFACES[nic]}="inet {ADDRESS} netmask {NETMASK}"',
            f"defaultroute={GATEWAY}",
        ]

    def boot_contents(self, settings: GuestSettings, disk_bus: str) -> dict[str, str]:
        """The mounts, by the name that the disk has on its bus."""
        disk = _DISKS[disk_bus]
        return {
            "etc/fstab": lines(
                [
                    f"/dev/{disk}a\t/\tffs\trw,noatime\t1 1",
                    f"/dev/{disk}b\tnone\tswap\tsw\t0 0",
                    "ptyfs\t/dev/pts\tptyfs\trw\t0 0",
                ]
            )
        }


def serial_ttys(text: str) -> str:
    """``/etc/ttys`` with the console's login as the set has it, and none on screens."""
    screen = re.compile(r"(ttyE[0-9]\s.*)\son(\s|$)")
    return lines([screen.sub(r"\1\toff\2", line) for line in text.splitlines()])
