"""Writing cpio archives of the "newc" kind, as the kernel unpacks them into its initramfs.

Deterministic: the same entries give the same bytes (no times, inode numbers by position).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_ALIGN = 512


@dataclass(frozen=True)
class Entry:
    """One file: ``path`` is relative, ``mode`` has the type bits, owner is root.

    ``data`` is a regular file's content or a symbolic link's target.
    """

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def file(path: str, data: bytes, mode: int = 0o644) -> Entry:
    """A regular file."""
    return Entry(path, stat.S_IFREG | mode, data)


def directory(path: str, mode: int = 0o755) -> Entry:
    """A directory."""
    return Entry(path, stat.S_IFDIR | mode)


def symlink(path: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def character_device(path: str, major: int, minor: int, mode: int = 0o600) -> Entry:
    """A character device node."""
    return Entry(path, stat.S_IFCHR | mode, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive, its length a multiple of 512 bytes, so that another may follow it.

    Directories that lead to an entry are added (mode 0755) where they are not given.
    """
    given = {entry.path: entry for entry in entries}
    for path in list(given):
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                given.setdefault(str(parent), directory(str(parent)))
    out = bytearray()
    for number, path in enumerate(sorted(given), start=1):
        out += _record(given[path], number)
    out += _record(Entry("TRAILER!!!", 0), 0)
    return bytes(out) + bytes(-len(out) % _ALIGN)


def _record(entry: Entry, number: int) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (
        *(number, entry.mode, 0, 0, links, 0, len(entry.data)),
        *(0, 0, *entry.device, len(name), 0),
    )
    header = b"070701" + b"".join(b"%08X" % value for value in fields) + name
    return _padded(header) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
