"""A machine as bare as an old BSD, for a test to log in to: a root directory of its own.

    root = bsd_root(tmp_path / "root", FREEBSD)
    with running_sshd(tmp_path / "sshd", login_shell=str(root.enter)) as server:
        target = server.target(workdir="/var/labctl")

Its account has csh and a PATH without /sbin. There is no /proc, no Python, no bash; the
tools are those that POSIX names (busybox's), and the few that have other options on each
system (ps, sysctl, uname, kenv) are stand-ins that answer as FreeBSD 9.3 or NetBSD 6 does
and refuse what those would refuse. ``sh`` is dash, of the family of the BSDs' own.

Programs run on this machine's kernel, so that workloads can be compiled and run there for
real: ``cc`` (if wanted) is this machine's, told to use the tests' kqueue.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SHIM = Path(__file__).parent / "workloads" / "kqueue_shim"

_TOOLS = {
    "bin": "cat chmod cp date dd df echo expr hostname kill ln ls mkdir mv pwd rm rmdir sleep stty "
    "sync test [",
    "usr/bin": "awk basename cmp comm cut dirname env false find grep head id logname mkfifo nice "
    "nohup od paste printf sed sort tail tar tee touch tr true tty uniq wc xargs",
}


@dataclass(frozen=True)
class System:
    """What a system says of itself: ``uname -srm``, its sysctls and its kernel environment."""

    uname: str
    sysctls: Mapping[str, str]
    kenv: Mapping[str, str]


FREEBSD = System(
    "FreeBSD 9.3-RELEASE amd64",
    {
        "kern.version": "FreeBSD 9.3-RELEASE #0 r268512: Thu Jul 10 23:44:39 UTC 2014\n"
        "    root@snap.freebsd.org:/usr/obj/usr/src/sys/GENERIC",
        "kern.hostname": "beastie",
        "kern.boottime": "{ sec = 1405036479, usec = 123456 } Thu Jul 10 23:54:39 2014",
        "kern.hz": "1000",
        "hw.model": "Westmere E56xx/L56xx/X56xx (Nehalem-C)",
        "hw.ncpu": "2",
        "kern.smp.maxcpus": "64",
        "hw.physmem": "520630272",
        "hw.pagesize": "4096",
        "kern.timecounter.hardware": "TSC-low",
        "kern.timecounter.choice": "TSC-low(1000) ACPI-safe(850) HPET(950) i8254(0) "
        "dummy(-1000000)",
        "kern.clockrate": "{ hz = 1000, tick = 1000, profhz = 8128, stathz = 127 }",
        "vm.loadavg": "{ 0.15 0.20 0.25 }",
        "kern.cp_time": "10 0 20 5 1000",
        "kern.vm_guest": "none",
        "security.jail.jailed": "0",
        "kern.sched.name": "ULE",
        "kern.timecounter.smp_tsc": "1",
        "kern.timecounter.invariant_tsc": "1",
    },
    {
        "smbios.system.maker": "QEMU",
        "smbios.system.product": "Standard PC (i440FX + PIIX, 1996)",
        "smbios.bios.vendor": "SeaBIOS",
        "kern.hz": "1000",
        "hw.use_xsave": "0",
        "hint.uart.0.at": "isa",
    },
)

NETBSD = System(
    "NetBSD 6.1.5 amd64",
    {
        "kern.version": "NetBSD 6.1.5 (GENERIC)",
        "kern.hostname": "daemon",
        "kern.boottime": "1405036479",
        "machdep.cpu_brand": "QEMU Virtual CPU version 2.5+",
        "hw.model": "QEMU Virtual CPU version 2.5+",
        "hw.ncpu": "4",
        "hw.ncpuonline": "2",
        "hw.physmem": "-1",
        "hw.physmem64": "520630272",
        "hw.pagesize": "4096",
        "kern.timecounter.hardware": "hpet0",
        "kern.timecounter.choice": "TSC(q=-100, f=2445427000 Hz) clockinterrupt(q=0, f=100 Hz) "
        "hpet0(q=2000, f=100000000 Hz) ACPI-Safe(q=900, f=3579545 Hz) dummy(q=-1000000, "
        "f=1000000 Hz)",
        "kern.clockrate": "tick = 10000, tickadj = 40, hz = 100, profhz = 100, stathz = 100",
        "vm.loadavg": "0.15 0.20 0.25",
        "kern.cp_time": "user = 10, nice = 0, sys = 20, intr = 5, idle = 1000",
        "machdep.dmi.system-vendor": "QEMU",
        "machdep.dmi.system-product": "Standard PC (i440FX + PIIX, 1996)",
        "machdep.dmi.bios-vendor": "SeaBIOS",
    },
    {},
)

_UNAME = r"""#!/bin/sh
set -- $* -- {words}
case $1 in
-s) echo $3 ;;
-r) echo $4 ;;
-m) echo $5 ;;
-rm) echo $4 $5 ;;
-srm) echo $3 $4 $5 ;;
*) echo "uname: illegal option $1" >&2; exit 1 ;;
esac
"""

# Only what FreeBSD 9 and NetBSD 6 take. Numbers are padded, as theirs are.
_PS = r"""#!/bin/sh
proc=/.host/proc
row() {
    read -r line <$proc/$1/stat || return
    set -- ${line##*) }
    printf '%5d %5d %s\n' "${line%% *}" "$3" "$1"
} 2>/dev/null
case "$*" in
'-o pgid= -p '[0-9]*)
    read -r line <$proc/$4/stat || exit 1
    set -- ${line##*) }
    printf '%5d\n' "$3" ;;
'-ww -o args= -p '[0-9]*)
    [ -r $proc/$5/cmdline ] || exit 1
    tr '\0' ' ' <$proc/$5/cmdline; echo ;;
'-A -o pid= -o pgid= -o stat=')
    cd $proc && for pid in [0-9]*; do row "$pid"; done ;;
*)
    echo "ps: illegal option -- $*" >&2; exit 1 ;;
esac
exit 0
"""

_SHA256 = """#!/bin/sh
[ "$1" = -q ] || exit 1
/busybox sha256sum "$2" | sed 's/ .*//'
"""

# This machine's compiler, seen from inside: paths get the root's in front.
_CC = r"""#!/bin/sh
root={root}
case "$*" in
--version) echo '{version}'; exit ;;
-dumpmachine) echo amd64-undermydesk-freebsd; exit ;;
esac
count=$#
link=yes
while [ $count -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
    -c) link= ;;
    -I/*) word=-I$root${{word#-I}} ;;
    /*) word=$root$word ;;
    esac
    set -- "$@" "$word"
done
set -- "$@" -DHAVE_KQUEUE {defines} -I{shim}
[ -z "$link" ] || set -- "$@" {object}
exec /busybox chroot /.host /usr/bin/env PATH=/usr/bin:/bin cc "$@"
"""

_ENTER = r"""#!/bin/sh
# enter [-c COMMAND]: what the account's login shell gets.
exec unshare -r -m /bin/sh -c '
root=$1
shift
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount --rbind / $root/.host || exit
for node in null zero urandom; do mount --bind /dev/$node $root/dev/$node || exit; done
cd / && exec chroot $root /usr/bin/env -i HOME=/root USER=root SHELL=/bin/csh \
    PATH=/usr/bin:/bin /bin/csh "$@"
' enter {root} "$@"
"""


@dataclass(frozen=True)
class BSDRoot:
    """The root directory, and the program that takes a login shell's place."""

    directory: Path
    enter: Path

    def path(self, inside: str) -> Path:
        """Where an absolute path of the root is for everybody else."""
        return self.directory / inside.lstrip("/")

    def lose(self, *programs: str) -> None:
        """Take programs away."""
        for program in programs:
            self.path(program).unlink()


def bsd_root(
    directory: Path,
    system: System,
    *,
    compiler: str = "",
    dispatch: bool = True,
    cksum: bool = True,
    sftp: bool = True,
) -> BSDRoot:
    """Make one.

    Args:
        compiler: what its ``cc --version`` says; "": it has none.
        dispatch: whether kqueue has EV_DISPATCH, for what is compiled there.
        cksum, sftp: whether it has these.
    """
    _needs("unshare", "chroot", "csh", "dash", "busybox")
    if subprocess.run(["unshare", "-r", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    for folder in ("bin", "sbin", "dev", "etc", "root", "tmp", "usr/bin", "var/run", ".host"):
        (directory / folder).mkdir(parents=True)
    for node in ("null", "zero", "urandom"):
        (directory / "dev" / node).touch()
    (directory / "etc/passwd").write_text("root:*:0:0:Charlie &:/root:/bin/csh\n")
    _add(directory, "dash", "bin/sh")
    _add(directory, "csh", "bin/csh")
    _add(directory, "busybox", "busybox")
    for folder, names in _TOOLS.items():
        for name in names.split():
            (directory / folder / name).symlink_to("/busybox")
    if cksum:
        _add(directory, "cksum", "usr/bin/cksum")
    if system.uname.startswith("FreeBSD"):
        _program(directory / "sbin/sha256", _SHA256)
    server = "/usr/lib/openssh/sftp-server"
    if sftp and Path(server).exists():
        _add(directory, server, server.lstrip("/"))
    _program(directory / "usr/bin/uname", _UNAME.format(words=system.uname))
    _program(directory / "bin/ps", _PS)
    _program(directory / "sbin/sysctl", answers("sysctl", "-n", system.sysctls))
    _program(directory / "bin/kenv", answers("kenv", "-q", system.kenv))
    if compiler:
        _add_compiler(directory, compiler, dispatch)
    enter = directory.with_name(f"{directory.name}.enter")
    _program(enter, _ENTER.format(root=directory))
    return BSDRoot(directory, enter)


def brand(program: Path, system: System) -> Path:
    """Make a program say that it is for another system, as brandelf does. A static one runs
    here all the same."""
    subprocess.run(["objcopy", "-R", ".note.ABI-tag", program], check=True)
    data = bytearray(program.read_bytes())
    data[7] = {"NetBSD": 2, "FreeBSD": 9}[system.uname.split()[0]]
    program.write_bytes(data)
    return program


def build_for(system: System, directory: Path, *names: str, dispatch: bool = True) -> Path:
    """Workloads that say that they are for that system, with the records that build.sh leaves
    beside them; returns their directory."""
    defines = [] if dispatch else ["-DSHIM_WITHOUT_DISPATCH"]
    options = ["-O1", *defines, f"-I{SHIM}"]
    shim_object = directory / "kqueue.o"
    subprocess.run(["cc", *options, "-c", SHIM / "kqueue.c", "-o", shim_object], check=True)
    script = SHIM.parents[2] / "workloads" / "build.sh"
    subprocess.run(
        ["sh", script, directory / "out", *names],
        env={
            "PATH": "/usr/bin:/bin",
            "LINK": "static",
            "CFLAGS": " ".join(["-DHAVE_KQUEUE", *options]),
            "LDFLAGS": str(shim_object),
        },
        check=True,
    )
    for name in names:
        brand(directory / "out" / name, system)
    return directory / "out"


def answers(name: str, option: str, known: Mapping[str, str]) -> str:
    """A program that knows these values and takes one option, as sysctl and kenv do."""
    arms = "\n".join(f"'{key}') printf '%s\\n' '{value}' ;;" for key, value in known.items())
    everything = "\n".join(f"echo '{key}=\"{value}\"'" for key, value in known.items())
    listed = f"[ $# -gt 0 ] || {{\n{everything}\nexit\n}}\n" if name == "kenv" and known else ""
    return (
        f'#!/bin/sh\n{listed}[ $# -eq 2 ] && [ "$1" = {option} ] || {{ echo "usage: {name}" >&2; exit 1; }}\n'
        f"case $2 in\n{arms}\n*) echo \"{name}: unknown oid '$2'\" >&2; exit 1 ;;\nesac\n"
    )


def _needs(*programs: str) -> None:
    missing = [name for name in programs if not shutil.which(name, path=_search())]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")


def _search() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _add(root: Path, program: str, goal: str) -> None:
    """A program and the libraries that it needs."""
    found = shutil.which(program, path=_search())
    assert found
    real = Path(found).resolve()
    (root / goal).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(real, root / goal)
    listed = subprocess.run(["ldd", str(real)], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", listed):
        copy = root / library.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists():
            shutil.copy(library, copy)


def _add_compiler(root: Path, version: str, dispatch: bool) -> None:
    defines = "" if dispatch else "-DSHIM_WITHOUT_DISPATCH"
    shim_object = root / "kqueue.o"
    subprocess.run(
        ["cc", "-O2", *defines.split(), f"-I{SHIM}", "-c", SHIM / "kqueue.c", "-o", shim_object],
        check=True,
    )
    text = _CC.format(root=root, version=version, defines=defines, shim=SHIM, object=shim_object)
    _program(root / "usr/bin/cc", text)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
