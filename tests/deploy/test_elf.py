"""ELF headers: of real programs, of ones put together here, and of rubbish."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from labctl.deploy import elf

X86_64 = (62, 64)


def program(*, osabi=0, machine=62, bits=64, order="<", notes=(), interpreter=""):
    """The bytes of a program that holds only what tells of its system."""
    word = "Q" if bits == 64 else "I"
    segments = []
    for name, kind, body in notes:
        padded = name + b"\0" * (-len(name) % 4)
        head = struct.pack(f"{order}III", len(name), len(body), kind)
        segments.append((4, head + padded + body))
    if interpreter:
        segments.append((3, interpreter.encode() + b"\0"))
    header_size, entry_size = (64, 56) if bits == 64 else (52, 32)
    data = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1, osabi]) + bytes(8)
    data += struct.pack(f"{order}HHI", 2, machine, 1)
    data += struct.pack(f"{order}3{word}", 0, header_size, 0)
    data += struct.pack(f"{order}I6H", 0, header_size, entry_size, len(segments), 0, 0, 0)
    assert len(data) == header_size
    at = header_size + entry_size * len(segments)
    table, contents = b"", b""
    for kind, content in segments:
        offset = at + len(contents)
        if bits == 64:
            table += struct.pack(f"{order}IIQQQQQQ", kind, 0, offset, 0, 0, len(content), 0, 4)
        else:
            table += struct.pack(f"{order}8I", kind, offset, 0, 0, len(content), 0, 0, 4)
        contents += content
    return data + table + contents


FREEBSD_NOTE = (b"FreeBSD\0", 1, struct.pack("<I", 903000))
NETBSD_NOTE = (b"NetBSD\0", 1, struct.pack("<I", 601000500))
GNU_NOTE = (b"GNU\0", 1, struct.pack("<4I", 0, 3, 2, 0))
BUILD_ID = (b"GNU\0", 3, bytes(20))


@pytest.mark.parametrize(
    ("parts", "system", "static"),
    [
        ({"notes": [BUILD_ID, FREEBSD_NOTE], "osabi": 9}, "freebsd", True),
        ({"notes": [NETBSD_NOTE]}, "netbsd", True),
        ({"notes": [GNU_NOTE], "osabi": 3}, "linux", True),
        ({"osabi": 9}, "freebsd", True),
        ({"notes": [BUILD_ID]}, None, True),
        ({"interpreter": "/libexec/ld-elf.so.1"}, "freebsd", False),
        ({"interpreter": "/usr/libexec/ld.elf_so"}, "netbsd", False),
        ({"interpreter": "/lib64/ld-linux-x86-64.so.2"}, "linux", False),
        ({"interpreter": "/lib/ld-musl-x86_64.so.1"}, "linux", False),
        ({"interpreter": "/elsewhere"}, None, False),
    ],
)
def test_the_system_is_told_by_note_linker_or_header(parts, system, static):
    assert elf.read(program(**parts)) == elf.Elf(X86_64, system, static)


def test_other_word_sizes_and_byte_orders():
    note = (b"NetBSD\0", 1, struct.pack(">I", 1))
    data = program(machine=43, order=">", notes=[note])
    assert elf.read(data) == elf.Elf((43, 64), "netbsd", True)
    data = program(machine=3, bits=32, notes=[FREEBSD_NOTE], interpreter="/libexec/ld-elf.so.1")
    assert elf.read(data) == elf.Elf((3, 32), "freebsd", False)


@pytest.mark.parametrize("name", ["sh", "busybox"])
def test_programs_of_this_machine(name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here")
    header = elf.read(Path(path).read_bytes())
    said = subprocess.run(["ldd", path], capture_output=True).returncode
    assert header.system in ("linux", None)
    assert header.static == (said != 0)
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout.strip()
    assert elf.misfit(header, "linux", machine) == ""


def test_what_cannot_fit_is_said_and_what_is_not_known_is_not():
    freebsd = elf.read(program(notes=[FREEBSD_NOTE]))
    assert elf.misfit(freebsd, "freebsd", "amd64") == ""
    assert elf.misfit(freebsd, "netbsd", "amd64") == (
        "it is a program of freebsd for x86_64, the target runs netbsd"
    )
    assert "the target is arm64" in elf.misfit(freebsd, "freebsd", "arm64")
    assert elf.misfit(freebsd, "freebsd", "vax") == ""
    assert elf.misfit(elf.read(program()), "netbsd", "amd64") == ""
    # A 64-bit kernel of that family runs these too.
    old = elf.read(program(machine=3, bits=32, notes=[FREEBSD_NOTE]))
    assert elf.misfit(old, "freebsd", "amd64") == ""
    assert elf.misfit(old, "freebsd", "aarch64") != ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        b"#!/bin/sh\n",
        b"\x7fELF\x02\x01\x01" + bytes(60),  # of no type
        program()[:40],
        b"\x7fELF\x07\x01" + program()[6:],
        program()[:16] + b"\x01\x00" + program()[18:],  # an object file
    ],
)
def test_what_is_no_program_is_none(data):
    assert elf.read(data) is None


def test_a_damaged_table_does_no_harm():
    good = program(notes=[FREEBSD_NOTE])
    for at in range(16, len(good)):
        elf.read(good[:at] + b"\xff" + good[at + 1 :])
        elf.read(good[:at])
