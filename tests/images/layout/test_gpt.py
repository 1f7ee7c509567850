"""FreeBSD's disk, read back by tools that are not ours, and refused where it would not boot."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from labctl.errors import ConfigError
from labctl.images.layout import Layout, make_gpt_disk

from .conftest import sectors, tool

MIB = 2**20
GPTBOOT = bytes(range(1, 251)) * 300  # 75000 bytes, so 76 KiB


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, pmbr: bytes, root: Path
) -> tuple[Path, Layout, dict[str, Any]]:
    disk = tmp_path_factory.mktemp("gpt") / "disk.raw"
    options: dict[str, Any] = {
        **{"pmbr": pmbr, "gptboot": GPTBOOT, "root": root},
        **{"root_mib": 10, "swap_mib": 4, "seed": "freebsd-9.3"},
    }
    return disk, make_gpt_disk(disk, **options), options


def test_the_table_as_sfdisk_reads_it(made: tuple[Path, Layout, Any]) -> None:
    disk, layout, _ = made
    table = json.loads(tool("sfdisk", "--json", disk))["partitiontable"]
    assert table["label"] == "gpt"
    assert [(p["name"], p["type"], p["start"], p["size"]) for p in table["partitions"]] == [
        ("labctl-boot", "83BD6B9D-7F41-11DC-BE0B-001560B84F0F", 40, 152),
        ("labctl-root", "516E7CB6-6ECF-11D6-8FF8-00022D09712B", 2048, 20480),
        ("labctl-swap", "516E7CB5-6ECF-11D6-8FF8-00022D09712B", 22528, 8192),
    ]
    assert [(p.first_lba, p.sectors) for p in layout.partitions] == [
        (p["start"], p["size"]) for p in table["partitions"]
    ]
    ids = [table["id"], *(p["uuid"] for p in table["partitions"])]
    assert len(set(ids)) == 4


def test_both_tables_are_whole(made: tuple[Path, Layout, Any]) -> None:
    disk, layout, _ = made
    assert disk.stat().st_size == layout.size == 16 * MIB
    assert "No problems found" in tool("sgdisk", "-v", disk, package="gdisk")
    assert sectors(disk, 16 * 2048 - 1)[:8] == b"EFI PART"  # the backup, at the very end


def test_sleuthkit_finds_the_file_system(made: tuple[Path, Layout, Any]) -> None:
    disk, layout, _ = made
    assert "File System Type: UFS 1" in tool(
        "fsstat", "-o", str(layout["root"].first_lba), disk, package="sleuthkit"
    )
    listing = tool("fls", "-o", "2048", disk, package="sleuthkit")
    inode = next(line for line in listing.splitlines() if line.endswith("\thello"))
    number = inode.split()[1].rstrip(":")
    assert tool("icat", "-o", "2048", disk, number, package="sleuthkit") == "found by others\n"


def test_boot_code_lies_where_it_is_looked_for(made: tuple[Path, Layout, Any], pmbr: bytes) -> None:
    disk, layout, _ = made
    first = sectors(disk, 0)
    assert first[:440] == pmbr[:440]
    assert first[440:446] == bytes(6)
    assert first[450] == 0xEE
    assert first[462:] == bytes(48) + b"\x55\xaa"
    boot = sectors(disk, layout["boot"].first_lba, layout["boot"].sectors)
    assert boot == GPTBOOT.ljust(76 * 1024, b"\0")


def test_same_input_same_bytes_and_no_zeros_kept(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path
) -> None:
    disk, _, options = made
    again = tmp_path / "again.raw"
    again.write_bytes(b"what was here before")
    make_gpt_disk(again, **options)
    subprocess.run(["cmp", disk, again], check=True)
    assert again.stat().st_blocks * 512 < 2 * MIB
    assert [path.name for path in tmp_path.iterdir()] == ["again.raw"]


def test_a_larger_disk_has_its_backup_at_its_end_and_another_seed_other_ids(
    made: tuple[Path, Layout, dict[str, Any]], tmp_path: Path
) -> None:
    disk, _, options = made
    larger = tmp_path / "larger.raw"
    options = options | {"seed": "freebsd-9.1", "disk_mib": 32, "swap_mib": 0}
    layout = make_gpt_disk(larger, **options, labels=("a", "b", "c"))
    assert layout.size == larger.stat().st_size == 32 * MIB
    assert "No problems found" in tool("sgdisk", "-v", larger, package="gdisk")
    tables = [
        json.loads(tool("sfdisk", "--json", path))["partitiontable"] for path in (disk, larger)
    ]
    assert [p["name"] for p in tables[1]["partitions"]] == ["a", "b"]
    assert tables[0]["id"] != tables[1]["id"]
    assert tables[0]["partitions"][0]["uuid"] != tables[1]["partitions"][0]["uuid"]


@pytest.mark.parametrize(
    ("change", "where", "says"),
    [
        ({"pmbr": b"\xeb" * 510}, "pmbr", "has 512 bytes, this has 510"),
        ({"pmbr": b"\xeb" * 512}, "pmbr", "ends in 55aa"),
        ({"pmbr": bytes(510) + b"\x55\xaa"}, "pmbr", "no code"),
        ({"gptboot": b""}, "gptboot", "no code"),
        ({"gptboot": bytes(4096)}, "gptboot", "no code"),
        ({"gptboot": b"\xeb" * (512 * 1024 + 1)}, "gptboot", "hang silently"),
        ({"root_mib": 7}, "ufs1.img", "its partition 7340032"),
        ({"disk_mib": 15}, "", "take 16 MiB"),
        ({"swap_mib": -1}, "", "-1 MiB"),
        ({"labels": ("a", "b:c", "d")}, "", "'b:c' is no partition label"),
    ],
)
def test_what_cannot_boot_is_refused_and_nothing_left(
    made: tuple[Path, Layout, dict[str, Any]],
    tmp_path: Path,
    change: dict[str, Any],
    where: str,
    says: str,
) -> None:
    disk = tmp_path / "disk.raw"
    with pytest.raises(ConfigError) as caught:
        make_gpt_disk(disk, **(made[2] | change))
    assert says in caught.value.message
    assert caught.value.where.endswith(where)
    assert not list(tmp_path.iterdir())
