"""What a plan costs in time: from what an earlier run measured, else by rule of thumb."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from labctl.stats.kalibera_jones import Costs
from labctl.sweep.plan import Design
from labctl.sweep.records import Execution

CELL_OVERHEAD_S = 0.05
FACTS_S = 0.5
"""Facts of a target, taken at the start and the end of each boot."""


@dataclass(frozen=True)
class Prices:
    """Seconds that things take.

    Attributes:
        reboots: a reboot of each target that may be rebooted.
        cells: batch and process of the cells, by key, that were measured before.
    """

    reboots: Mapping[str, float] = field(default_factory=dict)
    cells: Mapping[str, Costs] = field(default_factory=dict)

    def of_cell(self, key: str, design: Design) -> Costs:
        """A batch and a process of a cell. Of a cell that is not known a batch takes 1 to 2
        times its least length."""
        batch_s = 1.5 * design.min_batch_ms / 1000
        guess = Costs(batch=batch_s, process=design.warmup * batch_s + CELL_OVERHEAD_S)
        return self.cells.get(key, guess)


@dataclass(frozen=True)
class Price:
    """What one machine will take: ``seconds`` in all, ``reboot_s`` of them for reboots."""

    processes: int = 0
    reboots: int = 0
    seconds: float = 0.0
    reboot_s: float = 0.0


def prices_by_machine(
    executions: Iterable[Execution], machines: Mapping[str, str], design: Design, prices: Prices
) -> dict[str, Price]:
    """Price of the executions on each machine; machines work side by side.

    ``machines`` maps targets to machines. The first process of a cell that is not known
    calibrates. The first of a target's boots here is no reboot.
    """
    found: dict[str, Price] = {}
    cells: set[str] = set()
    boots: dict[str, set[int]] = {}
    for execution in executions:
        cell = execution.cell
        costs = prices.of_cell(cell.key, design)
        seconds = costs.process + design.batches * costs.batch
        if cell.key not in cells and cell.key not in prices.cells:
            seconds += 2 * costs.batch
        cells.add(cell.key)
        reboot_s, reboots = 0.0, 0
        before = boots.setdefault(cell.target, set())
        if execution.boot not in before:
            seconds += 2 * FACTS_S
            if before and cell.target in prices.reboots:
                reboot_s, reboots = prices.reboots[cell.target], 1
            before.add(execution.boot)
        old = found.get(machines[cell.target], Price())
        found[machines[cell.target]] = Price(
            processes=old.processes + 1,
            reboots=old.reboots + reboots,
            seconds=old.seconds + seconds + reboot_s,
            reboot_s=old.reboot_s + reboot_s,
        )
    return found


def longest(prices: Mapping[str, Price]) -> float:
    """Seconds until the last machine is done."""
    return max((price.seconds for price in prices.values()), default=0.0)
