"""The files of a finished night: the report of its runs, the summary, and JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labctl.analysis import Run
from labctl.analysis.words import plain
from labctl.nightly.junit import to_junit
from labctl.nightly.record import Night
from labctl.nightly.words import headline, notable, summary
from labctl.paths import write_atomic
from labctl.report import build_report, to_json
from labctl.report.forms import Forms
from labctl.workloads import Workload


def write(night: Night, runs: Run, directory: Path, workloads: Mapping[str, Workload]) -> None:
    """Write report.html, report.json, summary.md and junit.xml.

    Args:
        runs: the night's and its baseline's, as one (labctl.nightly.compared).
    """
    model = build_report(runs, workloads=workloads)
    title = f"Night {night.night}. {headline(night)}"
    notes = [*(plain(text) for text in [*notable(night), *night.changes]), *model.notes]
    model = model.model_copy(update={"title": plain(title), "notes": notes})
    Forms(directory / "report.html").write(model)
    write_atomic(directory / "report.json", to_json(model) + "\n")
    write_atomic(directory / "summary.md", summary(night))
    write_atomic(directory / "junit.xml", to_junit(night))
