"""Adaptive sweeps: from a run's journal to its machines' next phases, decided and journalled.

A decision is made from the journal alone and is one durable record, written before its first
execution: one that was interrupted is taken again, from the same data to the same result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from labctl.sweep.aggregate import read_run
from labctl.sweep.journal import Journal, JournalView, now
from labctl.sweep.measured import boot_seconds, measured_cells, spent_seconds
from labctl.sweep.phases import Situation, decide
from labctl.sweep.plan import Design
from labctl.sweep.records import Cell, Execution, Header, PhaseRecord

if TYPE_CHECKING:
    import pandas as pd


def design_of(header: Header) -> Design:
    """The design of a run's first phase."""
    return Design(**{name: getattr(header, name) for name in Design.__dataclass_fields__})


def open_cells(view: JournalView) -> dict[str, list[Cell]]:
    """Cells that an adaptive run has not stopped, by machine; of the machines that are not done.
    Empty for a run whose plan is fixed."""
    if view.header.until is None:
        return {}
    stopped = {stop.cell for phase in view.phases for stop in phase.stops}
    found: dict[str, dict[str, Cell]] = {}
    for execution in view.header.executions:
        cell = execution.cell
        if cell.key not in stopped:
            found.setdefault(view.header.machine_of(cell.target), {})[cell.key] = cell
    return {machine: list(cells.values()) for machine, cells in found.items()}


class Phases:
    """Decides and journals further phases of a run; its machines' threads may share it."""

    def __init__(
        self,
        journal: Journal,
        *,
        reboots: Mapping[str, float],
        on_phase: Callable[[PhaseRecord], None],
    ) -> None:
        """``reboots``: targets that may be rebooted, and the seconds that this takes where
        the run itself does not tell yet."""
        self._journal = journal
        self._reboots = reboots
        self._on_phase = on_phase
        self._deciding = threading.Lock()  # ids are unique over all machines

    def next(self, machine: str, lost: Collection[str] = ()) -> PhaseRecord | None:
        """The machine's next phase, by now in the journal; None if it is done, or if something
        of the phase before is still to be measured (a target was lost).

        Raises:
            PartialError: the journal cannot be written.
        """
        with self._deciding:
            view, samples = read_run(self._journal.path)
            situation = situation_of(view, samples, machine, self._reboots)
            if situation is None or {c.cell.target for c in situation.cells.values()} & set(lost):
                return None
            phase = decide(situation, now())
            self._journal.append(phase, durable=True)
        self._on_phase(phase)
        return phase if phase.executions else None


def situation_of(
    view: JournalView, samples: pd.DataFrame, machine: str, reboots: Mapping[str, float]
) -> Situation | None:
    """A machine at the end of its phase; None where there is nothing to decide yet or any more."""
    cells = open_cells(view).get(machine)
    goal = view.header.until
    if not cells or goal is None or _on(view, machine, view.pending()):
        return None
    measured = measured_cells(view, samples)
    known = boot_seconds(view)
    return Situation(
        machine=machine,
        goal=goal,
        design=design_of(view.header),
        phases=[phase for phase in view.phases if phase.machine == machine],
        executions=_on(view, machine, view.executions),
        cells={cell.key: measured[cell.key] for cell in cells},
        reboots={name: known.get(name, seconds) for name, seconds in reboots.items()},
        spent_s=spent_seconds(view).get(machine, 0.0),
        next_id=1 + max(execution.id for execution in view.executions),
    )


def _on(view: JournalView, machine: str, executions: Sequence[Execution]) -> list[Execution]:
    return [e for e in executions if view.header.machine_of(e.cell.target) == machine]
