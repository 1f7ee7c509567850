"""The short form of benchmarks/adaptive.py: few experiments, so wide tolerances; seeds are fixed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # simulated experiments

ROOT = Path(__file__).parents[2]


def test_intervals_hold_the_truth_where_a_sweep_stopped(tmp_path: Path) -> None:
    document = tmp_path / "sweeps.md"
    document.write_text("before\n<!-- adaptive -->\nold\n<!-- /adaptive -->\nafter\n")
    subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "adaptive.py", "--short", "--write", document],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    text = document.read_text()
    assert text.startswith("before\n<!-- adaptive -->\nMade by") and text.endswith(
        "|\n<!-- /adaptive -->\nafter\n"
    )
    rows = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 5
    for row in rows:
        fixed, *adaptive = row.strip("|").split("|")[1:]
        sizes = [float(cell.split("(")[1].rstrip(" )")) for cell in adaptive]
        assert sizes == sorted(sizes) and sizes[-1] > 2, "a narrower goal takes more"
        assert all(float(cell.split("(")[0]) >= 85 for cell in (fixed, *adaptive))
