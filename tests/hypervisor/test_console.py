"""Console texts: cleaned, and understood."""

from pathlib import Path

import pytest

from labctl.hypervisor.console import Watcher, clean, tail


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[0;1;31mred\x1b[0m\r\n", "red\n"),
        ("\x1b]0;title\x07prompt", "prompt"),
        ("|\b/\b-\b\\\bdone", "done"),
        ("10 %\r99 %\r100 %\n", "100 %\n"),
        ("a\x00b\x07c\td", "abc\td"),
        ("\x1bc\x1b(Bx", "x"),
        ("\x9b31m", "31m"),
    ],
)
def test_clean(raw: str, text: str) -> None:
    assert clean(raw) == text


def test_tail_is_short_clean_and_never_fails(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    assert tail(log) == ""
    log.write_bytes(b"\xff\xfe" + b"".join(b"line %d\r\n\r\n" % n for n in range(100_000)))
    assert tail(log, 2) == "line 99998\nline 99999"


@pytest.mark.parametrize(
    ("line", "name", "fatal"),
    [
        ("[    0.000000] Linux version 6.1.0-13-cloud-amd64 (gcc-12)", "kernel", False),
        ("Copyright (c) 1992-2014 The FreeBSD Project.", "kernel", False),
        (
            "[    1.9] Kernel panic - not syncing: VFS: Unable to mount root fs",
            "no root device",
            True,
        ),
        ("[    1.9] Kernel panic - not syncing: Attempted to kill init!", "panic", True),
        ("panic: general protection fault", "panic", True),
        ("db{0}> ", "panic", True),
        ("mountroot> ", "no root device", True),
        ("ALERT!  /dev/vda1 does not exist.  Dropping to a shell!", "no root device", True),
        ("(initramfs) ", "initramfs shell", True),
        ("You are in emergency mode. After logging in, type", "emergency shell", True),
        ("Enter pathname of shell or RETURN for /bin/sh:", "single user", True),
        ("gptboot: No /boot/loader on 0:ad(0p2)", "no boot loader", True),
        ("No bootable device.", "no bootable disk", True),
        ("SeaBIOS (version 1.16.2-debian-1.16.2-1)", "firmware", False),
        ("labctl: ready", "ready", False),
        ("debian login: ", "login", False),
        ("[   9.1] reboot: Restarting system", "reboot", False),
    ],
)
def test_events(tmp_path: Path, line: str, name: str, fatal: bool) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    log.write_text("\x1b[0m" + line + "\r\n")
    (event,) = watcher.poll()
    assert (event.name, event.fatal) == (name, fatal)
    assert line.strip() in event.text
    assert watcher.step == name
    assert (watcher.failure == event) is fatal


def test_what_does_not_matter_is_no_event(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    log.write_text("cpu0: don't panic\nsshd: last login: Mon\nlogin: 1 user ok\n")
    assert watcher.poll() == []
    assert watcher.step == "nothing"


def test_it_reads_on_from_where_it_stood(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("Kernel panic - not syncing: of an earlier boot\n")
    watcher = Watcher(log)
    with log.open("a") as stream:
        for piece, names in [
            ("[0.0] Linux ver", []),
            ("sion 6.1\n[1.0] more", ["kernel"]),
            ("\r\ndebian login: ", ["login"]),
            ("", []),
            ("root\r\n", []),
            ("labctl: ready\n", ["ready"]),
        ]:
            stream.write(piece)
            stream.flush()
            assert [event.name for event in watcher.poll()] == names
    log.write_text("SeaBIOS (version 1)\n")  # made anew, shorter
    assert [event.name for event in watcher.poll()] == ["firmware"]


def test_a_title_that_does_not_end_takes_no_other_line_with_it(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(b"\x1b]0;t\npanic: real\n\x1bPq\nlast\n")
    assert tail(log).split() == ["panic:", "real", "last"]


def test_of_a_line_that_does_not_end_the_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    watcher = Watcher(log)
    for _ in range(3):
        with log.open("ab") as stream:
            stream.write(b"acpi: power" * 10_000)
        watcher.poll()
        assert len(watcher._rest) <= 4096
    with log.open("ab") as stream:
        stream.write(b"\npanic: real\n")
    watcher.poll()
    assert watcher.failure is not None
    assert watcher.failure.line == "panic: real"
