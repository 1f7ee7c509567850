"""The short form of benchmarks/truth.py: few experiments, so wide tolerances; seeds are fixed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # half a minute of simulated experiments

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "truth.py"
MARKS = "<!-- truth -->\nold\n<!-- /truth -->"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, float]]]:
    """First heading of each table -> row -> column -> per cent."""
    document = tmp_path_factory.mktemp("truth") / "method.md"
    document.write_text(f"before\n{MARKS}\nafter\n")
    subprocess.run(
        [sys.executable, str(BENCHMARK), "--short", "--write", str(document)],
        check=True, capture_output=True, cwd=ROOT, timeout=300,
    )  # fmt: skip
    text = document.read_text()
    assert text.startswith("before\n<!-- truth -->\n") and text.endswith(
        "\n<!-- /truth -->\nafter\n"
    )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for block in text.split("\n\n"):
        if block.startswith("|"):
            head, _, *rows = (
                [cell.strip(" *") for cell in line.strip("|").split("|")]
                for line in block.splitlines()
                if line.startswith("|")
            )
            found[head[1]] = {
                row[0]: dict(zip(head[1:], map(float, row[1:]), strict=True)) for row in rows
            }
    return found


def test_intervals_hold_the_truth(tables: dict[str, dict[str, dict[str, float]]]) -> None:
    coverage = tables["B"]
    assert len(coverage) >= 8
    for name in ("1 boot x 12 rounds (default)", "3 boots x 4 rounds", "6 boots x 2 rounds"):
        assert all(share >= 85 for share in coverage[name].values()), coverage[name]


def test_identical_machines_are_alike(tables: dict[str, dict[str, dict[str, float]]]) -> None:
    rows = tables["different"]
    assert all(row["different"] <= 5 for row in rows.values())
    drifting = rows["shared drift"]
    assert drifting["naive, any N"] > 50


def test_an_amplification_is_found(tables: dict[str, dict[str, dict[str, float]]]) -> None:
    assert tables["level"]["1 x 12"]["amplification"] >= 80


def test_boots_and_not_chance_decide_what_changed(
    tables: dict[str, dict[str, dict[str, float]]],
) -> None:
    rows = tables["slower or faster"]
    quiet = rows["6 x 4, boots that differ by 2 %"]
    assert quiet["slower or faster"] <= 5 and quiet["slower by 20%"] >= 90
    one_boot = rows["1 x 12, boots that differ by 6 %"]
    several = rows["6 x 4, boots that differ by 6 %"]
    assert several["slower or faster"] <= 5 < one_boot["slower or faster"]
    drifting = rows["6 x 4, drift of 5 %, within hours"]
    assert drifting["slower or faster"] > quiet["slower or faster"]
