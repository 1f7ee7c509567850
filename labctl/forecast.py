"""What a sweep will take and how narrow its intervals should become, before it is measured.

Both from what an earlier run measured of the same cells, as far as there is one: variance of
each level (Kalibera and Jones), seconds of a batch, a process and a reboot. Of what was never
measured only the time is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labctl.errors import ConfigError
from labctl.images.catalogue import Recipe
from labctl.lab import Lab
from labctl.request import Request, one_boot_notices, preview, reboot_seconds
from labctl.stats.estimate import FEWEST_UNITS
from labctl.stats.kalibera_jones import (
    Components,
    Counts,
    best_counts,
    expected_half_width,
    variance_components,
)
from labctl.stats.nested import Nested
from labctl.sweep.aggregate import read_run
from labctl.sweep.journal import read_journal
from labctl.sweep.measured import Measured, boot_seconds, measured_cells
from labctl.sweep.phases import MOST
from labctl.sweep.plan import Design
from labctl.sweep.price import Price, Prices, longest, prices_by_machine
from labctl.sweep.records import Cell, Goal
from labctl.sweep.runs import find_run, list_runs

ASSUMED_SPREAD = 0.05
"""Between processes, for what one might expect where nothing is known."""


@dataclass(frozen=True)
class CellForecast:
    """One cell: its processes, the boots that these fall into, and the half-width of its 95 %
    interval as a share of its mean (None where nothing is known)."""

    cell: Cell
    boots: int
    processes: int
    batches: int
    half_width: float | None


@dataclass(frozen=True)
class Forecast:
    """What is to be expected. ``run`` is the earlier run that it rests on, "" if none."""

    run: str
    machines: Mapping[str, Price]
    cells: Sequence[CellForecast]
    notices: Sequence[str]

    @property
    def seconds(self) -> float:
        """Until the last machine is done."""
        return longest(self.machines)


@dataclass(frozen=True)
class _Known:
    """What an earlier run tells; nothing, if there is none."""

    run: str = ""
    min_batch_ms: int = 0
    cells: Mapping[str, Measured] = field(default_factory=dict)
    reboots: Mapping[str, float] = field(default_factory=dict)

    def samples(self, key: str) -> Nested | None:
        """Of a cell, if there are enough to tell its noise."""
        found = self.cells[key].samples if key in self.cells else None
        return found if found and found.n_processes > 1 else None


def forecast(
    lab: Lab, request: Request, catalogue: Mapping[str, Recipe], *, run: str | None = None
) -> Forecast:
    """What a sweep should take and reach.

    Args:
        run: the run that tells of noise and costs; None for the one that has most of the
            cells, of these the latest.

    Raises:
        ConfigError: as ``preview``; there is no such run, or it has none of the cells.
        UnavailableError: as ``preview``.
    """
    seen, design = preview(lab, request, catalogue), request.design
    cells = {e.cell.key: e.cell for e in seen.plan.executions}
    known = _earlier(lab, run, cells)
    notices = [f"left out: {text}" for text in seen.plan.skipped]
    one_boot = one_boot_notices(lab, design, list(seen.machines))
    notices += [f"{name}: {text}" for name, text in one_boot.items()]
    costs = {key: cell.costs for key, cell in known.cells.items() if cell.costs}
    if known.run and known.min_batch_ms != design.min_batch_ms:
        costs = {}
        notices.append(f"{known.run} had batches of {known.min_batch_ms} ms: its noise is theirs")
    reboots = reboot_seconds(lab, seen.machines) | {
        name: s for name, s in known.reboots.items() if name in reboot_seconds(lab, [name])
    }
    prices = Prices(reboots, costs)
    machines = prices_by_machine(seen.plan.executions, seen.machines, design, prices)
    first = design.boots * design.rounds
    expected = [
        _expected(
            CellForecast(cell, _boots(cell, design, prices), first, design.batches, None), known
        )
        for cell in cells.values()
    ]
    if request.until is not None:
        wanted = [_until(request.until, one, design, known, prices) for one in expected]
        for machine, base in machines.items():
            mine = [
                at for at, one in enumerate(expected) if seen.machines[one.cell.target] == machine
            ]
            grown, price = _in_time(
                request.until, [expected[at] for at in mine], [wanted[at] for at in mine],
                base, design, prices,
            )  # fmt: skip
            for at, one in zip(mine, grown, strict=True):
                expected[at] = _expected(one, known)
            machines[machine] = price
    return Forecast(known.run, machines, expected, [*notices, *_doubts(expected, known, design)])


# -- one cell ----------------------------------------------------------------------------


def _boots(cell: Cell, design: Design, prices: Prices) -> int:
    return design.boots if cell.target in prices.reboots else 1


def _expected(one: CellForecast, known: _Known) -> CellForecast:
    """The same with the half-width that its counts should give."""
    samples = known.samples(one.cell.key)
    if samples is None:
        return one
    counts = Counts(one.batches, max(1, round(one.processes / one.boots)), one.boots)
    reached = expected_half_width(variance_components(samples), counts)
    return replace(one, half_width=reached if math.isfinite(reached) else None)


def _until(
    goal: Goal, one: CellForecast, design: Design, known: _Known, prices: Prices
) -> CellForecast:
    """The counts with which a cell should reach the goal, within the cap. What a sweep does is
    decided by its own first phase."""
    samples = known.samples(one.cell.key)
    if samples is None:
        return one
    components = variance_components(samples)
    costs = prices.of_cell(one.cell.key, design)
    if one.boots > 1:
        costs = replace(costs, boot=prices.reboots[one.cell.target])
        best = best_counts(components, costs, half_width=goal.half_width, most=MOST)
        boots = max(best.boots, FEWEST_UNITS, one.boots)
        further = (boots - one.boots) * best.rounds
    else:
        most = replace(MOST, rounds=MOST.boots)
        best = best_counts(components, costs, half_width=goal.half_width, most=most)
        further = max(best.rounds, FEWEST_UNITS, one.processes) - one.processes
    each = best.batches + design.warmup
    left = (goal.at_most - 1) * one.processes * (one.batches + design.warmup)
    allowed = min(further, int(left / each + 1e-9))
    if not allowed:
        return one
    boots = 1 if one.boots == 1 else one.boots + math.ceil(allowed / best.rounds)
    return replace(one, boots=boots, processes=one.processes + allowed, batches=best.batches)


# -- one machine -------------------------------------------------------------------------


def _in_time(
    goal: Goal,
    first: Sequence[CellForecast],
    wanted: Sequence[CellForecast],
    base: Price,
    design: Design,
    prices: Prices,
) -> tuple[list[CellForecast], Price]:
    """A machine's cells and price with what they get beyond the first phase, within the time."""
    boots = max(w.boots - f.boots for f, w in zip(first, wanted, strict=True))
    targets = {w.cell.target for w in wanted if w.boots > 1}
    reboot_s = boots * sum(prices.reboots[target] for target in targets)
    further = [w.processes - f.processes for f, w in zip(first, wanted, strict=True)]
    running_s = sum(
        count * (costs.process + one.batches * costs.batch)
        for count, one in zip(further, wanted, strict=True)
        for costs in [prices.of_cell(one.cell.key, design)]
    )
    share = 1.0
    if goal.max_seconds is not None and running_s + reboot_s > 0:
        share = min(1.0, max(0.0, (goal.max_seconds - base.seconds) / (running_s + reboot_s)))
    grown = [
        replace(
            w,
            processes=f.processes + int(share * count),
            boots=f.boots + int(share * (w.boots - f.boots)),
            batches=w.batches if int(share * count) else f.batches,
        )
        for f, w, count in zip(first, wanted, further, strict=True)
    ]
    price = Price(
        processes=sum(one.processes for one in grown),
        reboots=base.reboots + int(share * boots) * len(targets),
        seconds=base.seconds + share * (running_s + reboot_s),
        reboot_s=base.reboot_s + share * reboot_s,
    )
    return grown, price


# -- what is known -----------------------------------------------------------------------


def _earlier(lab: Lab, run: str | None, cells: Mapping[str, Cell]) -> _Known:
    """What the run named tells of these cells; or, of all runs, the one that has most."""
    if run is not None:
        directory: Path | None = find_run(lab.results_dir, run)
    else:
        directory = _richest(lab.results_dir, cells)
    if directory is None:
        return _Known()
    view, samples = read_run(directory)
    if view.header.imported is not None:
        raise ConfigError(
            f"the run {view.header.run} was imported: it tells of no spread and no cost",
            where="--from",
            hint="name a run that was measured, or leave it out",
        )
    known = {
        key: cell
        for key, cell in measured_cells(view, samples).items()
        if key in cells and cell.samples is not None
    }
    if not known:
        raise ConfigError(
            f"the run {view.header.run} has none of these cells",
            where="--from",
            hint="name a run of the same workload, parameters and targets, or leave it out",
        )
    return _Known(view.header.run, view.header.min_batch_ms, known, boot_seconds(view))


def _richest(results: Path, cells: Mapping[str, Cell]) -> Path | None:
    """The run with most of the cells, of these the latest."""
    best, most = None, 0
    for row in list_runs(results):
        if row.damage or row.imported or not row.done:
            continue
        view = read_journal(results / row.run, samples=False)
        done = view.done
        found = len({e.cell.key for e in view.executions if e.id in done} & set(cells))
        if found and found >= most:
            best, most = results / row.run, found
    return best


def _doubts(expected: Sequence[CellForecast], known: _Known, design: Design) -> list[str]:
    """What is to be said against the forecast."""
    unknown = sum(one.half_width is None for one in expected)
    found = []
    if unknown:
        spread = math.log1p(ASSUMED_SPREAD) ** 2
        counts = Counts(design.batches, design.rounds * design.boots, 1)
        reached = expected_half_width(Components(batch=0.0, process=spread, boot=0.0), counts)
        text = f"nothing is known yet of {unknown} of {len(expected)} cells"
        if math.isfinite(reached):
            text += (
                f"; if processes varied by {ASSUMED_SPREAD:.0%}, {counts.rounds} of them would "
                f"give ± {reached:.1%}"
            )
        found.append(text)
    one_boot = {
        one.cell.target
        for one in expected
        if one.boots > 1
        and (samples := known.samples(one.cell.key)) is not None
        and samples.n_boots == 1
    }
    if one_boot:
        found.append(
            f"{', '.join(sorted(one_boot))}: {known.run} had one boot, so how much boots differ is "
            "not known and not in the intervals"
        )
    return found
