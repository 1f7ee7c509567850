"""The files of a finished night: the report of its runs, the summary, and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labctl.analysis import Run
from labctl.analysis.words import plain
from labctl.nightly.junit import to_junit
from labctl.nightly.record import Night
from labctl.nightly.words import headline, notable, summary
from labctl.paths import write_atomic
from labctl.report import build_report, to_json, write_page
from labctl.workloads import Workload


def write(
    night: Night,
    runs: Sequence[Run],
    bases: Mapping[str, Run],
    directory: Path,
    workloads: Mapping[str, Workload],
) -> None:
    """Write report.html, report.json, summary.md and junit.xml.

    Args:
        runs: the night's measurement, and the second one where there is one.
        bases: the runs of the baseline, by name.
    """
    model = build_report(runs[0], workloads=workloads)
    said = [f"Night {night.night}: {headline(night)}", *notable(night)]
    model = model.model_copy(update={"notes": [*(plain(text) for text in said), *model.notes]})
    write_page(model, directory / "report.html")
    write_atomic(directory / "report.json", to_json(model) + "\n")
    write_atomic(directory / "summary.md", summary(night))
    write_atomic(directory / "junit.xml", to_junit(night))
