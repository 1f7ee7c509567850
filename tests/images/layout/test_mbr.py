"""NetBSD's disk, read back by tools that are not ours, and refused where it would not boot."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labctl.errors import ConfigError
from labctl.images.layout import BootParameters, Layout, make_mbr_disk

from .conftest import sectors, tool

MIB = 2**20
SLICE = 2048


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, mbr: bytes, bootxx: bytes, root: Path
) -> tuple[Path, Layout, dict[str, Any]]:
    disk = tmp_path_factory.mktemp("mbr") / "disk.raw"
    options: dict[str, Any] = {
        **{"mbr": mbr, "bootxx": bootxx, "root": root},
        **{"root_mib": 10, "swap_mib": 4},
    }
    return disk, make_mbr_disk(disk, **options), options


def test_the_table_as_sfdisk_reads_it(made: tuple[Path, Layout, Any]) -> None:
    disk, layout, _ = made
    table = json.loads(tool("sfdisk", "--json", disk))["partitiontable"]
    assert (table["label"], table["id"]) == ("dos", "0x5109a7ed")
    (part,) = table["partitions"]
    del part["node"]
    assert part == {"start": SLICE, "size": 14 * 2048, "type": "a9", "bootable": True}
    assert "No errors detected" in tool("sfdisk", "-V", disk)
    assert disk.stat().st_size == layout.size == 15 * MIB


def test_the_first_sector_is_that_of_the_release_around_its_table(
    made: tuple[Path, Layout, Any], mbr: bytes
) -> None:
    first = sectors(made[0], 0)
    assert (first[:446], first[510:]) == (mbr[:446], mbr[510:])
    # head 32, sector 33, cylinder 0 is sector (0 * 255 + 32) * 63 + 33 - 1 = 2048
    assert first[446:454] == bytes.fromhex("80 20 21 00 a9 fe ff ff")
    assert first[462:510] == bytes(48)


def test_the_label_as_sleuthkit_reads_it(made: tuple[Path, Layout, Any]) -> None:
    disk, layout, _ = made
    rows = [
        line.split(maxsplit=5)[1:]
        for line in tool("mmls", "-t", "bsd", "-o", str(SLICE), disk).splitlines()
        if line[:3].isdigit() and "Meta" not in line
    ]
    found = {slot: (int(start), int(length), kind) for slot, start, _, length, kind in rows}
    assert found == {
        "000": (SLICE, 10 * 2048, "4.2BSD (0x07)"),
        "001": (SLICE + 10 * 2048, 4 * 2048, "Swap (0x01)"),
        "002": (SLICE, 14 * 2048, "Unused (0x00)"),
        "003": (0, 15 * 2048, "Unused (0x00)"),
    }
    assert [(p.first_lba, p.sectors) for p in layout.partitions] == [
        found["000"][:2],
        found["001"][:2],
    ]


def test_the_label_byte_by_byte(made: tuple[Path, Layout, Any]) -> None:
    """Offsets and values as NetBSD's header has them, and its checksum reckoned apart."""
    label = sectors(made[0], SLICE + 1)

    def u16(at: int) -> int:
        return label[at] | label[at + 1] << 8

    def u32(at: int) -> int:
        return u16(at) | u16(at + 2) << 16

    assert (u32(0), u32(132)) == (0x82564557, 0x82564557)
    assert (u16(4), u16(6)) == (5, 0)
    assert label[8:24] == b"labctl disk\0\0\0\0\0"
    assert label[24:40] == b"labctl\0\0\0\0\0\0\0\0\0\0"
    assert [u32(at) for at in range(40, 64, 4)] == [512, 63, 16, 15 * 2048 // 1008, 1008, 15 * 2048]
    assert (u16(72), u16(74), u16(138), u32(140), u32(144)) == (3600, 1, 4, 8192, 8192)
    # a: fragments of 2048 bytes, 8 a block, 1 cylinder a group, as makefs was told or says
    assert (u32(156), label[160], label[161], u16(162)) == (2048, 7, 8, 1)
    total = 0
    for at in range(0, 148 + 4 * 16, 2):
        if at != 136:
            total ^= u16(at)
    assert u16(136) == total != 0
    assert label[148 + 4 * 16 :] == bytes(512 - 148 - 4 * 16)


def test_boot_code_lies_around_the_label_and_the_file_system_behind_it(
    made: tuple[Path, Layout, Any], bootxx: bytes, root: Path
) -> None:
    disk, layout, _ = made
    assert sectors(disk, SLICE) == bootxx[:512]
    assert sectors(disk, SLICE + 2, 13) == bootxx[1024:]
    assert sectors(disk, SLICE + 15) == bytes(512)
    assert sectors(disk, SLICE + 16, 8 * 2048 - 16) == root.read_bytes()[8192:]
    assert "File System Type: UFS 1" in tool("fsstat", "-o", str(SLICE), disk)
    assert "\thello" in tool("fls", "-o", str(layout["root"].first_lba), disk)


def test_same_input_same_bytes_and_no_zeros_kept(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path
) -> None:
    again = tmp_path / "again.raw"
    make_mbr_disk(again, **made[2])
    subprocess.run(["cmp", made[0], again], check=True)
    assert again.stat().st_blocks * 512 < 2 * MIB
    assert [path.name for path in tmp_path.iterdir()] == ["again.raw"]


def test_a_larger_disk_without_swap_of_another_type(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path, bootxx: bytes
) -> None:
    disk = tmp_path / "disk.raw"
    options = made[2] | {
        "swap_mib": 0,
        "disk_mib": 9000,
        "disk_type": "LD",
        "bootxx": bootxx[:2000],
    }
    assert make_mbr_disk(disk, **options).size == 9000 * MIB
    label = sectors(disk, SLICE + 1)
    assert label[4] == 15
    assert label[164:180] == bytes(16)  # no b
    assert int.from_bytes(label[196:200], "little") == 9000 * 2048  # d
    assert sectors(disk, SLICE + 3) == bootxx[1536:2000].ljust(512, b"\0")
    (part,) = json.loads(tool("sfdisk", "--json", disk))["partitiontable"]["partitions"]
    assert part["size"] == 10 * 2048


def wrong_magic(bootxx: bytes) -> bytes:
    return bootxx[:1028] + b"what" + bootxx[1032:]


def no_room(bootxx: bytes) -> bytes:
    return bootxx[:1032] + (8).to_bytes(4, "little") + bootxx[1036:]


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"mbr": b"\xeb" * 440}, "mbr", "has 512 bytes, this has 440"),
        ({"mbr": b"\xeb" * 512}, "mbr", "ends in 55aa"),
        ({"bootxx": lambda code: code[:1000]}, "bootxx_ffsv1", "cut short"),
        ({"bootxx": lambda code: code + b"\0"}, "bootxx_ffsv1", "only 7680"),
        ({"bootxx": wrong_magic}, "bootxx_ffsv1", "wrong magic 0x74616877 at byte 1028"),
        ({"root_mib": 7}, "ufs1.img", "its partition 7340032"),
        ({"root_mib": 0}, "", "0 or 4 MiB"),
        ({"disk_mib": 14}, "", "take 15 MiB"),
        ({"swap_mib": 2**21}, "", "2 TiB"),
        ({"disk_type": "IDE"}, "", "'IDE' is no type of disk"),
        ({"pack_name": "seventeen letters"}, "", "too long"),
        ({"type_name": "Kühlschrank"}, "", "cannot stand"),
    ],
)
def test_what_cannot_boot_is_refused_and_nothing_left(
    made: tuple[Path, Layout, dict[str, Any]],
    tmp_path: Path,
    change: dict[str, Any],
    where: str,
    says: str,
) -> None:
    options = made[2].copy()
    for key, value in change.items():
        options[key] = value(options[key]) if callable(value) else value
    with pytest.raises(ConfigError) as caught:
        make_mbr_disk(tmp_path / "disk.raw", **options)
    assert says in caught.value.message
    assert caught.value.where.endswith(where)
    assert not list(tmp_path.iterdir())


def test_parameters_need_room_only_where_there_are_any(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path, bootxx: bytes
) -> None:
    options = made[2] | {"bootxx": no_room(bootxx)}
    make_mbr_disk(tmp_path / "disk.raw", **options)
    with pytest.raises(ConfigError, match="no room for parameters: only 8 bytes"):
        make_mbr_disk(tmp_path / "disk.raw", **options, parameters=BootParameters(timeout=0))


def test_a_root_whose_first_bytes_are_taken_is_refused(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path, root: Path
) -> None:
    taken = tmp_path / "taken.img"
    taken.write_bytes(bytes(8191) + b"x" + root.read_bytes()[8192:])
    with pytest.raises(ConfigError, match=r"taken\.img: its first 8192 bytes are not free"):
        make_mbr_disk(tmp_path / "disk.raw", **(made[2] | {"root": taken}))
