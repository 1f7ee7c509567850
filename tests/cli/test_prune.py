"""`labctl runs prune`: what goes, and what must not."""

from datetime import UTC, datetime, timedelta

import pytest
from filelock import FileLock

from labctl.sweep.prune import choose
from labctl.sweep.runs import RunRow
from tests.conftest import Labctl

NOW = datetime(2030, 1, 10, tzinfo=UTC)
LAB = """\
lab: pruned
targets: {one: {kind: sim}}
nightly: {workloads: [eptest], threads: [1], design: {boots: 1, rounds: 2}}
"""


def row(name: str, days: float, damage: str = "") -> RunRow:
    created = (NOW - timedelta(days=days)).isoformat()
    return RunRow(name, created, ["eptest"], ["one"], 1, 1, 0, 10, damage=damage)


ROWS = [row("a", 9), row("b", 5), row("broken", 0, "damaged"), row("c", 3), row("d", 1)]


@pytest.mark.parametrize(
    ("keep", "days", "gone"),
    [
        (2, None, ["a", "b"]),
        (None, 4.0, ["a", "b"]),
        (0, None, ["a", "b", "c", "d"]),
        (1, 4.0, ["a", "b"]),
        (4, 4.0, ["a"]),
    ],
)
def test_what_may_go(keep: int | None, days: float | None, gone: list[str]) -> None:
    age = None if days is None else timedelta(days=days)
    choice = choose(ROWS, {}, keep=keep, older_than=age, now=NOW)
    assert [r.run for r in choice.remove] == gone
    assert set(choice.stay) == {r.run for r in ROWS} - set(gone)


def test_what_is_needed_stays() -> None:
    choice = choose(ROWS, {"a": "why"}, keep=0, older_than=None, now=NOW)
    assert choice.stay["a"] == "why"
    assert "a" not in [r.run for r in choice.remove]


def test_baselines_and_what_is_being_measured_stay(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    labctl("nightly")
    labctl("nightly")
    labctl("nightly")
    for seed in ("1", "2"):
        labctl("sweep", "eptest", "--threads", "1", "--rounds", "1", "--seed", seed)
    before = [r["run"] for r in labctl.json("runs")["runs"]]
    results = labctl.directory / "results"
    assert "which runs are to go" in labctl("runs", "prune", status=2).stderr
    assert "--yes" in labctl("runs", "prune", "--keep", "0", status=2).stderr
    dry = labctl.json("runs", "prune", "--keep", "0", "--dry-run")
    assert [r["run"] for r in labctl.json("runs")["runs"]] == before
    with FileLock(results / before[3] / ".lock"):
        done = labctl.json("runs", "prune", "--keep", "0", "--yes")
    assert done["removed"] == [before[1], before[4]]
    assert dry["removed"] == [before[1], before[3], before[4]]
    assert done["freed_bytes"] > 0
    assert [r["run"] for r in labctl.json("runs")["runs"]] == [before[0], before[2], before[3]]
    assert sorted(p.name for p in results.iterdir() if p.name.startswith(".")) == [
        ".baseline.json.lock"
    ]
    labctl("nightly")  # its baseline is there still
