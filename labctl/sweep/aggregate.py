"""From a journal's records to data frames: samples, cells, facts, and Parquet.

Everything here can be derived again from the journal at any time; nothing here
decides what a difference means (labctl.stats) or how it is shown (labctl.report).

A sample counts once or not at all (labctl.sweep.attempts). Those that do not count stay in
the frame with ``complete`` false.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl import collector, paths
from labctl.errors import MeasurementError
from labctl.sweep.attempts import Attempts
from labctl.sweep.columns import COLUMNS, LATENCIES, moments, read_columns
from labctl.sweep.journal import JOURNAL, JournalView, view_of
from labctl.sweep.records import (
    Execution,
    FactsRecord,
    Header,
    PhaseRecord,
    Record,
    Sample,
    of_kind,
)

if TYPE_CHECKING:
    import pandas as pd

    from labctl.stats import Nested

#: What names a cell in the frames.
CELL_KEYS = ["target", "workload", "program", "form", "unit", "params", "threads"]
_TEXTS = CELL_KEYS[:-1]


def header_of(records: Iterable[Record]) -> Header:
    """The header among ``records``.

    Raises:
        MeasurementError: there is none.
    """
    for record in records:
        if isinstance(record, Header):
            return record
    raise MeasurementError(
        "this journal has no header", hint="its first line was lost; take another run"
    )


def executions_of(records: Iterable[Record]) -> list[Execution]:
    """Everything that was planned: the first phase, in the header, and all further ones."""
    planned: list[Execution] = []
    for record in records:
        if type(record) is Header or type(record) is PhaseRecord:
            planned += record.executions
    return planned


def params_text(params: dict[str, Any]) -> str:
    """Parameters as one string, sorted by name: ``rearm=oneshot,size=4``."""
    return ",".join(f"{name}={value}" for name, value in sorted(params.items()))


def _plan_frame(executions: list[Execution]) -> pd.DataFrame:
    """One row an execution of the plan, indexed by its id; ``param_*`` a column each."""
    import pandas as pd

    cells = {execution.cell.key: execution.cell for execution in executions}
    numbers = {key: number for number, key in enumerate(cells)}
    rows = [(e.id, e.boot, e.round, numbers[e.cell.key]) for e in executions]
    plan = pd.DataFrame(rows, columns=["execution", "boot", "round", "cell"], dtype="int64")
    told = [
        (*(getattr(cell, name) for name in CELL_KEYS[:5]), params_text(cell.params), cell.threads)
        for cell in cells.values()
    ]
    frame = pd.DataFrame(told, columns=CELL_KEYS)
    frame[_TEXTS] = frame[_TEXTS].astype("category")
    for name in sorted({name for cell in cells.values() for name in cell.params}):
        values = [cell.params.get(name) for cell in cells.values()]
        if all(value is None or isinstance(value, int) for value in values):
            frame[f"param_{name}"] = pd.Series(values, dtype="Int64")
        else:
            text = [None if value is None else str(value) for value in values]
            frame[f"param_{name}"] = pd.Series(text, dtype="category")
    of_each = frame.take(plan.pop("cell").to_numpy()).set_axis(plan.index)
    return plan.join(of_each).set_index("execution")


def samples_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row a sample, in the order of the journal.

    Columns:
        order: 0, 1, 2 ... as taken.  time: when it was journalled (UTC).
        target, workload, program, form, unit, params, param_*, threads: the cell;
            ``params`` is all parameters as one string.
        boot, round, execution, attempt, batch: place in the plan; boot_id: the machine's
            own name of the boot ("" where unknown).
        warmup: a warm-up batch.  complete: its attempt counts (see the module).
        ops: operations of the batch.  wall_ns, user_ns, sys_ns: nanoseconds of the batch.
        us_per_op: wall_ns / ops / 1000, microseconds of wall time an operation.
        user_us_per_op, sys_us_per_op: microseconds of CPU time an operation.
        vcsw_per_op, ivcsw_per_op: voluntary, involuntary context switches an operation.
        min_thread_ops, max_thread_ops: operations of the least and most busy thread.
        p50_ns, p99_ns, max_ns: latency of single operations; NaN where not taken.
    Names are categoricals, which compare and group as strings do.

    What is to be counted is ``frame[frame.complete & ~frame.warmup]`` (see ``counted``).

    Raises:
        MeasurementError: no header, or a sample of an execution that the plan has not.
    """
    return split(records)[1]


def split(records: Iterable[Record]) -> tuple[list[Record], pd.DataFrame]:
    """All records but the samples, and these as ``samples_frame`` has them."""
    events, taken = _apart(records)
    return [record for _, record in events], _joined(events, taken)


def read_run(path: Path) -> tuple[JournalView, pd.DataFrame]:
    """A journal read once: a view of it without the samples, and these as ``samples_frame``
    has them, without an object for each: in a third of the time and of the memory.

    ``path`` is the file or its run's directory.

    Raises:
        ConfigError: as ``journal.read_journal``.
        MeasurementError: as ``samples_frame``.
    """
    path = path / JOURNAL if path.is_dir() else path
    with collector.paused():
        events, taken = read_columns(path)
        view = view_of(path, (record for _, record in events))
        return view, _joined(events, taken)


def _apart(records: Iterable[Record]) -> tuple[list[tuple[int, Record]], pd.DataFrame]:
    """All other records, each with its place; and the samples as columns."""
    import pandas as pd

    events: list[tuple[int, Record]] = []
    samples: list[Sample] = []
    lines: list[int] = []
    for line, record in enumerate(records):
        if type(record) is Sample:
            samples.append(record)
            lines.append(line)
        else:
            events.append((line, record))
    columns = {}
    for name, kind in COLUMNS.items():
        taken = [getattr(sample, name) for sample in samples]
        columns[name] = pd.Series(taken, dtype="float64" if None in taken else kind)
    for name in LATENCIES:
        values = [getattr(s.latency, name) if s.latency else None for s in samples]
        columns[name] = pd.Series(values, dtype="float64")
    columns["time"] = moments(columns["time"])
    return events, pd.DataFrame(columns).assign(line=pd.Series(lines, dtype="int64"))


def _joined(events: Sequence[tuple[int, Record]], taken: pd.DataFrame) -> pd.DataFrame:
    """Samples with what the plan says of their executions, and whether they count."""
    import pandas as pd

    others = [record for _, record in events]
    header_of(others)
    plan = _plan_frame(executions_of(others))
    if unknown := set(taken["execution"].unique().tolist()) - set(plan.index):
        raise MeasurementError(
            f"the journal holds samples of executions that its plan has not: {sorted(unknown)[:5]}",
            hint="the journal was put together from several runs; keep one run a directory",
        )
    attempts = Attempts(events, taken)
    taken = taken.drop(columns="line")
    taken["boot_id"] = pd.Categorical(attempts.boot_ids).take(attempts.of_samples)
    taken["complete"] = attempts.counts()
    taken.insert(0, "order", range(len(taken)))
    frame = taken.join(plan, on="execution")
    _add_rates(frame)
    first = ["order", "time", *CELL_KEYS, "boot", "boot_id", "round", "execution", "attempt"]
    first += ["batch", "warmup", "complete", "ops", "wall_ns", "us_per_op"]
    return frame[first + [name for name in frame.columns if name not in first]]


def _add_rates(frame: pd.DataFrame) -> None:
    """Add what is counted an operation, in place; drop the bare switch counts."""
    frame["us_per_op"] = frame["wall_ns"] / frame["ops"] / 1e3
    frame["user_us_per_op"] = frame["user_ns"] / frame["ops"] / 1e3
    frame["sys_us_per_op"] = frame["sys_ns"] / frame["ops"] / 1e3
    for name in ("vcsw", "ivcsw"):
        frame[f"{name}_per_op"] = frame.pop(name) / frame["ops"]


def counted(samples: pd.DataFrame, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The rows that results are made of: of complete attempts, and no warm-up. All columns, or
    those named: rows of a few columns are much faster to pick."""
    wanted = samples if columns is None else samples[list(columns)]
    return wanted[samples["complete"] & ~samples["warmup"]]


PLANNED_BOOT = "boot "
"""Beginning of a boot's name where the machine told no identity."""


def boot_labels(samples: pd.DataFrame) -> pd.Series[str]:
    """Name of the boot that a sample was taken in: the machine's own identity, not the
    plan's number (a machine that may not reboot has one boot whatever was planned)."""
    unknown = samples["boot_id"] == ""
    if not unknown.any():
        return samples["boot_id"]
    planned = PLANNED_BOOT + samples["boot"].astype("str")
    return samples["boot_id"].astype("str").where(~unknown, planned)


NESTED = ["us_per_op", "boot", "boot_id", "round", "execution"]
"""The columns that ``nested`` needs."""


def nested(rows: pd.DataFrame) -> Nested:
    """The samples of one cell, from its rows of ``counted``, as the statistics take them."""
    from labctl.stats.nested import Nested

    return Nested.from_labels(
        rows["us_per_op"],
        boot_labels(rows),
        rows["execution"],
        periods=rows["boot"],
        rounds=rows["round"],
    )


def cells_frame(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a cell, from the samples that count; times in microseconds an operation.

    Columns: the cell's keys; n_samples, n_processes, n_boots; median, mean, min, max, q1, q3,
    cv (standard deviation / mean; NaN for one sample); ops (of a batch, median); vcsw_per_op,
    ivcsw_per_op, user_us_per_op, sys_us_per_op (over all operations of the cell; NaN where not
    taken); p50_ns and p99_ns (median over batches), max_ns (greatest of all).
    """
    rates = ["vcsw_per_op", "ivcsw_per_op", "user_us_per_op", "sys_us_per_op"]
    columns = [*CELL_KEYS, *NESTED, "ops", *rates, *LATENCIES]
    rows = counted(samples, columns).assign(_boot=boot_labels)
    weighted = rows.assign(**{name: rows[name] * rows["ops"] for name in rates})
    groups = weighted.groupby(CELL_KEYS, sort=False, observed=True)
    time = groups["us_per_op"]
    cells = time.agg(["median", "mean", "min", "max"])
    cells["q1"], cells["q3"] = time.quantile(0.25), time.quantile(0.75)
    cells["cv"] = time.std() / cells["mean"]
    cells["n_samples"] = time.size()
    cells["n_processes"] = groups["execution"].nunique()
    cells["n_boots"] = groups["_boot"].nunique()
    cells["ops"] = groups["ops"].median()
    for name in rates:
        cells[name] = groups[name].sum(min_count=1) / groups["ops"].sum()
    for name in ("p50_ns", "p99_ns"):
        cells[name] = groups[name].median()
    cells["max_ns"] = groups["max_ns"].max()
    return cells.reset_index()


def facts_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row a fact: target, boot, boot_id, moment ("start" or "end"), time, key, value
    (as text)."""
    import pandas as pd

    columns = ["target", "boot", "boot_id", "moment", "time", "key", "value"]
    rows = [
        (record.target, record.boot, record.boot_id, record.moment, record.time, key, str(value))
        for record in of_kind(records, FactsRecord)
        for key, value in record.facts.items()
    ]
    return pd.DataFrame(rows, columns=columns)


def stops_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Why each cell of an adaptive sweep was measured no further, in the order of stopping.

    Columns: the cell's keys (as in ``samples_frame``); reason ("narrow", "cap", "time", "boots",
    "failed": see records.Stop); half_width: of the cell's 95 % interval as a share of its mean,
    NaN where there is none; goal: what was asked for, likewise; boots, processes, batches:
    counts behind it; phase: the number of the phase that was the cell's last, 0 for the first.
    Empty where the sweep was not adaptive.
    """
    import pandas as pd

    records = list(records)
    phases = of_kind(records, PhaseRecord)
    cells = {e.cell.key: e.cell for e in executions_of(records)} if phases else {}
    goal = next((r.until for r in records if isinstance(r, Header)), None)
    rows = []
    for phase in phases:
        for stop in phase.stops:
            cell = cells[stop.cell]
            keys = {name: getattr(cell, name) for name in CELL_KEYS}
            said = stop.model_dump(exclude={"cell"})
            rows.append(
                keys
                | {"params": params_text(cell.params)}
                | said
                | {"goal": goal.half_width if goal else None, "phase": phase.number - 1}
            )
    columns = [*CELL_KEYS, "reason", "half_width", "goal", "boots", "processes", "batches", "phase"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"half_width": "float64", "goal": "float64"})


def attempts_summary(records: Sequence[Record], samples: pd.DataFrame) -> dict[str, int]:
    """Counts of executions ``planned`` and ``completed``, attempts ``unfinished`` (neither
    End nor Failure) and ``uncounted`` samples (of attempts that do not count).

    ``records`` and ``samples`` are as of ``split``.
    """
    attempts = Attempts(list(enumerate(records)), _apart(())[1])
    return {
        "planned": len(executions_of(records)),
        "completed": len(attempts.counting),
        "unfinished": attempts.unfinished,
        "uncounted": int((~samples["complete"]).sum()),
    }


def write_parquet(run_dir: Path, samples: pd.DataFrame) -> Path:
    """Write ``samples.parquet`` beside a journal, whole or not at all; returns its path."""
    buffer = io.BytesIO()
    samples.to_parquet(buffer, index=False)
    path = run_dir / "samples.parquet"
    paths.write_atomic(path, buffer.getvalue())
    return path
