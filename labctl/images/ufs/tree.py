"""A file system in the making: unpacked from sets, changed, later written as an image.

Under ``directory`` lies the content of the regular files, in directories of the same names,
owned by whoever builds and readable to nobody else. Owners, modes, times, symbolic links and
device nodes are kept in memory only: so neither root is needed, nor can a link lead out
of the directory, nor does a file's ``schg`` flag outlive the build.
"""

from __future__ import annotations

import os
import tarfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Literal

from labctl.errors import ConfigError, UnavailableError
from labctl.images.ufs.archive import Content, Progress, visit_members
from labctl.images.ufs.names import ROOT, normal, parent_of, to_bytes

Type = Literal["dir", "file", "link", "char", "block", "fifo"]

_LATEST = 2**31 - 1  # UFS1 keeps times in 32 bits
_LEAST_BYTES_EACH = 1024  # names beyond that many are no release, and would fill the memory
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """What one path of the tree is.

    Attributes:
        mode: permissions with set-user-ID, set-group-ID and sticky bit; no type bits.
        mtime: seconds since the epoch.
        size: bytes of a regular file.
        target: where a symbolic link leads to.
        device: major and minor number of a device node.
        link_to: the first, in order, of the paths that are hard links to the same file;
            "" if this is it, or the only one.
    """

    type: Type
    mode: int
    uid: int
    gid: int
    mtime: int
    size: int = 0
    target: str = ""
    device: tuple[int, int] = (0, 0)
    link_to: str = ""


@dataclass(eq=False)
class _Node:
    """An inode: shared by the paths that are hard links to it."""

    entry: Entry
    names: set[str] = field(default_factory=set)
    _first: str = ""

    @property
    def first(self) -> str:
        """The first of the names; looked for only when it may have changed."""
        self._first = self._first or min(self.names)
        return self._first

    def add(self, name: str) -> None:
        """One more name."""
        self.names.add(name)
        self._first = min(self._first, name)

    def drop(self, name: str) -> None:
        """One name less."""
        self.names.discard(name)
        if name == self._first:
            self._first = ""


class Tree:
    """Files by path, relative to the file system's root: ``etc/rc.conf``.

    Paths are text that holds any bytes as ``surrogateescape`` does. Missing parents of
    what is added are made, owned by root, mode 0755.
    """

    def __init__(self, directory: Path, room_mib: int = 1 << 20) -> None:
        """An empty tree, whose content lies under ``directory``: made here, or empty.

        ``room_mib``: of the file system that it is for; what is unpacked ends there, however
        much an archive says that it holds.
        """
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        if any(directory.iterdir()):
            raise ConfigError("this directory is not empty", where=str(directory))
        self.directory = directory
        self._room, self._used = room_mib << 20, 0  # bytes
        self._nodes: dict[str, _Node] = {ROOT: _Node(Entry("dir", 0o755, 0, 0, 0), {ROOT})}
        self._children: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def newest(self) -> int:
        """The latest mtime of all entries: what is added by hand is given it."""
        return max(node.entry.mtime for node in self._nodes.values())

    def __contains__(self, path: str) -> bool:
        return normal(path) in self._nodes

    def paths(self) -> list[str]:
        """All paths but the root's, sorted."""
        return sorted(self._nodes.keys() - {ROOT})

    def children(self, path: str) -> list[str]:
        """Paths of what lies directly in the directory ``path``, sorted."""
        return sorted(self._children.get(normal(path), ()))

    def entry(self, path: str) -> Entry:
        """What ``path`` is.

        Raises:
            ConfigError: there is no such path.
        """
        path = normal(path)
        node = self._node(path)
        return node.entry if node.first == path else replace(node.entry, link_to=node.first)

    def read(self, path: str) -> bytes:
        """Content of a regular file; links are not followed.

        Raises:
            ConfigError: there is no such file, or it is something else.
        """
        path = normal(path)
        kind = self._node(path).entry.type
        if kind != "file":
            raise ConfigError(f"this is no regular file but a {kind}", where=path)
        with open(self._place(path), "rb") as stream:  # noqa: PTH123  # bytes, for any name
            return stream.read()

    def add_file(
        self, path: str, data: bytes, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        """Add a regular file, in place of what had its name (other hard links keep theirs)."""
        self._put(path, Entry("file", mode, uid, gid, self.newest), BytesIO(data))

    def add_dir(self, path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> None:
        """Add a directory; one that is there keeps its content and gets this mode and owner."""
        self._put(path, Entry("dir", mode, uid, gid, self.newest))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._put(path, Entry("link", 0o755, 0, 0, self.newest, target=target))

    def edit(self, path: str, function: Callable[[bytes], bytes]) -> None:
        """Replace a file's content by ``function`` of it; mode and owner stay.

        Only ``path`` is changed, not the files it was a hard link to.
        """
        data, now = function(self.read(path)), self.entry(path)
        self.add_file(path, data, now.mode, now.uid, now.gid)

    def remove(self, path: str) -> None:
        """Remove a path, and all that lies below it.

        Raises:
            ConfigError: there is no such path, or it is the root.
        """
        path = normal(path)
        if path == ROOT:
            raise ConfigError("the root can only be a directory")
        node = self._node(path)
        for child in self.children(path):
            self.remove(child)
        if node.entry.type == "dir":
            os.rmdir(self._place(path))  # noqa: PTH106
            self._children.pop(path, None)
        elif node.entry.type == "file":
            os.unlink(self._place(path))  # noqa: PTH108
        node.drop(path)
        if not node.names:
            self._used -= node.entry.size
        del self._nodes[path]
        self._children[parent_of(path)].discard(path)

    def unpack(self, archive: Path, progress: Progress | None = None) -> str:
        """Unpack a set over what is here; what it holds wins.

        Owners are those of the archive's numbers; names of users, ACLs and file flags are
        left out. ``progress`` is told the fraction of the archive that has been read.

        Returns:
            ``sha256:hex`` of the archive as it was read.

        Raises:
            UnavailableError: the archive is damaged or does not fit, a member's name leads out
                of the tree or below something that is no directory, a hard link has no target,
                or a member is of a kind that no set has.
        """

        def take(member: tarfile.TarInfo, content: Content) -> None:
            try:
                self._take(member, content)
            except ConfigError as error:
                raise UnavailableError(
                    f"member {member.name!r}: {error}",
                    where=str(archive),
                    hint=error.hint
                    or "this is not a release set, or it lacks another that comes before it",
                ) from None

        return visit_members(archive, take, progress)

    # -- the work ---------------------------------------------------------------------

    def _take(self, member: tarfile.TarInfo, content: Content) -> None:
        if member.islnk():
            self._link(member.name, member.linkname)
            return
        kind = _type(member)
        entry = Entry(
            kind,
            member.mode & 0o7777,
            member.uid,
            member.gid,
            max(0, min(int(member.mtime), _LATEST)),
            target=member.linkname if kind == "link" else "",
            device=(member.devmajor, member.devminor) if kind in ("char", "block") else (0, 0),
        )
        self._put(member.name, entry, content)

    def _put(self, path: str, entry: Entry, content: Content = None) -> None:
        path = normal(path)
        if entry.type == "dir" and self._is_dir(path):
            self._nodes[path].entry = entry
            return
        self._make_way(path, entry.mtime)
        if entry.type == "dir":
            os.mkdir(self._place(path))  # noqa: PTH102
            os.chmod(self._place(path), 0o700)  # noqa: PTH101  # whatever the umask is
        elif content is not None:
            size = _store(content, self._place(path), self._room - self._used)
            if size is None:
                os.unlink(self._place(path))  # noqa: PTH108
                raise self._full()
            entry = replace(entry, size=size)
            self._used += size
        self._enter(path, _Node(entry))

    def _link(self, path: str, to: str) -> None:
        path, to = normal(path), normal(to)
        if path == to:
            return
        node = self._nodes.get(to)
        if node is None or node.entry.type == "dir":
            raise ConfigError(
                f"a hard link to {to!r}, which is {'a directory' if node else 'not there'}"
            )
        self._make_way(path, node.entry.mtime)
        if node.entry.type == "file":
            os.link(self._place(to), self._place(path))
        self._enter(path, node)

    def _enter(self, path: str, node: _Node) -> None:
        if len(self._nodes) > self._room // _LEAST_BYTES_EACH:
            raise self._full()
        node.add(path)
        self._nodes[path] = node
        self._children[parent_of(path)].add(path)

    def _make_way(self, path: str, mtime: int) -> None:
        """See that ``path`` is free and its parents are there."""
        if path == ROOT:
            raise ConfigError("the root can only be a directory")
        parent = parent_of(path)
        if parent not in self._nodes:
            self._put(parent, Entry("dir", 0o755, 0, 0, mtime))
        elif not self._is_dir(parent):
            raise ConfigError(f"lies below {parent!r}, a {self._nodes[parent].entry.type}")
        if path in self._nodes:
            if self._children.get(path):
                raise ConfigError("would replace a directory that is not empty")
            self.remove(path)

    def _full(self) -> ConfigError:
        return ConfigError(
            f"the sets hold more than a root file system of {self._room >> 20} MiB takes",
            hint="raise the recipe's root_mib, if these are the right sets",
        )

    def _is_dir(self, path: str) -> bool:
        return path in self._nodes and self._nodes[path].entry.type == "dir"

    def _node(self, path: str) -> _Node:
        if path not in self._nodes:
            raise ConfigError("there is no such file in the tree", where=path)
        return self._nodes[path]

    def _place(self, path: str) -> bytes:
        return os.fsencode(self.directory) + b"/" + to_bytes(path)


def _type(member: tarfile.TarInfo) -> Type:
    if member.isdir():
        return "dir"
    if member.issym():
        return "link"
    if member.ischr():
        return "char"
    if member.isblk():
        return "block"
    if member.isfifo():
        return "fifo"
    if member.isreg():
        return "file"
    raise ConfigError(f"this is of a kind ({member.type!r}) that no set has")


def _store(content: IO[bytes], place: bytes, room: int) -> int | None:
    """Write a file; its size, or None where it has more than ``room`` bytes."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, 0o600)  # whatever the umask is
        size = 0
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > room:
                return None
            stream.write(chunk)
        return size
