"""The parts of the UFS1 format, little-endian, that a finished image is settled by.

makefs, given all files by its specification (see ``labctl.images.ufs.ffs``), leaves three
things to be put right: hard links, which it makes separate files; traces of when and where
it ran; and nothing else. Structures and names are those of BSD's ``fs.h`` and ``dinode.h``;
offsets are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from mmap import mmap

from labctl.errors import LabctlError

_SUPERBLOCK = 8192
_MAGIC_OFFSET, _MAGIC = 1372, 0x011954
_CG_MAGIC = 0x090255
_INODE, _DIRECT = 128, 12
_DIRBLOCK = 512
_ROOT_INODE = 2

# In struct fs: pointers of the kernel that has it mounted (fs_csp, fs_maxcluster), which
# makefs leaves filled in; times; and what counts the free inodes (fs_old_cstotal, fs_cstotal).
_FS_POINTERS = slice(832, 848)
_FS_OLD_TIME, _FS_TIME = 32, 1072
_FS_OLD_NIFREE, _FS_NIFREE = 192 + 8, 1008 + 16
_CG_OLD_TIME, _CG_TIME, _CG_NIFREE, _CG_IUSEDOFF = 8, 136, 24 + 8, 92
_CSUM, _CSUM_NIFREE = 16, 8

_NLINK, _CTIME, _SIZE, _BLOCKS, _UID, _GID = 2, 32, 8, 40, 112, 116


class Ufs1:
    """An image, mapped for writing.

    Raises:
        LabctlError: it is no UFS1, or not laid out as the format says.
    """

    def __init__(self, image: mmap) -> None:
        self._image = image
        if self._u32(_SUPERBLOCK + _MAGIC_OFFSET) != _MAGIC:
            raise LabctlError("makefs wrote no UFS1 file system")
        fields = {"sblkno": 8, "cblkno": 12, "iblkno": 16, "cgoffset": 24, "cgmask": 28}
        fields |= {"ncg": 44, "bsize": 48, "fsize": 52, "frag": 56, "csaddr": 152}
        fields |= {"ipg": 184, "fpg": 188}
        self._fs = {name: self._u32(_SUPERBLOCK + offset) for name, offset in fields.items()}

    def forget_time_and_place(self, seconds: int) -> None:
        """Take out addresses of makefs's memory; set the times of the file system, and of
        every inode's last change, to ``seconds`` since the epoch."""
        copies = [self._group(group, "sblkno") for group in range(self._fs["ncg"])]
        for superblock in (_SUPERBLOCK, *copies):
            if self._u32(superblock + _MAGIC_OFFSET) != _MAGIC:
                raise LabctlError("a copy of the superblock is not where it must be")
            pointers = slice(superblock + _FS_POINTERS.start, superblock + _FS_POINTERS.stop)
            self._image[pointers] = bytes(16)
            self._put("<I", superblock + _FS_OLD_TIME, seconds)
            self._put("<Q", superblock + _FS_TIME, seconds)
        for group in range(self._fs["ncg"]):
            header = self._header(group)
            self._put("<I", header + _CG_OLD_TIME, seconds)
            self._put("<Q", header + _CG_TIME, seconds)
        for inode in self._inodes():
            self._put("<I", self._inode(inode) + _CTIME, seconds)

    def join(self, first_gid: int, alias_gid: int, owners: Mapping[int, tuple[int, int]]) -> None:
        """Make hard links of files that are marked by their owners.

        Args:
            first_gid: the group of each set's first file, whose uid is the set's number.
            alias_gid: the group of the others of the set, which are empty files, and go.
            owners: uid and gid of each set.

        Raises:
            LabctlError: there is an alias but no first file.
        """
        firsts: dict[int, int] = {}
        aliases: dict[int, int] = {}
        for inode in self._inodes():
            uid, gid = struct.unpack_from("<II", self._image, self._inode(inode) + _UID)
            if gid == first_gid:
                firsts[uid] = inode
            elif gid == alias_gid:
                aliases[inode] = uid
        if firsts.keys() != owners.keys() or set(aliases.values()) != owners.keys():
            raise LabctlError("makefs left out a file that has hard links")
        for number, inode in firsts.items():
            self._put("<II", self._inode(inode) + _UID, *owners[number])
        joined = {alias: firsts[number] for alias, number in aliases.items()}
        self._rename_entries(joined)
        for alias, inode in joined.items():
            place = self._inode(inode) + _NLINK
            self._put("<H", place, struct.unpack_from("<H", self._image, place)[0] + 1)
            self._free(alias)

    # -- directories ------------------------------------------------------------------

    def _rename_entries(self, joined: Mapping[int, int]) -> None:
        """Let directory entries lead to other inodes: key to value."""
        for inode in self._inodes():
            if self._type(inode) != 0o04:
                continue
            for block in self._directory_blocks(self._inode(inode)):
                place = block
                while place < block + _DIRBLOCK:
                    number, length = struct.unpack_from("<IH", self._image, place)
                    if length < 8:
                        raise LabctlError("a directory's entries are out of place")
                    if number in joined:
                        self._put("<I", place, joined[number])
                        self._image[place + 6] = self._type(joined[number])
                    place += length

    def _directory_blocks(self, inode: int) -> Iterator[int]:
        """Where each of a directory's 512-byte blocks is."""
        size = struct.unpack_from("<Q", self._image, inode + _SIZE)[0]
        blocks = list(struct.unpack_from(f"<{_DIRECT + 3}I", self._image, inode + _BLOCKS))
        indirect = blocks[_DIRECT] * self._fs["fsize"]
        bsize = self._fs["bsize"]
        if indirect:
            blocks[_DIRECT:] = struct.unpack_from(f"<{bsize // 4}I", self._image, indirect)
        if size > len(blocks) * bsize:
            raise LabctlError("a directory is too large", detail=f"{size} bytes")
        for offset in range(0, size, _DIRBLOCK):
            yield blocks[offset // bsize] * self._fs["fsize"] + offset % bsize

    # -- inodes -----------------------------------------------------------------------

    def _inodes(self) -> Iterator[int]:
        """Numbers of the inodes in use."""
        for group in range(self._fs["ncg"]):
            if self._u32(self._header(group) + _CG_NIFREE) == self._fs["ipg"]:
                continue
            for inode in range(group * self._fs["ipg"], (group + 1) * self._fs["ipg"]):
                if inode >= _ROOT_INODE and self._type(inode):
                    yield inode

    def _inode(self, number: int) -> int:
        group, index = divmod(number, self._fs["ipg"])
        return self._group(group, "iblkno") + index * _INODE

    def _type(self, number: int) -> int:
        """The file's type as in its mode and in directories: 4 a directory, 8 a file ..."""
        return self._image[self._inode(number) + 1] >> 4

    def _free(self, number: int) -> None:
        """Give back an inode that has no blocks."""
        place = self._inode(number)
        if any(self._image[place + _BLOCKS : place + _BLOCKS + 4 * _DIRECT]):
            raise LabctlError("a hard link's place is taken by content")
        self._image[place : place + _INODE] = bytes(_INODE)
        group, index = divmod(number, self._fs["ipg"])
        header = self._header(group)
        bit = header + self._u32(header + _CG_IUSEDOFF) + index // 8
        self._image[bit] &= ~(1 << index % 8) & 0xFF
        summary = self._fs["csaddr"] * self._fs["fsize"] + group * _CSUM
        for counter in (header + _CG_NIFREE, summary + _CSUM_NIFREE, _SUPERBLOCK + _FS_NIFREE):
            self._put("<I", counter, self._u32(counter) + 1)
        self._put("<I", _SUPERBLOCK + _FS_OLD_NIFREE, self._u32(_SUPERBLOCK + _FS_NIFREE))

    # -- places -----------------------------------------------------------------------

    def _group(self, group: int, part: str) -> int:
        """Where a part of a cylinder group begins."""
        fs = self._fs
        start = group * fs["fpg"] + fs["cgoffset"] * (group & ~fs["cgmask"] & 0xFFFFFFFF)
        return (start + fs[part]) * fs["fsize"]

    def _header(self, group: int) -> int:
        place = self._group(group, "cblkno")
        if self._u32(place + 4) != _CG_MAGIC:
            raise LabctlError("a cylinder group is not where it must be")
        return place

    def _u32(self, place: int) -> int:
        return int.from_bytes(self._image[place : place + 4], "little")

    def _put(self, layout: str, place: int, *values: int) -> None:
        struct.pack_into(layout, self._image, place, *values)
