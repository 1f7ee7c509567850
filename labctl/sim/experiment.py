"""Many experiments at once: two simulated machines under the real planner's design.

Each experiment is a sweep of its own seed, in the order that ``sweep.plan`` gives it, on
the virtual clock; its samples are those that the same sweep of ``sim`` targets would take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from labctl.sim import clock
from labctl.sim.field import Keys
from labctl.sim.model import SimulatedMachine
from labctl.sim.program import cell_key
from labctl.stats.nested import Floats, Nested
from labctl.sweep.plan import Design, Plan, TargetInfo, make_plan
from labctl.workloads import load_workloads

WORKLOAD = "eptest"
NAMES = ("one", "other")

Order = Callable[[Design, Sequence[int], int], Floats]
"""(design, threads, seed) -> hours at which each process runs; shape (2, n_threads, boots,
rounds)."""


@dataclass(frozen=True)
class Side:
    """One machine of a pair; ``reboots`` says whether it is rebooted between boots."""

    machine: SimulatedMachine
    reboots: bool = True


class Experiments:
    """Samples of many experiments, and the truth about them.

    Attributes:
        design, threads: of every experiment; its seed orders the plan as well.
        seeds: one an experiment, shape (n,).
        logs: logarithms of the samples without warm-up batches, shape (n, 2 sides,
            n_threads, boots, rounds, batches).
    """

    def __init__(
        self,
        one: Side,
        other: Side,
        *,
        design: Design,
        threads: Sequence[int],
        seeds: Sequence[int],
        hours: Order | None = None,
    ) -> None:
        """Draw them all. ``hours`` is the order on the clock; default: the planner's."""
        self.design, self.threads = design, tuple(threads)
        self.seeds = np.asarray(seeds)
        self._sides = (one, other)
        order = hours or planned_hours(one.reboots, other.reboots)
        times = np.stack([order(design, self.threads, int(seed)) for seed in self.seeds])
        self.logs = np.stack(
            [self._draw(side, times[:, number]) for number, side in enumerate(self._sides)], axis=1
        )

    def _draw(self, side: Side, hours: Floats) -> Floats:
        design = self.design
        boot = np.arange(design.boots)[:, None]
        number = np.arange(design.rounds)
        if not side.reboots:  # one boot: its processes are counted through
            boot, number = np.zeros_like(boot), number + design.rounds * boot
        drawn = side.machine.draw(
            seed=self.seeds[:, None, None, None],
            threads=np.array(self.threads)[:, None, None],
            cell=self._cells()[:, None, None],
            boot=boot,
            process=number,
            hours=hours,
            batches=design.warmup + design.batches,
        )
        return drawn[..., design.warmup :]

    def _cells(self) -> Keys:
        params = {name: p.default for name, p in _workloads()[WORKLOAD].params.items()}
        return np.array([cell_key(WORKLOAD, params, n) for n in self.threads])

    def cells(self, index: int) -> tuple[dict[int, Nested], dict[int, Nested]]:
        """Both sides' cells of one experiment, as the statistics take them."""
        one, other = (
            {n: as_nested(logs, side.reboots) for n, logs in zip(self.threads, drawn, strict=True)}
            for side, drawn in zip(self._sides, self.logs[index], strict=True)
        )
        return one, other

    def truth(self) -> Floats:
        """Mean logarithms of both sides' times, in log us, shape (n, 2, n_threads).

        A side that had one boot is known as it was in that boot: no sample tells of others.
        """
        means = []
        for side in self._sides:
            mean = side.machine.log_mean(self.threads)[None]
            if self.design.boots == 1 or not side.reboots:
                mean = mean + side.machine.log_boot(self.seeds[:, None], 0, self._cells())
            means.append(np.broadcast_to(mean, (self.seeds.size, len(self.threads))))
        return np.stack(means, axis=1)


def as_nested(logs: Floats, reboots: bool) -> Nested:
    """A cell's samples as the statistics take them.

    Args:
        logs: log us, shape (n_boots, n_rounds, n_batches).
        reboots: whether the planned boots were boots; else all are of one.
    """
    boots, rounds, batches = logs.shape
    kept = boots if reboots else 1
    return Nested(
        logs=logs.ravel(),
        process_starts=np.arange(0, logs.size + 1, batches),
        boot_starts=np.arange(0, boots * rounds + 1, boots * rounds // kept),
        boots=tuple(f"boot {number:04d}" for number in range(kept)),
        periods=np.repeat(np.arange(boots), rounds),
        rounds=np.tile(np.arange(rounds), boots),
    )


_workloads = cache(load_workloads)


def plan_of(design: Design, threads: Sequence[int], seed: int) -> Plan:
    """The planner's sweep of both machines, on one host."""
    return make_plan(
        workloads=[WORKLOAD],
        targets=[TargetInfo(name, "linux", "simulated sim") for name in NAMES],
        known=_workloads(),
        threads=threads,
        params={},
        design=replace(design, seed=seed),
    )


def planned_hours(*reboots: bool) -> Order:
    """The planner's order: all cells of a machine shuffled anew in each round."""

    def hours(design: Design, threads: Sequence[int], seed: int) -> Floats:
        place = {n: index for index, n in enumerate(threads)}
        step = clock.process_s(design.batches, design.warmup, design.min_batch_ms) / 3600
        found = np.empty((2, len(threads), design.boots, design.rounds))
        for number, e in enumerate(plan_of(design, threads, seed).executions):
            booted = e.boot * sum(reboots) * clock.BOOT_S / 3600
            side = NAMES.index(e.cell.target)
            found[side, place[e.cell.threads], e.boot, e.round] = number * step + booted
        return found

    return hours


def ascending_hours(design: Design, threads: Sequence[int], seed: int) -> Floats:
    """What many do: one machine after the other, thread counts rising, each cell's processes
    in a row."""
    shape = (2, len(threads), design.boots, design.rounds)
    step = clock.process_s(design.batches, design.warmup, design.min_batch_ms) / 3600
    hours: Floats = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    hours *= step
    return hours
