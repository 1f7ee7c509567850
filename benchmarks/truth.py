"""Are labctl's statements true? Tried on simulated machines, whose truth is known.

Four tables: how often intervals hold the truth, how often two identical machines are
called different (and how often a naive sweep with a t-test does that with the same
machines), how often a real amplification is found, and what is said of one machine in two
runs. Order, samples, statistics and
verdicts are labctl's own: planner, model, ``labctl.stats``. Everything is drawn from seeds,
so two runs print the same.

    python benchmarks/truth.py [--short] [--write docs/method.md]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from marked import put
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy import stats as scipy_stats
from truth_settings import ALIKE, CHANGES, COVERAGE, POWER, Setting

from labctl.sim.experiment import Experiments, ascending_hours, planned_hours
from labctl.stats import Family, PairEffects, pair_effects
from labctl.stats.estimate import Estimate
from labctl.stats.judge import MARGIN, judge_level, judge_scaling
from labctl.stats.nested import Floats
from labctl.sweep.plan import Design

EXPERIMENTS, SHORT = 1000, 40
DRAWS = 1000  # for simultaneous intervals; a run takes more, which changes no share
_CHUNK = 50
_FIRST_SEED = {"coverage": 1_000_000, "alike": 2_000_000, "power": 3_000_000, "change": 4_000_000}
SLOWER = (1.15, 1.2)
DIFFERENT = ("virtualization", "both")

Counts = dict[str, float]
"""What was counted, and in how many experiments."""


def coverage(setting: Setting, seeds: range) -> Counts:
    """Intervals that hold the truth, each alone and all of a family at once."""
    keys = ("B", "R family", "A", "A family", "growth", "growth family")
    counts = dict.fromkeys(keys, 0.0)
    drawn = setting.draw(seeds)
    for index, truth in enumerate(drawn.truth()):
        effects = _effects(drawn, index)
        ratio = np.exp(truth[0] - truth[1])
        grown = np.exp(truth[:, 1:] - truth[:, :1])
        counts["B"] += _holds(effects.level.estimates[0], ratio[0])
        counts["R family"] += _hold_all(effects.level, ratio)
        counts["A"] += _share(effects.amplification, grown[0] / grown[1])
        counts["A family"] += _hold_all(effects.amplification, grown[0] / grown[1])
        for family, true in zip((effects.growth_one, effects.growth_other), grown, strict=True):
            counts["growth"] += _share(family, true) / 2
            counts["growth family"] += _hold_all(family, true) / 2
    return counts


def alike(setting: Setting, seeds: range) -> Counts:
    """Verdicts on two identical machines, and what a naive sweep says of them."""
    keys = ("different", "alike", "B excludes 1", "A family excludes 1")
    counts = dict.fromkeys(keys, 0.0)
    drawn = setting.draw(seeds)
    for index in range(len(seeds)):
        effects = _effects(drawn, index)
        level = judge_level(effects, MARGIN, "virtualization").call
        scaling = judge_scaling(effects, MARGIN, "virtualization").call
        counts["different"] += level in DIFFERENT or scaling in DIFFERENT
        counts["alike"] += level == "neither" and scaling == "kernel"
        counts["B excludes 1"] += not _holds(effects.level.estimates[0], 1)
        ones = np.ones(len(effects.amplification.threads))
        counts["A family excludes 1"] += not _hold_all(effects.amplification, ones)
    naive = setting.draw(seeds, ascending_hours).logs
    chances = _t_test(naive)
    counts["naive, one N"] = float(np.sum(chances[:, 0] < 0.05))
    counts["naive, any N"] = float(np.sum((chances < 0.05).any(axis=1)))
    return counts


def power(setting: Setting, seeds: range) -> Counts:
    """How often 1.2 is found: as level, and as amplification."""
    counts = dict.fromkeys(("level", "amplification"), 0.0)
    drawn = setting.draw(seeds)
    for index in range(len(seeds)):
        effects = _effects(drawn, index)
        counts["level"] += judge_level(effects, MARGIN, "virtualization").call in DIFFERENT
        found = judge_scaling(effects, MARGIN, "virtualization").call
        counts["amplification"] += found in DIFFERENT
    return counts


def change(setting: Setting, seeds: range) -> Counts:
    """Verdicts on the level of a machine in two runs: unchanged, and slower by some factors."""
    counts = dict.fromkeys(("slower or faster", "unchanged"), 0.0)
    drawn = setting.draw(seeds, a_day_apart)
    for index in range(len(seeds)):
        found = judge_level(_effects(drawn, index, turns=False), MARGIN, "change").call
        counts["slower or faster"] += found not in ("unchanged", "cannot tell")
        counts["unchanged"] += found == "unchanged"
    for factor in SLOWER:
        key = f"slower by {factor - 1:.0%}"
        drawn = setting.slower(factor).draw(seeds, a_day_apart)
        calls = [
            judge_level(_effects(drawn, index, turns=False), MARGIN, "change").call
            for index in range(len(seeds))
        ]
        counts[key] = float(calls.count("slower"))
    return counts


def a_day_apart(design: Design, threads: Sequence[int], seed: int) -> Floats:
    """Hours at which each process runs, the first machine's a day after the second's."""
    hours = planned_hours(True, True)(design, threads, seed).copy()
    hours[0] += 24
    return hours


def _t_test(logs: Floats) -> Floats:
    """p of Student's test on the bare samples, shape (n, n_threads)."""
    pooled = np.exp(logs).reshape(*logs.shape[:3], -1)
    chances: Floats = scipy_stats.ttest_ind(pooled[:, 0], pooled[:, 1], axis=-1).pvalue
    return chances


def _effects(drawn: Experiments, index: int, *, turns: bool = True) -> PairEffects:
    """``turns``: both sides were measured in the same rounds."""
    return pair_effects(
        *drawn.cells(index), same_machine=turns, seed=int(drawn.seeds[index]), resamples=DRAWS,
        checks=False,
    )  # fmt: skip


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.low <= truth <= (estimate.high or 0)


def _share(family: Family, truth: Floats) -> float:
    """Of a family's members, each by its own interval."""
    return float(np.mean([_holds(e, t) for e, t in zip(family.estimates, truth, strict=True)]))


def _hold_all(family: Family, truth: Floats) -> bool:
    ends = [(e.family_low, e.family_high) for e in family.estimates]
    return all(
        low is not None and high is not None and low <= true <= high
        for (low, high), true in zip(ends, truth, strict=True)
    )


# -- running and writing ------------------------------------------------------------------

Count = Callable[[Setting, range], Counts]
STUDIES: dict[str, tuple[Count, Sequence[Setting]]] = {
    "coverage": (coverage, COVERAGE),
    "alike": (alike, ALIKE),
    "power": (power, POWER),
    "change": (change, CHANGES),
}


def run(experiments: int, only: Iterable[str] = STUDIES) -> dict[str, dict[str, Counts]]:
    """Shares of every study and setting, from both cores."""
    shares: dict[str, dict[str, Counts]] = {}
    tasks = [
        (study, setting, range(start, min(start + _CHUNK, first + experiments)))
        for study in only
        for setting in STUDIES[study][1]
        for first in [_FIRST_SEED[study]]
        for start in range(first, first + experiments, _CHUNK)
    ]
    columns = ("{task.description}", BarColumn(), "{task.percentage:.0f} %", TimeRemainingColumn())
    bar = Progress(*(TextColumn(c) if isinstance(c, str) else c for c in columns),
                   console=Console(stderr=True))  # fmt: skip
    with bar, ProcessPoolExecutor(os.cpu_count()) as pool:
        shown = bar.add_task("experiments", total=len(tasks))
        jobs = [pool.submit(STUDIES[study][0], setting, seeds) for study, setting, seeds in tasks]
        for (study, setting, _), job in zip(tasks, jobs, strict=True):
            sums = shares.setdefault(study, {}).setdefault(setting.name, {})
            for key, value in job.result().items():
                sums[key] = sums.get(key, 0.0) + value / experiments
            bar.advance(shown)
    return shares


def tables(shares: dict[str, dict[str, Counts]], experiments: int) -> str:
    """The tables as Markdown, each with its 95 % uncertainty."""
    spread = 196 * np.sqrt(0.95 * 0.05 / experiments)
    parts = [
        f"Made by `make truth`: {experiments:,} experiments a row, seeds from "
        + ", ".join(f"{first:,} ({study})" for study, first in _FIRST_SEED.items())
        + f". A share near 95 % is uncertain by {spread:.1f} percentage points.",
        "**Coverage**: how many 95 % intervals hold the truth, in per cent; in bold what is not "
        "within 93 to 97.",
        _table(shares["coverage"], "setting", _as_coverage),
        "**Two identical machines**: how many experiments end so, in per cent. The verdict goes "
        "by the margin of 10 %; the naive sweep takes one machine after the other, thread counts "
        "rising, and puts Student's t-test on all samples (p < 0.05).",
        _table(shares["alike"], "setting", _plain),
        "**Power**: how often a level of 1.2 and an amplification of 1.2 (at 16 threads) are "
        "called virtualization, in per cent, by boots x rounds.",
        _table(shares["power"], "design", _plain),
        "**One machine in two runs** (`labctl compare`): what is said of its level over all thread "
        "counts when nothing changed, and how often a change is called slower, in per cent, by "
        "boots x rounds.",
        _table(shares["change"], "runs", _plain),
    ]
    return "\n\n".join(parts)


def _table(rows: dict[str, Counts], what: str, show: Callable[[float], str]) -> str:
    keys = list(next(iter(rows.values())))
    lines = [f"| {what} | {' | '.join(keys)} |", "|---|" + "--:|" * len(keys)]
    for name, shares in rows.items():
        lines.append(f"| {name} | {' | '.join(show(100 * shares[key]) for key in keys)} |")
    return "\n".join(lines)


def _plain(share: float) -> str:
    return f"{share:.1f}"


def _as_coverage(share: float) -> str:
    return f"{share:.1f}" if 93 <= round(share, 1) <= 97 else f"**{share:.1f}**"


def main() -> int:
    """Run, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--short", action="store_true", help=f"{SHORT} experiments a setting")
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--write", type=Path, help="the document to put the tables into")
    options = parser.parse_args()
    experiments = SHORT if options.short else options.experiments
    begun = time.monotonic()
    text = tables(run(experiments), experiments)
    print(text)
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    if options.write:
        put(options.write, "truth", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
