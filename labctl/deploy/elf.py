"""What an ELF program tells of the machine that it is for. Pure: bytes in, words out.

A program need not tell its system (a static one for Linux often does not); what it does
not tell is not judged here: whether it runs is seen on the target.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_OSABI = {2: "netbsd", 3: "linux", 9: "freebsd", 12: "openbsd"}
_NOTES = {b"FreeBSD": "freebsd", b"NetBSD": "netbsd", b"OpenBSD": "openbsd"}
_GNU_SYSTEMS = {0: "linux", 3: "freebsd", 4: "netbsd"}
_INTERPRETERS = (
    ("/libexec/ld-elf", "freebsd"),
    ("/libexec/ld.elf_so", "netbsd"),
    ("/libexec/ld.so", "openbsd"),
    ("/ld-linux", "linux"),
    ("/ld-musl", "linux"),
)
# (e_machine, bits) -> the names that `uname -m` gives such machines.
_MACHINES: dict[tuple[int, int], tuple[str, ...]] = {
    (62, 64): ("x86_64", "amd64"),
    (3, 32): ("i386", "i486", "i586", "i686"),
    (183, 64): ("aarch64", "arm64"),
    (243, 64): ("riscv64", "riscv"),
    (21, 64): ("ppc64", "ppc64le", "powerpc64"),
    (43, 64): ("sparc64",),
    (22, 64): ("s390x",),
    (40, 32): ("armv6l", "armv7l", "arm"),
}
# 32-bit programs that kernels of these machines run too.
_ALSO_RUN = {"x86_64": (3, 32), "amd64": (3, 32)}
_EXEC, _DYN = 2, 3
_PT_INTERP, _PT_NOTE = 3, 4


@dataclass(frozen=True)
class Elf:
    """A program's header. ``machine`` is (e_machine, bits); ``system`` is "linux",
    "freebsd", "netbsd", "openbsd" or None (it does not say); ``static``: it names no
    dynamic linker."""

    machine: tuple[int, int]
    system: str | None
    static: bool

    @property
    def words(self) -> str:
        """``a freebsd program for x86_64``."""
        names = _MACHINES.get(self.machine)
        name = names[0] if names else f"ELF machine {self.machine[0]} ({self.machine[1]} bits)"
        return f"a program of {self.system or 'an unnamed system'} for {name}"


def read(data: bytes) -> Elf | None:
    """The header of ``data``; None if that is no ELF program, or a damaged one."""
    try:
        return _read(data)
    except (struct.error, IndexError, OverflowError):
        return None


def misfit(elf: Elf, system: str, machine: str) -> str:
    """Why a program cannot be for a target, in words; "" where nothing speaks against it.

    Args:
        system: in lower case, as ``uname -s`` says.
        machine: as ``uname -m`` says.
    """
    known = {name for names in _MACHINES.values() for name in names}
    fits = machine in _MACHINES.get(elf.machine, ()) or _ALSO_RUN.get(machine) == elf.machine
    if machine in known and not fits:
        return f"it is {elf.words}, the target is {machine}"
    if elf.system is not None and elf.system != system:
        return f"it is {elf.words}, the target runs {system}"
    return ""


def _read(data: bytes) -> Elf | None:
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    bits, order = 32 * data[4], "<>"[data[5] - 1]
    kind, machine = struct.unpack_from(f"{order}HH", data, 16)
    if kind not in (_EXEC, _DYN):
        return None
    interpreter = ""
    notes: list[str] = []
    for number, offset, size in _segments(data, bits, order):
        content = data[offset : offset + size]
        if number == _PT_INTERP:
            interpreter = content.rstrip(b"\0").decode("ascii", "replace")
        elif number == _PT_NOTE:
            notes += _notes(content, order)
    system = (
        next(iter(notes), None)
        or next((name for part, name in _INTERPRETERS if part in interpreter), None)
        or _OSABI.get(data[7])
    )
    return Elf((machine, bits), system, not interpreter)


def _segments(data: bytes, bits: int, order: str) -> Iterator[tuple[int, int, int]]:
    """(type, offset, size in the file) of each program header."""
    if bits == 64:
        (table,) = struct.unpack_from(f"{order}Q", data, 32)
        size, count = struct.unpack_from(f"{order}HH", data, 54)
    else:
        (table,) = struct.unpack_from(f"{order}I", data, 28)
        size, count = struct.unpack_from(f"{order}HH", data, 42)
    for at in range(table, table + size * count, size or 1):
        if bits == 64:
            number, _, offset, _, _, length = struct.unpack_from(f"{order}IIQQQQ", data, at)
        else:
            number, offset, _, _, length = struct.unpack_from(f"{order}IIIII", data, at)
        yield number, offset, length


def _notes(content: bytes, order: str) -> Iterator[str]:
    """The systems that a note segment names (notes of type 1, the ABI's)."""
    at = 0
    while at + 12 <= len(content):
        name_size, size, kind = struct.unpack_from(f"{order}III", content, at)
        name = content[at + 12 : at + 12 + name_size].rstrip(b"\0")
        body = at + 12 + (name_size + 3) // 4 * 4
        if kind == 1 and name in _NOTES:
            yield _NOTES[name]
        elif kind == 1 and name == b"GNU" and size >= 4:
            (number,) = struct.unpack_from(f"{order}I", content, body)
            if number in _GNU_SYSTEMS:
                yield _GNU_SYSTEMS[number]
        at = body + (size + 3) // 4 * 4
