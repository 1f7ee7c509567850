"""Results made by hand become a run: a journal like any other, which says that it is imported.

What an import does not have is not made up: there are no facts but what the file says, one sample
a cell and so no interval, and neither CPU time nor context switches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from labctl.errors import ConfigError
from labctl.sweep.handmade import Table
from labctl.sweep.handmade_row import Row
from labctl.sweep.journal import create_run, now
from labctl.sweep.plan import Design, Plan
from labctl.sweep.records import (
    Begin,
    EndRecord,
    Execution,
    FactsRecord,
    Header,
    Imported,
    Record,
    Sample,
)
from labctl.sweep.runs import RESERVED, check_results

KIND = "imported"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_EXACT = 1e-7  # share of a time that rounding to whole nanoseconds may cost
_DESIGN = Design(rounds=1, boots=1, batches=1, warmup=0, min_batch_ms=0, seed=0)


def run_name(path: Path, asked: str | None) -> str:
    """The run's name: as asked for, or made of the file's.

    Raises:
        ConfigError: what is asked for can be no run's name.
    """
    if asked is None:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.")[:60]
        return f"imported-{stem or 'file'}"
    if not _RUN.fullmatch(asked) or asked in RESERVED:
        raise ConfigError(
            f"{asked!r} can be no run's name",
            where="--name",
            hint="letters, digits, dot, dash and underscore, up to 80; "
            f"not {', '.join(sorted(RESERVED))}",
        )
    return asked


def import_run(results: Path, table: Table, *, name: str, labctl: str) -> Path:
    """Make ``results/<name>/`` of a table, whole or not at all; returns the directory.

    Args:
        labctl: the version that the journal names.

    Raises:
        ConfigError: a run of that name exists, or runs cannot be kept in ``results``.
        UnavailableError: it cannot be written.
    """
    check_results(results)
    if (results / name).exists():
        raise ConfigError(
            f"there is a run {name!r} already", where=str(results), hint="--name gives another"
        )
    executions = [
        Execution(id=number, boot=0, round=0, cell=row.cell)
        for number, row in enumerate(table.rows)
    ]
    targets = dict.fromkeys(row.cell.target for row in table.rows)
    time = now()
    file = os.fsencode(table.path.name).decode(errors="replace")  # a name need not be UTF-8
    header = Header(
        run=name,
        created=time,
        imported=Imported(file=file, sha256=table.sha256, rows=len(table.rows)),
        labctl=labctl,
        lab={"lab": KIND},
        targets={target: {"kind": KIND, "machine": f"{name}: {target}"} for target in targets},
        workloads=list(dict.fromkeys(row.cell.workload for row in table.rows)),
        seed=_DESIGN.seed,
        rounds=_DESIGN.rounds,
        boots=_DESIGN.boots,
        batches=_DESIGN.batches,
        warmup=_DESIGN.warmup,
        min_batch_ms=_DESIGN.min_batch_ms,
        plan_digest=Plan(_DESIGN, tuple(executions), ()).digest,
        executions=executions,
        skipped=table.left_out,
    )
    return create_run(results, header, _records(table, time))


def _records(table: Table, time: str) -> Iterator[Record]:
    facts: dict[str, dict[str, str]] = {}
    notes: dict[str, dict[str, None]] = {}
    for row in table.rows:
        facts.setdefault(row.cell.target, dict(row.facts))
        if row.note:
            notes.setdefault(row.cell.target, {})[row.note] = None
    for target, told in facts.items():
        if target in notes:
            told["note"] = "; ".join(notes[target])
        yield FactsRecord(time=time, target=target, boot=0, boot_id="", moment="start", facts=told)
    for number, row in enumerate(table.rows):
        ops, wall_ns = _whole(row)
        yield Begin(time=time, execution=number, attempt=1, boot_id="")
        yield Sample(
            time=time, execution=number, attempt=1, batch=0, warmup=False, ops=ops, wall_ns=wall_ns
        )
        yield EndRecord(
            time=time, execution=number, attempt=1, program_ns=wall_ns, total_ns=wall_ns
        )


def _whole(row: Row) -> tuple[int, int]:
    """Operations and whole nanoseconds that give the row's time: its own operations, or as many
    times ten as it takes for the time's digits."""
    ops = row.operations
    while True:
        exact = row.us_per_op * 1e3 * ops
        if abs(round(exact) - exact) <= _EXACT * exact:
            return ops, round(exact)
        ops *= 10
