"""Sets made into a UFS1 image, read back by sleuthkit and checked as fsck would."""

import multiprocessing
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from ufs_check import problems
from ufs_sets import (
    T0,
    content,
    directory,
    hard,
    inode_text,
    link,
    listed,
    make_set,
    member,
    node,
)

from labctl.errors import ConfigError, UnavailableError
from labctl.images.ufs import Tree, make_ffs
from labctl.images.ufs.names import to_bytes

# Sizes round the fragment, the block, the direct blocks and the first indirect block.
SIZES = [0, 1, 2047, 2048, 2049, 16384, 16385, 12 * 16384, 12 * 16384 + 1, 1_000_001]
ODD = [
    " lead",
    "a b",
    "back\\slash",
    "#hash",
    "-dash",
    "st*r?[x]",
    "new\nline",
    "ümläut",
    "\udcff\udc80",
    "a=b",
    "p'q\"",
    "tab\t",
]
LONG = [f"{i:03}" + "n" * 240 for i in range(800)]  # a directory with an indirect block

BASE = [
    directory("./", mode=0o755, mtime=T0 + 3),
    directory("./bin"),
    member("./bin/su", b"set-user-ID" * 999, mode=0o4755, mtime=T0 + 50),
    hard("./bin/su2", "./bin/su"),
    member("./var/mail", b"group", mode=0o2640, uid=1001, gid=4_000_000_000),
    directory("./tmp", mode=0o1777, uid=12, gid=34),
    *[
        member(f"sizes/{size}", (b"%07d|" % size) * (size // 8) + b"." * (size % 8))
        for size in SIZES
    ],
    *[member(f"odd/{name}/{name}", to_bytes(name), uid=number) for number, name in enumerate(ODD)],
    *[link(f"odd/{name}/l", f"../{name}") for name in ODD],
    link("bin/alias", "su"),
    hard("bin/alias2", "bin/alias"),
    link("far", "x/" * 300),
    node("dev/null", tarfile.CHRTYPE, 2, 3, mode=0o666),
    node("dev/disk", tarfile.BLKTYPE, 0, 4, mode=0o640, gid=5),
    node("dev/pipe", tarfile.FIFOTYPE, mode=0o600),
    *[member(f"first/{number}", b"%d" % number, uid=number) for number in range(20)],
    *[hard(f"rescue/{name}", f"first/{number % 20}") for number, name in enumerate(LONG)],
]
ETC = [
    member("etc/rc", b"later wins"),
    member("var/mail", b"replaced", mode=0o600, uid=8, gid=9),
    link("bin/su2", "su"),
]  # fmt: skip


def build(where, *sets, size_mib=32):
    """The tree of these archives, and its image; ``where`` holds both."""
    tree = Tree(where / "tree")
    for archive in sets:
        tree.unpack(archive)
    image = where / "ufs.img"
    make_ffs(tree, image, size_mib=size_mib, scratch=where, progress=lambda *_: None)
    return tree, image


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sets")
    return make_set(directory / "base.txz", BASE), make_set(directory / "etc.tgz", ETC)


@pytest.fixture(scope="module")
def built(tmp_path_factory, archives):
    return build(tmp_path_factory.mktemp("built"), *archives)


def shown(path):
    """A name as sleuthkit writes it."""
    return "".join("^" if character < " " else character for character in path)


def test_owner_mode_time_and_size_of_every_entry_come_through(built):
    tree, image = built
    found = listed(image)
    letters = {"dir": "d", "file": "r", "link": "l", "char": "c", "block": "b", "fifo": "p"}
    assert found.keys() == {shown(path) for path in tree.paths()}
    for path in tree.paths():
        entry, got = tree.entry(path), found[shown(path)]
        assert (got.type, got.mode, got.uid, got.gid, got.mtime) == (
            letters[entry.type], entry.mode, entry.uid, entry.gid, entry.mtime,
        ), path  # fmt: skip
        if entry.type in ("file", "link"):
            assert got.size == (entry.size or len(to_bytes(entry.target))), path
    assert found["bin/su"].mode == 0o4755
    assert (found["tmp"].mode, found["tmp"].uid, found["tmp"].gid) == (0o1777, 12, 34)
    assert (found["var/mail"].mode, found["var/mail"].gid) == (0o600, 9)


def test_every_byte_of_files_and_links_comes_through(built):
    tree, image = built
    found = listed(image)
    for path in tree.paths():
        if path.startswith("rescue/"):
            continue  # hard links, and a process for each takes its time
        kind = tree.entry(path).type
        if kind == "file":
            assert content(image, found[shown(path)].inode) == tree.read(path), path
        if kind == "link":
            assert found[shown(path)].target == tree.entry(path).target
    assert content(image, found["var/mail"].inode) == b"replaced"


def test_hard_links_share_an_inode_that_counts_them(built):
    tree, image = built
    found = listed(image)
    groups = defaultdict(set)
    for path in tree.paths():
        if tree.entry(path).type != "dir":
            groups[found[shown(path)].inode].add(path)
    wanted = defaultdict(set)
    for path in tree.paths():
        if tree.entry(path).type != "dir":
            wanted[tree.entry(path).link_to or path].add(path)
    assert sorted(map(sorted, groups.values())) == sorted(map(sorted, wanted.values()))
    assert groups[found["bin/alias"].inode] == {"bin/alias", "bin/alias2"}
    assert "num of links: 41" in inode_text(image, found[f"rescue/{LONG[7]}"].inode)
    assert found["bin/su"].inode != found["bin/su2"].inode  # the later set's link


def test_device_numbers_come_through(built):
    _, image = built
    data, numbers = image.read_bytes(), {}
    for name in ("dev/null", "dev/disk"):
        text = inode_text(image, listed(image)[name].inode)
        assert "Allocated" in text
        # The number lies where the first block's address would.
        numbers[name] = _inode(data, listed(image)[name].inode)[40:44]
    assert numbers == {"dev/null": bytes([3, 2, 0, 0]), "dev/disk": bytes([4, 0, 0, 0])}


def _inode(data, number):
    per_group = int.from_bytes(data[8192 + 184 : 8192 + 188], "little")
    table = int.from_bytes(data[8192 + 16 : 8192 + 20], "little") * 2048
    assert number < per_group
    return data[table + number * 128 : table + (number + 1) * 128]


def test_maps_counts_and_links_agree_and_much_is_free(built):
    tree, image = built
    assert problems(image) == []
    state = subprocess.run(["fsstat", image], capture_output=True, text=True, check=True).stdout
    assert "File System Type: UFS 1" in state
    free = int(state.split("Num of Avail Inodes: ")[1].split()[0])
    inodes = len(tree.paths()) + 1 - sum(bool(tree.entry(p).link_to) for p in tree.paths())
    assert inodes + free + 2 >= 32 * 2**20 // 8192
    assert free > 1000


def test_the_check_sees_what_is_wrong(built, tmp_path):
    _, image = built
    data = bytearray(image.read_bytes())
    number = listed(image)["bin/su"].inode
    table = int.from_bytes(data[8192 + 16 : 8192 + 20], "little") * 2048
    data[table + number * 128 + 2] += 1
    (tmp_path / "bad.img").write_bytes(data)
    assert problems(tmp_path / "bad.img") == [f"links of inode {number}: 2, not 1"]


def test_several_cylinder_groups(tmp_path):
    base = make_set(tmp_path / "b.tgz", [member("f", b"x" * 9_000_000), hard("g", "f")])
    _, image = build(tmp_path, base, size_mib=208)
    groups = int.from_bytes(image.read_bytes()[8192 + 44 : 8192 + 48], "little")
    assert groups > 1
    assert problems(image) == []
    assert image.stat().st_blocks * 512 < 40 * 2**20  # sparse


def test_no_clock_is_in_it(tmp_path):
    ahead = 2_100_000_000
    _, image = build(
        tmp_path, make_set(tmp_path / "b.tgz", [member("f", b"", mtime=ahead), member("g", b"")])
    )
    lines = subprocess.run(["fls", "-m", "", image], capture_output=True, text=True, check=True)
    times = [line.split("|")[7:10] for line in lines.stdout.splitlines() if "Orphan" not in line]
    assert times == [[str(ahead)] * 3, [str(T0), str(T0), str(ahead)]]
    state = subprocess.run(["fsstat", image], capture_output=True, text=True, check=True).stdout
    written = {line for line in state.splitlines() if "Last Written" in line}
    assert len({line.strip() for line in written}) == 1
    assert "2036" in written.pop()


def build_as(user, umask, where, archives):
    """Build in ``where``; runs in a process of its own."""
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    os.umask(umask)
    build(where, *archives)


@pytest.mark.parametrize(("user", "umask"), [(None, 0o077), (65534, 0o000)])
def test_umask_user_and_directory_change_no_byte(built, archives, user, umask):
    if user and os.getuid():
        pytest.skip("only root can be another user")
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        copies = [Path(shutil.copy(archive, where)) for archive in archives]
        for path in (where, *copies):
            os.chown(path, user or -1, -1)
        # Forked, for another user may not be able to read this interpreter's files.
        process = multiprocessing.get_context("fork").Process(
            target=build_as, args=(user, umask, where, copies)
        )
        process.start()
        process.join()
        assert process.exitcode == 0
        made = where / "ufs.img"
        assert made.stat().st_uid == (user or os.getuid())
        assert made.read_bytes() == built[1].read_bytes()


def test_the_order_in_which_the_host_lists_files_changes_no_byte(tmp_path):
    names = [f"d/f{number}" for number in range(60)]
    images, orders = [], []
    shared = Path("/dev/shm")
    other = shared if os.access(shared, os.W_OK) else tmp_path
    for base, order in ((tmp_path, names), (other, names[::-1])):
        with tempfile.TemporaryDirectory(dir=base) as name:
            where = Path(name)
            archive = make_set(where / "s.tgz", [member(path, path.encode()) for path in order])
            tree, image = build(where, archive)
            orders.append([path.name for path in (tree.directory / "d").iterdir()])
            images.append(image.read_bytes())
    assert Counter(orders[0]) == Counter(orders[1])
    if orders[0] == orders[1]:
        pytest.skip("both file systems list the files in the same order")
    assert images[0] == images[1]


def test_what_does_not_fit_is_said_before(tmp_path):
    archive = make_set(tmp_path / "b.txz", [member("f", bytes(20 * 2**20))])
    with pytest.raises(ConfigError, match="room for 14 MiB, the sets take 21 MiB") as caught:
        build(tmp_path, archive, size_mib=16)
    assert "root_mib" in caught.value.hint
    assert not list(tmp_path.glob("*.img*"))


def test_too_many_files_are_said_before(tmp_path):
    tree = Tree(tmp_path / "tree")
    for number in range(1000):
        tree.add_link(f"{number}", "x")
    with pytest.raises(ConfigError, match="1024 inodes"):
        make_ffs(tree, tmp_path / "i", size_mib=8, scratch=tmp_path, progress=lambda *_: None)


def test_a_makefs_that_fails_at_once_leaves_nothing_and_nobody_waits(tmp_path):
    tree = Tree(tmp_path / "tree")
    tree.add_file("f", b"x")
    gone = tmp_path / "no" / "such" / "ufs.img"
    with pytest.raises(UnavailableError, match="makefs failed"):
        make_ffs(tree, gone, size_mib=8, scratch=tmp_path, progress=lambda *_: None)
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]
