"""The archive writer, read back by the real cpio."""

import stat
import subprocess
from pathlib import Path

from labctl.images import cpio

ENTRIES = [
    cpio.file("bin/tool", b"#!/bin/sh\n", 0o755),
    cpio.file("secret", b"k" * 1001, 0o600),
    cpio.file("empty", b""),
    cpio.symlink("bin/sh", "tool"),
    cpio.directory("root", 0o700),
]


def extract(archive, directory):
    subprocess.run(["cpio", "-idu", "--quiet"], input=archive, cwd=directory, check=True)


def test_cpio_reads_back_content_modes_and_links(tmp_path):
    extract(cpio.archive(ENTRIES), tmp_path)
    assert (tmp_path / "bin/tool").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "secret").read_bytes() == b"k" * 1001
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "bin/sh").readlink() == Path("tool")
    modes = {n: stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("bin/tool", "secret", "root")}
    assert modes == {"bin/tool": 0o755, "secret": 0o600, "root": 0o700}


def test_device_nodes_and_owners_are_listed_as_written():
    archive = cpio.archive([cpio.character_device("dev/console", 5, 1)])
    listed = subprocess.run(
        ["cpio", "-tv", "--quiet", "--numeric-uid-gid"],
        input=archive,
        capture_output=True,
        check=True,
    ).stdout.decode()
    device = listed.splitlines()[-1]
    assert device.startswith("crw-------")
    assert device.split()[2:6] == ["0", "0", "5,", "1"]


def test_the_same_entries_in_any_order_give_the_same_bytes():
    assert cpio.archive(ENTRIES) == cpio.archive(reversed(ENTRIES))


def test_a_second_archive_may_follow(tmp_path):
    first, second = cpio.archive(ENTRIES), cpio.archive([cpio.file("secret", b"new")])
    assert len(first) % 512 == 0
    extract(first, tmp_path)
    extract(second, tmp_path)
    assert (tmp_path / "secret").read_bytes() == b"new"
