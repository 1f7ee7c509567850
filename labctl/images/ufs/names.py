"""Paths in a tree: text, relative to the file system's root, that may stand for any bytes."""

from __future__ import annotations

from labctl.errors import ConfigError

ROOT = "."


def normal(path: str) -> str:
    """``path`` without ``./`` and trailing or doubled slashes; ``.`` for the root.

    Raises:
        ConfigError: it is absolute, empty or has a ``..``.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path or path.startswith("/") or ".." in parts:
        raise ConfigError("this name leads out of the tree", where=path)
    return "/".join(parts) or ROOT


def parent_of(path: str) -> str:
    """The directory that a normal ``path`` lies in."""
    return path.rpartition("/")[0] or ROOT


def to_bytes(text: str) -> bytes:
    """The bytes of a path or a link's target."""
    return text.encode("utf-8", "surrogateescape")
