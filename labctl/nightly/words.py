"""What a night says of a cell, and of itself, as sentences; and its Markdown summary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from labctl.nightly.record import CellResult, Night, State

_TOLD: dict[State, str] = {
    "same": "as in the baseline, to within the margin",
    "faster": "faster than the baseline",
    "slower": "slower than the baseline, in both measurements",
    "not confirmed": "slower in the first measurement alone: not confirmed",
    "not measured again": "slower in the first measurement, and could not be measured again",
    "cannot tell": "cannot tell",
    "new baseline": "new baseline",
    "no baseline": "nothing to compare with",
    "failed": "failed",
    "failed once": "failed once",
    "missing": "not measured",
}
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
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@:])")


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
    counts = _counts(night, "slower", "failed", "missing", "not measured again")
    if night.outcome == "given up":
        return f"The night was given up: {night.why}"
    if night.outcome == "regressed":
        return f"Regressed: {counts}"
    if night.outcome == "failed":
        return f"Failed: {counts}"
    if night.outcome == "partial":
        return f"Nothing regressed, but not all was measured: {counts}"
    told = _counts(night, "faster", "not confirmed", "cannot tell", "new baseline", "no baseline")
    compared = len(night.having("same", "faster", "not confirmed", "cannot tell"))
    what = f"of {compared} cells none is slower than the baseline" if compared else "no comparison"
    return f"Passed: {what}" + (f" ({told})" if told else "")


def _counts(night: Night, *states: State) -> str:
    numbers = [(state, len(night.having(state))) for state in states]
    return ", ".join(f"{number} {state}" for state, number in numbers if number)


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
    lines = [f"# Night {_md(night.night)}", "", f"**{_md(headline(night))}**", ""]
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
    return [f"## {title}", "", *(f"- {_md(item)}" for item in items), ""] if items else []


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
        lines.append("| " + " | ".join(_md(part) for part in parts) + " |")
    return lines


def _md(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
