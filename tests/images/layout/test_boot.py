"""Real firmware boots the disks: it and boot code that knows nothing of labctl find their way.

The code in ``boot/`` stands in for that of the releases and reads what that reads: the
table at byte 446, the label in sector 1, the type and the length of a GPT partition.
"""

import random
import struct
from functools import reduce
from operator import xor
from pathlib import Path

import pytest

from labctl.images.layout import BootParameters, make_gpt_disk, make_mbr_disk

from .conftest import Assemble, boot

NO_CHANGE = "bootxx: timeout 00000005 consdev 00000000 conspeed 00002580 tail 1A57B10C"
CHANGED = "bootxx: timeout 00000001 consdev 00000001 conspeed 0001C200 tail 1A57B10C"


@pytest.mark.parametrize(
    ("parameters", "says"),
    [(None, NO_CHANGE), (BootParameters(timeout=1, console=1, speed=115200), CHANGED)],
)
def test_from_mbr_to_slice_label_and_root(
    tmp_path: Path,
    mbr: bytes,
    bootxx: bytes,
    root: Path,
    parameters: BootParameters | None,
    says: str,
) -> None:
    disk = tmp_path / "disk.raw"
    make_mbr_disk(
        disk, mbr=mbr, bootxx=bootxx, root=root, root_mib=8, swap_mib=4, parameters=parameters
    )
    assert boot(disk) == [
        "mbr: type 000000A9 signature 5109A7ED",
        "label: 82564557 82564557 00000800 00000007",
        says,
        "root: 00011954",
    ]


@pytest.mark.parametrize("size", [64 * 1024, 512 * 1024])
def test_from_pmbr_to_all_of_the_boot_partition(
    tmp_path: Path, assemble: Assemble, pmbr: bytes, root: Path, size: int
) -> None:
    code = assemble("gptboot", SIZE=size)
    gptboot = code + random.Random(size).randbytes(size - len(code))
    disk = tmp_path / "disk.raw"
    make_gpt_disk(disk, pmbr=pmbr, gptboot=gptboot, root=root, root_mib=8, swap_mib=4, seed="boot")
    words = reduce(xor, (word for (word,) in struct.iter_unpack("<I", gptboot)))
    assert boot(disk) == [
        f"pmbr: from 00000028 {40 + size // 512 - 1:08X}",
        f"gptboot: {words:08X}",
    ]


def test_a_short_gptboot_has_a_whole_partition_of_zeros_behind_it(
    tmp_path: Path, assemble: Assemble, pmbr: bytes, root: Path
) -> None:
    code = assemble("gptboot", SIZE=64 * 1024)
    disk = tmp_path / "disk.raw"
    make_gpt_disk(disk, pmbr=pmbr, gptboot=code, root=root, root_mib=8, swap_mib=0, seed="boot")
    padded = code.ljust(-(-len(code) // 4) * 4, b"\0")
    words = reduce(xor, (word for (word,) in struct.iter_unpack("<I", padded)))
    assert boot(disk)[-1] == f"gptboot: {words:08X}"
