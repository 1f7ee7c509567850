"""A night's runs and its baseline's as one view, for the gate and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labctl.analysis import Run
from labctl.analysis.group import beside, changes, labelled
from labctl.analysis.verdicts import Comparison
from labctl.analysis.words import plain
from labctl.nightly.baseline import Baseline
from labctl.nightly.gate import Place, Seen

TONIGHT, AGAIN, BASELINE = "tonight", "measured again", "baseline"


@dataclass(frozen=True)
class View:
    """What is compared in a night.

    Attributes:
        whole: all runs as one, for the report.
        seen, again: cells of the night's measurement, and of its second one, against the
            baseline.
    """

    whole: Run
    seen: Mapping[Place, Seen]
    again: Mapping[Place, Seen]


def view(night: Run, again: Run | None, baseline: Baseline, bases: Mapping[str, Run]) -> View:
    """The view of a night.

    Args:
        night, again: its measurement, and the second one, where there is one.
        bases: the runs that the baseline refers to, by name, as far as they are there.
    """
    own = {TONIGHT: night} | ({AGAIN: again} if again else {})
    labels = {name: BASELINE if len(bases) == 1 else f"{BASELINE} {name}" for name in sorted(bases)}
    wanted = {
        (r.target, label, labels[r.run]): r.run
        for r in baseline.references.values()
        for label, run in own.items()
        if r.run in labels and r.target in run.sides and r.target in bases[r.run].sides
    }
    if not wanted:
        return View(beside(night, {AGAIN: again}) if again else night, {}, {})
    used = set(wanted.values())
    runs = own | {labels[name]: bases[name] for name in sorted(used)}
    whole = changes(runs, list(wanted))
    seen: dict[str, dict[Place, Seen]] = {TONIGHT: {}, AGAIN: {}}
    for target, label, old in wanted:
        based = {r.workload for r in baseline.references.values()
                 if r.target == target and labels.get(r.run) == old}  # fmt: skip
        pair = labelled(target, label), labelled(target, old)
        for comparison in whole.comparisons:
            names = comparison.pair.one, comparison.pair.other
            if names == pair and comparison.one_curve.workload in based:
                seen[label] |= _cells(comparison, target)
    return View(whole, seen[TONIGHT], seen[AGAIN])


def _cells(c: Comparison, target: str) -> dict[Place, Seen]:
    barred = "; ".join(c.barred)
    causes = tuple(plain(f"{d.key}: {d.other} \N{RIGHTWARDS ARROW} {d.one}") for d in c.confounders)
    curve, level = c.one_curve, c.effects.level
    return {
        (target, curve.workload, curve.params_text, threads): Seen(estimate, barred, causes)
        for threads, estimate in zip(level.threads, level.estimates, strict=True)
    }
