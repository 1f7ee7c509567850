"""Release sets made up for the tests, and the image read back by sleuthkit."""

import gzip
import io
import lzma
import stat
import subprocess
import tarfile
from dataclasses import dataclass

T0 = 1_000_000_000
OPENERS = {".tgz": gzip.open, ".txz": lzma.open, ".tar": open}


def member(name, data=None, mode=0o644, uid=0, gid=0, mtime=T0, **fields):
    """A member; without ``data`` a directory, or whatever ``type`` says."""
    info = tarfile.TarInfo(name)
    info.type = fields.pop("type", tarfile.DIRTYPE if data is None else tarfile.REGTYPE)
    info.mode, info.uid, info.gid, info.mtime = mode, uid, gid, mtime
    info.uname, info.gname = "nobody", "nogroup"  # to be ignored
    info.pax_headers = {"SCHILY.fflags": "schg"}
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def directory(name, mode=0o755, **fields):
    return member(name, mode=mode, **fields)


def link(name, target):
    return member(name, mode=0o755, type=tarfile.SYMTYPE, linkname=target)


def hard(name, target):
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def node(name, kind, major=0, minor=0, **fields):
    return member(name, type=kind, devmajor=major, devminor=minor, **fields)


def make_set(path, members):
    with (
        OPENERS[path.suffix](path, "wb") as stream,
        tarfile.open(
            fileobj=stream,
            mode="w",
            format=tarfile.PAX_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
        ) as tar,
    ):
        for info, data in members:
            info.size = len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
    return path


@dataclass(frozen=True)
class Found:
    """One line of ``fls``."""

    inode: int
    type: str
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    target: str


def listed(image):
    """What sleuthkit sees, by path; it writes control characters in names as ``^``."""
    done = subprocess.run(["fls", "-r", "-p", "-m", "", image], capture_output=True, check=True)
    entries = {}
    # A link's target is written as it is, with its newlines.
    for line in done.stdout.decode("utf-8", "surrogateescape").removeprefix("0|").split("\n0|"):
        name, inode, mode, uid, gid, size, _, mtime, *_ = line.split("|")
        if "$OrphanFiles" in name:
            continue
        name, _, target = name.lstrip("/").partition(" -> ")
        entries[name] = Found(
            int(inode), mode[2], _mode(mode[3:]), int(uid), int(gid), int(size), int(mtime), target
        )
    return entries


def _mode(text):
    bits = 0
    for place, (letter, special) in enumerate(zip(text, "--S--S--T", strict=True)):
        if letter in "rwxst":
            bits |= 0o400 >> place
        if special != "-" and letter.lower() in "st":
            bits |= {2: stat.S_ISUID, 5: stat.S_ISGID, 8: stat.S_ISVTX}[place]
    return bits


def content(image, inode):
    return subprocess.run(["icat", image, str(inode)], capture_output=True, check=True).stdout


def inode_text(image, inode):
    return subprocess.run(
        ["istat", image, str(inode)], capture_output=True, text=True, check=True
    ).stdout
