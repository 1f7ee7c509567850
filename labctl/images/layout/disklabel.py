"""The 4.4BSD disklabel, as NetBSD on x86 reads it; no I/O.

Source of the offsets: ``struct disklabel`` in NetBSD's sys/sys/disklabel.h, little-endian;
of its place, sector 1 of the slice at offset 0: LABELSECTOR and LABELOFFSET of
sys/arch/x86 ``disklabel.h``. NetBSD's kernel finds the disk that it was booted from by
this label: it compares type, checksum and packname with what the boot loader read there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = 0x82564557
CHECKSUM_AT = 136
PARTITIONS_AT = 148
NAME_MAX = 16

DISK_TYPES = {"SCSI": 4, "ESDI": 5, "LD": 15}
"""``d_type``: ESDI is what wd (IDE, AHCI) shows, SCSI is sd, LD is ld (virtio)."""

FS_UNUSED, FS_SWAP, FS_FFS = 0, 1, 7
"""``p_fstype``."""

# What the label says of a disk's geometry, which no kernel of these uses for I/O: that of
# every ATA disk above 8 GB.
_SECTORS_A_TRACK, _TRACKS_A_CYLINDER, _RPM = 63, 16, 3600
_SECTOR_BYTES = 512
_BOOT_AREA, _SUPERBLOCK_MAX = 8192, 8192

_HEAD = struct.Struct("<I HH 16s 16s IIIIII HH I HH HH III 20s 20s I HH II")
_ENTRY = struct.Struct("<I I I BB H")


@dataclass(frozen=True)
class Entry:
    """One partition of a label, in sectors. ``offset`` counts from the disk's begin, not
    from the slice's. The last three describe an FFS (bytes, fragments a block, cylinders
    a group)."""

    sectors: int
    offset: int
    fstype: int = FS_UNUSED
    fragment_size: int = 0
    frag: int = 0
    cpg: int = 0


def checksum(label: bytes) -> int:
    """XOR of all 16-bit words; of a label with its checksum in place that is 0."""
    total = 0
    for (word,) in struct.iter_unpack("<H", label):
        total ^= word
    return total


def encode(
    entries: Sequence[Entry], *, disk_sectors: int, disk_type: str, type_name: str, pack_name: str
) -> bytes:
    """The label, from its first magic to its last partition (a, b, c, ... in order).

    Args:
        entries: the partitions, at most 16.
        disk_sectors: size of the whole disk.
        disk_type: a key of ``DISK_TYPES``.
        type_name: name of the model of disk, for reading.
        pack_name: name of this disk.
    """
    cylinder = _SECTORS_A_TRACK * _TRACKS_A_CYLINDER
    head = _HEAD.pack(
        *(MAGIC, DISK_TYPES[disk_type], 0),  # 0: d_subtype
        *(type_name.encode("ascii"), pack_name.encode("ascii")),
        *(_SECTOR_BYTES, _SECTORS_A_TRACK, _TRACKS_A_CYLINDER),
        *(disk_sectors // cylinder, cylinder, disk_sectors),
        *(0, 0, 0),  # spare sectors a track and a cylinder, alternate cylinders
        *(_RPM, 1),  # 1: interleave
        *(0, 0, 0, 0, 0),  # skews of track and cylinder, times of head switch and seek, flags
        *(b"", b""),  # data of the drive's type, spare
        *(MAGIC, 0, len(entries)),  # 0: the checksum, below
        *(_BOOT_AREA, _SUPERBLOCK_MAX),
    )
    table = b"".join(
        _ENTRY.pack(e.sectors, e.offset, e.fragment_size, e.fstype, e.frag, e.cpg) for e in entries
    )
    label = bytearray(head + table)
    struct.pack_into("<H", label, CHECKSUM_AT, checksum(bytes(label)))
    return bytes(label)
