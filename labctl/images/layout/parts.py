"""What both layouts need: where partitions lie, a disk made whole or not at all, and a
root file system put into it without its zeros.

No partition table is known here (``gpt``, ``mbr``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from labctl.errors import ConfigError

SECTOR = 512
MIB = 2**20
FIRST_MIB_LBA = MIB // SECTOR
"""Where the first file system begins: behind the tables, and aligned for any storage."""

_BOOT_SIGNATURE = b"\x55\xaa"
_CHUNK = 64 * 1024
_ZEROS = bytes(_CHUNK)


@dataclass(frozen=True)
class Partition:
    """A range of the disk. ``name``: boot, root or swap; ``start`` and ``size`` in bytes."""

    name: str
    start: int
    size: int

    @property
    def first_lba(self) -> int:
        """Number of its first sector of 512 bytes."""
        return self.start // SECTOR

    @property
    def sectors(self) -> int:
        """Its size in sectors."""
        return self.size // SECTOR

    @property
    def last_lba(self) -> int:
        """Number of its last sector."""
        return self.first_lba + self.sectors - 1


@dataclass(frozen=True)
class Layout:
    """What lies where on a disk of ``size`` bytes.

    >>> Layout(3 * 2**20, (Partition("root", 2**20, 2**20),))["root"].first_lba
    2048
    """

    size: int
    partitions: tuple[Partition, ...]

    def __getitem__(self, name: str) -> Partition:
        for partition in self.partitions:
            if partition.name == name:
                return partition
        raise KeyError(name)


@dataclass(frozen=True)
class Ufs1:
    """What a UFS1 superblock says. Sizes in bytes; ``frag``: fragments a block;
    ``cpg``: cylinders a group, a relic that labels still carry."""

    size: int
    fragment_size: int
    frag: int
    cpg: int


UFS1_BOOT_AREA = 8192
"""Bytes that UFS1 leaves free before its superblock (SBLOCK_UFS1 of ffs/fs.h)."""

# Offsets in struct fs (ffs/fs.h), the same in FreeBSD and NetBSD.
_FS_OLD_SIZE, _FS_FSIZE, _FS_OLD_CPG, _FS_MAGIC = 36, 52, 180, 1372
_UFS1_MAGIC, _UFS2_MAGIC = 0x00011954, 0x19540119


def read_ufs1(image: Path, room: int) -> Ufs1:
    """The superblock of a root file system that is to go into ``room`` bytes.

    Raises:
        ConfigError: it is missing, no little-endian UFS1, shorter than its superblock
            says, or larger than ``room``.
    """
    where = str(image)
    try:
        with image.open("rb") as stream:
            stream.seek(UFS1_BOOT_AREA)
            block = stream.read(_FS_MAGIC + 4)
            length = stream.seek(0, os.SEEK_END)
    except OSError as error:
        raise ConfigError(
            f"cannot read the root file system: {error.strerror}", where=where
        ) from None
    if len(block) < _FS_MAGIC + 4:
        raise ConfigError("this is no file system: it is too short for a superblock", where=where)
    (magic,) = struct.unpack_from("<I", block, _FS_MAGIC)
    if magic != _UFS1_MAGIC:
        found = "UFS2" if magic == _UFS2_MAGIC else f"magic {magic:#010x}"
        raise ConfigError(
            f"the root must be a little-endian UFS1, this is {found}",
            where=where,
            hint="makefs -t ffs -B le -o version=1",
        )
    (fragments,) = struct.unpack_from("<i", block, _FS_OLD_SIZE)
    fragment_size, frag = struct.unpack_from("<ii", block, _FS_FSIZE)
    (cpg,) = struct.unpack_from("<i", block, _FS_OLD_CPG)
    size = fragments * fragment_size
    if length < size:
        raise ConfigError(
            f"the file is cut short: the file system has {size} bytes, the file {length}",
            where=where,
            hint="make the file system again",
        )
    if length > room:
        raise ConfigError(
            f"the file system has {length} bytes, its partition {room}",
            where=where,
            hint="make the root partition larger or the file system smaller",
        )
    return Ufs1(size, fragment_size, frag, cpg)


def check_boot_sector(sector: bytes, where: str) -> None:
    """See that this is code for the first sector of a disk.

    Raises:
        ConfigError: it has not 512 bytes, no signature 55AA, or no code.
    """
    if len(sector) != SECTOR:
        raise ConfigError(
            f"a boot sector has {SECTOR} bytes, this has {len(sector)}",
            where=where,
        )
    if sector[510:] != _BOOT_SIGNATURE:
        raise ConfigError(
            f"a boot sector ends in 55aa, this in {sector[510:].hex()}",
            where=where,
        )
    if not any(sector[:440]):
        raise ConfigError("this boot sector has no code in it", where=where)


def disk_size(least: int, disk_mib: int | None) -> int:
    """Bytes of the disk: ``disk_mib``, or just what the partitions need.

    Raises:
        ConfigError: the partitions do not fit.
    """
    if disk_mib is None:
        return least
    if disk_mib * MIB < least:
        raise ConfigError(
            f"a disk of {disk_mib} MiB is too small, the partitions take {-(-least // MIB)} MiB"
        )
    return disk_mib * MIB


@contextlib.contextmanager
def new_disk(disk: Path, size: int) -> Iterator[Path]:
    """An empty sparse file of ``size`` bytes that becomes ``disk`` if all goes well."""
    temporary = disk.with_name(f".{disk.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.truncate(size)
        yield temporary
        temporary.rename(disk)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def place(source: Path, target: BinaryIO, offset: int) -> None:
    """Copy a file into ``target`` at ``offset``, where zeros are; its zeros stay holes.

    makefs writes its zeros out, so looking for holes alone would copy gigabytes of them.
    """
    with source.open("rb", buffering=0) as stream:
        for start, end in _extents(stream.fileno()):
            for at in range(start, end, _CHUNK):
                stream.seek(at)
                chunk = stream.read(min(_CHUNK, end - at))
                if chunk != _ZEROS[: len(chunk)]:
                    target.seek(offset + at)
                    target.write(chunk)


def _extents(descriptor: int) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of a file that is not a hole."""
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole until the end
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end
