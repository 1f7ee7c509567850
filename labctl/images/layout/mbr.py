"""The disk that NetBSD boots from: one MBR slice, whose disklabel has root and swap.

The way of a boot, and where its numbers are from (sys/sys/bootblock.h and
usr.sbin/installboot/arch/i386.c of NetBSD, which does the same from within NetBSD):

- ``/usr/mdec/mbr`` is sector 0. Its bytes 446 to 509 are the partition table
  (MBR_PART_OFFSET), all else stays, the signature bytes too: 440 to 443 are the disk's
  serial number, which nothing of NetBSD needs, and 444 to 445 a magic of the boot code's
  own (MBR_BS_MAGIC_OFFSET), without which fdisk(8) would take it for someone else's.
- It loads the first sector of the active slice. That is the begin of
  ``/usr/mdec/bootxx_ffsv1``, which loads 15 sectors from there (BOOTXX_SECTORS). Sector 1
  of them is the disklabel, not code.
- bootxx boots ``/boot`` from the FFS that begins where it lies itself: UFS1 leaves its
  first 8 KiB free for that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ConfigError
from labctl.images.layout import disklabel
from labctl.images.layout.parts import (
    FIRST_MIB_LBA,
    MIB,
    SECTOR,
    UFS1_BOOT_AREA,
    Layout,
    Partition,
    Ufs1,
    check_boot_sector,
    disk_size,
    new_disk,
    place,
    read_ufs1,
)

BOOTXX_MAX = 15 * SECTOR
BOOTXX_MAGIC = 0x7886B6D1
"""X86_BOOT_MAGIC_1 of sys/bootblock.h, at ``_MAGIC_AT`` of bootxx."""

_LABEL_SECTOR = 1
_MAGIC_AT = 2 * SECTOR + 4
# struct x86_boot_params: its length, then flags, timeout, consdev and conspeed.
_LENGTH_AT, _TIMEOUT_AT, _CONSDEV_AT, _CONSPEED_AT = (_MAGIC_AT + 4 * n for n in (1, 3, 4, 5))
_PATCHED = _CONSPEED_AT + 4 - _LENGTH_AT

_TABLE_AT = 446
_ACTIVE, _NETBSD = 0x80, 0xA9
# Cylinder, head and sector: the begin is the same for any BIOS with more than 32 heads, and
# what reads by number of sector needs none of it. The end says "beyond", the usual 254/63,
# and not where the slice ends: QEMU takes an end at a head below 16 for the geometry of the
# disk itself (hd_geometry_guess in hw/block/hd-geometry.c), so that a guest would see a
# different drive for every size of slice.
_HEADS, _SECTORS_A_TRACK = 255, 63
_CHS_END = bytes((0xFE, 0xFF, 0xFF))


@dataclass(frozen=True)
class BootParameters:
    """What installboot can set in bootxx; ``None`` leaves what is there.

    ``timeout`` in seconds; ``console``: 0 the screen, 1 the first serial port, ``speed``
    its baud. ``consdev=com0`` in /boot.cfg does the same, a little later.
    """

    timeout: int | None = None
    console: int | None = None
    speed: int | None = None


def make_mbr_disk(
    disk: Path,
    *,
    mbr: bytes,
    bootxx: bytes,
    root: Path,
    root_mib: int,
    swap_mib: int,
    disk_type: str = "ESDI",
    type_name: str = "labctl disk",
    pack_name: str = "labctl",
    parameters: BootParameters | None = None,
    disk_mib: int | None = None,
) -> Layout:
    """Write ``disk``, a sparse raw image; a file of that name is replaced.

    Args:
        disk: the image to write.
        mbr: ``/usr/mdec/mbr``, 512 bytes.
        bootxx: ``/usr/mdec/bootxx_ffsv1``.
        root: image of a UFS1 file system of at most ``root_mib`` MiB, whose first 8 KiB
            are zero.
        root_mib: size of the root partition, a.
        swap_mib: size of the swap partition, b; 0: none.
        disk_type: ESDI (wd), LD (virtio) or SCSI (sd).
        type_name: the label's name of the disk's model, up to 16 characters.
        pack_name: the label's name of the disk, up to 16 characters.
        parameters: settings to patch into bootxx.
        disk_mib: size of the disk; without it, what the partitions need: 1 MiB more than
            root and swap.

    Raises:
        ConfigError: a boot block or the root is not what it should be, or does not fit;
            ``where`` says which.
    """
    check_boot_sector(mbr, "mbr")
    code = _patched(bootxx, parameters or BootParameters())
    if root_mib < 1 or swap_mib < 0:
        raise ConfigError(f"there is no partition of {root_mib} or {swap_mib} MiB")
    _check_names(disk_type, type_name, pack_name)
    at = FIRST_MIB_LBA * SECTOR
    partitions = [Partition("root", at, root_mib * MIB)]
    if swap_mib:
        partitions.append(Partition("swap", at + root_mib * MIB, swap_mib * MIB))
    used = at + (root_mib + swap_mib) * MIB
    layout = Layout(disk_size(used, disk_mib), tuple(partitions))
    if layout.size // SECTOR >= 2**32:
        raise ConfigError("an MBR and a disklabel hold less than 2 TiB")
    superblock = read_ufs1(root, layout["root"].size)
    _check_boot_area(root)
    label = disklabel.encode(
        _label_entries(layout, superblock),
        disk_sectors=layout.size // SECTOR,
        disk_type=disk_type,
        type_name=type_name,
        pack_name=pack_name,
    )
    with new_disk(disk, layout.size) as made, made.open("r+b") as stream:
        table = _slice_entry((used - at) // SECTOR).ljust(64, b"\0")
        stream.write(mbr[:_TABLE_AT] + table + mbr[_TABLE_AT + 64 :])
        place(root, stream, at)
        stream.seek(at)
        stream.write(code[:SECTOR] + label.ljust(SECTOR, b"\0") + code[2 * SECTOR :])
    return layout


def _slice_entry(sectors: int) -> bytes:
    """The first entry of the partition table: the slice, active."""
    track, sector = divmod(FIRST_MIB_LBA, _SECTORS_A_TRACK)
    cylinder, head = divmod(track, _HEADS)
    begin = bytes((head, (cylinder >> 8) << 6 | (sector + 1), cylinder & 0xFF))
    return struct.pack("<B3sB3sII", _ACTIVE, begin, _NETBSD, _CHS_END, FIRST_MIB_LBA, sectors)


def _label_entries(layout: Layout, superblock: Ufs1) -> list[disklabel.Entry]:
    """a root, b swap, c the slice, d the disk, as NetBSD on x86 has them."""
    root = layout["root"]
    last = layout.partitions[-1]
    swap = disklabel.Entry(0, 0)
    if last is not root:
        swap = disklabel.Entry(last.sectors, last.first_lba, disklabel.FS_SWAP)
    return [
        disklabel.Entry(
            root.sectors,
            root.first_lba,
            disklabel.FS_FFS,
            superblock.fragment_size,
            superblock.frag,
            superblock.cpg,
        ),
        swap,
        disklabel.Entry(last.last_lba + 1 - root.first_lba, root.first_lba),
        disklabel.Entry(layout.size // SECTOR, 0),
    ]


def _patched(bootxx: bytes, parameters: BootParameters) -> bytes:
    """bootxx with these parameters, filled up to whole sectors."""
    where = "bootxx_ffsv1"
    if len(bootxx) < _CONSPEED_AT + 4:
        raise ConfigError(f"it is cut short: it has only {len(bootxx)} bytes", where=where)
    if len(bootxx) > BOOTXX_MAX:
        raise ConfigError(
            f"it has {len(bootxx)} bytes; the first sector loads only {BOOTXX_MAX}",
            where=where,
            hint="is this /usr/mdec/bootxx_ffsv1? /usr/mdec/boot is a file of the root",
        )
    (magic,) = struct.unpack_from("<I", bootxx, _MAGIC_AT)
    if magic != BOOTXX_MAGIC:
        raise ConfigError(
            f"wrong magic {magic:#010x} at byte {_MAGIC_AT}, should be {BOOTXX_MAGIC:#010x}",
            where=where,
        )
    code = bytearray(bootxx.ljust(-(-len(bootxx) // SECTOR) * SECTOR, b"\0"))
    values = {
        _TIMEOUT_AT: parameters.timeout,
        _CONSDEV_AT: parameters.console,
        _CONSPEED_AT: parameters.speed,
    }
    wanted = {at: value for at, value in values.items() if value is not None}
    (length,) = struct.unpack_from("<I", bootxx, _LENGTH_AT)
    if wanted and length < _PATCHED:
        raise ConfigError(f"it has no room for parameters: only {length} bytes", where=where)
    for at, value in wanted.items():
        struct.pack_into("<I", code, at, value)
    return bytes(code)


def _check_names(disk_type: str, *names: str) -> None:
    if disk_type not in disklabel.DISK_TYPES:
        raise ConfigError(f"{disk_type!r} is no type of disk", hint=", ".join(disklabel.DISK_TYPES))
    for name in names:
        if not name.isascii() or not name.isprintable() or not name:
            raise ConfigError(f"{name!r} cannot stand in a disklabel", hint="ASCII only")
        if len(name) > disklabel.NAME_MAX:
            raise ConfigError(
                f"{name!r} is too long for a disklabel", hint=f"up to {disklabel.NAME_MAX}"
            )


def _check_boot_area(root: Path) -> None:
    with root.open("rb") as stream:
        if any(stream.read(UFS1_BOOT_AREA)):
            raise ConfigError(
                f"its first {UFS1_BOOT_AREA} bytes are not free for the boot code", where=str(root)
            )
