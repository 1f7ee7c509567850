"""The disk that FreeBSD boots from: GPT with boot code, root and swap.

The way of a boot, and where its numbers are from:

- ``/boot/pmbr`` (sys/boot/i386/pmbr/pmbr.s) is in bytes 0 to 439 of sector 0. From 440 on
  are the disk signature (its DISKSIG) and the protective table; these stay as the GPT
  tool wrote them.
- It reads the primary GPT header at LBA 1, looks for the type of freebsd-boot, loads that
  *whole partition*, sector by sector, to 0x7c00 and jumps there. At segment 0x9000 it gives
  up with a message on the screen only, which on a serial console is silence; that is at
  (0x90000 - 0x7c00) = 545 KiB. gpart's manual asks for no more than 512 KiB.
- ``/boot/gptboot`` is in that partition; it boots ``/boot/loader`` from the first
  freebsd-ufs partition. Root is found again as ``/dev/gpt/LABEL`` (GEOM_LABEL).

A backup of the table is in the last 33 sectors, so a disk must not grow afterwards.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from labctl.errors import ConfigError
from labctl.images import process
from labctl.images.layout.parts import (
    FIRST_MIB_LBA,
    MIB,
    SECTOR,
    Layout,
    Partition,
    check_boot_sector,
    disk_size,
    new_disk,
    place,
    read_ufs1,
)

BOOT_LBA = 40
"""First sector of the boot partition: behind the table (2 to 33), at a multiple of 4 KiB."""

BOOT_MIN, BOOT_MAX = 64 * 1024, 512 * 1024
"""Bytes of the boot partition; above, pmbr stops without a word on the serial console."""

# Short for the type GUIDs, which sgdisk knows: freebsd-boot is
# 83bd6b9d-7f41-11dc-be0b-001560b84f0f, freebsd-ufs and -swap differ in the first part
# (gpart(8) and sys/gpt.h of FreeBSD).
_TYPES = {"boot": "A501", "root": "A503", "swap": "A502"}

_PMBR_CODE = 440
_NAMESPACE = uuid.UUID("6b1f0c3e-58d5-4e0b-9f0a-3f6f8a6d2b71")
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,36}")


def make_gpt_disk(
    disk: Path,
    *,
    pmbr: bytes,
    gptboot: bytes,
    root: Path,
    root_mib: int,
    swap_mib: int,
    labels: tuple[str, str, str] = ("labctl-boot", "labctl-root", "labctl-swap"),
    seed: str,
    disk_mib: int | None = None,
) -> Layout:
    """Write ``disk``, a sparse raw image; a file of that name is replaced.

    Args:
        disk: the image to write.
        pmbr: ``/boot/pmbr``, 512 bytes, of which the first 440 are used.
        gptboot: ``/boot/gptboot``.
        root: image of a UFS1 file system of at most ``root_mib`` MiB.
        root_mib: size of the root partition.
        swap_mib: size of the swap partition; 0: none.
        labels: names of the partitions boot, root and swap, for ``/dev/gpt``.
        seed: decides the GUIDs of disk and partitions.
        disk_mib: size of the disk; without it, what the partitions need: 2 MiB more than
            root and swap.

    Raises:
        ConfigError: a boot block or the root is not what it should be, or does not fit;
            ``where`` says which.
        UnavailableError: sgdisk is missing or failed.
    """
    check_boot_sector(pmbr, "pmbr")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise ConfigError(
                f"{label!r} is no partition label", hint="1 to 36 letters, digits, - and _"
            )
    if root_mib < 1 or swap_mib < 0:
        raise ConfigError(f"there is no partition of {root_mib} or {swap_mib} MiB")
    root_at = FIRST_MIB_LBA * SECTOR
    partitions = [
        Partition("boot", BOOT_LBA * SECTOR, _boot_size(gptboot)),
        Partition("root", root_at, root_mib * MIB),
    ]
    if swap_mib:
        partitions.append(Partition("swap", root_at + root_mib * MIB, swap_mib * MIB))
    layout = Layout(
        disk_size(root_at + (root_mib + swap_mib + 1) * MIB, disk_mib), tuple(partitions)
    )
    read_ufs1(root, layout["root"].size)
    with new_disk(disk, layout.size) as made:
        _write_table(made, layout, labels, seed)
        with made.open("r+b") as stream:
            stream.write(pmbr[:_PMBR_CODE])
            stream.seek(layout["boot"].start)
            stream.write(gptboot)
            place(root, stream, layout["root"].start)
    return layout


def _boot_size(gptboot: bytes) -> int:
    """Bytes of the boot partition, a multiple of 4 KiB."""
    if not any(gptboot):
        raise ConfigError("there is no code in it", where="gptboot")
    if len(gptboot) > BOOT_MAX:
        raise ConfigError(
            f"it has {len(gptboot)} bytes; pmbr loads up to {BOOT_MAX} and would hang silently",
            where="gptboot",
            hint="is this /boot/gptboot? The loader belongs into the root file system",
        )
    return max(BOOT_MIN, -(-len(gptboot) // 4096) * 4096)


def _write_table(disk: Path, layout: Layout, labels: tuple[str, str, str], seed: str) -> None:
    """Protective MBR, primary and backup GPT. sgdisk takes random GUIDs unless it is told."""
    options = ["--set-alignment=1", f"--disk-guid={_guid(seed, 'disk')}"]
    for number, (part, label) in enumerate(zip(layout.partitions, labels, strict=False), start=1):
        options += [
            f"--new={number}:{part.first_lba}:{part.last_lba}",
            f"--typecode={number}:{_TYPES[part.name]}",
            f"--partition-guid={number}:{_guid(seed, part.name)}",
            f"--change-name={number}:{label}",
        ]
    process.run([process.require("sgdisk", "gdisk"), *options, disk])


def _guid(seed: str, what: str) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{what} of {seed}")
