"""Do intervals hold the truth where a sweep stopped because they were narrow?

Looking at data and stopping at an interval that is narrow favours intervals that are too narrow.
How much, for one cell, is counted here: its samples are drawn from a simulated machine, and
labctl's own rule (``labctl.sweep.phases``) says after each phase whether it stops and what is
measured next. Drawn from seeds: two runs print the same.

    python benchmarks/adaptive.py [--short] [--write docs/sweeps.md]

The table goes between <!-- adaptive --> and <!-- /adaptive -->.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from marked import put

from labctl.sim.model import SimulatedMachine
from labctl.sim.spec import Noise, Times
from labctl.stats.kalibera_jones import Costs
from labctl.stats.nested import Nested
from labctl.sweep.measured import Measured
from labctl.sweep.phases import Situation, decide, half_width
from labctl.sweep.plan import Design, shuffled
from labctl.sweep.records import Cell, Execution, Goal, PhaseRecord

EXPERIMENTS, SHORT = 4000, 100
_CHUNK = 100
_FIRST_SEED = 5_000_000
SHARES = (1.0, 0.8, 0.6, 0.4)
"""Goals, as shares of the half-width that the first phase comes to on average."""
_CELL = Cell(
    target="box", workload="eptest", program="eptest", form="event_loop", unit="message",
    params={}, threads=1,
)  # fmt: skip
_COSTS = Costs(batch=0.1, process=0.3)
_BOOT_S = 15.0


@dataclass(frozen=True)
class Setting:
    """A first phase; with several boots the machine may be rebooted for more."""

    design: Design
    noise: Noise

    @property
    def name(self) -> str:
        """Boots x rounds, and what varies."""
        d, n = self.design, self.noise
        varies = [f"process {n.process:.0%}", f"batch {n.batch:.0%}"]
        varies = ([f"boot {n.boot:.0%}"] if d.boots > 1 else []) + varies
        return f"{d.boots} x {d.rounds} x {d.batches}: {', '.join(varies)}"


_QUIET, _BATCHES = Noise(boot=0.02, process=0.03, batch=0.02), Noise(process=0.01, batch=0.05)
SETTINGS = (
    Setting(Design(rounds=6), _QUIET),
    Setting(Design(rounds=12), _QUIET),
    Setting(Design(rounds=12), _BATCHES),
    Setting(Design(boots=6, rounds=2), _QUIET),
    Setting(Design(boots=12, rounds=1), _QUIET),
)


class Experiment:
    """One cell that is measured until its interval is narrow."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._design = replace(setting.design, seed=seed)
        self._machine = SimulatedMachine(Times(base_us=2.0, noise=setting.noise), name="box")
        self._executions: list[Execution] = []
        self._batches: list[tuple[Execution, np.ndarray]] = []
        places = itertools.product(range(setting.design.boots), range(setting.design.rounds))
        self._measure(
            list(shuffled([_CELL], "m", seed, places, first_id=0)), setting.design.batches
        )

    def _measure(self, executions: Sequence[Execution], batches: int) -> None:
        self._executions += executions
        if not executions:
            return
        warmup = self._design.warmup
        drawn = self._machine.draw(
            seed=self._design.seed,
            threads=np.ones(len(executions), np.int64),
            cell=np.zeros(len(executions), np.uint64),
            boot=np.array([e.boot for e in executions]),
            process=np.array([e.round for e in executions]),
            hours=np.zeros(len(executions)),
            batches=warmup + batches,
        )
        self._batches += zip(executions, drawn[:, warmup:], strict=True)

    @property
    def samples(self) -> Nested:
        """All that was measured so far."""
        taken = [len(logs) for _, logs in self._batches]
        return Nested.from_labels(
            np.exp(np.concatenate([logs for _, logs in self._batches])),
            np.repeat([e.boot for e, _ in self._batches], taken),
            np.repeat([e.round for e, _ in self._batches], taken),
        )

    def until(self, goal: float) -> None:
        """Phases until the cell stops."""
        phases: list[PhaseRecord] = []
        several = self._design.boots > 1
        while True:
            phase = decide(
                Situation(
                    machine="m",
                    goal=Goal(half_width=goal, at_most=1000),
                    design=self._design,
                    phases=phases,
                    executions=self._executions,
                    cells={_CELL.key: Measured(_CELL, self.samples, _COSTS)},
                    reboots={"box": _BOOT_S} if several else {},
                    spent_s=0.0,
                    next_id=len(self._executions),
                ),
                "",
            )
            if not phase.executions:
                return
            phases.append(phase)
            self._measure(phase.executions, phase.batches)

    def holds(self) -> bool:
        """Whether the interval that the rule went by has the machine's true mean in it. Of one
        boot it is the mean in that boot."""
        truth = float(self._machine.log_mean(1))
        if self._design.boots == 1:
            truth += float(self._machine.log_boot(self._design.seed, 0, np.zeros((), np.uint64)))
        samples = self.samples
        means = samples.boot_means() if samples.n_boots > 1 else samples.process_means()
        reached = half_width(samples)
        assert reached is not None
        return abs(float(means.mean()) - truth) <= math.asinh(reached)


def first_half_width(setting: Setting) -> float:
    """What the first phase's half-width is on average, over 200 experiments."""
    widths = [
        half_width(Experiment(setting, seed).samples) or 0.0
        for seed in range(_FIRST_SEED - 200, _FIRST_SEED)
    ]
    return float(np.mean(widths))


def counted(setting: Setting, goal: float | None, seeds: range) -> tuple[int, float]:
    """Intervals that hold the truth, and the sum of what was measured, in first phases."""
    hits, size = 0, 0.0
    for seed in seeds:
        experiment = Experiment(setting, seed)
        first = experiment.samples.n_batches
        if goal is not None:
            experiment.until(goal)
        hits += experiment.holds()
        size += experiment.samples.n_batches / first
    return hits, size


def rows(experiments: int) -> Iterator[str]:
    """Lines of the table."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for setting in SETTINGS:
            width = first_half_width(setting)
            shown = []
            for goal in (None, *(width * share for share in SHARES)):
                chunks = [
                    range(first, min(first + _CHUNK, _FIRST_SEED + experiments))
                    for first in range(_FIRST_SEED, _FIRST_SEED + experiments, _CHUNK)
                ]
                jobs = [pool.submit(counted, setting, goal, chunk) for chunk in chunks]
                hits, sizes = zip(*(job.result() for job in jobs), strict=True)
                share = f"{100 * sum(hits) / experiments:.1f}"
                shown.append(share if goal is None else f"{share} ({sum(sizes) / experiments:.1f})")
            yield f"| {setting.name} | {' | '.join(shown)} |"


def table(experiments: int) -> str:
    """The table as Markdown; each line is printed when it is there."""
    spread = 196 * math.sqrt(0.95 * 0.05 / experiments)
    goals = " | ".join(f"goal {share:.0%}" for share in SHARES)
    lines = [
        f"Made by `make truth`: {experiments:,} experiments a number, seeds from {_FIRST_SEED:,}. "
        "A goal is stated as a share of the half-width that the first phase (boots x rounds x "
        "batches) comes to on average; in brackets how many times the first phase's batches were "
        f"taken on average. A share is uncertain by {spread:.1f} percentage points.\n",
        f"| first phase: what varies | not adaptive | {goals} |",
        f"|---|{'--:|' * (1 + len(SHARES))}",
    ]
    print("\n".join(lines), flush=True)
    for row in rows(experiments):
        print(row, flush=True)
        lines.append(row)
    return "\n".join(lines)


def main() -> None:
    """Run, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--short", action="store_true", help=f"{SHORT} experiments a number")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table there")
    asked = parser.parse_args()
    text = table(SHORT if asked.short else EXPERIMENTS)
    if asked.write:
        put(asked.write, "adaptive", text)


if __name__ == "__main__":
    main()
