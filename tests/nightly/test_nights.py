"""Whole nights on simulated machines: the real planner, runner, journal, statistics and gate."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import Labctl

QUIET = "noise: {boot: 0.005, process: 0.01, batch: 0.01}"
NIGHTLY = "nightly: {workloads: [eptest], threads: [1, 4], design: {boots: 6, rounds: 2}}"


def lab(labctl: Labctl, *, two_us: float = 2.0, more: str = "", facts: str = "") -> None:
    """A lab of two simulated machines; the time of the second is ``two_us``."""
    (labctl.directory / "lab.yaml").write_text(
        f"""\
lab: nights
targets:
  one: {{kind: sim, machine: a, times: {{base_us: 2.0, {QUIET}}}}}
  two: {{kind: sim, machine: b, times: {{base_us: {two_us}, {QUIET}}}, facts: {{{facts}}}}}
{NIGHTLY}
{more}
"""
    )


def latest(labctl: Labctl) -> dict[str, Any]:
    """The record of the night that was finished last."""
    path = labctl.directory / "results" / "nightly" / "latest" / "night.json"
    night: dict[str, Any] = json.loads(path.read_text())
    return night


def states(labctl: Labctl) -> dict[tuple[str, int | None], str]:
    """What the latest night says of each target and thread count."""
    return {(cell["target"], cell["threads"]): cell["state"] for cell in latest(labctl)["cells"]}


def baseline(labctl: Labctl) -> dict[str, str]:
    """Target -> run that it is compared with."""
    found = json.loads((labctl.directory / "results" / "baseline.json").read_text())
    return {r["target"]: r["run"] for r in found["references"]}


def junit(labctl: Labctl) -> ET.Element:
    """The latest night's JUnit document."""
    return ET.parse(labctl.directory / "results" / "nightly" / "latest" / "junit.xml").getroot()


def test_the_first_night_becomes_the_baseline_and_an_unchanged_lab_passes(labctl: Labctl) -> None:
    lab(labctl)
    said = labctl("nightly").stderr
    assert "two, eptest: tonight's run is the new baseline: there was no baseline" in said
    first = baseline(labctl)
    assert set(states(labctl).values()) == {"new baseline"}
    labctl("nightly")
    assert set(states(labctl).values()) == {"same"}
    assert latest(labctl)["outcome"] == "passed"
    assert baseline(labctl) == first
    directory = labctl.directory / "results" / "nightly" / "latest"
    names = {"report.html", "report.json", "summary.md", "junit.xml", "night.json"}
    assert {path.name for path in directory.iterdir()} == names
    assert "none is slower than the baseline" in (directory / "summary.md").read_text()
    report = json.loads((directory / "report.json").read_text())
    assert {pair["subject"] for s in report["sections"] for pair in s["pairs"]} == {"change"}


@pytest.mark.slow
def test_a_slowdown_fails_with_the_cells_named_until_it_is_accepted(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    first = baseline(labctl)
    lab(labctl, two_us=2.3)
    done = labctl("nightly", status=1)
    assert "Regressed: 2 cells are slower than the baseline, twice" in done.stderr
    assert re.search(r"two, eptest rearm=oneshot, 4 threads: slower than the baseline", done.stderr)
    assert states(labctl) == {
        ("one", 1): "same", ("one", 4): "same", ("two", 1): "slower", ("two", 4): "slower",
    }  # fmt: skip
    again = (labctl.directory / "results" / latest(labctl)["again"] / "journal.jsonl").read_text()
    measured = {e["cell"]["target"] for e in json.loads(again.partition("\n")[0])["executions"]}
    assert measured == {"two"}, "just the cells that stood out are measured again"
    failures = [case for case in junit(labctl).iter("testcase") if case.find("failure") is not None]
    assert [case.get("classname") for case in failures] == ["eptest.two", "eptest.two"]
    assert baseline(labctl) == first
    labctl("nightly", "--accept")
    assert set(baseline(labctl).values()) == {latest(labctl)["run"]} != set(first.values())
    labctl("nightly")
    assert set(states(labctl).values()) == {"same"}


@pytest.mark.slow
def test_what_became_faster_is_said_and_does_not_fail(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    lab(labctl, two_us=1.6)
    assert "4 threads: faster than the baseline" in labctl("nightly").stderr
    assert states(labctl)["two", 4] == "faster"
    assert not latest(labctl)["again_missing"]


@pytest.mark.slow
def test_another_kernel_is_a_new_baseline_and_another_command_line_is_not(labctl: Labctl) -> None:
    lab(labctl, facts="cmdline: quiet")
    labctl("nightly")
    first = baseline(labctl)
    lab(labctl, two_us=2.5, facts="cmdline: quiet slub_debug=F")
    said = labctl("nightly", status=1).stderr
    assert "slub_debug=F" in said
    assert baseline(labctl) == first
    lab(labctl, two_us=2.5, facts="kernel: 6.12.0-sim")
    said = labctl("nightly").stderr
    assert "two, eptest: tonight's run is the new baseline: kernel 6.1.0-sim -> 6.12.0-sim" in said
    assert states(labctl)["two", 1] == "new baseline"
    assert states(labctl)["one", 1] == "same"
    assert baseline(labctl)["one"] == first["one"]
    assert baseline(labctl)["two"] == latest(labctl)["run"]


@pytest.mark.slow
def test_a_target_that_is_missing_is_exit_code_4_and_keeps_its_baseline(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    first = baseline(labctl)
    text = (labctl.directory / "lab.yaml").read_text()
    off = "  two: {kind: ssh, host: 127.0.0.1, port: 1, workdir: /nowhere}\n"
    (labctl.directory / "lab.yaml").write_text(re.sub(r"  two: .*\n", off, text))
    said = labctl("nightly", status=4).stderr
    assert "Nothing regressed, but not all was measured: two was missing" in said
    assert states(labctl) == {("one", 1): "same", ("one", 4): "same", ("two", None): "missing"}
    assert junit(labctl).find("testsuite").get("skipped") == "1"  # type: ignore[union-attr]
    assert baseline(labctl) == first
    (labctl.directory / "lab.yaml").write_text(
        re.sub(r"  one: .*\n", "", (labctl.directory / "lab.yaml").read_text())
    )
    labctl("nightly", status=3)


@pytest.mark.slow
def test_a_cell_that_the_baseline_does_not_have_is_said(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly", "--threads", "1")
    labctl("nightly")
    assert states(labctl)["one", 4] == "no baseline"
    assert states(labctl)["one", 1] == "same"


@pytest.mark.slow
def test_a_baseline_whose_run_is_gone_is_said(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    run = baseline(labctl)["one"]
    (labctl.directory / "results" / run).rename(labctl.directory / "elsewhere")
    assert f"the baseline's run {run} is gone" in labctl("nightly").stderr
    assert baseline(labctl)["one"] == latest(labctl)["run"]


@pytest.mark.slow
def test_batches_have_the_operations_of_the_baseline(labctl: Labctl) -> None:
    def operations(run: str) -> dict[str, int]:
        journal = labctl.directory / "results" / run / "journal.jsonl"
        records = [json.loads(line) for line in journal.read_text().splitlines()]
        return {r["cell"]: r["ops"] for r in records if r["type"] == "calibration"}

    lab(labctl)
    labctl("nightly")
    first = operations(baseline(labctl)["one"])
    lab(labctl, two_us=4.2)  # by itself it would halve them
    labctl("nightly", status=1)
    assert operations(latest(labctl)["run"]) == operations(latest(labctl)["run"]) | first
    assert operations(latest(labctl)["again"]).items() <= first.items()


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.4, 1.2, 2.0, 2.8])
def test_a_night_that_was_killed_goes_on(tmp_path: Path, after: float) -> None:
    labctl = Labctl(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "s")})
    lab(labctl)
    labctl("nightly")
    lab(labctl, two_us=2.3)
    process = labctl.start("nightly")
    time.sleep(after)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    labctl("nightly", status=1)
    assert states(labctl)["two", 4] == "slower"
    nights = [p for p in (tmp_path / "results" / "nightly").iterdir() if p.name[0] == "2"]
    assert len(nights) == 2, "the night that was killed is the one that was finished"
    for run in (latest(labctl)["run"], latest(labctl)["again"]):
        done = [row for row in labctl.json("runs")["runs"] if row["run"] == run]
        assert [row["done"] for row in done] == [row["planned"] for row in done] != []


@pytest.mark.slow
def test_a_night_does_not_go_on_with_another_kernel(tmp_path: Path) -> None:
    labctl = Labctl(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "s")})
    lab(labctl)
    process = labctl.start("nightly", "--rounds", "60")
    while not (found := list((tmp_path / "results").glob("2*/journal.jsonl"))) or (
        '"sample"' not in found[0].read_text()
    ):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    lab(labctl, facts="kernel: 6.12.0-sim")
    said = labctl("nightly", "--rounds", "60").stderr
    assert "cannot go on: two is not what this run began with: kernel changed" in said
    assert set(states(labctl).values()) == {"new baseline"}
    outcomes = [
        json.loads(path.read_text())["outcome"]
        for path in sorted((tmp_path / "results" / "nightly").glob("2*/night.json"))
    ]
    assert outcomes == ["given up", "passed"]


@pytest.mark.slow
def test_another_request_is_another_night(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    night = labctl.directory / "results" / "nightly" / latest(labctl)["night"]
    record = json.loads((night / "night.json").read_text())
    record |= {"finished": "", "outcome": "", "missing": None}
    (night / "night.json").write_text(json.dumps(record))
    assert "was not finished, and is given up" in labctl("nightly", "--threads", "1").stderr
    assert json.loads((night / "night.json").read_text())["outcome"] == "given up"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accept"], "there is no finished night"),
        (["--accept", "--rounds", "3"], "nothing is measured; rounds says nothing"),
        (["--targets", "nobody"], "no target 'nobody'"),
        (["kqtset"], "did you mean kqtest"),
        (["--param", "rearm=never"], "'never' is not one of"),
        (["--directory", ""], "names no file"),
        (["--directory", "lab.yaml"], "no directory"),
    ],
)
def test_wrong_words_are_exit_code_2_and_nothing_is_begun(
    labctl: Labctl, arguments: list[str], message: str
) -> None:
    lab(labctl)
    assert message in " ".join(labctl("nightly", *arguments, status=2).stderr.split())
    assert not list(labctl.directory.glob("results/*/2*"))


def test_wrong_words_do_not_give_up_a_night_that_was_killed(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    path = labctl.directory / "results" / "nightly" / latest(labctl)["night"] / "night.json"
    record = json.loads(path.read_text()) | {"finished": "", "outcome": "", "missing": None}
    path.write_text(json.dumps(record))
    labctl("nightly", "kqtset", status=2)
    labctl("nightly", "--param", "rearm=never", status=2)
    assert json.loads(path.read_text()) == record
    assert "going on with the night" in labctl("nightly").stderr


@pytest.mark.parametrize("place", ["results", "results/nightly", "results/nightly/latest"])
def test_what_is_in_the_way_is_said_before_anything_is_measured(labctl: Labctl, place: str) -> None:
    lab(labctl)
    path = labctl.directory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if place.endswith("latest") else path.touch()
    said = labctl("nightly", status=2).stderr.replace("\n", "")
    assert str(path) in said
    assert not list(labctl.directory.glob("results/2*"))


def test_a_damaged_baseline_is_not_taken_for_none(labctl: Labctl) -> None:
    lab(labctl)
    labctl("nightly")
    path = labctl.directory / "results" / "baseline.json"
    whole = path.read_text()
    for damage in (whole[:-40].encode(), b"\xff", b"[]", b'{"references": [{"target": 1}]}'):
        path.write_bytes(damage)
        said = labctl("nightly", status=2).stderr
        assert "this is not a baseline" in said
        assert "the next night becomes the baseline" in said
        assert "pydantic" not in said
        assert "_File" not in said


def test_without_a_workload_it_says_where_to_name_one(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text("lab: x\ntargets: {one: {kind: sim}}\n")
    assert "nightly: {workloads: [kqtest]}" in labctl("nightly", status=2).stderr


def test_two_nights_at_once_are_refused(labctl: Labctl) -> None:
    from filelock import FileLock

    lab(labctl)
    directory = labctl.directory / "results" / "nightly"
    directory.mkdir(parents=True)
    with FileLock(directory / ".lock"):
        assert "another labctl nightly" in labctl("nightly", status=3).stderr
