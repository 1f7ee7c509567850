"""`labctl runs prune`: what goes, and what must not."""

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from filelock import FileLock

from labctl.errors import ConfigError
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
        (3, 4.0, ["a"]),
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


def test_runs_go_by_their_directories(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    results = labctl.directory / "results"
    shutil.copytree(results / run, results / "copy")
    (results / "link").symlink_to(run)
    assert {row["run"] for row in labctl.json("runs")["runs"]} == {run, "copy", "link"}
    done = labctl("-v", "runs", "prune", "--keep", "0", "--yes")
    assert "2 of 3 runs" in done.stderr
    assert "link stays: it is a symbolic link" in done.stderr
    assert sorted(p.name for p in results.iterdir()) == ["link"]


def test_two_that_prune_at_once_both_end_well(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    results = labctl.directory / "results"
    for number in range(40):
        shutil.copytree(results / run, results / f"copy{number}")
    command = labctl.command("runs", "prune", "--keep", "0", "--yes", "--json")
    both = [
        subprocess.Popen(
            command, cwd=labctl.directory, env=labctl.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    removed = []
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        removed += json.loads(out)["removed"]
    assert len(removed) == len(set(removed)), "each is removed once"
    left = {path.name for path in results.iterdir()}
    assert left.isdisjoint(removed)
    assert left | set(removed) == {run, *(f"copy{n}" for n in range(40))}


@pytest.mark.parametrize("days", ["inf", "nan", "1e400", "-1", "99999999999"])
def test_an_age_that_is_none_is_refused(labctl: Labctl, days: str) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    assert "--older-than" in labctl("runs", "prune", "--older-than", days, status=2).stderr


def test_a_file_in_the_place_of_the_results_is_said(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    (labctl.directory / "results").touch()
    for verb in (["runs"], ["report"], ["sweep", "eptest"]):
        assert "it is no directory" in labctl(*verb, status=2).stderr


@pytest.mark.slow
def test_baselines_and_what_is_being_measured_stay(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    labctl("nightly")
    labctl("nightly")
    labctl("nightly", "--directory", "elsewhere")
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


def test_only_runs_that_were_measured_count_among_the_latest() -> None:
    rows = [row("a", 3), row("b", 2), replace(row("old", 1), imported=True), row("broken", 0, "x")]
    choice = choose(rows, {}, keep=1, older_than=None, now=NOW)
    assert [r.run for r in choice.remove] == ["a"]


def test_a_run_that_may_not_be_removed_stays_whole(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    results = labctl.directory / "results"
    monkeypatch.setattr(
        "labctl.sweep.prune.check_directory", Mock(side_effect=ConfigError("no", where=run))
    )
    assert run in labctl("runs", "prune", "--keep", "0", "--yes", status=2).stderr
    assert [path.name for path in results.iterdir()] == [run]


def test_a_renamed_run_is_gone_on_with_by_its_directory(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    results = labctl.directory / "results"
    (results / run).rename(results / "mine")
    assert "labctl report mine" in labctl("sweep", "--resume", "mine").stderr
    shutil.copytree(results / "mine", results / "copy")
    assert "two copies of one run" in labctl("compare", "mine", "copy", status=2).stderr


def test_a_hostile_directory_is_text(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    results = labctl.directory / "results"
    (results / run).rename(results / "a\x1b[31mb[red]c")
    said = labctl("runs").stdout
    assert "\x1b" not in said
    assert "b[red]c" in said


def test_going_on_with_a_run_that_is_done_leaves_it_as_it_is(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(LAB)
    run = labctl.json("sweep", "eptest", "--threads", "1", "--rounds", "1")["run"]
    journal = labctl.directory / "results" / run / "journal.jsonl"
    before = journal.read_bytes()
    labctl("sweep", "--resume", run)
    assert journal.read_bytes() == before
