"""The mtree specification of a tree, from which makefs takes all but the files' content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from labctl.images.ufs.names import ROOT, to_bytes
from labctl.images.ufs.tree import Entry, Tree

# Every other byte is written as \ooo: blanks, "#", "\" and wildcards have a meaning there.
_SPECIAL = re.compile(rb"[^A-Za-z0-9._/+,:@-]")


def lines(tree: Tree, change: Callable[[Entry, str], Entry]) -> Iterator[bytes]:
    """A line for every entry, parents before their children.

    makefs puts what it reads before what it has, so children come in reverse: its
    directories are then sorted. ``change`` may have an entry (with its path) written otherwise.
    """
    directories = [ROOT, *(path for path in tree.paths() if tree.entry(path).type == "dir")]
    yield _line(ROOT, change(tree.entry(ROOT), ROOT))
    for directory in directories:
        for path in reversed(tree.children(directory)):
            yield _line(path, change(tree.entry(path), path))


def _line(path: str, entry: Entry) -> bytes:
    name = ROOT if path == ROOT else f"./{path}"
    words = [_encoded(name), f"type={entry.type}", f"uid={entry.uid}", f"gid={entry.gid}"]
    words += [f"mode={entry.mode:04o}", f"time={entry.mtime}.0"]
    if entry.type == "file":
        words.append(f"size={entry.size}")
    if entry.type == "link":
        words.append(f"link={_encoded(entry.target)}")
    if entry.type in ("char", "block"):
        # Every BSD packs the two alike, as long as both are below 256.
        words.append(f"device=netbsd,{entry.device[0]},{entry.device[1]}")
    return " ".join(words).encode("ascii") + b"\n"


def _encoded(text: str) -> str:
    octal = _SPECIAL.sub(lambda match: b"\\%03o" % match[0][0], to_bytes(text))
    return octal.decode("ascii")
