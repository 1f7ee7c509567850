"""Slots: files of fixed size in an image, filled in a guest's overlay without mounting it.

The image carries them full of comment lines; where on the disk they are is looked up once
(``find``). ``plant`` writes a guest's own content there, through qemu-io, and keeps a record
of digests, so that a block that the guest has put to another use is never written over.

The guest must be off. If a guest replaces such a file and leaves the old blocks untouched,
that is not seen, and what is planted later has no effect; nothing else is harmed.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ConfigError, LabctlError
from labctl.images.process import require, run
from labctl.paths import write_atomic

SLOT_BYTES = 2048
"""The usual size: one fragment of the file system."""

_SECTOR, _MOST = 512, 16384  # a file of up to one block lies in one piece
_PREFIX = b"# labctl slot "
_LINE = b"#" * 63 + b"\n"


@dataclass(frozen=True)
class Slot:
    """Where a slot is: byte offset in the whole disk, and size in bytes."""

    offset: int
    size: int


class SlotMovedError(LabctlError):
    """A slot does not hold what was planted in it: the guest has written there.

    Its blocks may be another file's by now, so only a new overlay will do.
    """


def placeholder(name: str, size: int = SLOT_BYTES) -> bytes:
    """What the slot ``name`` holds in the image: comments to sh, the loader, sysctl, sshd.

    Raises:
        ConfigError: ``size`` is none that the file system keeps in one piece.
    """
    if not 0 < size <= _MOST or size % _SECTOR:
        raise ConfigError(
            f"a slot cannot be of {size} bytes",
            where=name,
            hint=f"a multiple of {_SECTOR} up to {_MOST}",
        )
    first = _PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32].encode() + b"\n"
    lines = first + _LINE * (size // len(_LINE))
    return lines[: size - 1] + b"\n"


def find(disk: Path, sizes: Mapping[str, int]) -> dict[str, Slot]:
    """Find the slots of these names and sizes on a raw disk; holes are not read.

    Raises:
        LabctlError: one is missing, damaged (not in one piece) or there twice.
    """
    wanted = {placeholder(name, size)[: _marker_bytes()]: name for name, size in sizes.items()}
    found: dict[str, Slot] = {}
    with disk.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for offset in _markers(stream.fileno(), data):
            name = wanted.get(data[offset : offset + _marker_bytes()])
            if name is None:
                continue
            if name in found:
                raise LabctlError(f"the slot {name} is on the disk twice", where=str(disk))
            if data[offset : offset + sizes[name]] != placeholder(name, sizes[name]):
                raise LabctlError(f"the slot {name} is not in one piece", where=str(disk))
            found[name] = Slot(offset, sizes[name])
    for name in sizes:
        if name not in found:
            raise LabctlError(f"the slot {name} is not on the disk", where=str(disk))
    return found


def plant(
    disk: Path,
    slots: Mapping[str, Slot],
    contents: Mapping[str, bytes],
    once: Mapping[str, bytes],
    record: Path,
) -> None:
    """Write into the slots of a guest's overlay what makes the guest itself.

    Args:
        disk: qcow2 overlay of the disk that ``slots`` were found on; nobody has it open.
        contents: by slot; filled up with newlines. Written when they have changed.
        once: by slot, of full size (entropy). Written on a fresh overlay, then left alone.
        record: file that goes with this overlay, and is removed with it.

    Raises:
        ConfigError: a content is too long, or there is no such slot.
        SlotMovedError: the guest has written to a slot whose content has changed. Nothing
            has been written then.
        UnavailableError: qemu-img or qemu-io is missing or failed (the disk is in use).
    """
    data = {name: _filled(name, content, slots) for name, content in contents.items()}
    drawn = {name: _filled(name, content, slots) for name, content in once.items()}
    fresh = {name: [_digest(placeholder(name, slots[name].size))] for name in (*data, *drawn)}
    known = fresh | _recorded(record)
    # Two digests of one slot tell of a write that may not have come to its end.
    changed = {name: text for name, text in data.items() if known[name] != [_digest(text)]}
    for name, text in drawn.items():
        if known[name] == fresh[name] or len(known[name]) > 1:
            changed[name] = text
    if not changed:
        return
    now = {name: _digest(text) for name, text in changed.items()}
    with tempfile.TemporaryDirectory(dir=record.parent, prefix=".slots-") as directory:
        work = Path(directory)
        _compare(disk, {name: slots[name] for name in changed}, known, work)
        _note(record, known | {name: [*known[name], now[name]] for name in changed})
        _write(disk, slots, changed, work)
    _note(record, known | {name: [digest] for name, digest in now.items()})


# -- finding --------------------------------------------------------------------------


def _marker_bytes() -> int:
    return len(_PREFIX) + 33


def _markers(descriptor: int, data: mmap.mmap) -> Iterator[int]:
    """Offsets, at sectors' beginnings, of what looks like a slot."""
    for begin, end in _allocated(descriptor, len(data)):
        place = data.find(_PREFIX, begin, end)
        while place >= 0:
            if place % _SECTOR == 0:
                yield place
            place = data.find(_PREFIX, place + 1, end)


def _allocated(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a sparse file that are not holes, as begin and end."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole follows
            return
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        yield begin, end


# -- planting -------------------------------------------------------------------------


def _filled(name: str, content: bytes, slots: Mapping[str, Slot]) -> bytes:
    if name not in slots:
        raise ConfigError(f"the image has no slot {name}", hint="build the image again")
    size = slots[name].size
    if len(content) > size:
        raise ConfigError(f"{name} takes {len(content)} bytes, there is room for {size}")
    return content.ljust(size, b"\n")


def _compare(
    disk: Path, slots: Mapping[str, Slot], known: Mapping[str, list[str]], work: Path
) -> None:
    qemu_img, copy = require("qemu-img", "qemu-utils"), work / "present"
    overlay = {"driver": "qcow2", "file": {"driver": "file", "filename": str(disk.absolute())}}
    for name, slot in slots.items():
        # A window on the disk; the offsets of `qemu-img dd` differ between its versions.
        window = {"driver": "raw", "offset": slot.offset, "size": slot.size, "file": overlay}
        run([qemu_img, "convert", "-O", "raw", f"json:{json.dumps(window)}", copy])
        if _digest(copy.read_bytes()) not in known[name]:
            raise SlotMovedError(
                f"the guest has changed its {name}, so it cannot be written from outside",
                where=str(disk),
                hint="make the guest anew",
            )
        copy.unlink()


def _write(
    disk: Path, slots: Mapping[str, Slot], contents: Mapping[str, bytes], work: Path
) -> None:
    # Contents go through files: a command line is for everybody to read. qemu-io splits its
    # commands at blanks, so the files' names are plain and relative.
    commands: list[str] = []
    for number, (name, content) in enumerate(contents.items()):
        write_atomic(work / str(number), content, 0o600)
        commands += ["-c", f"write -s {number} {slots[name].offset} {slots[name].size}"]
    qemu_io = require("qemu-io", "qemu-utils")
    run([qemu_io, "-f", "qcow2", *commands, "-c", "flush", disk.absolute()], cwd=work)


def _recorded(record: Path) -> dict[str, list[str]]:
    try:
        read: dict[str, list[str]] = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return read


def _note(record: Path, digests: Mapping[str, list[str]]) -> None:
    write_atomic(record, json.dumps(digests, indent=1, sort_keys=True), 0o600)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
