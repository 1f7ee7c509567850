"""Slots found on a real disk image, filled in a real overlay, read back through the file system."""

import hashlib
import json
import os
import subprocess

import pytest
from ufs_sets import content, directory, listed, make_set, member

from labctl.errors import ConfigError, LabctlError, UnavailableError
from labctl.images.ufs import (
    SLOT_BYTES,
    Slot,
    SlotMovedError,
    Tree,
    find,
    make_ffs,
    placeholder,
    plant,
)

SIZES = {
    "etc/ssh/ssh_host_ecdsa_key": 1024,
    "etc/labctl.conf": SLOT_BYTES,
    "boot/loader.conf.local": 512,
    "root/.ssh/authorized_keys": 16384,
    "entropy": 4096,
}
KEY, CONF, ENTROPY = "etc/ssh/ssh_host_ecdsa_key", "etc/labctl.conf", "entropy"
ROOT_AT = 2**20
CONTENTS = {KEY: b"-----BEGIN EC PRIVATE KEY-----\n", CONF: b'hostname="one"\n'}
DRAWN = bytes(range(256)) * 16


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A disk with a file system whose slots lie among other files; and where they are."""
    where = tmp_path_factory.mktemp("image, of $lots")
    tree = Tree(where / "tree")
    tree.unpack(make_set(where / "b.tgz", [directory("etc"), member("etc/x", b"#" * 3000)]))
    for number, (name, size) in enumerate(SIZES.items()):
        tree.add_file(f"etc/before{number}", b"x" * (700 * number))
        tree.add_file(name, placeholder(name, size))
    make_ffs(tree, where / "ufs", size_mib=8, scratch=where, progress=lambda *_: None)
    disk = where / "disk.raw"
    with disk.open("wb") as stream:
        stream.seek(ROOT_AT)
        stream.write((where / "ufs").read_bytes())
        stream.truncate(2**24)
    subprocess.run(["fallocate", "-d", disk], check=True)
    return disk, find(disk, SIZES)


@pytest.fixture
def overlay(image, tmp_path):
    disk = tmp_path / "guest's, disk.qcow2"
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image[0]), disk]
    subprocess.run(create, check=True)
    return disk


@pytest.fixture
def planted(image, overlay, tmp_path):
    """Plants into the overlay."""

    def into(contents, once=None):
        plant(overlay, image[1], contents, once or {}, tmp_path / "planted.json")

    return into


@pytest.fixture
def files(overlay, tmp_path):
    """Content of the guest's files, by path, as its file system has it."""

    def read():
        whole = tmp_path / "whole"
        subprocess.run(["qemu-img", "convert", "-O", "raw", overlay, whole], check=True)
        root = tmp_path / "root"
        root.write_bytes(whole.read_bytes()[ROOT_AT : ROOT_AT + 8 * 2**20])
        return {
            path: content(root, found.inode)
            for path, found in listed(root).items()
            if found.type == "r"
        }

    return read


def guest_writes(overlay, slot, text):
    write = f"write -P {text} {slot.offset} {slot.size}"
    subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", write, overlay], check=True, capture_output=True
    )


def test_contents_are_in_their_files_and_nothing_else_changes(planted, files):
    before = files()
    assert {name: before[name] for name in SIZES} == {
        name: placeholder(name, size) for name, size in SIZES.items()
    }
    planted(CONTENTS, {ENTROPY: DRAWN})
    after = files()
    assert after[KEY] == CONTENTS[KEY].ljust(1024, b"\n")
    assert after[CONF] == CONTENTS[CONF].ljust(SLOT_BYTES, b"\n")
    assert after[ENTROPY] == DRAWN
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {KEY, CONF, ENTROPY}


def test_the_record_is_private_and_has_no_contents(planted, tmp_path):
    planted(CONTENTS, {ENTROPY: DRAWN})
    record = tmp_path / "planted.json"
    assert record.stat().st_mode & 0o777 == 0o600
    assert "BEGIN" not in record.read_text()
    assert json.loads(record.read_text()).keys() == {KEY, CONF, ENTROPY}
    assert {path.name for path in tmp_path.iterdir()} == {record.name, "guest's, disk.qcow2"}


def test_the_same_again_does_not_touch_the_disk(planted, overlay):
    planted(CONTENTS, {ENTROPY: DRAWN})
    before = overlay.stat().st_mtime_ns
    planted(CONTENTS, {ENTROPY: b"other".ljust(4096)})
    assert overlay.stat().st_mtime_ns == before


def test_other_contents_replace_what_was_planted_and_entropy_stays(planted, files, overlay, image):
    planted(CONTENTS, {ENTROPY: DRAWN})
    guest_writes(overlay, image[1][ENTROPY], 0x55)  # the guest saves its own at shutdown
    planted(CONTENTS | {CONF: b"x"}, {ENTROPY: b"other".ljust(4096)})
    after = files()
    assert after[CONF] == b"x".ljust(SLOT_BYTES, b"\n")
    assert after[KEY].startswith(CONTENTS[KEY])
    assert after[ENTROPY] == b"\x55" * 4096


def test_a_slot_that_the_guest_wrote_to_is_left_alone(planted, files, overlay, image):
    planted(CONTENTS)
    guest_writes(overlay, image[1][CONF], 0x42)
    planted(CONTENTS)  # nothing has changed here, so nothing is asked
    with pytest.raises(SlotMovedError, match=r"labctl\.conf"):
        planted({KEY: b"a new key", CONF: b"new"})
    after = files()
    assert after[CONF] == b"\x42" * SLOT_BYTES
    assert after[KEY].startswith(CONTENTS[KEY])  # all or nothing


def test_a_lost_record_does_not_let_anything_be_overwritten(
    planted, files, overlay, image, tmp_path
):
    planted(CONTENTS)
    (tmp_path / "planted.json").unlink()
    with pytest.raises(SlotMovedError):
        planted(CONTENTS | {CONF: b"new"})
    (tmp_path / "planted.json").write_text("{half a rec")
    with pytest.raises(SlotMovedError):
        planted(CONTENTS | {CONF: b"new"})
    assert files()[CONF].startswith(CONTENTS[CONF])


def test_a_write_that_did_not_come_to_its_end_is_done_again(
    planted, files, overlay, image, tmp_path
):
    slots = {**image[1], KEY: Slot(2**40, 1024)}  # where the disk has ended
    with pytest.raises(UnavailableError):
        plant(overlay, slots, {CONF: b"x", KEY: b"k"}, {ENTROPY: DRAWN}, tmp_path / "planted.json")
    # Killed between its two notes: some slots written, some not.
    fresh = {name: [_sha256(placeholder(name, SIZES[name]))] for name in (CONF, KEY, ENTROPY)}
    wanted = {CONF: b"x", KEY: b"k", ENTROPY: b"e" * 4096}
    half = {
        name: [*fresh[name], _sha256(wanted[name].ljust(SIZES[name], b"\n"))] for name in wanted
    }
    (tmp_path / "planted.json").write_text(json.dumps(half))
    (tmp_path / "x").write_bytes(b"x".ljust(SLOT_BYTES, b"\n"))
    write = f"write -s x {image[1][CONF].offset} {SLOT_BYTES}"
    subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", write, overlay],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    planted({CONF: b"y", KEY: b"k"}, {ENTROPY: DRAWN})
    after = files()
    assert [after[name][:2] for name in (CONF, KEY, ENTROPY)] == [b"y\n", b"k\n", DRAWN[:2]]


def _sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_too_long_or_unknown_is_refused_before_anything_is_written(planted, overlay):
    before = overlay.stat().st_mtime_ns
    with pytest.raises(ConfigError, match=f"2049 bytes, there is room for {SLOT_BYTES}") as caught:
        planted({KEY: b"k", CONF: b"x" * 2049})
    assert CONF in str(caught.value)
    with pytest.raises(ConfigError, match="no slot etc/other"):
        planted({"etc/other": b"x"})
    assert overlay.stat().st_mtime_ns == before


def test_a_disk_in_use_is_not_written(planted, overlay):
    with subprocess.Popen(
        ["qemu-io", "-f", "qcow2", overlay], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdin and user.stdout
        user.stdin.write(b"length\n")
        user.stdin.flush()
        assert os.read(user.stdout.fileno(), 9)  # it has the disk open
        with pytest.raises(UnavailableError):
            planted(CONTENTS)
        user.stdin.close()
    planted(CONTENTS)


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096, 16384])
def test_a_placeholder_is_comments_only(size):
    text = placeholder("etc/labctl.conf", size)
    assert len(text) == size
    assert text.endswith(b"\n")
    assert all(line.startswith(b"#") for line in text.splitlines())
    assert text != placeholder("etc/other", size)
    assert not subprocess.run(["sh"], input=text, capture_output=True, check=True).stdout


@pytest.mark.parametrize("size", [0, 100, 2049, 32768])
def test_a_size_that_may_lie_in_pieces_is_refused(size):
    with pytest.raises(ConfigError, match="cannot be of"):
        placeholder("x", size)


def test_what_is_missing_twice_or_in_pieces_is_said(image, tmp_path):
    whole = placeholder("etc/a", 4096)

    def disk(*parts):
        path = tmp_path / "disk"
        with path.open("wb") as stream:
            stream.truncate(2**22)
            for offset, data in parts:
                stream.seek(offset)
                stream.write(data)
        return path

    sizes = {"etc/a": 4096}
    assert find(disk((512 * 1001, whole), (99, whole)), sizes) == {"etc/a": Slot(512 * 1001, 4096)}
    with pytest.raises(LabctlError, match="twice"):
        find(disk((0, whole), (2**20, whole)), sizes)
    with pytest.raises(LabctlError, match="in one piece"):
        find(disk((0, whole[:2048]), (2**20, whole[2048:])), sizes)
    with pytest.raises(LabctlError, match="not on the disk"):
        find(image[0], sizes)
