"""What may be a root, and how it gets onto a disk."""

import os
import random
from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.images.layout.parts import Ufs1, new_disk, place, read_ufs1

from .conftest import make_ufs

MIB = 2**20


def test_what_a_superblock_says(root: Path) -> None:
    assert read_ufs1(root, 8 * MIB) == Ufs1(size=8 * MIB, fragment_size=2048, frag=8, cpg=1)


def test_ufs2_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is UFS2") as caught:
        read_ufs1(make_ufs(tmp_path, version=2), 8 * MIB)
    assert "version=1" in caught.value.hint


@pytest.mark.parametrize(
    ("length", "says"),
    [(0, "too short"), (9000, "too short"), (8 * MIB - 1, "8388608 bytes, the file 8388607")],
)
def test_a_truncated_root_is_refused(tmp_path: Path, root: Path, length: int, says: str) -> None:
    cut = tmp_path / "cut.img"
    cut.write_bytes(root.read_bytes()[:length])
    with pytest.raises(ConfigError, match=f"cut.img: .*{says}"):
        read_ufs1(cut, 8 * MIB)


def test_no_file_system_and_no_file(tmp_path: Path) -> None:
    other = tmp_path / "other.img"
    other.write_bytes(bytes(MIB))
    with pytest.raises(ConfigError, match="magic 0x00000000"):
        read_ufs1(other, MIB)
    with pytest.raises(ConfigError, match=r"gone\.img: cannot read .* No such file"):
        read_ufs1(tmp_path / "gone.img", MIB)


@pytest.mark.parametrize("tail", [0, 1, 4095])
def test_a_file_is_placed_whole_with_its_holes_and_its_zeros_as_holes(
    tmp_path: Path, tail: int
) -> None:
    data = random.Random(1).randbytes(70_000)
    source = tmp_path / "source"
    with source.open("wb") as stream:
        stream.write(data + bytes(3 * MIB))  # zeros, written
        stream.seek(MIB, os.SEEK_CUR)  # a hole
        stream.write(data)
        stream.truncate(8 * MIB + tail)
    disk = tmp_path / "disk"
    with new_disk(disk, 32 * MIB) as made, made.open("r+b") as target:
        place(source, target, 5 * MIB)
    assert source.stat().st_blocks * 512 > 3 * MIB
    assert disk.stat().st_blocks * 512 < MIB
    content = disk.read_bytes()
    assert len(content) == 32 * MIB
    assert content[5 * MIB : 13 * MIB + tail] == source.read_bytes()
    assert not any(content[: 5 * MIB]) and not any(content[13 * MIB + tail :])


def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), new_disk(disk, MIB) as made:
        made.write_bytes(b"half")
        raise KeyboardInterrupt
    assert disk.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]
