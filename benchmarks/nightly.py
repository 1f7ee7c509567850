"""How often does a night cry wolf, and how often does it miss a slowdown? Simulated nights.

A lab of six groups (say, three targets in two workloads) at four thread counts each is measured
once for its baseline, then night after night; what is slower is measured again. Drawing,
order, intervals and the rule are labctl's own (``labctl.sim``, ``labctl.stats``,
``labctl.nightly.gate``). Every measurement is at another time of another day, and in other
boots than the others unless the machine is never rebooted. There are 20 baselines with 10
nights each, because all nights that share a baseline share its chance.

    python benchmarks/nightly.py [--short] [--write docs/nightly.md]

The table goes between <!-- nightly --> and <!-- /nightly -->. Drawn from seeds: two runs print
the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from marked import put

from labctl.nightly.asked import NIGHTLY
from labctl.nightly.gate import Seen, stand
from labctl.nightly.night import again_design
from labctl.sim import field
from labctl.sim.experiment import as_nested, planned_hours
from labctl.sim.model import SimulatedMachine
from labctl.sim.spec import Curve, Drift, Noise, Times
from labctl.stats import pair_effects
from labctl.stats.judge import MARGIN
from labctl.stats.nested import Nested
from labctl.sweep.plan import Design

BASELINES, NIGHTS, GROUPS = 20, 10, 6
THREADS = (1, 2, 4, 8)
DRAWS = 1000  # for simultaneous intervals; a night takes more, which changes no share
HEADING = (
    "| machine | boots x rounds | first look alone, unchanged | **false alarm, unchanged** | "
    "+10 % (the margin) | +12 % | +15 % | +20 % |\n|---|---|---|---|---|---|---|---|\n"
)
SHIFTS = (1.0, 1.10, 1.12, 1.15, 1.20)
_GROWTH = Curve(law="power", exponent=0.3)


@dataclass(frozen=True)
class Setting:
    """A machine and a design; whether it is rebooted between boots."""

    name: str
    times: Times
    design: Design
    reboots: bool = True


def _times(**parts: object) -> Times:
    return Times.model_validate({"base_us": 2.0, "growth": _GROWTH, **parts})


_MACHINES = {
    "quiet (process 3 %, boot 2 %)": _times(),
    "other every hour (wanders by 3 %)": _times(drift=Drift(wander=0.03, wander_minutes=60)),
    "boots differ by 5 %": _times(noise=Noise(boot=0.05)),
    "noisy (process 6 %)": _times(noise=Noise(process=0.06)),
}
_DESIGNS = (Design(rounds=12), Design(rounds=24), NIGHTLY)
SETTINGS = (
    *(Setting(name, times, d) for name, times in _MACHINES.items() for d in _DESIGNS),
    Setting("quiet, never rebooted", _times(), NIGHTLY, reboots=False),
)


@dataclass
class Counts:
    """Nights of one setting and shift: in how many the first look, and the gate, said slower."""

    nights: int = 0
    looked: int = 0
    slower: int = 0

    def __iadd__(self, other: Counts) -> Counts:
        self.nights += other.nights
        self.looked += other.looked
        self.slower += other.slower
        return self


class Lab:
    """The simulated lab of one baseline."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting, self._seed = setting, seed
        self._past = 0

    def measured(
        self, group: int, day: float, design: Design, threads: tuple[int, ...], shift: float
    ) -> dict[int, Nested]:
        """A run of one group: its cells."""
        machine = SimulatedMachine(self._setting.times, name=f"group {group}", host=f"{group}")
        period, number = np.arange(design.boots)[:, None], np.arange(design.rounds)
        if self._setting.reboots:
            boot = self._past + period
        else:
            boot, number = np.zeros_like(period), self._past + design.rounds * period + number
        self._past += design.boots * design.rounds
        order = replace(design, seed=int(1000 * day) + 10_000_000 * group + self._seed)
        hours = 24 * day + planned_hours(True, False)(order, threads, order.seed)[0]
        logs = machine.draw(
            seed=self._seed,
            threads=np.array(threads)[:, None, None],
            cell=np.array([field.key("cell", n) for n in threads])[:, None, None],
            boot=boot,
            process=number,
            hours=hours,
            batches=design.batches,
        ) + np.log(shift)
        reboots = self._setting.reboots
        return {n: as_nested(own, reboots) for n, own in zip(threads, logs, strict=True)}


def _slower(one: dict[int, Nested], base: dict[int, Nested]) -> tuple[int, ...]:
    """The thread counts that look slower."""
    level = pair_effects(one, base, same_machine=False, checks=False, resamples=DRAWS).level
    pairs = zip(level.threads, level.estimates, strict=True)
    return tuple(n for n, e in pairs if stand(Seen(e, "", ()), MARGIN) == "slower")


def nights(setting: Setting, shift: float, seed: int) -> Counts:
    """All nights of one baseline. An unchanged lab has all its groups in a night; of a
    slowdown one group is looked at, the one that has it."""
    lab, counts = Lab(setting, seed), Counts(NIGHTS)
    groups = range(GROUPS if shift == 1 else 1)
    bases = [lab.measured(group, 0.0, setting.design, THREADS, 1.0) for group in groups]
    for day in range(1, NIGHTS + 1):
        looked = slower = False
        for group in groups:
            base = bases[group]
            found = _slower(lab.measured(group, day, setting.design, THREADS, shift), base)
            if not found:
                continue
            looked = True
            again = lab.measured(group, day + 0.05, again_design(setting.design), found, shift)
            slower |= bool(_slower(again, {n: base[n] for n in found}))
        counts.looked += looked
        counts.slower += slower
    return counts


def rows(settings: Iterable[Setting], baselines: int) -> Iterable[str]:
    """Lines of the table."""
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        for setting in settings:
            counts = []
            for shift in SHIFTS:
                total = Counts()
                seeds = range(1_000_000, 1_000_000 + baselines)
                for one in pool.map(
                    nights, *zip(*((setting, shift, s) for s in seeds), strict=True)
                ):
                    total += one
                counts.append(total)
            first = counts[0]
            shown = [f"{first.looked} of {first.nights}", f"**{first.slower} of {first.nights}**"]
            shown += [f"{100 * c.slower / c.nights:.0f} %" for c in counts[1:]]
            design = f"{setting.design.boots} x {setting.design.rounds}"
            yield f"| {' | '.join([setting.name, design, *shown])} |\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="two baselines")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table there")
    asked = parser.parse_args(arguments)
    table = HEADING
    for row in rows(SETTINGS, 2 if asked.short else BASELINES):
        print(row, end="", flush=True)
        table += row
    if asked.write:
        put(asked.write, "nightly", table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
