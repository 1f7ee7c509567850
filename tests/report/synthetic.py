"""A made-up run for the tests of the report. Nothing in it was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from labctl.sweep.records import (
    Begin,
    Cell,
    EndRecord,
    Execution,
    FactsRecord,
    Failure,
    Header,
    Note,
    Record,
    Sample,
)
from labctl.workloads import Latency

FACTS: dict[str, dict[str, Any]] = {
    "metal": {
        "system": "linux",
        "kernel": "6.1.0-synthetic-amd64",
        "os_release": "Synthetic Linux 12",
        "cmdline": "root=/dev/synthetic quiet",
        "cpu_model": "Synthetic CPU 3000",
        "cpus_online": 2,
        "clocksource": "tsc",
        "mitigations": {"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"},
        "hypervisor": "none",
        "compiler": "gcc 12.2.0",
        "libc": "glibc 2.36",
        "memory_kib": 24_000_000,
    },
    "linux": {
        "system": "linux",
        "kernel": "6.1.0-synthetic-amd64",
        "os_release": "Synthetic Linux 12",
        "cmdline": "root=/dev/vda console=ttyS0",
        "cpu_model": "Synthetic Virtual CPU",
        "cpus_online": 2,
        "clocksource": "kvm-clock",
        "mitigations": {"spectre_v2": "Vulnerable", "meltdown": "Not affected"},
        "hypervisor": "kvm",
        "compiler": "gcc 12.2.0",
        "libc": "glibc 2.36",
        "memory_kib": 1_000_000,
        "accelerator": "kvm",
        "vcpus": 2,
        "qemu_version": "7.2.0",
        "image": "debian-12",
    },
    "freebsd": {
        "system": "freebsd",
        "kernel": "9.3-RELEASE-synthetic",
        "cpu_model": "Synthetic Virtual CPU",
        "cpus_online": 2,
        "clocksource": "HPET",
        "hypervisor": "qemu",
        "compiler": "gcc 4.2.1",
        "accelerator": "tcg",
        "vcpus": 2,
        "image": "freebsd-9.3",
    },
}
KINDS = {"metal": "local", "linux": "vm", "freebsd": "vm"}
# Target -> microseconds at one thread, exponent of the growth, voluntary switches per thread.
SHAPES = {"metal": (2.5, 0.3, 0.5), "linux": (3.6, 0.35, 0.6), "freebsd": (45.0, 1.1, 0.9)}
THREADS = (1, 2, 4, 8, 16)


def make_cells(workload: str, rearms: tuple[str, ...]) -> Iterator[Cell]:
    for target in FACTS:
        linux = FACTS[target]["system"] == "linux"
        program, form = ("eptest", "epoll") if linux else ("kqtest", "kqueue")
        if workload == "urandom":
            program, form = "urandom", "read"
        for rearm in rearms:
            params: dict[str, str | int] = {"rearm": rearm}
            if workload == "urandom":
                params = {"source": "urandom", "size": 4096}
            for threads in THREADS:
                yield Cell(
                    target=target,
                    workload=workload,
                    program=program,
                    form=form,
                    unit="read" if workload == "urandom" else "message",
                    params=params,
                    threads=threads,
                )


def make_header(
    *,
    workloads: tuple[str, ...] = ("kqtest",),
    rearms: tuple[str, ...] = ("oneshot",),
    rounds: int = 6,
    boots: int = 2,
    batches: int = 3,
    seed: int = 42,
    **changes: Any,
) -> Header:
    cells = [
        cell
        for workload in workloads
        for cell in make_cells(workload, rearms if workload == "kqtest" else ("oneshot",))
    ]
    rng = random.Random(seed)
    executions: list[Execution] = []
    for boot in range(boots):
        for round_ in range(rounds):
            rng.shuffle(cells)
            executions += [
                Execution(id=len(executions) + i, boot=boot, round=round_, cell=cell)
                for i, cell in enumerate(cells)
            ]
    header = {
        "run": "synthetic-0001",
        "created": "2031-01-02T03:04:05+00:00",
        "labctl": "0.1.0",
        "lab": {"lab": "synthetic", "pairs": [{"guest": "linux", "metal": "metal"}]},
        "targets": {name: {"kind": kind} for name, kind in KINDS.items()},
        "workloads": list(workloads),
        "seed": seed,
        "rounds": rounds,
        "boots": boots,
        "batches": batches,
        "warmup": 1,
        "min_batch_ms": 100,
        "plan_digest": "0" * 64,
        "executions": executions,
        "skipped": ["freebsd: rearm=exclusive is not supported by this build"],
    }
    return Header.model_validate(header | changes)


def make_sample(execution: Execution, attempt: int, batch: int, warmup: bool, us: float) -> Sample:
    ops = max(1, int(100_000 / us))
    switches = SHAPES.get(execution.cell.target, (1.0, 1.0, 0.5))[2]
    latency = None
    if execution.cell.workload == "urandom":
        p50 = int(us * 700)
        latency = Latency(p50_ns=p50, p99_ns=p50 * 6, max_ns=p50 * 90)
    return Sample(
        time="2031-01-02T03:04:06.5+00:00",
        execution=execution.id,
        attempt=attempt,
        batch=batch,
        warmup=warmup,
        ops=ops,
        wall_ns=int(us * ops * 1000),
        user_ns=int(us * ops * 200),
        sys_ns=int(us * ops * 600),
        vcsw=int(ops * 2 * switches * execution.cell.threads ** (switches)),
        ivcsw=ops // 200,
        min_thread_ops=1,
        max_thread_ops=ops,
        latency=latency,
    )


def attempt_records(
    header: Header, execution: Execution, attempt: int, rng: random.Random
) -> list[Record]:
    """Begin, warm-up and measured batches, End: one complete attempt."""
    base, exponent, _ = SHAPES.get(execution.cell.target, (1.0, 0.5, 0.5))
    centre = math.log(base * execution.cell.threads**exponent) + rng.gauss(0, 0.03)
    boot_id = f"{execution.cell.target}-boot-{execution.boot}"
    records: list[Record] = [
        Begin(time="", execution=execution.id, attempt=attempt, boot_id=boot_id)
    ]
    for number in range(header.warmup + header.batches):
        warmup = number < header.warmup
        batch = number if warmup else number - header.warmup
        us = math.exp(centre + rng.gauss(0, 0.02)) * (1.5 if warmup else 1)
        records.append(make_sample(execution, attempt, batch, warmup, us))
    records.append(
        EndRecord(time="", execution=execution.id, attempt=attempt, program_ns=1, total_ns=2)
    )
    return records


def make_records(header: Header | None = None, *, trouble: bool = False) -> list[Record]:
    """A whole run; with ``trouble`` also an interrupted attempt, a failure and a note."""
    header = header or make_header()
    rng = random.Random(header.seed)
    records: list[Record] = [header]
    for boot in range(header.boots):
        for target in header.targets:
            boot_id = f"{target}-boot-{boot}"
            facts = {**FACTS.get(target, {}), "load": 0.1 * boot, "uptime_s": 60 + boot}
            records.append(
                FactsRecord(
                    time="2031-01-02T03:04:05+00:00",
                    target=target,
                    boot=boot,
                    boot_id=boot_id,
                    moment="start",
                    facts=facts,
                )
            )
    for execution in header.executions:
        attempt = 1
        if trouble and execution.id == 3:
            records += attempt_records(header, execution, 1, rng)[:3]
            records.append(Note(time="2031-01-02T03:05:00+00:00", message="interrupted; resumed"))
            attempt = 2
        whole = attempt_records(header, execution, attempt, rng)
        if trouble and execution.id == 7:
            records += whole[:2]
            records.append(
                Failure(
                    time="",
                    execution=7,
                    attempt=1,
                    status=70,
                    message="a message was lost",
                    detail="kqtest: message 17 came twice",
                )
            )
            continue
        records += whole
    return records
