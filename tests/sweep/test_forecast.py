"""The plan verb: time with reboots, and expected intervals from an earlier run's noise."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from labctl.sweep.plan import Design
from tests.conftest import Labctl
from tests.sweep.drawn import Drawn, Noise

LAB = """\
lab: test
targets:
  metal: {kind: local}
  linux: {kind: vm, image: debian-12}
"""
PILOT = Design(rounds=20, batches=3, warmup=1, min_batch_ms=100, seed=3)
ASK = ("plan", "eptest", "--threads", "1,2", "--targets", "metal")


@pytest.fixture
def project(labctl: Labctl) -> Labctl:
    (labctl.directory / "lab.yaml").write_text(LAB)
    return labctl


def earlier(
    project: Labctl, design: Design = PILOT, noise: Noise | None = None, **changes: object
) -> str:
    """An earlier run of this lab."""
    results = project.directory / "results"
    targets = {"metal": "local", "linux": "local"}
    run = Drawn(results, targets, design, None, noise or Noise(), **changes)  # type: ignore[arg-type]
    run.measure()
    return run.directory.name


def test_without_an_earlier_run_the_time_alone_is_told(project: Labctl) -> None:
    told = project.json(*ASK, "--boots", "3")
    assert told["based_on"] is None
    assert {cell["half_width"] for cell in told["cells"]} == {None}
    assert told["estimate_s"] > 0
    assert any("not rebooted (labctl runs on it)" in text for text in told["notices"])
    assert any("nothing is known yet of 2 of 2 cells" in text for text in told["notices"])
    assert "not known" in project(*ASK).stdout


def test_reboots_are_in_the_time(project: Labctl) -> None:
    linux = ("plan", "eptest", "--targets", "linux", "--threads", "1", "--rounds", "2")
    once = project.json(*linux, "--boots", "1")
    told = project.json(*linux, "--boots", "4")
    assert told["machines"][0]["reboots"] == 3
    assert told["machines"][0]["reboot_s"] == 45
    assert told["estimate_s"] > 4 * once["estimate_s"]
    preview = project.json("sweep", *linux[1:], "--boots", "4", "--dry-run")
    assert preview["estimate_s"] == told["estimate_s"]


def test_the_expected_interval_follows_from_the_noise_and_the_counts(project: Labctl) -> None:
    name = earlier(project, noise=Noise(batch=0.001, process=0.05))
    few = project.json(*ASK, "--rounds", "6")
    many = project.json(*ASK, "--rounds", "24")
    assert few["based_on"] == many["based_on"] == name
    for short, long in zip(few["cells"], many["cells"], strict=True):
        assert short["half_width"] == pytest.approx(0.052, rel=0.5)  # t(5) * 0.05 / sqrt(6)
        assert 2 < short["half_width"] / long["half_width"] < 3
    # A process takes what it took: three batches of 0.1 s a thread, and 0.15 s.
    assert few["estimate_s"] == pytest.approx(6 * (0.45 + 0.75) + 1, rel=0.1)


def test_until_tells_the_counts_that_it_would_take(project: Labctl) -> None:
    earlier(project, noise=Noise(batch=0.001, process=0.05))
    told = project.json(*ASK, "--until", "2%")
    assert {cell["batches"] for cell in told["cells"]} == {1}
    for cell in told["cells"]:
        assert 12 < cell["processes"] < 80
        assert cell["half_width"] <= 0.0201
    capped = project.json(*ASK, "--until", "0.1%", "--at-most", "2")
    assert all(cell["half_width"] > 0.001 for cell in capped["cells"])
    assert {cell["processes"] for cell in capped["cells"]} == {12 + 12 * 4 // 2}
    brief = project.json(*ASK, "--until", "0.1%", "--max-time", "20s")
    assert brief["estimate_s"] == 20


def test_boots_are_planned_where_they_were_measured(project: Labctl) -> None:
    design = replace(PILOT, rounds=3, boots=6)
    earlier(project, design, Noise(0.001, 0.01, 0.05), reboots={"linux": 33.0})
    told = project.json(
        "plan", "eptest", "--threads", "1,2", "--targets", "linux", "--boots", "3", "--until", "3%",
        "--at-most", "50",
    )  # fmt: skip
    assert {cell["boots"] for cell in told["cells"]} != {3}
    assert all(cell["half_width"] <= 0.0301 for cell in told["cells"])
    (machine,) = told["machines"]
    assert machine["reboot_s"] == pytest.approx(33 * machine["reboots"], rel=0.1)
    one = project.json("plan", "eptest", "--threads", "1,2", "--targets", "linux", "--boots", "1")
    assert all(math.isfinite(cell["half_width"]) for cell in one["cells"])


def test_a_run_of_one_boot_says_nothing_of_boots(project: Labctl) -> None:
    earlier(project)
    told = project.json(*ASK[:-1], "linux", "--boots", "4")
    assert any("how much boots differ is not known" in text for text in told["notices"])


def test_other_batches_and_cells_that_were_not_measured_are_said(project: Labctl) -> None:
    earlier(project, threads=(1,))
    told = project.json(*ASK, "--min-batch-ms", "50")
    assert [cell["half_width"] is None for cell in told["cells"]].count(True) == 1
    assert any("had batches of 100 ms" in text for text in told["notices"])


def test_the_run_with_most_of_the_cells_is_taken_or_the_one_named(project: Labctl) -> None:
    name = earlier(project, threads=(1, 2))
    journal = project.directory / "results" / name / "journal.jsonl"
    results = project.directory / "results"
    poor = Drawn(results / "other", {"metal": "local"}, PILOT, None, threads=(1,))
    poor.measure()
    text = (poor.directory / "journal.jsonl").read_text()
    header = json.loads(text.splitlines()[0]) | {
        "run": "poor",
        "created": "2027-01-01T00:00:00+00:00",
    }
    (results / "poor").mkdir()
    rest = text.partition("\n")[2]
    (results / "poor/journal.jsonl").write_text(
        json.dumps(header, separators=(",", ":")) + "\n" + rest
    )
    assert project.json(*ASK)["based_on"] == name
    assert project.json(*ASK, "--from", "poor")["based_on"] == "poor"
    assert journal.is_file()
    assert (
        "has none of these cells" in project("plan", "urandom", "--from", "poor", status=2).stderr
    )
    assert "there is no run 'rich'" in project(*ASK, "--from", "rich", status=2).stderr


def test_a_table_that_fits(project: Labctl) -> None:
    earlier(project)
    told = project("plan", "eptest", "--until", "1%")
    assert max(map(len, told.stdout.splitlines())) <= 100
    assert "machine local:" in told.stdout
    assert "in all about" in told.stdout


def test_plan_reads_the_environment_of_sweep(project: Labctl) -> None:
    project.environment["LABCTL_SWEEP_ROUNDS"] = "11"
    assert {cell["processes"] for cell in project.json(*ASK)["cells"]} == {11}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--until", "3"), "'3' is not a half-width"),
        (("--until", "0%"), "is not a half-width"),
        (("--until", "300%"), "is not a half-width"),
        (("--until", "3%", "--max-time", "30"), "is not a duration"),
        (("--until", "3%", "--max-time", "3y"), "is not a duration"),
        (("--max-time", "30m"), "limits an adaptive sweep"),
        (("--at-most", "5"), "limits an adaptive sweep"),
    ],
)
def test_a_goal_that_makes_no_sense(
    project: Labctl, arguments: tuple[str, ...], message: str
) -> None:
    assert message in project(*ASK, *arguments, status=2).stderr
