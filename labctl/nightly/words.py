"""What a night says of a cell, and of itself, as sentences; and its Markdown summary."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.nightly.record import CellResult, Night, State
from labctl.report.markdown import escaped

_TOLD: dict[State, str] = {
    "same": "as in the baseline, to within the margin",
    "faster": "faster than the baseline",
    "slower": "slower than the baseline, in both measurements",
    "not confirmed": "slower in the first measurement, which the second does not confirm",
    "not measured again": "slower in the first measurement, and could not be measured again",
    "cannot tell": "cannot tell",
    "new baseline": "new baseline",
    "no baseline": "nothing to compare with",
    "failed": "failed",
    "failed once": "failed once",
    "missing": "not measured",
}
_COUNTED: dict[State, tuple[str, str]] = {
    "slower": ("is slower than the baseline, twice", "are slower than the baseline, twice"),
    "failed": ("failed", "failed"),
    "missing": ("was missing", "were missing"),
    "not measured again": (
        "looked slower and could not be measured again",
        "looked slower and could not be measured again",
    ),
    "faster": ("is faster", "are faster"),
    "not confirmed": ("looked slower once and not twice", "looked slower once and not twice"),
    "cannot tell": ("cannot be told", "cannot be told"),
    "new baseline": ("has tonight's as its new baseline", "have tonight's as their new baseline"),
    "no baseline": ("has no baseline", "have no baseline"),
}
"""What is said of one cell (one target, of "missing"), and of several."""
_FIRST: tuple[State, ...] = (
    "slower",
    "failed",
    "not measured again",
    "missing",
    "not confirmed",
    "failed once",
    "faster",
)
"""States that a reader should see first, in this order."""


def sentence(cell: CellResult) -> str:
    """All that is known of a cell, without its name."""
    said = _TOLD[cell.state]
    if cell.ratio is not None:
        said += f": it takes {cell.ratio} times as long"
    if cell.again is not None:
        said += f", measured again {cell.again} times"
    return f"{said}: {cell.reason}" if cell.reason else said


def headline(night: Night) -> str:
    """The night in one sentence."""
    bad = "; ".join(_counts(night, "slower", "failed", "missing", "not measured again"))
    if night.outcome == "given up":
        return f"The night was given up: {night.why}"
    if night.outcome == "regressed":
        return f"Regressed: {bad}"
    if night.outcome == "failed":
        return f"Failed: {bad}"
    if night.outcome == "partial":
        return f"Nothing regressed, but not all was measured: {bad}"
    compared = len(night.having("same", "faster", "not confirmed", "cannot tell"))
    more = _counts(night, "faster", "not confirmed", "cannot tell", "new baseline", "no baseline")
    if compared == 1:
        more.insert(0, "the one cell compared is not slower than the baseline")
    elif compared:
        more.insert(0, f"of {compared} cells compared none is slower than the baseline")
    return f"Passed: {'; '.join(more)}"


def _counts(night: Night, *states: State) -> list[str]:
    """ "3 cells are slower than ..." for each of the states that occur."""
    found = []
    for state in states:
        cells = night.having(state)
        named = sorted({cell.target for cell in cells})
        one, many = _COUNTED[state]
        if state == "missing":
            found += [f"{', '.join(named)} {one if len(named) == 1 else many}"] if named else []
        elif cells:
            found.append(f"one cell {one}" if len(cells) == 1 else f"{len(cells)} cells {many}")
    return found


def notable(night: Night) -> list[str]:
    """A sentence for each cell that stands out, the worst first."""
    return [
        f"{cell.target}, {cell.work}: {sentence(cell)}" for s in _FIRST for cell in night.having(s)
    ]


def causes(night: Night) -> list[str]:
    """What else is not as in the baseline on the targets that became slower."""
    found = {
        f"{cell.target}: {cause}": None for cell in night.having("slower") for cause in cell.causes
    }
    return list(found)


def summary(night: Night) -> str:
    """The night in Markdown, for a job's summary or a mail: what happened first, then all."""
    lines = [f"# Night {escaped(night.night)}", "", f"**{escaped(headline(night))}**", ""]
    lines += _list("What stands out", notable(night))
    lines += _list("What else is not as in the baseline", causes(night))
    lines += _list("The baseline", night.changes)
    lines += ["## All cells", ""]
    lines += _table(night.cells)
    lines += [
        "",
        f"Ratios are of the time an operation, tonight / baseline, with the 95 % interval that "
        f"holds for all thread counts of a line's target and workload at once. Slower is what "
        f"lies beyond {1 + night.margin:.3g} with its whole interval, twice. Runs: "
        + ", ".join(f"`{run}`" for run in _runs(night))
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _runs(night: Night) -> list[str]:
    again = [night.again] if night.again_missing is not None else []
    based = sorted({cell.baseline for cell in night.cells if cell.baseline})
    return [night.run, *again, *based]


def _list(title: str, items: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {escaped(item)}" for item in items), ""] if items else []


def _table(cells: Sequence[CellResult]) -> list[str]:
    lines = [
        "| target | workload | threads | tonight / baseline | again | result |",
        "|---|---|--:|--:|--:|---|",
    ]
    for cell in cells:
        said = _TOLD[cell.state] + (f": {cell.reason}" if cell.reason else "")
        work = " ".join(filter(None, (cell.workload, cell.params)))
        parts = (
            cell.target,
            work,
            "" if cell.threads is None else str(cell.threads),
            str(cell.ratio or ""),
            str(cell.again or ""),
            said,
        )
        lines.append("| " + " | ".join(escaped(part) for part in parts) + " |")
    return lines
