"""One process of a cell: its command line, its batches as samples, why it failed."""

from __future__ import annotations

import shlex

from labctl.sweep.journal import now
from labctl.sweep.records import Cell, Execution, Header, Sample
from labctl.workloads import Batch


def batch_command(
    workdir: str, cell: Cell, header: Header, *, batches: int, ops: int, limit_s: int
) -> str:
    """The command line of one execution, quoted for a POSIX shell. ``ops`` 0 calibrates."""
    words = [f"{workdir}/bin/{cell.program}", "--threads", str(cell.threads)]
    for name, value in sorted(cell.params.items()):
        words += [f"--{name}", str(value)]
    words += ["--ops", str(ops), "--min-ms", str(header.min_batch_ms)]
    words += ["--batches", str(batches), "--warmup", str(header.warmup)]
    words += ["--limit", str(limit_s), "--step"]
    return shlex.join(words)


def sample_of(execution: Execution, attempt: int, batch: Batch) -> Sample:
    """A batch line as a journal record."""
    values = batch.model_dump(exclude={"type", "index"})
    return Sample(
        time=now(),
        execution=execution.id,
        attempt=attempt,
        batch=batch.index,
        warmup=batch.type == "warmup",
        **values,
    )


_STATUS = {
    64: "the program did not accept its arguments",
    69: "not supported on this system",
    70: "the result is not to be trusted",
    71: "a system call failed",
    75: "it was told to stop",
    124: "it did not end within its time limit",
    126: "the program cannot be executed",
    127: "the program is not there",
}


def reason(status: int, batches: int, wanted: int) -> str:
    """Why a process did not do what it was to do, from its exit status and batches."""
    if status == 0:
        return f"{batches} of {wanted} batches came"
    if status > 128:
        return f"killed by signal {status - 128}"
    return _STATUS.get(status, f"exit status {status}")
