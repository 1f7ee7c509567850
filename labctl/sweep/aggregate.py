"""From a journal's records to data frames: samples, cells, facts, and Parquet.

Everything here can be derived again from the journal at any time; nothing here
decides what a difference means (labctl.stats) or how it is shown (labctl.report).

A sample counts once or not at all. An attempt is opened by a Begin and is complete
when its End follows; of an execution the first complete attempt counts. The samples
of all other attempts stay in the frame with ``complete`` false.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl import paths
from labctl.errors import MeasurementError
from labctl.sweep.records import (
    Begin,
    EndRecord,
    Execution,
    FactsRecord,
    Failure,
    Header,
    PhaseRecord,
    Record,
    Sample,
)

if TYPE_CHECKING:
    import pandas as pd

#: What names a cell in the frames.
CELL_KEYS = ["target", "workload", "program", "form", "unit", "params", "threads"]


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
        if isinstance(record, Header | PhaseRecord):
            planned += record.executions
    return planned


def params_text(params: dict[str, Any]) -> str:
    """Parameters as one string, sorted by name: ``rearm=oneshot,size=4``."""
    return ",".join(f"{name}={value}" for name, value in sorted(params.items()))


class _Attempts:
    """Which opening of which attempt a sample belongs to, and which of them count.

    An attempt number seen with two Begins is two openings: only what came after the
    latter can be closed by the End.
    """

    def __init__(self) -> None:
        self._current: dict[tuple[int, int], int] = {}
        self._execution: list[int] = []
        self._boot_id: list[str] = []
        self._ended: list[int] = []
        self._failed: set[int] = set()

    def begin(self, execution: int, attempt: int, boot_id: str) -> int:
        opening = len(self._execution)
        self._current[execution, attempt] = opening
        self._execution.append(execution)
        self._boot_id.append(boot_id)
        return opening

    def current(self, execution: int, attempt: int) -> int:
        opening = self._current.get((execution, attempt))
        return self.begin(execution, attempt, "") if opening is None else opening

    def end(self, execution: int, attempt: int) -> None:
        self._ended.append(self.current(execution, attempt))

    def fail(self, execution: int, attempt: int) -> None:
        self._failed.add(self.current(execution, attempt))

    def boot_id(self, opening: int) -> str:
        return self._boot_id[opening]

    def counting(self) -> set[int]:
        """The openings whose samples count: an execution's first complete one."""
        first: dict[int, int] = {}
        for opening in self._ended:
            if opening not in self._failed:
                first.setdefault(self._execution[opening], opening)
        return set(first.values())

    def unfinished(self) -> int:
        """Number of openings with neither an End nor a Failure."""
        return len(self._execution) - len(set(self._ended) | self._failed)


def _walk(
    records: Iterable[Record],
) -> tuple[list[Execution], list[tuple[Sample, int, bool]], _Attempts]:
    """What was planned; (sample, its opening, whether it repeats a batch of that opening);
    attempts."""
    header: Header | None = None
    planned: list[Execution] = []
    attempts = _Attempts()
    samples: list[tuple[Sample, int, bool]] = []
    seen: set[tuple[int, bool, int]] = set()
    for record in records:
        if isinstance(record, Sample):
            opening = attempts.current(record.execution, record.attempt)
            key = (opening, record.warmup, record.batch)
            samples.append((record, opening, key in seen))
            seen.add(key)
        elif isinstance(record, Begin):
            attempts.begin(record.execution, record.attempt, record.boot_id)
        elif isinstance(record, EndRecord):
            attempts.end(record.execution, record.attempt)
        elif isinstance(record, Failure):
            attempts.fail(record.execution, record.attempt)
        elif isinstance(record, Header):
            header = header or record
            planned += record.executions
        elif isinstance(record, PhaseRecord):
            planned += record.executions
    if header is None:
        header_of(())
    return planned, samples, attempts


def _plan_frame(executions: list[Execution]) -> pd.DataFrame:
    """One row an execution of the plan, indexed by its id; ``param_*`` a column each."""
    import pandas as pd

    rows = [
        {
            "execution": execution.id,
            "boot": execution.boot,
            "round": execution.round,
            "target": execution.cell.target,
            "workload": execution.cell.workload,
            "program": execution.cell.program,
            "form": execution.cell.form,
            "unit": execution.cell.unit,
            "params": params_text(execution.cell.params),
            "threads": execution.cell.threads,
        }
        for execution in executions
    ]
    frame = pd.DataFrame(rows, columns=["execution", "boot", "round", *CELL_KEYS])
    for name in sorted({name for execution in executions for name in execution.cell.params}):
        values = [execution.cell.params.get(name) for execution in executions]
        if all(value is None or isinstance(value, int) for value in values):
            frame[f"param_{name}"] = pd.Series(values, dtype="Int64")
        else:
            text = [None if value is None else str(value) for value in values]
            frame[f"param_{name}"] = pd.Series(text, dtype="string")
    return frame.set_index("execution")


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

    What is to be counted is ``frame[frame.complete & ~frame.warmup]`` (see ``counted``).

    Raises:
        MeasurementError: no header, or a sample of an execution that the plan has not.
    """
    import pandas as pd

    planned, samples, attempts = _walk(records)
    plan = _plan_frame(planned)
    if unknown := {sample.execution for sample, _, _ in samples} - set(plan.index):
        raise MeasurementError(
            f"the journal holds samples of executions that its plan has not: {sorted(unknown)[:5]}",
            hint="the journal was put together from several runs; keep one run a directory",
        )
    counting = attempts.counting()
    names = ["execution", "attempt", "batch", "warmup", "ops", "wall_ns", "user_ns", "sys_ns"]
    names += ["vcsw", "ivcsw", "min_thread_ops", "max_thread_ops", "time"]
    kinds = {"warmup": "bool", "time": "str"}
    taken = pd.DataFrame(
        {
            name: pd.Series(
                [getattr(sample, name) for sample, _, _ in samples],
                dtype=kinds.get(name, "int64"),
            )
            for name in names
        }
    )
    taken["time"] = pd.to_datetime(taken["time"], utc=True, format="ISO8601", errors="coerce")
    taken["boot_id"] = pd.Series(
        [attempts.boot_id(opening) for _, opening, _ in samples], dtype="str"
    )
    taken["complete"] = pd.Series(
        [opening in counting and not again for _, opening, again in samples], dtype="bool"
    )
    for name in ("p50_ns", "p99_ns", "max_ns"):
        taken[name] = pd.Series(
            [getattr(s.latency, name) if s.latency else None for s, _, _ in samples],
            dtype="float64",
        )
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


def counted(samples: pd.DataFrame) -> pd.DataFrame:
    """The rows that results are made of: of complete attempts, and no warm-up."""
    return samples[samples["complete"] & ~samples["warmup"]]


def boot_labels(samples: pd.DataFrame) -> pd.Series[str]:
    """Name of the boot that a sample was taken in: the machine's own identity, not the
    plan's number (a machine that may not reboot has one boot whatever was planned)."""
    planned = "boot " + samples["boot"].astype("str")
    return samples["boot_id"].where(samples["boot_id"] != "", planned)


def cells_frame(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a cell, from the samples that count; times in microseconds an operation.

    Columns: the cell's keys; n_samples, n_processes, n_boots; median, mean, min, max, q1, q3,
    cv (standard deviation / mean; NaN for one sample); vcsw_per_op, ivcsw_per_op,
    user_us_per_op, sys_us_per_op (over all operations of the cell); p50_ns and p99_ns
    (median over batches), max_ns (greatest of all).
    """
    rows = counted(samples).assign(_boot=boot_labels)
    rates = ["vcsw_per_op", "ivcsw_per_op", "user_us_per_op", "sys_us_per_op"]
    weighted = rows.assign(**{name: rows[name] * rows["ops"] for name in rates})
    groups = weighted.groupby(CELL_KEYS, sort=False, observed=True)
    time = groups["us_per_op"]
    cells = time.agg(["median", "mean", "min", "max"])
    cells["q1"], cells["q3"] = time.quantile(0.25), time.quantile(0.75)
    cells["cv"] = time.std() / cells["mean"]
    cells["n_samples"] = time.size()
    cells["n_processes"] = groups["execution"].nunique()
    cells["n_boots"] = groups["_boot"].nunique()
    for name in rates:
        cells[name] = groups[name].sum() / groups["ops"].sum()
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
        for record in records
        if isinstance(record, FactsRecord)
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
    cells = {e.cell.key: e.cell for e in executions_of(records)}
    goal = next((r.until for r in records if isinstance(r, Header)), None)
    rows = []
    for phase in (record for record in records if isinstance(record, PhaseRecord)):
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


def attempts_summary(records: Iterable[Record]) -> dict[str, int]:
    """Counts of executions ``planned`` and ``completed``, attempts ``unfinished`` (neither
    End nor Failure) and ``uncounted`` samples (of attempts that do not count)."""
    planned, samples, attempts = _walk(records)
    counting = attempts.counting()
    return {
        "planned": len(planned),
        "completed": len(counting),
        "unfinished": attempts.unfinished(),
        "uncounted": sum(opening not in counting or again for _, opening, again in samples),
    }


def write_parquet(run_dir: Path, records: Iterable[Record]) -> Path:
    """Write ``samples.parquet`` into ``run_dir``, whole or not at all; returns its path."""
    buffer = io.BytesIO()
    samples_frame(records).to_parquet(buffer, index=False)
    path = run_dir / "samples.parquet"
    paths.write_atomic(path, buffer.getvalue())
    return path
