"""How verbs speak: data on stdout, progress and errors on stderr, plain lines off a terminal."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from labctl.errors import LabctlError

REMIND_S = 30.0

JSON_SCHEMA = 1
"""Version of what ``--json`` prints; docs/json.md describes it."""


_SIMILAR = str.maketrans({"±": "~", "→": ">", "…": "~", "×": "x", "–": "-", "·": "."})


def _similar(error: UnicodeError) -> tuple[str, int]:
    """What an output that lacks a character shows for it: one that is as wide, so that tables
    keep their shape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_SIMILAR)
    return "".join(c if c.isascii() else "?" * cell_len(c) for c in lacking), error.end


codecs.register_error("labctl.similar", _similar)


class Output:
    """The two streams of one invocation and how much is said on them."""

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.traceback = False
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="labctl.similar")
        if os.environ.get("COLUMNS", "").strip("0") == "":
            os.environ.pop("COLUMNS", None)  # nothing at all would be shown in a width of none
        self.out = Console(highlight=False)
        self.err = Console(stderr=True, highlight=False)

    def say(self, text: str, *, style: str = "") -> None:
        """A line about what is going on (stderr; not with -q)."""
        if not self.quiet:
            self._tell(escape(text), style)

    def warn(self, text: str) -> None:
        """A line that is also shown with -q."""
        self._tell(f"warning: {escape(text)}", "yellow")

    def detail(self, text: str) -> None:
        """A line for -v alone."""
        if self.verbose:
            self._tell(escape(text), "dim")

    def data(self, text: str) -> None:
        """A line of data (stdout), as it is."""
        print(text)

    def table(self, table: Table) -> None:
        """A table on stdout."""
        self.out.print(table)

    def json(self, **values: Any) -> None:
        """One document on stdout, with its schema's version."""
        print(json.dumps({"schema": JSON_SCHEMA, **values}, indent=2, default=str))

    def error(self, error: LabctlError) -> None:
        """An error: what, where, what to do, and its evidence below."""
        self._tell(f"error: {escape(str(error))}", "bold red")
        if error.detail:
            for line in error.detail.rstrip().splitlines():
                self._tell(f"  | {escape(line)}")
        if error.hint:
            self._tell(f"  hint: {escape(error.hint)}")

    def _tell(self, markup: str, style: str = "") -> None:
        """Print to stderr; that nobody listens there must not end the work."""
        with contextlib.suppress(OSError):
            self.err.print(markup, style=style or None, soft_wrap=True)

    @contextlib.contextmanager
    def steps(self) -> Iterator[Steps]:
        """A display of what several things are doing side by side."""
        with Steps(self) as steps:
            yield steps


class Steps:
    """One line a thing (an image, a target): on a terminal live bars, else plain lines
    whenever the step's name changes."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = output.err.is_terminal and not output.quiet
        self._last: dict[str, str] = {}
        self._done = threading.Event()
        self._tasks: dict[str, Any] = {}
        self._begun = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            console=output.err,
            transient=True,
        )

    def __enter__(self) -> Steps:
        if self._live:
            self._progress.start()
        else:
            threading.Thread(target=self._remind, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._live:
            self._progress.stop()

    def update(self, who: str, stage: str, fraction: float | None = None, detail: str = "") -> None:
        """``who`` is at ``stage``; ``fraction`` (0 to 1) of it is done where that is known."""
        text = f"{stage} {detail}".strip()
        if self._live:
            self._show(who, text, fraction)
        elif self._last.get(who) != stage and not self._output.quiet:
            elapsed = time.monotonic() - self._begun
            self._output.say(f"{elapsed:6.1f}s  {who}: {text}")
        self._last[who] = stage

    def _remind(self) -> None:
        """Off a terminal, say now and then that it is still going on."""
        while not self._done.wait(REMIND_S):
            for who, stage in list(self._last.items()):
                elapsed = time.monotonic() - self._begun
                self._output.say(f"{elapsed:6.1f}s  {who}: still {stage}")

    def finish(self, who: str, text: str, *, style: str = "green") -> None:
        """``who`` is done; the line stays."""
        self._last.pop(who, None)
        if self._live and who in self._tasks:
            self._progress.remove_task(self._tasks.pop(who))
        elapsed = time.monotonic() - self._begun
        self._output.say(f"{elapsed:6.1f}s  {who}: {text}", style=style)

    def _show(self, who: str, text: str, fraction: float | None) -> None:
        width = max(20, self._output.err.width - len(who) - 45)
        text = text if len(text) <= width else text[: width - 1] + "…"
        if who not in self._tasks:
            self._tasks[who] = self._progress.add_task(escape(who), total=None, detail="")
        self._progress.update(
            self._tasks[who],
            detail=escape(text),
            total=None if fraction is None else 1.0,
            completed=fraction or 0.0,
        )


def seconds(value: float) -> str:
    """A duration for people: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def size(value: int) -> str:
    """A size for people, binary units: ``512 MiB``."""
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{number:.0f} {unit}" if number >= 10 or unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    raise AssertionError


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()
