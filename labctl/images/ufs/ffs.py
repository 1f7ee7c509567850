"""A UFS1 image of a tree, made by NetBSD's makefs: the same tree gives the same bytes.

makefs lays files out in the order in which the host's file system happens to list them,
which differs between two machines. What its specification names and its walk has not met,
however, it lays out in the specification's order. So it is shown an empty directory; the
specification is a FIFO, which it opens when the walk is done; and in that moment the tree
takes the empty directory's place, for it to read the files' content from. Should a makefs
open it earlier, the image would be as good, only no longer in a known order.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from labctl.errors import ConfigError, UnavailableError
from labctl.images.process import require, run
from labctl.images.ufs.spec import lines
from labctl.images.ufs.tree import Entry, Tree
from labctl.images.ufs.ufs1 import Ufs1

BLOCK, FRAGMENT, DENSITY = 16384, 2048, 8192
"""Bytes: of a block, of a fragment, of space for each inode. Boot code reads this layout."""

_INODE, _DIRECT, _PER_INDIRECT = 128, 12, BLOCK // 4
_FILLED = 0.9  # at most: the BSDs keep 5 % to themselves, and a guest wants to write

Progress = Callable[[float | None, str], None]


def make_ffs(tree: Tree, image: Path, *, size_mib: int, scratch: Path, progress: Progress) -> None:
    """Write a file system of ``size_mib`` that holds ``tree`` to ``image`` (a sparse file).

    Its times are the tree's; nothing in it tells when, where or by whom it was made.

    Raises:
        ConfigError: it would be too full.
        UnavailableError: makefs is missing or failed.
    """
    makefs = require("makefs", "makefs")
    _check_room(tree, size_mib)
    newest = tree.newest
    marks = _Marks(tree)
    specification = b"".join(lines(tree, marks.mark))
    made = image.with_name(f".{image.name}.new")
    options = f"version=1,bsize={BLOCK},fsize={FRAGMENT},density={DENSITY}"
    command = [makefs, "-T", str(newest), "-t", "ffs", "-B", "le", "-o", options]
    progress(None, "makefs")
    try:
        with (
            tempfile.TemporaryDirectory(dir=scratch, prefix="makefs-") as work,
            _shown(tree, specification, Path(work)) as (fifo, root),
        ):
            run([*command, "-s", f"{size_mib}m", "-F", fifo, made.absolute(), root], cwd=Path(work))
        progress(None, "hard links and times")
        with made.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as content:
            ufs = Ufs1(content)
            ufs.join(marks.first_gid, marks.alias_gid, marks.owners)
            ufs.forget_time_and_place(newest)
        _make_sparse(made)
        made.rename(image)
    finally:
        made.unlink(missing_ok=True)


@dataclass
class _Marks:
    """Marks the files that are hard links, for ``Ufs1.join`` to find them.

    Attributes:
        first_gid, alias_gid: groups that no file of the tree has.
        owners: uid and gid of each set of hard links.
    """

    tree: Tree
    first_gid: int = 0
    alias_gid: int = 0
    owners: dict[int, tuple[int, int]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        entries = {path: self.tree.entry(path) for path in self.tree.paths()}
        taken = {entry.gid for entry in entries.values()}
        free = (gid for gid in range(2**32 - 2, 0, -1) if gid not in taken)
        self.first_gid, self.alias_gid = next(free), next(free)
        for number, first in enumerate(sorted({e.link_to for e in entries.values()} - {""})):
            self._numbers[first] = number
            self.owners[number] = (entries[first].uid, entries[first].gid)

    def mark(self, entry: Entry, path: str) -> Entry:
        """The entry as makefs is to see it."""
        if entry.link_to:
            number = self._numbers[entry.link_to]
            return Entry("file", 0, number, self.alias_gid, entry.mtime)
        if path in self._numbers:
            return replace(entry, uid=self._numbers[path], gid=self.first_gid)
        return entry


@contextmanager
def _shown(tree: Tree, specification: bytes, work: Path) -> Iterator[tuple[str, str]]:
    """A FIFO and a directory in ``work``, as the module's head says; their names in it."""
    (work / "empty").mkdir()
    (work / "root").symlink_to("empty")
    (work / "tree").symlink_to(tree.directory.absolute())
    os.mkfifo(work / "spec", 0o600)

    def write() -> None:
        with suppress(BrokenPipeError), (work / "spec").open("wb") as stream:
            (work / "tree").rename(work / "root")
            stream.write(specification)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield "spec", "root"
    finally:
        # A makefs that failed early has not opened it, and the writer still waits.
        os.close(os.open(work / "spec", os.O_RDONLY | os.O_NONBLOCK))
        writer.join()


def _check_room(tree: Tree, size_mib: int) -> None:
    entries = [tree.entry(path) for path in tree.paths()]
    needed = sum(_occupied(tree, path, e) for path, e in zip(tree.paths(), entries, strict=True))
    inodes = size_mib * 2**20 // DENSITY
    room = int(_FILLED * (size_mib * 2**20 - inodes * _INODE))
    if needed > room:
        raise ConfigError(
            f"a root file system of {size_mib} MiB has room for {room // 2**20} MiB, "
            f"the sets take {-(-needed // 2**20)} MiB",
            hint=f"raise the recipe's root_mib to {-(-needed * 5 // 2**22)} or more",
        )
    if len(entries) > _FILLED * inodes:
        raise ConfigError(
            f"a root file system of {size_mib} MiB has {inodes} inodes, "
            f"the sets take {len(entries)}",
            hint="raise the recipe's root_mib",
        )


def _occupied(tree: Tree, path: str, entry: Entry) -> int:
    """Bytes of blocks and fragments."""
    if entry.type == "dir":
        names = (name.rpartition("/")[2] for name in tree.children(path))
        size = 24 + sum(12 + 4 * len(name) for name in names)  # 4 bytes a character at most
    elif entry.type == "file" and not entry.link_to:
        size = entry.size
    else:
        return 0
    blocks, rest = divmod(size, BLOCK)
    if blocks < _DIRECT:
        return blocks * BLOCK + -(-rest // FRAGMENT) * FRAGMENT
    indirect = -(-(blocks + 1 - _DIRECT) // _PER_INDIRECT) + 1  # and one above them
    return (blocks + 1 + indirect) * BLOCK


def _make_sparse(image: Path) -> None:
    """Give back the blocks of zeros that makefs wrote; where that cannot be, they stay."""
    if shutil.which("fallocate"):
        with suppress(UnavailableError):
            run(["fallocate", "--dig-holes", image])
