"""Runs whose samples are drawn from a model, written to real journals. Nothing is measured."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from labctl.sweep.adaptive import Phases
from labctl.sweep.journal import Journal, create_run, read_journal
from labctl.sweep.plan import Design, TargetInfo, make_plan
from labctl.sweep.records import (
    Begin,
    EndRecord,
    FactsRecord,
    Failure,
    Goal,
    Header,
    PhaseRecord,
    Sample,
)
from labctl.workloads import load_workloads

BATCH_NS = 100_000_000


@dataclass
class Noise:
    """Standard deviations of the logarithm by level."""

    batch: float = 0.01
    process: float = 0.02
    boot: float = 0.0


@dataclass
class Drawn:
    """A run in a directory, and the machines that "measure" it."""

    base: Path
    targets: Mapping[str, str]  # target -> machine
    design: Design
    until: Goal | None
    noise: Noise = field(default_factory=Noise)
    threads: tuple[int, ...] = (1, 2)
    reboots: Mapping[str, float] = field(default_factory=dict)
    failing: str = ""

    def __post_init__(self) -> None:
        plan = make_plan(
            workloads=["eptest"],
            targets=[TargetInfo(n, "linux", m) for n, m in self.targets.items()],
            known=load_workloads(),
            threads=self.threads,
            params={},
            design=self.design,
        )
        self.clock = datetime(2026, 1, 1, tzinfo=UTC)
        header = Header(
            run="drawn", created=self.tick(0), labctl="0", lab={}, workloads=["eptest"],
            targets={n: {"machine": m} for n, m in self.targets.items()},
            plan_digest=plan.digest, executions=list(plan.executions), until=self.until,
            **self.design.__dict__,
        )  # fmt: skip
        self.directory = create_run(self.base, header)

    def tick(self, seconds: float) -> str:
        self.clock += timedelta(seconds=seconds)
        return self.clock.isoformat(timespec="microseconds")

    def measure(self) -> None:
        """Whatever is pending, boot after boot, as a runner would write it."""
        with Journal(self.directory) as journal:
            at: dict[str, int] = {}
            for execution in journal.view.pending():
                cell, batches = execution.cell, journal.view.batches[execution.id]
                boot = execution.boot if cell.target in self.reboots else 0
                identity = f"{cell.target}-{boot}"
                if at.get(cell.target) != execution.boot:
                    at[cell.target] = execution.boot
                    journal.append(
                        FactsRecord(
                            time=self.tick(self.reboots.get(cell.target, 0.5)),
                            target=cell.target, boot=execution.boot, boot_id=identity,
                            moment="start", facts={},
                        )
                    )  # fmt: skip
                begin = Begin(
                    time=self.tick(0), execution=execution.id, attempt=1, boot_id=identity
                )
                journal.append(begin)
                if cell.key == self.failing:
                    journal.append(
                        Failure(
                            time=self.tick(1),
                            execution=execution.id,
                            attempt=1,
                            status=70,
                            message="no",
                        )
                    )
                    continue
                noise = self.noise
                level = random.Random(identity).gauss(0, noise.boot)
                level += random.Random(f"{identity}/{execution.id}").gauss(0, noise.process)
                total = 0
                for batch in range(batches):
                    log = level + random.Random(f"{execution.id}/{batch}").gauss(0, noise.batch)
                    wall = int(BATCH_NS * cell.threads * math.exp(log))
                    total += wall
                    journal.append(
                        Sample(
                            time=self.tick(wall / 1e9), execution=execution.id, attempt=1, batch=batch,
                            warmup=False, ops=1000, wall_ns=wall, user_ns=0, sys_ns=0, vcsw=0, ivcsw=0,
                            min_thread_ops=1, max_thread_ops=1,
                        )
                    )  # fmt: skip
                journal.append(
                    EndRecord(
                        time=self.tick(0.15), execution=execution.id, attempt=1, program_ns=total,
                        total_ns=total + 150_000_000,
                    )
                )  # fmt: skip

    def decide(self, machine: str) -> PhaseRecord | None:
        """The machine's next phase, journalled."""
        with Journal(self.directory) as journal:
            return Phases(journal, reboots=self.reboots, on_phase=lambda _: None).next(machine)

    def finish(self, machine: str = "m") -> list[PhaseRecord]:
        """Measure and decide until the machine is done; all its phases."""
        self.measure()
        while self.decide(machine):
            self.measure()
        return [p for p in read_journal(self.directory).phases if p.machine == machine]
