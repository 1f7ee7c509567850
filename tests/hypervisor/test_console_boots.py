"""Whole boots of FreeBSD and NetBSD as a console shows them: steps, readiness, every way to fail."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from labctl.errors import UnavailableError
from labctl.guests import wait_ready
from labctl.hypervisor.boot_steps import begins_anew, match
from labctl.hypervisor.console import Watcher, tail
from labctl.targets import LocalTarget

SPINNER = "|\b/\b-\b\\\b"
FREEBSD_LOADER = f"""\
/boot.config: -h
Consoles: serial port  \r
BIOS drive C: is disk0\r
BIOS 639kB/1047416kB available memory\r
\r
FreeBSD/x86 bootstrap loader, Revision 1.1\r
{SPINNER * 40}/boot/kernel/kernel text=0xd09b00 {SPINNER * 90}data=0x142b88+0x1e1b08 \r
Booting...\r
"""
FREEBSD_KERNEL = """\
Copyright (c) 1992-2014 The FreeBSD Project.\r
Copyright (c) 1979, 1980, 1983, 1986, 1988, 1989, 1991, 1992, 1993, 1994\r
\tThe Regents of the University of California. All rights reserved.\r
FreeBSD 9.3-RELEASE #0 r268512: Thu Jan  1 00:00:00 UTC 2015\r
CPU: Intel Core i7 9xx (Nehalem Class Core i7) (2400.00-MHz K8-class CPU)\r
FreeBSD/SMP: Multiprocessor System Detected: 2 CPUs\r
Timecounters tick every 1.000 msec\r
"""
FREEBSD_ROOT = """\
Trying to mount root from ufs:/dev/gpt/labctl-root []...\r
"""
FREEBSD_RC = """\
Setting hostuuid: 6f9b6a2e-0000-0000-0000-000000000000.\r
Entropy harvesting: interrupts ethernet point_to_point kickstart.\r
Starting file system checks:\r
/dev/gpt/labctl-root: FILE SYSTEM CLEAN; SKIPPING CHECKS\r
Mounting local file systems:.\r
Setting hostname: freebsd9.\r
Starting Network: lo0 em0.\r
"""
FREEBSD_END = """\
Performing sanity check on sshd configuration.\r
Starting sshd.\r
\r
FreeBSD/amd64 (freebsd9) (ttyu0)\r
\r
login: """
FREEBSD = FREEBSD_LOADER + FREEBSD_KERNEL + FREEBSD_ROOT + FREEBSD_RC
NETBSD_LOADER = """\
>> NetBSD/x86 BIOS Boot, Revision 5.9 (from NetBSD 6.1.5)\r
>> Memory: 639/522108 k\r
booting hd0a:netbsd - starting in 0 seconds. \b\b\b\r
7984680+532960+692960 [622944+638462]=0xa11fb0\r
"""
NETBSD_KERNEL = """\
Loaded initial symtab at 0xffffffff80b5f5d0, strtab at 0xffffffff80bf7730, # entries 25912\r
Copyright (c) 1996, 1997, 1998, 1999, 2000, 2001, 2002, 2003, 2004, 2005,\r
    2006, 2007, 2008, 2009, 2010, 2011, 2012\r
    The NetBSD Foundation, Inc.  All rights reserved.\r
Copyright (c) 1982, 1986, 1989, 1991, 1993\r
    The Regents of the University of California.  All rights reserved.\r
\r
NetBSD 6.1.5 (GENERIC)\r
total memory = 511 MB\r
timecounter: Timecounters tick every 10.000 msec\r
"""
NETBSD_ROOT = """\
boot device: wd0\r
root on wd0a dumps on wd0b\r
root file system type: ffs\r
init: copying out path `/sbin/init' 11\r
"""
NETBSD_RC = """\
Created tmpfs /dev (1490944 byte, 2880 inodes)\r
Starting root file system check:\r
/dev/rwd0a: file system is clean; not checking\r
Setting hostname: netbsd6\r
Starting network.\r
"""
NETBSD_END = """\
Starting sshd.\r
Tue Jan  6 00:00:00 UTC 2015\r
\r
NetBSD/amd64 (netbsd6) (console)\r
\r
login: """
NETBSD = NETBSD_LOADER + NETBSD_KERNEL + NETBSD_ROOT + NETBSD_RC


def watched(path: Path, text: str, size: int) -> Watcher:
    """A watcher that saw ``text`` come ``size`` characters at a time."""
    watcher = Watcher(path)
    for begin in range(0, len(text), size):
        with path.open("a", newline="") as stream:
            stream.write(text[begin : begin + size])
        watcher.poll()
    return watcher


@pytest.mark.parametrize("size", [7, 100_000])
@pytest.mark.parametrize("text", [FREEBSD + FREEBSD_END, NETBSD + NETBSD_END])
def test_a_good_boot_goes_through_its_steps_to_the_login(
    tmp_path: Path, text: str, size: int
) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    names = []
    for begin in range(0, len(text), size):
        with log.open("a", newline="") as stream:
            stream.write(text[begin : begin + size])
        names += [event.name for event in watcher.poll()]
    assert list(dict.fromkeys(names)) == ["loader", "kernel", "root", "rc", "sshd", "login"]
    assert watcher.failure is None
    assert watcher.reached == "login"


@pytest.mark.parametrize("text", ["Starting sshd.", "login: "])
def test_a_bsd_is_worth_an_attempt_from_sshd_on(text: str) -> None:
    event = match(text)
    assert event is not None
    assert event.kind == "ready"


FAILURES = {
    "gptboot finds no loader": (
        "gptboot: No /boot/loader on 0:ad(0p2)\r\ngptboot: No /boot/kernel/kernel on 0:ad(0p2)\r\n"
        "\r\nFreeBSD/x86 boot\r\nDefault: 0:ad(0p2)/boot/kernel/kernel\r\nboot: ",
        "no boot loader", "nothing",
    ),
    "gptboot finds no root": ("gptboot: no UFS partition was found\r\n", "no boot loader", "nothing"),
    "bootxx finds no loader": (
        "NetBSD/x86 ffsv1 Primary Bootstrap\r\nCan't open /boot\r\n", "no boot loader", "loader",
    ),
    "FreeBSD's loader finds no kernel": (
        FREEBSD_LOADER.replace("Booting...\r\n", "") + SPINNER + "can't load 'kernel'\r\n\r\nOK ",
        "no kernel", "loader",
    ),
    "NetBSD's loader finds no kernel": (
        NETBSD_LOADER[:120] + "\r\nboot: netbsd: No such file or directory\r\n> ", "no kernel", "loader",
    ),
    "no disk": ("SeaBIOS (version 1.16.2)\r\nNo bootable device.\r\n", "no bootable disk", "firmware"),
    "an empty disk": (
        "SeaBIOS (version 1.16.2)\r\nBoot failed: not a bootable disk\r\n", "no bootable disk", "firmware",
    ),
    "FreeBSD finds no root": (
        FREEBSD_LOADER + FREEBSD_KERNEL + FREEBSD_ROOT
        + "Mounting from ufs:/dev/gpt/labctl-root failed with error 19.\r\n\r\nmountroot> ",
        "no root device", "root",
    ),
    "FreeBSD asks for a root": (FREEBSD_LOADER + FREEBSD_KERNEL + "mountroot> ", "no root device", "kernel"),
    "NetBSD asks for a root": (
        NETBSD_LOADER + NETBSD_KERNEL + "boot device: <unknown>\r\nroot device: ", "no root device", "kernel",
    ),
    "NetBSD proposes a root": (
        NETBSD_LOADER + NETBSD_KERNEL + "root device (default wd0a): ", "no root device", "kernel",
    ),
    "FreeBSD panics": (
        FREEBSD_LOADER + FREEBSD_KERNEL
        + "\r\n\r\nFatal trap 9: general protection fault while in kernel mode\r\ncpuid = 0; apic id = 00\r\n"
        "panic: general protection fault\r\ncpuid = 0\r\nUptime: 1s\r\n"
        "Automatic reboot in 15 seconds - press a key on the console to abort\r\n",
        "panic", "kernel",
    ),
    "FreeBSD panics without a trap": (FREEBSD + "panic: ffs_valloc: dup alloc\r\n", "panic", "rc"),
    "NetBSD panics": (
        NETBSD_LOADER + NETBSD_KERNEL + "panic: init died (signal 0, exit 1)\r\n", "panic", "kernel",
    ),
    "NetBSD traps": (
        NETBSD_LOADER + NETBSD_KERNEL + "fatal protection fault in supervisor mode\r\n", "panic", "kernel",
    ),
    "NetBSD's debugger": (NETBSD + "Stopped in pid 0.1 (system) at  netbsd:breakpoint+0x5:  leave\r\ndb{0}> ", "panic", "rc"),
    "FreeBSD's debugger": (FREEBSD + "db> ", "panic", "rc"),
    "FreeBSD in single user mode": (
        FREEBSD_LOADER + FREEBSD_KERNEL + FREEBSD_ROOT + "Enter full pathname of shell or RETURN for /bin/sh: ",
        "single user", "root",
    ),
    "NetBSD is not configured": (
        NETBSD_LOADER + NETBSD_KERNEL + NETBSD_ROOT
        + "/etc/rc.conf is not configured.  Multiuser boot aborted.\r\n"
        "Enter pathname of shell or RETURN for /bin/sh:",
        "not configured", "root",
    ),
    "rc_configured": (NETBSD + "/etc/rc: WARNING: $rc_configured is not set properly", "not configured", "rc"),
    "rc_configured missing": (NETBSD + "rc_configured is not set\r\n", "not configured", "rc"),
    "fsck asks about the superblock": (
        NETBSD + "** /dev/rwd0a\r\nUPDATE STANDARD SUPERBLOCK? [yn] ", "file system check", "rc",
    ),
    "fsck gives up": (
        FREEBSD + "/dev/gpt/labctl-root: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\r\n"
        "Automatic file system check failed; help!\r\n"
        "ERROR: ABORTING BOOT (sending SIGTERM to parent)!\r\n",
        "file system check", "rc",
    ),
    "fsck mends": (
        FREEBSD + "/dev/gpt/labctl-root: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\r\n"
        "File system preen failed, trying fsck -y\r\nRECONNECT? yes\r\n\r\n***** FILE SYSTEM WAS MODIFIED *****\r\n",
        None, "rc",
    ),
    "halted": (FREEBSD + "The operating system has halted.\r\n", "halted", "rc"),
    "a triple fault": (FREEBSD_LOADER + FREEBSD_KERNEL + FREEBSD_LOADER, "restarted by itself", "loader"),
    "a reset of NetBSD": (NETBSD + NETBSD_LOADER, "restarted by itself", "loader"),
}  # fmt: skip


@pytest.mark.parametrize("size", [7, 100_000])
@pytest.mark.parametrize(("text", "failure", "reached"), FAILURES.values(), ids=FAILURES)
def test_each_end_of_a_boot(
    tmp_path: Path, text: str, failure: str | None, reached: str, size: int
) -> None:
    watcher = watched(tmp_path / "console.log", text, size)
    assert (watcher.failure.name if watcher.failure else None) == failure, watcher.failure
    if failure != "restarted by itself":
        assert watcher.reached == reached


def test_a_failure_has_its_whole_line_however_slowly_it_comes(tmp_path: Path) -> None:
    watcher = watched(tmp_path / "console.log", "panic: ffs_valloc: dup alloc\r\n", 8)
    assert watcher.failure is not None
    assert watcher.failure.text == "panic: panic: ffs_valloc: dup alloc"


def test_an_orderly_reboot_is_no_restart_by_itself(tmp_path: Path) -> None:
    text = FREEBSD + FREEBSD_END + "\r\nRebooting...\r\n" + FREEBSD + FREEBSD_END
    assert watched(tmp_path / "console.log", text, 100).failure is None


def test_a_direct_kernel_boot_begins_with_its_kernel() -> None:
    event = match("[    0.000000] Linux version 6.1.0")
    assert event is not None
    assert begins_anew(event, "init")
    assert not begins_anew(event, "kernel")
    assert not begins_anew(event, "nothing")


@pytest.mark.parametrize(
    "line",
    [
        "OpenSSH: boot: loader", "the panic: none", "Starting sshd-keygen", "root on the phone",
        "Do you like it? [yn] or so", "reopen netbsd: fine", "halted", "-- db> --",
    ],
)  # fmt: skip
def test_what_only_looks_like_it(line: str) -> None:
    event = match(line)
    assert event is None or not event.fatal


def test_the_tail_has_no_spinner(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text(FREEBSD_LOADER, newline="")
    assert "\b" not in tail(log)
    assert "/boot/kernel/kernel text=0xd09b00 data=0x142b88+0x1e1b08" in tail(log)


def local(tmp_path: Path) -> LocalTarget:
    return LocalTarget(name="freebsd9", workdir=str(tmp_path / "work"), machine="local")


def test_a_failure_is_told_at_once_with_step_and_tail(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    log.write_text(FAILURES["FreeBSD panics"][0], newline="")
    with pytest.raises(UnavailableError) as caught:
        # The deadline is far away: only what the console says ends the wait.
        wait_ready(local(tmp_path), watcher, booting=True, deadline=time.monotonic() + 1000)
    assert "general protection fault" in caught.value.message
    assert "it had come to: kernel" in caught.value.message
    assert caught.value.where == "freebsd9"
    assert "Uptime: 1s" in caught.value.detail
    assert caught.value.hint == "labctl console freebsd9"


def test_a_guest_that_powers_off_while_it_boots_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    log.write_text(NETBSD + "acpi0: entering state S5, power off\r\n", newline="")
    with pytest.raises(UnavailableError, match=r"it powered off \(it had come to: rc\)"):
        wait_ready(local(tmp_path), watcher, booting=True, deadline=time.monotonic() + 1000)


def test_ready_is_when_the_console_says_so(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    log.write_text(NETBSD + NETBSD_END, newline="")
    target = local(tmp_path)
    wait_ready(target, watcher, booting=True, deadline=time.monotonic() + 1000)
    assert target.run("echo here").stdout == "here\n"
    target.close()
