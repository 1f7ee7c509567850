"""The display of a running sweep: cells done, the one that runs, time left.

An adaptive sweep's total grows with each phase that is decided.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from labctl.cli.output import Output, seconds

if TYPE_CHECKING:
    from labctl.session import Session
    from labctl.sweep.records import PhaseRecord, StopReason
    from labctl.sweep.runner import Event

REASONS: dict[StopReason, str] = {
    "narrow": "narrow enough",
    "cap": "at the cap of --at-most",
    "time": "out of --max-time",
    "boots": "that only more boots would narrow",
    "failed": "failed",
}
PLAIN_INTERVAL_S = 10.0
"""How often a line is printed where there is no terminal to redraw."""


class SweepDisplay:
    """Shows a Session's events; safe to call from the machines' threads."""

    def __init__(self, output: Output, session: Session) -> None:
        self._output = output
        self._total = session.pending
        self._estimate_s = session.estimate_s
        self._run = session.run_id
        self._adaptive = session.adaptive
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
        more = ", then as many as it takes" if self._adaptive else ""
        self._output.say(
            f"run {self._run}: {self._total} processes, about {seconds(self._estimate_s)}{more}"
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
            elif event.phase:
                self._grow(event.phase)
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

    def _grow(self, phase: PhaseRecord) -> None:
        """A machine's next phase, or that it has none."""
        reasons = Counter(stop.reason for stop in phase.stops)
        stopped = ", ".join(f"{count} {REASONS[reason]}" for reason, count in reasons.items())
        text = f"{phase.machine}: cells stopped: {stopped or 'none'}"
        if phase.executions:
            self._total += len(phase.executions)
            self._progress.update(self._task, total=self._total)
            text += (
                f"; phase {phase.number + 1}: {len(phase.executions)} more processes, "
                f"about {seconds(phase.expected_s)}"
            )
        self._output.say(text)

    def _plain(self) -> None:
        self._said = time.monotonic()
        elapsed = self._said - self._begun
        left = elapsed / self._done * (self._total - self._done) if self._done else self._estimate_s
        self._output.say(f"{self._done}/{self._total} processes, about {seconds(left)} left")
