"""What a night's numbers say against the baseline's. Pure: runs in, results of cells out.

A cell is *slower* when T tonight / T baseline lies beyond the margin of equivalence with its
whole interval, and does so again when just the cells that did are measured once more, in the
same night. The intervals hold for all thread counts of a target, workload and variant at
once. Over those groups nothing is adjusted: what is found by chance among many does not come
twice in independent data. What that is worth by simulation: docs/nightly.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from labctl.analysis.run import Run
from labctl.analysis.words import plain
from labctl.nightly.baseline import Baseline, Reference, changes, system_of
from labctl.nightly.record import CellResult, Ratio, State
from labctl.stats import Estimate
from labctl.stats.judge import standing, why_open
from labctl.sweep.aggregate import params_text
from labctl.sweep.records import Begin, Cell, EndRecord, Failure

Place = tuple[str, str, str, int]
"""A cell by target, workload, parameters as text, threads."""


_NO_CELL = "the baseline has no such cell; `labctl nightly --accept` takes tonight's"


@dataclass(frozen=True)
class Seen:
    """A cell against the baseline: T tonight / T baseline, and what is to be known of it."""

    ratio: Estimate
    barred: str
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """A run as the gate takes it: compared with the baseline, with what failed in it."""

    run: Run
    seen: Mapping[Place, Seen]

    def failed(self) -> set[str]:
        """Keys of the cells of which an execution failed and was not completed later."""
        last: dict[int, bool] = {}
        done = {r.execution for r in self.run.records if isinstance(r, EndRecord)}
        for record in self.run.records:
            if isinstance(record, Failure | Begin):
                last[record.execution] = isinstance(record, Failure)
        return {
            e.cell.key for e in self.run.header.executions if last.get(e.id) and e.id not in done
        }

    def unfit(self) -> set[tuple[str, str]]:
        """Targets and workloads of which a part failed: they make no baseline."""
        failed = self.failed()
        return {(cell.target, cell.workload) for cell in self.cells() if cell.key in failed}

    def cells(self) -> list[Cell]:
        """What was planned, each once, in a stable order."""
        found = {e.cell.key: e.cell for e in self.run.header.executions}
        return sorted(
            found.values(), key=lambda c: (c.workload, c.target, params_text(c.params), c.threads)
        )


def place_of(cell: Cell) -> Place:
    """Where a cell's numbers are found."""
    return cell.target, cell.workload, params_text(cell.params), cell.threads


def stand(seen: Seen, margin: float) -> State:
    """The state of a cell by one measurement; "slower" is yet to be confirmed."""
    if seen.barred:
        return "cannot tell"
    states: dict[str, State] = {"above": "slower", "below": "faster", "within": "same"}
    return states.get(standing((seen.ratio,), margin), "cannot tell")


def once_more(night: Measured, margin: float) -> frozenset[str]:
    """Keys of the cells that are to be measured again: those that look slower, or failed."""
    failed = night.failed()
    return frozenset(
        cell.key
        for cell in night.cells()
        if cell.key in failed
        or ((seen := night.seen.get(place_of(cell))) and stand(seen, margin) == "slower")
    )


def judge(
    night: Measured,
    again: Measured | None,
    *,
    baseline: Baseline,
    new: Mapping[tuple[str, str], str],
    lost: Mapping[str, str],
    again_lost: Mapping[str, str],
    margin: float,
) -> list[CellResult]:
    """Results of all cells.

    Args:
        night, again: the measurement, and the second one of ``once_more``, None where nothing
            was to be measured again, or nothing could be.
        baseline: as it was when the night began.
        new: targets and workloads that need a new baseline, and why: they are not compared.
        lost, again_lost: targets that were lost while measuring, and why.
        margin: of practical equivalence, 0.1 for 10 %.
    """
    header = night.run.header
    missing = header.missing | dict(lost)
    failed, unfit = night.failed(), night.unfit()
    failed_again = again.failed() if again else set()
    repeated = {c.key for c in again.cells() if c.target not in again_lost} if again else set()

    def result(cell: Cell) -> CellResult:
        blank = _blank(cell)
        key = cell.target, cell.workload
        if cell.key in failed:
            return _failed(blank, cell.key in repeated, cell.key in failed_again)
        if key in new and key in unfit:
            return _said(
                blank, "no baseline", f"{new[key]}; tonight's is none, a part of it failed"
            )
        if key in new:
            return _said(blank, "new baseline", new[key])
        known, seen = baseline.of(*key), night.seen.get(place_of(cell))
        if known is None or seen is None:
            return _said(blank, "no baseline", _NO_CELL)
        second = again.seen.get(place_of(cell)) if again and cell.key in repeated else None
        compared = _compared(blank, seen, second, margin)
        if compared.state == "not measured again":
            why = again_lost.get(cell.target, "it could not be compared")
            compared = _said(compared, compared.state, why)
        return compared.model_copy(update={"baseline": known.run})

    absent = [
        CellResult(target=name, workload=workload, state="missing", reason=plain(why))
        for name, why in missing.items()
        for workload in header.workloads
    ]
    return [result(cell) for cell in night.cells() if cell.target not in missing] + absent


def _blank(cell: Cell) -> CellResult:
    return CellResult(
        target=cell.target,
        workload=cell.workload,
        program=cell.program,
        params=params_text(cell.params),
        threads=cell.threads,
        state="same",
    )


def _said(cell: CellResult, state: State, reason: str) -> CellResult:
    return cell.model_copy(update={"state": state, "reason": plain(reason)})


def _failed(cell: CellResult, repeated: bool, failed_again: bool) -> CellResult:
    if not repeated:
        return _said(cell, "failed", "its program failed")
    if failed_again:
        return _said(cell, "failed", "its program failed twice")
    return _said(cell, "failed once", "its program failed; measured again it did not")


def _compared(cell: CellResult, seen: Seen, second: Seen | None, margin: float) -> CellResult:
    """A cell by its numbers."""
    state, reason = stand(seen, margin), seen.barred
    causes: list[str] = []
    if state == "slower":
        causes = list(seen.causes)
        if second is None:
            state = "not measured again"
        elif stand(second, margin) != "slower":
            state, reason = "not confirmed", second.barred
    elif state == "cannot tell" and not reason:
        reason = why_open((seen.ratio,))
    numbers = {
        "ratio": _ratio(seen.ratio, own=state == "same"),
        "again": _ratio(second.ratio) if second else None,
        "causes": causes,
    }
    return _said(cell, state, reason).model_copy(update=numbers)


def new_baselines(
    run: Run, baseline: Baseline, kept: Iterable[str]
) -> dict[tuple[str, str], Reference]:
    """Of each target and workload of a run: the reference that it needs, where the one that is
    there does not do: none, another kernel or image, or a run that is not among ``kept``."""
    found = {}
    present = set(kept)
    for reference in references(run, "first"):
        key = reference.target, reference.workload
        known = baseline.of(*key)
        if known is None:
            found[key] = reference
        elif changes(known.system, reference.system):
            found[key] = reference.model_copy(update={"why": "another system"})
        elif known.run not in present:
            found[key] = reference.model_copy(update={"why": "its run is gone"})
    return found


def references(run: Run, why: str) -> list[Reference]:
    """A run as the baseline of all that it measured."""
    header = run.header
    keys = sorted({(e.cell.target, e.cell.workload) for e in header.executions})
    return [
        Reference.model_validate(
            {
                "target": target,
                "workload": workload,
                "run": header.run,
                "since": header.created,
                "why": why,
                "system": system_of(header.targets.get(target, {}), run.sides[target].facts),
            }
        )
        for target, workload in keys
    ]


def why_new(reference: Reference, known: Reference | None) -> str:
    """Why a run becomes a baseline, as a clause."""
    if reference.why == "another system" and known:
        return plain("; ".join(changes(known.system, reference.system)))
    if reference.why == "its run is gone" and known:
        return f"the baseline's run {known.run} is gone"
    return "there was no baseline"


def _ratio(estimate: Estimate, *, own: bool = False) -> Ratio:
    """With the interval that the state rests on: that of all thread counts at once, but of what
    is the same, ``own``, the cell's (equivalence is shown for each by itself)."""
    known = estimate.family_low is not None and not own
    low = estimate.family_low if known else estimate.low
    high = estimate.family_high if known else estimate.high
    return Ratio(value=estimate.value, low=low, high=high)
