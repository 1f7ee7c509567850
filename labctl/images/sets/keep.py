"""The directory where one release's sets are kept, and its record.

Files carry a piece of their digest in their names, so sets from another place never
overwrite those that the record speaks of. The record is written last: until then, and
after a crash, the old one holds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl import paths

RECORD = "sets.json"
BY_HAND = "given by hand"
"""How the trust in a set begins for which nobody but the user stands."""


@dataclass(frozen=True)
class SetFile:
    """A set that is here.

    Attributes:
        path: the file in the keep.
        digest: ``"sha256:hex"``.
        size: in bytes.
        origin: URL or file that it came from.
        trust: in words, why it is taken for what it should be: "pinned", "published, first
            use", "published, pinned earlier", "given by hand, ...".
        checked: the digest that it was compared with, which need not be a sha256; "" if none.
    """

    name: str
    path: Path
    digest: str
    size: int
    origin: str
    trust: str
    checked: str = ""

    @property
    def by_hand(self) -> bool:
        """Whether nobody but the user stands for it."""
        return self.trust.startswith(BY_HAND)


@dataclass(frozen=True)
class Record:
    """What the keep holds.

    Attributes:
        absent: optional sets that the place did not have.
    """

    sets: Mapping[str, SetFile]
    absent: tuple[str, ...] = ()


class Keep:
    """One release's directory of sets. The caller lets in one process at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def part(self, file: str) -> Path:
        """Where a file that is not whole or not checked yet is put."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return self.directory / f"{file}.part"

    def settle(self, part: Path, name: str, digest: str) -> Path:
        """Give a checked file its final name, for good."""
        with part.open("rb") as file:
            os.fsync(file.fileno())
        suffix = _suffix(part.name.removesuffix(".part"), name)
        final = self.directory / f"{name}-{digest.partition(':')[2][:12]}{suffix}"
        part.rename(final)
        return final

    def versions(self, file: str, name: str) -> Iterator[Path]:
        """Settled files of a set, recorded or not."""
        pattern = re.compile(
            f"{re.escape(name)}-[0-9a-f]{{12}}{re.escape(_suffix(file, name))}", re.ASCII
        )
        if self.directory.is_dir():
            yield from (p for p in sorted(self.directory.iterdir()) if pattern.fullmatch(p.name))

    def read(self) -> Record | None:
        """The record; None when there is none that can be understood."""
        try:
            known = json.loads((self.directory / RECORD).read_text())
            sets = {
                name: SetFile(name=name, path=self.directory / entry.pop("file"), **entry)
                for name, entry in known["sets"].items()
            }
            return Record(sets, tuple(known["absent"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def replace(self, sets: Sequence[SetFile], absent: Sequence[str]) -> None:
        """Make ``sets`` what the keep holds, and drop all else."""
        entries = {
            held.name: {
                "file": held.path.name,
                "digest": held.digest,
                "size": held.size,
                "origin": held.origin,
                "trust": held.trust,
                "checked": held.checked,
            }
            for held in sets
        }
        record = {"sets": entries, "absent": list(absent)}
        paths.write_atomic(self.directory / RECORD, json.dumps(record, indent=1) + "\n")
        wanted = {RECORD, *(held.path.name for held in sets)}
        for path in self.directory.iterdir():
            if path.name not in wanted and not path.is_dir():
                path.unlink()

    def remove(self) -> None:
        """Delete all of it, the record first."""
        (self.directory / RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def _suffix(file: str, name: str) -> str:
    return file[len(name) :]
