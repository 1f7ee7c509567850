"""Phases of an adaptive sweep: at the end of each, which cells stop and what the others do next.

A decision is a pure function of what was measured, the design and the seed. A cell stops when
the 95 % interval of its own mean is narrow enough, by t on the units of its top level: boots
where the target was rebooted, else processes; never below 6 of them. The next phase repeats
the levels as Kalibera and Jones do (``labctl.stats.kalibera_jones``) for the cell that needs
most, and all open cells of the machine take part in it, shuffled together as in the first.

Looking often and stopping at the first interval that is narrow enough favours intervals that
are too narrow. So there are few looks: a phase adds at least a quarter of what is there,
and at most as much again, since a pilot's variance is itself uncertain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import special

from labctl.stats.estimate import FEWEST_UNITS
from labctl.stats.kalibera_jones import Costs, Counts, best_counts, variance_components
from labctl.stats.nested import Nested
from labctl.sweep.measured import Measured
from labctl.sweep.plan import Design, shuffled
from labctl.sweep.records import Execution, Goal, PhaseRecord, Stop, StopReason

LEVEL = 0.95
MOST = Counts(batches=10, rounds=20, boots=10_000)
"""Batches of a process and rounds of a boot beyond which the next level is repeated instead."""


@dataclass(frozen=True)
class Situation:
    """One machine at the end of a phase.

    Attributes:
        design: of the first phase.
        phases: decided for this machine so far.
        executions: planned on it so far, of all phases.
        cells: those not stopped, by key.
        reboots: seconds that a reboot of a target takes; only of those that may be rebooted.
        spent_s: seconds of measuring on this machine so far.
        next_id: of the next execution.
    """

    machine: str
    goal: Goal
    design: Design
    phases: Sequence[PhaseRecord]
    executions: Sequence[Execution]
    cells: Mapping[str, Measured]
    reboots: Mapping[str, float]
    spent_s: float
    next_id: int

    @property
    def batches_left(self) -> float:
        """Batches, warm-up included, that an open cell may still get."""
        d = self.design
        first = d.boots * d.rounds * (d.batches + d.warmup)
        later = sum(max(p.boots, 1) * p.rounds * (p.batches + d.warmup) for p in self.phases)
        return self.goal.at_most * first - first - later

    def adds_boots(self, target: str) -> bool:
        """Whether further boots of a target are had for the asking."""
        return self.design.boots > 1 and target in self.reboots


def half_width(samples: Nested | None) -> float | None:
    """Half-width of a cell's 95 % interval as a share of its geometric mean, or None.

    By t on the means of its top level: boots if there are several, else processes.
    """
    if samples is None:
        return None
    means = samples.boot_means() if samples.n_boots > 1 else samples.process_means()
    if means.size < 2:
        return None
    error = float(means.std(ddof=1)) / math.sqrt(means.size)
    return math.sinh(float(special.stdtrit(means.size - 1, (1 + LEVEL) / 2)) * error)


def decide(now: Situation, time: str) -> PhaseRecord:
    """The decision at the end of a phase, to be journalled at ``time``."""
    reasons = {key: _settled(now, cell) for key, cell in now.cells.items()}
    still = {key: cell for key, cell in now.cells.items() if reasons[key] is None}
    design = Counts(0, 0, 0)
    expected_s = 0.0
    if still:
        design = _within_cap(now, _wanted(now, still))
        left: StopReason = "cap"
        if design.rounds and now.goal.max_seconds is not None:
            design = _within_time(now, design, still)
            left = "time"
        if design.rounds:
            expected_s = _seconds(now, design, still)
        else:
            reasons |= dict.fromkeys(still, left)
            still = {}
    return PhaseRecord(
        time=time,
        machine=now.machine,
        number=len(now.phases) + 1,
        boots=design.boots,
        rounds=design.rounds,
        batches=design.batches,
        executions=_executions(now, design, still),
        stops=[
            _stop(cell, reason)
            for key, cell in now.cells.items()
            if (reason := reasons[key]) is not None
        ],
        expected_s=round(expected_s, 3),
    )


def _settled(now: Situation, cell: Measured) -> StopReason | None:
    """Why a cell stops whatever the others do, or None."""
    if cell.failed or cell.samples is None:
        return "failed"
    reached, boots = half_width(cell.samples), cell.samples.n_boots
    units = boots if boots > 1 else cell.samples.n_processes
    if reached is not None and reached <= now.goal.half_width and units >= FEWEST_UNITS:
        return "narrow"
    if boots > 1 and not now.adds_boots(cell.cell.target):
        return "boots"
    return None


def _wanted(now: Situation, cells: Mapping[str, Measured]) -> Counts:
    """Boots, rounds and batches of the next phase, for the cell that needs most of each."""
    targets = {cell.cell.target for cell in cells.values()}
    boot_s = sum(now.reboots[t] for t in targets if now.adds_boots(t)) / len(cells)
    wants = [_want(now, cell, boot_s) for cell in cells.values()]
    neediest = max(wants, key=lambda want: want[1])[0]
    boots = max(want.boots for want, _ in wants)
    rounds = max(
        want.rounds if want.boots else math.ceil(want.rounds / max(boots, 1)) for want, _ in wants
    )
    return Counts(neediest.batches, rounds, boots)


def _want(now: Situation, cell: Measured, boot_s: float) -> tuple[Counts, float]:
    """What a cell would have next (0 boots: rounds in this one), and the seconds of it."""
    samples, costs = cell.samples, cell.costs
    assert samples is not None
    assert costs is not None
    components = variance_components(samples)
    goal = now.goal.half_width
    if now.adds_boots(cell.cell.target):
        costs = replace(costs, boot=boot_s)
        best = best_counts(components, costs, half_width=goal, most=MOST)
        want = replace(best, boots=_further(best.boots, samples.n_boots))
    else:
        most = replace(MOST, rounds=MOST.boots)
        best = best_counts(components, costs, half_width=goal, most=most)
        want = Counts(best.batches, _further(best.rounds, samples.n_processes), 0)
    return want, replace(want, boots=max(want.boots, 1)).seconds(costs)


def _further(wanted: int, there: int) -> int:
    """Units of the top level to add."""
    least = max(FEWEST_UNITS - there, math.ceil(there / 4))
    return min(max(wanted - there, least), max(there, least))


def _within_cap(now: Situation, wanted: Counts) -> Counts:
    """The counts cut down to the batches that are left, the lower levels first; no rounds if
    there is none to be had."""
    warmup, left = now.design.warmup, now.batches_left + 1e-9
    if not wanted.boots:
        return replace(wanted, rounds=min(wanted.rounds, int(left / (wanted.batches + warmup))))
    boots = min(wanted.boots, int(left / (1 + warmup)))
    if not boots:
        return replace(wanted, boots=0, rounds=0)
    batches = min(wanted.batches, int(left / boots) - warmup)
    rounds = min(wanted.rounds, int(left / boots / (batches + warmup)))
    return Counts(batches, rounds, boots)


def _within_time(now: Situation, wanted: Counts, cells: Mapping[str, Measured]) -> Counts:
    """The same for the time that is left."""
    assert now.goal.max_seconds is not None
    left = now.goal.max_seconds - now.spent_s
    while wanted.rounds and _seconds(now, wanted, cells) > left:
        if wanted.rounds > 1 or wanted.boots <= 1:
            wanted = replace(wanted, rounds=wanted.rounds - 1)
        else:
            wanted = replace(wanted, boots=wanted.boots - 1)
    return wanted


def _seconds(now: Situation, design: Counts, cells: Mapping[str, Measured]) -> float:
    """How long a phase should take."""
    targets = {cell.cell.target for cell in cells.values()}
    boot_s = sum(now.reboots.get(target, 0.0) for target in targets)
    each = Counts(design.batches, design.rounds, max(design.boots, 1))
    costs: list[Costs] = [cell.costs for cell in cells.values() if cell.costs is not None]
    return design.boots * boot_s + sum(each.seconds(cost) for cost in costs)


def _executions(now: Situation, design: Counts, cells: Mapping[str, Measured]) -> list[Execution]:
    """The phase's executions: new boots, or further rounds of the last one."""
    boot = max(execution.boot for execution in now.executions)
    if design.boots:
        boots, first = range(boot + 1, boot + 1 + design.boots), 0
    else:
        boots = range(boot, boot + 1)
        first = 1 + max(e.round for e in now.executions if e.boot == boot)
    places = itertools.product(boots, range(first, first + design.rounds))
    open_cells = [cell.cell for cell in cells.values()]
    if not open_cells:
        return []
    return list(shuffled(open_cells, now.machine, now.design.seed, places, first_id=now.next_id))


def _stop(cell: Measured, reason: StopReason) -> Stop:
    samples, reached = cell.samples, half_width(cell.samples)
    return Stop(
        cell=cell.cell.key,
        reason=reason,
        half_width=None if reached is None else round(reached, 6),
        boots=samples.n_boots if samples else 0,
        processes=samples.n_processes if samples else 0,
        batches=samples.n_batches if samples else 0,
    )
