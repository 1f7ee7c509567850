"""A program that was not compiled on its target: the file, and what is known of its making.

Whose program it is, and whether it may be used, is decided elsewhere; here is only how a
build record is read and written, in the form that ``workloads/build.sh`` leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labctl.deploy.sources import Source

_UNKNOWN = "unknown"
_MADE = ("compiler", "flags", "link", "built")


@dataclass(frozen=True)
class Binary:
    """A program to put on a target.

    Attributes:
        source: what it is made from, or which given program it is.
        path: the program, on this machine.
        origin: where it comes from, in words, for its build record.
        made: keys compiler, flags, link and built, as far as they are known.
    """

    source: Source
    path: Path
    origin: str
    made: Mapping[str, str]

    def record(self, *, sha256: str, cksum: str) -> str:
        """The text of its build record on the target. ``cksum`` is "" where the target has
        no such command."""
        values = {key: self.made.get(key) or _UNKNOWN for key in _MADE} | {
            "source_sha": self.source.sha,
            "origin": self.origin,
            "sha256": sha256,
            "cksum": cksum,
        }
        return "".join(f"{key}={' '.join(value.split())}\n" for key, value in values.items())


def read_record(text: str) -> dict[str, str]:
    """A build record's keys and values."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value for key, sign, value in pairs if sign}


def record_beside(program: Path) -> dict[str, str]:
    """The record that build.sh left beside a program; empty if there is none."""
    try:
        return read_record(program.with_name(f"{program.name}.build").read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}
