"""The display of a running sweep: cells done, the one that runs, time left."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from labctl.cli.output import Output, seconds

if TYPE_CHECKING:
    from labctl.session import Session
    from labctl.sweep.runner import Event

PLAIN_INTERVAL_S = 10.0
"""How often a line is printed where there is no terminal to redraw."""


class SweepDisplay:
    """Shows a Session's events; safe to call from the machines' threads."""

    def __init__(self, output: Output, session: Session) -> None:
        self._output = output
        self._total = session.pending
        self._estimate_s = session.estimate_s
        self._run = session.run_id
        self._lock = threading.Lock()
        self._done = 0
        self._begun = self._said = time.monotonic()
        self._live = output.err.is_terminal and not output.quiet
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=output.err,
            transient=True,
        )
        self._task = self._progress.add_task("", total=self._total)

    def __enter__(self) -> Self:
        self._output.say(
            f"run {self._run}: {self._total} processes, about {seconds(self._estimate_s)}"
        )
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._progress.stop()

    def on_event(self, event: Event) -> None:
        """Take note of an event."""
        with self._lock:
            if event.kind in ("done", "failed"):
                self._done += 1
                self._progress.update(self._task, completed=self._done)
            if event.kind in ("failed", "lost", "noise"):
                self._output.warn(f"{event.target}: {event.message}")
            elif event.kind == "boot":
                self._output.say(f"{event.target}: {event.message}")
            if event.kind in ("boot", "facts"):
                self._progress.update(
                    self._task, description=escape(f"{event.target}: {event.message}")
                )
            if event.kind == "cell" and event.execution:
                cell = event.execution.cell
                round_ = event.execution.round + 1
                text = f"{cell.target} {cell.program} x{cell.threads}, round {round_}"
                self._progress.update(self._task, description=escape(text))
            if not self._live and time.monotonic() - self._said > PLAIN_INTERVAL_S:
                self._plain()

    def _plain(self) -> None:
        self._said = time.monotonic()
        elapsed = self._said - self._begun
        left = elapsed / self._done * (self._total - self._done) if self._done else self._estimate_s
        self._output.say(f"{self._done}/{self._total} processes, about {seconds(left)} left")
