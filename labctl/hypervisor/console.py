"""What a guest's serial console says: its last lines, and the step that a boot came to.

It reads the log file that QEMU appends to. It never writes to the console.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS and other strings
    r"|\x1b[ -/]*[0-~]?"  # two-byte sequences, and a lone ESC
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TAIL_BYTES = 256 * 1024


def clean(text: str) -> str:
    """Text without escape sequences and control characters; a terminal's
    overwriting (backspaces, lone carriage returns) is carried out.

    >>> clean("\\x1b[1mok\\x1b[0m\\r\\n|\\b/\\b-\\bdone 1 %\\rdone 9 %\\n")
    'ok\\ndone 9 %\\n'
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "\n".join(_CONTROLS.sub("", _overwritten(line)) for line in text.split("\n"))


def _overwritten(line: str) -> str:
    if "\b" not in line and "\r" not in line:
        return line
    cells: list[str] = []
    column = 0
    for character in line:
        if character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        else:
            cells[column : column + 1] = [character]
            column += 1
    return "".join(cells).rstrip()


def tail(path: Path, lines: int = 40) -> str:
    """The last ``lines`` lines that are not blank, cleaned; "" if there is no file."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    kept = [line.rstrip() for line in clean(text).split("\n") if line.strip()]
    return "\n".join(kept[-lines:])


Kind = Literal["progress", "ready", "failure"]


@dataclass(frozen=True)
class Event:
    """Something that the console said.

    Attributes:
        name: which step or failure ("kernel", "login", "panic" ...).
        kind: "progress", "ready" (the guest is up) or "failure" (it will not come up).
        line: the line that said so.
    """

    name: str
    kind: Kind
    line: str

    @property
    def fatal(self) -> bool:
        """Whether the guest will not come up."""
        return self.kind == "failure"

    @property
    def text(self) -> str:
        """For people: ``panic: Kernel panic - not syncing: ...``."""
        return f"{self.name}: {self.line}"


# Searched in each line, first match wins: failures first, as a panic's text may
# mention anything.
_PATTERNS: tuple[tuple[str, Kind, str], ...] = (
    ("no root device", "failure", r"Unable to mount root fs|Cannot open root device"),
    ("no root device", "failure", r"ALERT!.*does not exist|Gave up waiting for root"),
    ("no root device", "failure", r"^\s*mountroot>|Mounting from \S+ failed"),
    ("no root device", "failure", r"cannot mount root|^root device(?: \([^)]*\))?:"),
    (
        "panic",
        "failure",
        r"Kernel panic - not syncing|^\W*panic(?:\(cpu \d+\))?: |^db(?:\{\d+\})?>",
    ),
    ("initramfs shell", "failure", r"^\(initramfs\)"),
    ("emergency shell", "failure", r"(?i)emergency mode|emergency\.target|Give root password"),
    ("emergency shell", "failure", r"Enter (?:full )?pathname of shell"),
    ("no boot loader", "failure", r"gptboot: No |No /boot/loader|Missing boot loader"),
    ("no bootable disk", "failure", r"(?i)No bootable device|Boot failed: not a bootable disk"),
    ("proof failed", "failure", r"^labctl proof: FAILED"),
    ("ready", "ready", r"labctl: ready|^labctl proof: complete"),
    ("login", "ready", r"\blogin: ?$"),
    ("reboot", "progress", r"reboot: Restarting system|^[Rr]ebooting\.\.\."),
    (
        "power off",
        "progress",
        r"reboot: Power down|acpi0?: .*power.*off|^labctl proof: power button",
    ),
    ("firmware", "progress", r"SeaBIOS \(|^iPXE |Booting from (?:ROM|Hard Disk)"),
    ("loader", "progress", r"/boot/loader|bootstrap loader|NetBSD/x86 .*Boot|^labctl proof: real"),
    ("kernel", "progress", r"Linux version \d|^Copyright \(c\).*(?:FreeBSD|NetBSD)"),
    ("init", "progress", r"Run /\S*init\S* as init|Welcome to |^Starting file system checks"),
    ("sshd", "progress", r"Starting sshd|Started ssh|OpenBSD Secure Shell"),
)
_TABLE = tuple((name, kind, re.compile(pattern)) for name, kind, pattern in _PATTERNS)


class Watcher:
    """Reads a console log from where it stood, and tells what happened since.

    Attributes:
        step: name of the last event, or "nothing" (not even the firmware spoke).
        failure: the first event of kind "failure", if any.
    """

    def __init__(self, path: Path, *, from_end: bool = True) -> None:
        """``from_end``: leave out what is in the file already (earlier boots)."""
        self.path = path
        self.step = "nothing"
        self.failure: Event | None = None
        self._offset = self._size() if from_end else 0
        self._rest = ""  # an unfinished line
        self._told: Event | None = None  # what the unfinished line has led to

    def poll(self) -> list[Event]:
        """The events since the last call. An unfinished line (a prompt) counts, once."""
        if self._size() < self._offset:  # rotated or made anew
            self._offset, self._rest, self._told = 0, "", None
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except OSError:
            return []
        if not data:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        events: list[Event] = []
        for line in lines:
            self._take(line, events)
            self._told = None
        if self._rest:
            self._take(self._rest, events)
        return events

    def _take(self, line: str, events: list[Event]) -> None:
        event = _match(clean(line))
        if event is None or (self._told is not None and self._told.name == event.name):
            return
        self._told = event
        self.step = event.name
        if event.kind == "failure" and self.failure is None:
            self.failure = event
        events.append(event)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


def _match(line: str) -> Event | None:
    for name, kind, pattern in _TABLE:
        if pattern.search(line):
            return Event(name, kind, line.strip())
    return None
