"""What a journal tells of its cells for planning: their samples by level, and what they cost.

Costs are seconds as the controller saw them: of one more batch, of one more process without
its batches (start, warm-up, round trips), of one more boot of a target.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from labctl.stats.kalibera_jones import Costs
from labctl.stats.nested import Nested
from labctl.sweep import aggregate
from labctl.sweep.journal import JournalView
from labctl.sweep.records import Cell, EndRecord, FactsRecord, Note

if TYPE_CHECKING:
    import pandas as pd

LEAST_PROCESS_S = 0.001
"""A process costs something, also where times are simulated."""


@dataclass(frozen=True)
class Measured:
    """One cell as far as it was measured. ``samples`` is None where no process completed;
    ``costs.boot`` is always None (see ``boot_seconds``)."""

    cell: Cell
    samples: Nested | None
    costs: Costs | None
    failed: bool = False


def measured_cells(view: JournalView, samples: pd.DataFrame) -> dict[str, Measured]:
    """Every cell of a run, by key; ``samples`` as ``aggregate.samples_frame`` has them."""
    frame = aggregate.counted(samples)
    totals = {r.execution: r.total_ns for r in view.records if isinstance(r, EndRecord)}
    cells = {e.id: e.cell for e in view.executions}
    failed = {cells[number].key for number in view.failed}
    found = {cell.key: Measured(cell, None, None, cell.key in failed) for cell in cells.values()}
    keys = frame["execution"].map({number: cell.key for number, cell in cells.items()})
    for key, rows in frame.groupby(keys, sort=False):
        nested = aggregate.nested(rows)
        batch_s = float(rows["wall_ns"].mean()) / 1e9
        total_s = sum(totals[number] for number in rows["execution"].unique()) / 1e9
        process_s = (total_s - float(rows["wall_ns"].sum()) / 1e9) / nested.n_processes
        costs = Costs(batch=max(batch_s, 1e-9), process=max(process_s, LEAST_PROCESS_S))
        cell = found[str(key)].cell
        found[str(key)] = Measured(cell, nested, costs, cell.key in failed)
    return found


def boot_seconds(view: JournalView) -> dict[str, float]:
    """Mean seconds that a target took to be rebooted and to tell its facts; only of targets
    that were rebooted."""
    spans: defaultdict[str, list[float]] = defaultdict(list)
    last: dict[str, datetime] = {}
    boots: dict[str, str] = {}
    machines = {e.id: view.header.machine_of(e.cell.target) for e in view.executions}
    for record in view.records:
        if isinstance(record, Note):
            last.clear()  # interrupted: what follows did not follow at once
        elif isinstance(record, EndRecord):
            last[machines[record.execution]] = datetime.fromisoformat(record.time)
        elif isinstance(record, FactsRecord):
            machine, at = view.header.machine_of(record.target), datetime.fromisoformat(record.time)
            before = boots.get(record.target)
            if machine in last and before not in (None, record.boot_id):
                spans[record.target].append((at - last[machine]).total_seconds())
            boots[record.target] = record.boot_id
            last[machine] = at
    return {target: sum(found) / len(found) for target, found in spans.items()}


def spent_seconds(view: JournalView) -> dict[str, float]:
    """Seconds of measuring on each machine: complete processes, and boots."""
    machines = {e.id: view.header.machine_of(e.cell.target) for e in view.executions}
    spent: defaultdict[str, float] = defaultdict(float)
    for record in view.records:
        if isinstance(record, EndRecord):
            spent[machines[record.execution]] += record.total_ns / 1e9
    for target, each in boot_seconds(view).items():
        boots = {
            r.boot_id for r in view.records if isinstance(r, FactsRecord) and r.target == target
        }
        spent[view.header.machine_of(target)] += each * (len(boots) - 1)
    return dict(spent)
