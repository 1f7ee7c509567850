"""A night's run against the runs that its baseline refers to, cell by cell."""

from __future__ import annotations

from pathlib import Path

from labctl.analysis import Run, open_run
from labctl.analysis.pairs import Pair
from labctl.analysis.verdicts import compare
from labctl.nightly.baseline import Baseline
from labctl.nightly.gate import Place, Seen, seen_in
from labctl.sweep.journal import JOURNAL


def compared(run: Run, baseline: Baseline, results: Path) -> dict[Place, Seen]:
    """Every cell of ``run`` that the baseline has too."""
    found: dict[Place, Seen] = {}
    opened: dict[str, Run] = {}
    for reference in baseline.references.values():
        if reference.target not in run.sides or not (results / reference.run / JOURNAL).is_file():
            continue
        base = opened.setdefault(reference.run, open_run(results / reference.run))
        if reference.target not in base.sides:
            continue
        pair = Pair(reference.target, reference.target, "kernel")
        sides = (run.sides[reference.target], base.sides[reference.target])
        mine = [c for c in run.curves_of(reference.workload) if c.target == reference.target]
        theirs = [c for c in base.curves_of(reference.workload) if c.target == reference.target]
        made = [
            compare(pair, sides, (a, b), margin=run.margin, seed=abs(run.header.seed))
            for a in mine
            for b in theirs
            if a.params == b.params
        ]
        found |= seen_in([c for c in made if c is not None], reference.target)
    return found
