"""The directory where one release's sets are kept, and its record.

Files carry a piece of their digest in their names, so sets from another place never
overwrite those that the record speaks of. The record is written last: until then, and
after a crash, the old one holds. It stays as ``sets.json.before``, with its files, until an
image has been made of the new ones.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from labctl import paths
from labctl.images.digest import FileName
from labctl.images.sets.spec import Pin, SetName

RECORD, BEFORE = "sets.json", "sets.json.before"
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


class _Entry(BaseModel):
    """A set, as ``sets.json`` has it; ``SetFile`` says what the fields are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: FileName
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: int = Field(ge=0)
    origin: str
    trust: str
    checked: Pin | Literal[""] = ""


class _Sets(BaseModel):
    """``sets.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sets: dict[SetName, _Entry]
    absent: tuple[SetName, ...]


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

    def read(self, record: str = RECORD) -> Record | None:
        """The record; None when there is none that can be understood."""
        try:
            known = _Sets.model_validate_json((self.directory / record).read_bytes())
        except (OSError, ValueError):
            return None
        sets = {
            name: SetFile(
                name=name, path=self.directory / entry.file, **entry.model_dump(exclude={"file"})
            )
            for name, entry in known.sets.items()
        }
        return Record(sets, known.absent)

    def replace(self, sets: Sequence[SetFile], absent: Sequence[str]) -> None:
        """Make ``sets`` what the keep holds; what it held before stays until they are settled."""
        if self.read() and not self.read(BEFORE):
            # A copy: at every moment there is a record.
            paths.write_atomic(
                self.directory / BEFORE, (self.directory / RECORD).read_text(encoding="utf-8")
            )
        entries = {
            held.name: _Entry(
                file=held.path.name,
                digest=held.digest,
                size=held.size,
                origin=held.origin,
                trust=held.trust,
                checked=held.checked,
            )
            for held in sets
        }
        record = _Sets(sets=entries, absent=tuple(absent))
        paths.write_atomic(self.directory / RECORD, record.model_dump_json(indent=1) + "\n")
        self._tidy()

    def settle_record(self) -> None:
        """Drop what was held before."""
        if (self.directory / BEFORE).exists():
            (self.directory / BEFORE).unlink()
            self._tidy()

    def take_back(self) -> None:
        """Hold again what was held before, if anything was."""
        if self.read(BEFORE):
            (self.directory / BEFORE).rename(self.directory / RECORD)
            self._tidy()

    def _tidy(self) -> None:
        """Drop the files that no record speaks of."""
        wanted = {RECORD, BEFORE}
        for record in filter(None, (self.read(), self.read(BEFORE))):
            wanted |= {held.path.name for held in record.sets.values()}
        for path in self.directory.iterdir():
            if path.name not in wanted and not path.is_dir():
                path.unlink()

    def remove(self) -> None:
        """Delete all of it, the record first."""
        (self.directory / RECORD).unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def _suffix(file: str, name: str) -> str:
    return file[len(name) :]
