"""What a guest's serial console says: its last lines, and the step that a boot came to.

It reads the log file that QEMU appends to. It never writes to the console. What a line
means is ``boot_steps``.
"""

from __future__ import annotations

import re
from pathlib import Path

from labctl.hypervisor.boot_steps import NOTHING, STEPS, Event, begins_anew, match

_LONGEST_LINE = 4096  # characters: of what does not end, the end tells
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: window titles
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # DCS and other strings
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


class Watcher:
    """Reads a console log from where it stood, and tells what happened since.

    Attributes:
        step: name of the last event, or "nothing" (not even the boot loader spoke).
        reached: the step that this boot came to, whatever failed then.
        failure: the first event of kind "failure", if any.
        offset: how much of the file has been read, in bytes.
    """

    def __init__(self, path: Path, *, from_end: bool = True) -> None:
        """``from_end``: leave out what is in the file already (earlier boots)."""
        self.path = path
        self.step = NOTHING
        self.reached = NOTHING
        self.failure: Event | None = None
        self.offset = self._size() if from_end else 0
        self._rest = ""  # an unfinished line
        self._told: Event | None = None  # what the unfinished line has led to

    def poll(self) -> list[Event]:
        """The events since the last call. An unfinished line (a prompt) counts, once."""
        if self._size() < self.offset:  # rotated or made anew
            self.offset, self._rest, self._told, self.reached = 0, "", None, NOTHING
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return []
        if not data:
            return []
        self.offset += len(data)
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        events: list[Event] = []
        for line in lines:
            self._take(line, events)
            self._told = None
        if self._rest:
            self._take(self._rest, events)
            self._rest = self._rest[-_LONGEST_LINE:]
        return events

    def _take(self, line: str, events: list[Event]) -> None:
        event = match(clean(line[-_LONGEST_LINE:]))
        if event is None:
            return
        if self._told is not None and self._told.name == event.name:
            if self.failure is self._told:  # more of its line has come
                self.failure = self._told = event
            return
        self._told = event
        if begins_anew(event, self.reached):
            event = Event("restarted by itself", "failure", event.line)
        self.step = event.name
        if event.name in STEPS:
            self.reached = event.name
        elif event.name == "reboot":  # in order: what begins now is another boot
            self.reached = NOTHING
        if event.kind == "failure" and self.failure is None:
            self.failure = event
        events.append(event)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0
