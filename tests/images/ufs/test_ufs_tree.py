"""Unpacking sets: what wins, what is refused, what lies on the disk."""

import hashlib
import os
import stat
import tarfile

import pytest
from ufs_sets import T0, directory, hard, link, make_set, member, node

from labctl.errors import ConfigError, UnavailableError
from labctl.images.ufs import Tree

UNREADABLE = member("etc/master.passwd", b"root:*\n", mode=0o000, uid=0)


@pytest.fixture
def unpacked(tmp_path):
    """A tree of these sets, each a list of members."""

    def unpack(*sets, suffix=".txz"):
        tree = Tree(tmp_path / f"tree{len(list(tmp_path.iterdir()))}")
        for number, members in enumerate(sets):
            tree.unpack(make_set(tmp_path / f"set{number}{suffix}", members))
        return tree

    return unpack


@pytest.mark.parametrize("suffix", [".tgz", ".txz", ".tar"])
def test_a_set_of_either_compression_is_unpacked(unpacked, suffix):
    tree = unpacked(
        [directory("./"), directory("./etc"), member("./etc/x", b"1\n", uid=7, gid=8)],
        suffix=suffix,
    )
    assert tree.paths() == ["etc", "etc/x"]
    assert tree.read("etc/x") == b"1\n"
    entry = tree.entry("./etc/x")
    assert (entry.uid, entry.gid, entry.mtime, entry.size) == (7, 8, T0, 2)


def test_names_with_and_without_a_dot_are_the_same_and_parents_are_made(unpacked):
    tree = unpacked([member("./a/b/c", b"old")], [member("a//b/c", b"new")])
    assert tree.paths() == ["a", "a/b", "a/b/c"]
    assert tree.read("a/b/c") == b"new"
    assert (tree.entry("a/b").mode, tree.entry("a/b").uid) == (0o755, 0)


def test_a_later_set_wins(unpacked):
    first = [
        directory("d", mode=0o755),
        member("d/kept", b"kept"),
        link("to_file", "d/kept"),
        link("to_dir", "d"),
        member("to_link", b"file"),
        directory("empty"),
    ]
    second = [
        directory("d", mode=0o1777, uid=5),
        member("to_file", b"a file now"),
        directory("to_dir"),
        member("to_dir/x", b"x"),
        link("to_link", "d"),
        member("empty", b"full"),
    ]
    tree = unpacked(first, second)
    assert tree.read("d/kept") == b"kept"
    assert (tree.entry("d").mode, tree.entry("d").uid) == (0o1777, 5)
    assert tree.read("to_file") == b"a file now"
    assert tree.entry("to_dir").type == "dir"
    assert tree.entry("to_link").target == "d"
    assert tree.read("empty") == b"full"


def test_replacing_a_hard_link_leaves_its_siblings(unpacked):
    tree = unpacked(
        [member("a", b"old"), hard("b", "a"), hard("./c", "./b")],
        [member("a", b"new", mode=0o600)],
    )
    assert (tree.read("a"), tree.read("b"), tree.read("c")) == (b"new", b"old", b"old")
    assert (tree.entry("b").link_to, tree.entry("c").link_to) == ("", "b")
    assert (tree.entry("a").mode, tree.entry("b").mode) == (0o600, 0o644)


def test_editing_one_name_leaves_the_others(unpacked):
    tree = unpacked([member("root/.cshrc", b"x", mode=0o640, uid=3), hard(".cshrc", "root/.cshrc")])
    assert tree.entry("root/.cshrc").link_to == ".cshrc"
    tree.edit("root/.cshrc", lambda old: old + b"y")
    assert (tree.read("root/.cshrc"), tree.read(".cshrc")) == (b"xy", b"x")
    assert tree.entry("root/.cshrc").link_to == ""
    assert (tree.entry("root/.cshrc").mode, tree.entry("root/.cshrc").uid) == (0o640, 3)


def test_what_is_added_by_hand_is_as_old_as_the_newest_member(unpacked):
    tree = unpacked([member("old", b"", mtime=5), member("new", b"", mtime=T0 + 9)])
    tree.add_file("etc/rc.conf", b"x=1\n")
    tree.add_dir("root/.ssh", mode=0o700)
    tree.add_link("etc/localtime", "/usr/share/zoneinfo/UTC")
    assert {tree.entry(p).mtime for p in ("etc", "etc/rc.conf", "root/.ssh")} == {T0 + 9}
    tree.remove("etc")
    assert tree.paths() == ["new", "old", "root", "root/.ssh"]
    assert not (tree.directory / "etc").exists()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_on_the_disk_all_is_ours_alone_and_links_and_devices_are_not_there(tmp_path, umask):
    members = [
        directory("d", mode=0o000),
        member("d/su", b"s", mode=0o6755, uid=12345),
        UNREADABLE,
        link("l", "/etc/passwd"),
        node("dev/c", tarfile.CHRTYPE, 4, 2),
        node("p", tarfile.FIFOTYPE),
    ]
    archive = make_set(tmp_path / "set.tgz", members)
    before = os.umask(umask)
    try:
        tree = Tree(tmp_path / "tree")
        tree.unpack(archive)
        tree.add_file("etc/new", b"n")
    finally:
        os.umask(before)
    found = {p.relative_to(tree.directory).as_posix(): p.lstat() for p in tree.directory.rglob("*")}
    assert found.keys() == {"d", "d/su", "dev", "etc", "etc/master.passwd", "etc/new"}
    assert {status.st_uid for status in found.values()} == {os.getuid()}
    for path, status in found.items():
        wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        assert stat.S_IMODE(status.st_mode) == wanted, path
    assert tree.entry("d/su").mode == 0o6755
    assert tree.entry("d").mode == 0
    assert tree.entry("dev/c").device == (4, 2)
    assert tree.read("etc/master.passwd") == b"root:*\n"


@pytest.mark.parametrize(
    ("members", "word"),
    [
        ([member("../evil", b"x")], "leads out"),
        ([member("a/../../evil", b"x")], "leads out"),
        ([member("/tmp/evil", b"x")], "leads out"),
        ([link("l", "/tmp"), member("l/evil", b"x")], "'l', a link"),
        ([link("l", ".."), directory("l/evil")], "'l', a link"),
        ([member("f", b"x"), member("f/evil", b"x")], "'f', a file"),
        ([hard("evil", "../../etc/passwd")], "leads out"),
        ([hard("evil", "nothing")], "not there"),
        ([directory("d"), hard("evil", "d")], "a directory"),
        ([member("d/x", b""), member("d", b"evil")], "not empty"),
        ([member(".", b"evil")], "root"),
        ([member("a/" * 600 + "evil", b"x")], "601 parts"),
        ([member("a" * 250 + "/evil" * 200, b"x")], "1250 bytes"),
        ([member("dumpdir", b"", type=b"D"), member("evil", b"", type=b"Z")], "b'D'"),
    ],
)
def test_what_leads_elsewhere_is_refused(unpacked, tmp_path, members, word):
    with pytest.raises(UnavailableError, match=word) as caught:
        unpacked(members)
    assert caught.value.where.endswith("set0.txz")
    assert "member '" in str(caught.value)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("suffix", [".tgz", ".txz", ".tar"])
@pytest.mark.parametrize("keep", [0.3, 0.97])
def test_an_archive_cut_short_is_named(tmp_path, suffix, keep):
    whole = make_set(
        tmp_path / f"set{suffix}", [member(f"f{i}", os.urandom(9000)) for i in range(9)]
    )
    cut = whole.read_bytes()
    # A tar's end marker and padding are 10 KiB at most; less than the marker is left of them.
    cut = cut[: int(len(cut) * keep)] if suffix != ".tar" or keep < 0.5 else cut.rstrip(b"\0")
    (tmp_path / f"cut{suffix}").write_bytes(cut)
    with pytest.raises(UnavailableError, match="damaged") as caught:
        Tree(tmp_path / "tree").unpack(tmp_path / f"cut{suffix}")
    assert caught.value.where.endswith(f"cut{suffix}")


@pytest.mark.parametrize("suffix", [".tgz", ".txz"])
def test_a_wrong_checksum_is_damage(tmp_path, suffix):
    path = make_set(tmp_path / f"set{suffix}", [member("f", os.urandom(9000))])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1  # gzip stores such content as it is: only its checksum tells
    path.write_bytes(data)
    with pytest.raises(UnavailableError, match="damaged"):
        Tree(tmp_path / "tree").unpack(path)


def test_a_broken_header_is_damage_and_not_the_end(tmp_path):
    path = make_set(tmp_path / "set.tar", [member("first", b""), member("second", b"")])
    data = bytearray(path.read_bytes())
    data[data.rindex(b"second")] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnavailableError, match="damaged"):
        Tree(tmp_path / "tree").unpack(path)


def test_what_is_no_archive_or_not_there_is_named(tmp_path):
    (tmp_path / "page.txz").write_bytes(b"<html>not found</html>" * 99)
    for name in ("page.txz", "missing.txz"):
        with pytest.raises(UnavailableError) as caught:
            Tree(tmp_path / name[:4]).unpack(tmp_path / name)
        assert caught.value.where.endswith(name)


def test_progress_rises_to_one(tmp_path):
    path = make_set(tmp_path / "set.tgz", [member(f"f{i}", b"x" * 99) for i in range(900)])
    told = []
    Tree(tmp_path / "tree").unpack(path, progress=lambda fraction, _: told.append(fraction))
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_asking_for_what_is_not_a_file_is_an_error(unpacked, tmp_path):
    tree = unpacked([link("l", "f"), member("f", b"x")])
    assert "nothing" not in tree
    for path in ("nothing", "l", "."):
        with pytest.raises(ConfigError):
            tree.read(path)
    with pytest.raises(ConfigError, match="root"):
        tree.remove(".")
    with pytest.raises(ConfigError, match="not empty"):
        Tree(tmp_path)


def test_what_a_terminal_would_obey_is_not_said_as_it_is(unpacked):
    with pytest.raises(UnavailableError) as caught:
        unpacked([member("../\x1b[31m\nerror", b"x")])
    assert str(caught.value).isprintable()


def test_numbers_beyond_all_bounds_are_damage(tmp_path):
    for mtime in ("inf", "1e400", "nan"):
        info, data = member("f", b"x")
        info.pax_headers = {"mtime": mtime}
        path = make_set(tmp_path / "set.tgz", [(info, data)])
        with pytest.raises(UnavailableError, match="damaged"):
            Tree(tmp_path / f"tree {mtime}").unpack(path)


def test_a_header_that_would_fill_the_memory_is_damage(tmp_path):
    path = make_set(tmp_path / "set.tgz", [member("long", b"x" * (2 << 20), type=b"L")])
    with pytest.raises(UnavailableError, match="damaged") as caught:
        Tree(tmp_path / "tree").unpack(path)
    assert "2097152 bytes" in caught.value.detail


def test_headers_of_headers_without_end_are_damage(tmp_path):
    path = make_set(tmp_path / "set.tgz", [member("long", b"x", type=b"L")] * 2000)
    with pytest.raises(UnavailableError, match="damaged"):
        Tree(tmp_path / "tree").unpack(path)


def test_nothing_is_written_beyond_the_room_that_there_is(tmp_path):
    sparse, _ = member("bomb", b"", type=tarfile.GNUTYPE_SPARSE)
    block = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = tarfile.itn(
        50 << 30, 12, tarfile.GNU_FORMAT
    )  # its size, of which no byte is here
    block[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(block))[0]
    path = tmp_path / "set.tar"
    path.write_bytes(bytes(block) + bytes(1024))
    tree = Tree(tmp_path / "tree", room_mib=3)
    with pytest.raises(UnavailableError, match="more than a root file system of 3 MiB") as caught:
        tree.unpack(path)
    assert "root_mib" in caught.value.hint
    assert not any(tree.directory.iterdir())
    # What is replaced gives its room back; names of no bytes take some.
    half = make_set(tmp_path / "half.tgz", [member("f", b"x" * (2 << 20))])
    for _ in range(3):
        tree.unpack(half)
    names = make_set(tmp_path / "names.tgz", [directory(f"{i}") for i in range(4000)])
    with pytest.raises(UnavailableError, match="3 MiB"):
        tree.unpack(names)


def test_the_digest_is_of_all_bytes_of_the_archive(tmp_path):
    for suffix in (".tgz", ".tar"):
        path = make_set(tmp_path / f"set{suffix}", [member("f", b"x" * 5000)])
        with path.open("ab") as stream:
            stream.write(bytes(3 << 20))
        wanted = hashlib.sha256(path.read_bytes()).hexdigest()
        assert Tree(tmp_path / f"tree{suffix}").unpack(path) == f"sha256:{wanted}"


@pytest.mark.slow
def test_many_hard_links_to_one_file_are_told_apart_at_once(unpacked):
    links = [hard(f"l{number:05}", "f") for number in range(20_000)]
    tree = unpacked([member("f", b"x"), *links])
    assert {tree.entry(path).link_to for path in tree.paths()} == {"", "f"}
    tree.remove("f")
    assert tree.entry("l00007").link_to == "l00000"
    assert tree.entry("l00000").link_to == ""
