"""A simulated program: the batch protocol (docs/workloads.md) over times that were drawn.

It takes the command line of a real one. What it says besides wall times is filled in:
three tenths of the time in user space, six tenths in the kernel, one voluntary switch an
operation, and threads that share the operations evenly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from labctl.sim import field
from labctl.stats.nested import Floats

_OWN = ("threads", "ops", "min-ms", "batches", "warmup", "limit")
_FEWEST_OPS = 16


@dataclass(frozen=True)
class Arguments:
    """A command line as it is understood. ``ops`` 0 calibrates."""

    program: str
    threads: int
    params: dict[str, str]
    ops: int
    min_ms: int
    batches: int
    warmup: int

    @classmethod
    def parse(cls, words: Sequence[str]) -> Arguments:
        """The words of ``PROG --threads N ... --step``.

        Raises:
            ValueError: they are not what a program of the lab accepts.
        """
        options = [word for word in words[1:] if word != "--step"]
        names, values = options[::2], options[1::2]
        if len(names) != len(values) or not all(name.startswith("--") for name in names):
            raise ValueError("options come as --NAME VALUE")
        given = {name[2:]: value for name, value in zip(names, values, strict=True)}
        own = {"min-ms": "100", "ops": "0", "batches": "10", "warmup": "1", "threads": "1"} | given
        return cls(
            program=PurePosixPath(words[0]).name,
            threads=int(own["threads"]),
            params={name: value for name, value in given.items() if name not in _OWN},
            ops=int(own["ops"]),
            min_ms=int(own["min-ms"]),
            batches=int(own["batches"]),
            warmup=int(own["warmup"]),
        )

    @property
    def cell(self) -> field.Keys:
        """Key of the cell's random numbers."""
        return cell_key(self.program, self.params, self.threads)


def cell_key(program: str, params: Mapping[str, Any], threads: int) -> field.Keys:
    """Key of a cell: alike on all machines, whose own key makes the numbers differ."""
    text = ",".join(f"{name}={value}" for name, value in sorted(params.items()))
    return field.key("cell", program, text, threads)


def capabilities(program: str, form: str, params: Mapping[str, Sequence[str]]) -> str:
    """What ``--capabilities`` prints."""
    return _line("capabilities", protocol=1, workload=program, form=form, params=dict(params))


def protocol_lines(
    arguments: Arguments, logs: Floats, *, form: str, unit: str, expected_us: float
) -> Iterator[str]:
    """All that the program prints.

    Args:
        logs: logarithms of the batches' times an operation (log us), shape
            (warmup + batches,).
        expected_us: time of an operation by which the operations a batch are found.
    """
    a = arguments
    yield _line(
        "start", protocol=1, workload=a.program, form=form, threads=a.threads, params=a.params,
        ops=a.ops, batches=a.batches, warmup=a.warmup, unit=unit, clock="virtual", clock_res_ns=1,
    )  # fmt: skip
    ops, total_ns = a.ops, 0
    if not ops:
        ops = max(_FEWEST_OPS, a.threads)
        while True:
            wall_ns = max(1, round(ops * expected_us * 1000))
            total_ns += wall_ns
            yield _line("calibration", ops=ops, wall_ns=wall_ns)
            if wall_ns >= a.min_ms * 1_000_000:
                break
            ops *= 2
    least, rest = divmod(ops, a.threads)
    for index, us_per_op in enumerate(np.exp(logs)):
        wall_ns = max(1, round(ops * float(us_per_op) * 1000))
        total_ns += wall_ns
        yield _line(
            "warmup" if index < a.warmup else "batch",
            index=index if index < a.warmup else index - a.warmup,
            ops=ops, wall_ns=wall_ns, user_ns=wall_ns * 3 // 10, sys_ns=wall_ns * 6 // 10, vcsw=ops,
            ivcsw=0, min_thread_ops=least, max_thread_ops=least + bool(rest),
        )  # fmt: skip
    yield _line("end", batches=a.batches, wall_ns=total_ns)


def _line(kind: str, **values: Any) -> str:
    return json.dumps({"type": kind, **values}, separators=(",", ":"))
