"""Release sets of our own making, for a FreeBSD and a NetBSD that hold only what matters here.

The files are what a builder looks for, with contents that tell where they came from; the
boot blocks are given by the caller. No system boots from them.
"""

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

TIME = 1_400_000_000
SECTOR = b"\xfa\xf4".ljust(510, b"\0") + b"\x55\xaa"  # cli; hlt

SSHD_CONFIG = b"""\
#\t$OpenBSD$
#Port 22
#PermitRootLogin no
UsePAM yes
Subsystem\tsftp\t/usr/libexec/sftp-server
"""

FREEBSD_TTYS = b"""\
console none\t\t\t\tunknown\toff secure
ttyv0\t"/usr/libexec/getty Pc"\t\tcons25\ton  secure
ttyv8\t"/usr/local/bin/xdm -nodaemon"\txterm\toff secure
ttyu0\t"/usr/libexec/getty std.9600"\tdialup\toff secure
ttyu1\t"/usr/libexec/getty std.9600"\tdialup\toff secure
"""

NETBSD_TTYS = b"""\
console\t"/usr/libexec/getty Pc"\t\twsvt25\toff secure
constty\t"/usr/libexec/getty Pc"\t\twsvt25\ton secure
ttyE0\t"/usr/libexec/getty Pc"\t\twsvt25\toff secure
ttyE1\t"/usr/libexec/getty Pc"\t\twsvt25\ton secure
tty00\t"/usr/libexec/getty std.9600"\tunknown\toff secure
"""


@dataclass
class Member:
    """One member of a set."""

    path: str
    content: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    type: bytes = tarfile.REGTYPE
    target: str = ""


def directory(path, mode=0o755, uid=0, gid=0):
    return Member(path, mode=mode, uid=uid, gid=gid, type=tarfile.DIRTYPE)


def symlink(path, target):
    return Member(path, mode=0o755, type=tarfile.SYMTYPE, target=target)


def hard_link(path, target, mode=0o644, uid=0, gid=0):
    return Member(path, mode=mode, uid=uid, gid=gid, type=tarfile.LNKTYPE, target=target)


def write_set(file: Path, members):
    """Write a set; compressed as its name says (.tgz, .txz, .tar.xz)."""
    compression = "xz" if file.name.endswith("xz") else "gz"
    with tarfile.open(file, f"w:{compression}", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(f"./{member.path}")
            info.mode, info.uid, info.gid = member.mode, member.uid, member.gid
            info.type, info.linkname, info.mtime = member.type, member.target, TIME
            info.size = len(member.content)
            archive.addfile(info, io.BytesIO(member.content))
    return file


def freebsd(folder: Path, *, pmbr=SECTOR, gptboot=b"gptboot" * 3000, without=()):
    """base.txz and kernel.txz of a FreeBSD."""
    base = [
        directory("."),
        directory("boot"),
        directory("boot/defaults"),
        directory("bin"),
        directory("etc"),
        directory("etc/rc.d"),
        directory("etc/ssh"),
        directory("root"),
        directory("tmp", mode=0o1777),
        directory("usr/sbin"),
        Member("boot/pmbr", pmbr, 0o444),
        Member("boot/gptboot", gptboot, 0o444),
        Member("boot/loader", b"loader", 0o555),
        Member("boot/defaults/loader.conf", b"# defaults\n"),
        Member("bin/sh", b"#!sh", 0o555),
        hard_link("bin/-sh", "./bin/sh", 0o555),
        Member("usr/sbin/sshd", b"sshd", 0o555),
        Member("usr/bin/su", b"su", 0o4555),
        Member("usr/bin/wall", b"wall", 0o2555, gid=4),
        Member("etc/rc", b"rc"),
        Member("etc/rc.conf", b"# of the set\n"),
        Member("etc/ttys", FREEBSD_TTYS),
        Member("etc/ssh/sshd_config", SSHD_CONFIG),
        Member("usr/share/odd name \\ # \u00e4", b"odd"),
        symlink("sys", "usr/src/sys"),
    ]
    kernel = [
        directory("boot"),
        directory("boot/kernel"),
        Member("boot/kernel/kernel", b"kernel" * 100_000, 0o555),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_set(folder / "base.txz", [m for m in base if m.path not in without])
    write_set(folder / "kernel.txz", [m for m in kernel if m.path not in without])
    return folder


def bootxx(body=b""):
    """A first stage of the size and with the mark that installboot looks for."""
    code = bytearray(15 * 512)
    code[: len(body)] = body
    code[1024 + 4 : 1024 + 8] = (0x7886B6D1).to_bytes(4, "little")
    code[1024 + 8 : 1024 + 12] = (64).to_bytes(4, "little")
    return bytes(code)


def netbsd(folder: Path, *, mbr=SECTOR, first=None, without=(), comp=True):
    """base, etc, kern-GENERIC and comp of a NetBSD."""
    base = [
        directory("."),
        directory("usr/mdec"),
        directory("root"),
        directory("dev"),
        Member("usr/mdec/mbr", mbr, 0o444),
        Member("usr/mdec/bootxx_ffsv1", first or bootxx(), 0o444),
        Member("usr/mdec/boot", b"boot", 0o444),
        Member("usr/sbin/sshd", b"sshd", 0o555),
        Member("usr/bin/su", b"su", 0o4555),
        Member("usr/share/zoneinfo/UTC", b"TZif"),
    ]
    etc = [
        directory("etc"),
        directory("etc/ssh"),
        Member("etc/rc", b"rc"),
        Member("etc/rc.conf", b"rc_configured=NO\n"),
        Member("etc/ttys", NETBSD_TTYS),
        Member("etc/ssh/sshd_config", SSHD_CONFIG),
        symlink("etc/localtime", "/usr/share/zoneinfo/US/Pacific"),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    write_set(folder / "base.tgz", [m for m in base if m.path not in without])
    write_set(folder / "etc.tgz", [m for m in etc if m.path not in without])
    write_set(folder / "kern-GENERIC.tgz", [Member("netbsd", b"kernel" * 100_000, 0o555)])
    if comp:
        write_set(folder / "comp.tgz", [Member("usr/bin/cc", b"cc", 0o555)])
    return folder
