"""Made-up runs whose truth is stated. Nothing in them was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labctl.sweep.records import (
    Begin,
    Cell,
    EndRecord,
    Execution,
    FactsRecord,
    Header,
    Record,
    Sample,
)

LINUX = {
    "system": "linux",
    "kernel": "6.1.0-18-amd64",
    "os_release": "Debian GNU/Linux 12",
    "cpu_model": "Some CPU",
    "cpus_online": 64,
    "clocksource": "tsc",
}
METAL = LINUX | {"hypervisor": "none"}
GUEST = LINUX | {"hypervisor": "kvm", "accelerator": "kvm"}


@dataclass(frozen=True)
class Made:
    """A target: microseconds an operation at N threads, its facts, how many boots it has."""

    us: Mapping[int, float]
    facts: Mapping[str, Any] = field(default_factory=lambda: METAL)
    kind: str = "local"
    boots: int | None = None
    program: str = "eptest"
    params: Mapping[str, Any] = field(default_factory=lambda: {"rearm": "oneshot"})


def records(
    targets: Mapping[str, Made],
    *,
    boots: int = 6,
    rounds: int = 4,
    batches: int = 3,
    noise: float = 0.01,
    lab: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> list[Record]:
    """A whole run; ``noise`` is the standard deviation of a boot, a process and a batch."""
    rng = random.Random(seed)
    cells = [
        Cell(
            target=name, workload="kqtest", program=made.program, form="epoll", unit="message",
            params=dict(made.params), threads=threads,
        )
        for name, made in targets.items()
        for threads in made.us
    ]  # fmt: skip
    executions: list[Execution] = []
    for boot in range(boots):
        for round_ in range(rounds):
            rng.shuffle(cells)
            first = len(executions)
            executions += [
                Execution(id=first + i, boot=boot, round=round_, cell=cell)
                for i, cell in enumerate(cells)
            ]
    header = Header(
        run="made", created="2031-01-02T03:04:05+00:00", labctl="0", lab=dict(lab or {}),
        targets={name: {"kind": made.kind, "machine": "local"} for name, made in targets.items()},
        workloads=["kqtest"], seed=seed, rounds=rounds, boots=boots, batches=batches, warmup=0,
        min_batch_ms=1, plan_digest="", executions=executions,
    )  # fmt: skip
    made_records: list[Record] = [header]
    shifts = {}
    for name, made in targets.items():
        for boot in range(boots):
            identity = f"{name}-{min(boot, (made.boots or boots) - 1)}"
            shifts.setdefault(identity, rng.gauss(0, noise))
            made_records.append(
                FactsRecord(time="", target=name, boot=boot, boot_id=identity, moment="start",
                            facts=dict(made.facts))
            )  # fmt: skip
    for execution in executions:
        made = targets[execution.cell.target]
        last = (made.boots or boots) - 1
        identity = f"{execution.cell.target}-{min(execution.boot, last)}"
        centre = math.log(made.us[execution.cell.threads]) + shifts[identity] + rng.gauss(0, noise)
        made_records.append(Begin(time="", execution=execution.id, attempt=1, boot_id=identity))
        made_records += [
            _sample(execution.id, batch, math.exp(centre + rng.gauss(0, noise)))
            for batch in range(batches)
        ]
        made_records.append(
            EndRecord(time="", execution=execution.id, attempt=1, program_ns=1, total_ns=2)
        )
    return made_records


def _sample(execution: int, batch: int, us: float) -> Sample:
    ops = 10_000
    return Sample(
        time="2031-01-02T03:04:06+00:00", execution=execution, attempt=1, batch=batch,
        warmup=False, ops=ops, wall_ns=round(us * ops * 1000), user_ns=0, sys_ns=0, vcsw=0,
        ivcsw=0, min_thread_ops=1, max_thread_ops=ops,
    )  # fmt: skip
