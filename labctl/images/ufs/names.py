"""Paths in a tree: text, relative to the file system's root, that may stand for any bytes."""

from __future__ import annotations

from labctl.errors import ConfigError

ROOT = "."

MOST_DEEP, MOST_BYTES = 100, 1023
"""Of a path; 1023 is the BSDs' own limit (PATH_MAX with its end)."""


def normal(path: str) -> str:
    """``path`` without ``./`` and trailing or doubled slashes; ``.`` for the root.

    Raises:
        ConfigError: it is absolute, empty or has a ``..``; or is longer or deeper than any
            that a BSD could use.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path or path.startswith("/") or ".." in parts:
        raise ConfigError("this name leads out of the tree", where=repr(path))
    name = "/".join(parts) or ROOT
    if len(parts) > MOST_DEEP or len(to_bytes(name)) > MOST_BYTES:
        raise ConfigError(
            f"this name has {len(parts)} parts and {len(to_bytes(name))} bytes; "
            f"up to {MOST_DEEP} and {MOST_BYTES} are taken",
            where=repr(f"{path[:60]}..."),
        )
    return name


def parent_of(path: str) -> str:
    """The directory that a normal ``path`` lies in."""
    return path.rpartition("/")[0] or ROOT


def to_bytes(text: str) -> bytes:
    """The bytes of a path or a link's target."""
    return text.encode("utf-8", "surrogateescape")
