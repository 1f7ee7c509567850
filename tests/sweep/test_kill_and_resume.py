"""A sweep killed at random instants and resumed: exactly the planned samples, none twice.

Nothing is simulated: the process gets SIGKILL, the workloads are real. The instants are
random and their seed is printed, so that a failure can be looked at again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from labctl.sweep.journal import read_journal
from labctl.sweep.records import EndRecord, Note, Sample
from tests.conftest import Labctl

SEED = int(os.environ.get("LABCTL_TEST_SEED", str(time.time_ns() % 10_000)))


def counted(run: Path) -> Counter[tuple[int, int]]:
    """(execution, batch) of every sample that counts, and how often it is there."""
    view = read_journal(run)
    complete = {(r.execution, r.attempt) for r in view.records if isinstance(r, EndRecord)}
    return Counter(
        (r.execution, r.batch)
        for r in view.records
        if isinstance(r, Sample) and not r.warmup and (r.execution, r.attempt) in complete
    )


def kill_and_resume(labctl: Labctl, sweep: list[str], kills: int, longest_s: float) -> Path:
    """Start a sweep, kill it ``kills`` times, resume each time; returns the run's directory."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    process = labctl.start("sweep", *sweep)
    results = labctl.directory / "results"
    while not list(results.glob("[!.]*/journal.jsonl")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    (run,) = results.glob("[!.]*")
    landed = 0
    for _ in range(kills):
        time.sleep(rng.uniform(0, longest_s))
        if process.poll() is None:
            landed += 1
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        process = labctl.start("sweep", "--resume", run.name)
    text = process.communicate(timeout=300)[0]
    assert process.returncode == 0, text
    assert landed >= kills // 2, f"only {landed} of {kills} kills met a running sweep"
    return run


def check_exactly_once(run: Path) -> None:
    view = read_journal(run)
    planned = {(e.id, b) for e in view.executions for b in range(view.batches[e.id])}
    found = counted(run)
    assert set(found) == planned
    assert set(found.values()) == {1}


@pytest.mark.slow
def test_killed_at_twenty_random_instants_on_this_machine(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    labctl("up")
    sweep = ["eptest", "--threads", "1,2,4", "--rounds", "20", "--min-batch-ms", "60"]
    run = kill_and_resume(labctl, sweep, kills=20, longest_s=1.6)
    check_exactly_once(run)
    assert max(read_journal(run).attempts.values()) > 1
    assert "interrupted" in labctl("report", run.name).stdout


@pytest.mark.slow
def test_an_adaptive_sweep_killed_at_random_instants(labctl: Labctl) -> None:
    """Its phases go on from where they were, up to the cap, and every cell's end is recorded."""
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    labctl("up")
    sweep = ["eptest", "--threads", "1,2", "--min-batch-ms", "30", "--until", "0.01%"]
    run = kill_and_resume(labctl, [*sweep, "--at-most", "8"], kills=12, longest_s=1.6)
    check_exactly_once(run)
    view = read_journal(run)
    assert [phase.number for phase in view.phases] == list(range(1, len(view.phases) + 1))
    assert len(view.phases) > 2
    assert {stop.cell: stop.reason for phase in view.phases for stop in phase.stops} == {
        f"here/eptest/rearm=oneshot/{threads}": "cap" for threads in (1, 2)
    }
    done = labctl.json("sweep", "--resume", "latest")
    assert done["done"] == 0
    (row,) = labctl.json("runs")["runs"]
    assert row["planned"] == row["done"] == len(view.executions)
    labctl("report", run.name)


@pytest.mark.slow
def test_a_sweep_until_its_intervals_are_narrow(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    labctl("up")
    told = labctl("sweep", "eptest", "--threads", "1,2", "--min-batch-ms", "20", "--until", "90%")
    assert "2 narrow enough" in told.stderr
    asked = ("sweep", "eptest", "--threads", "1", "--min-batch-ms", "20", "--boots", "2")
    told = labctl(*asked, "--rounds", "2", "--until", "90%", "--max-time", "30s")
    assert "not rebooted (labctl runs on it): all of it is measured in one boot" in told.stderr
    (run,) = (labctl.directory / "results").glob(f"*{told.stderr.split('run ')[1].split(':')[0]}")
    stops = [stop for phase in read_journal(run).phases for stop in phase.stops]
    assert [(stop.reason, stop.boots, stop.processes) for stop in stops] == [("narrow", 1, 6)]
    assert any(
        isinstance(r, Note) and "not rebooted" in r.message for r in read_journal(run).records
    )


@pytest.mark.guest
def test_killed_at_random_instants_over_a_guest(lab: Labctl) -> None:
    sweep = ["kqtest", "--threads", "1,2", "--rounds", "8", "--min-batch-ms", "60"]
    before = set((lab.directory / "results").glob("*"))
    for old in before:
        old.rename(lab.directory / old.name)  # the helper looks for the only run
    run = kill_and_resume(lab, sweep, kills=5, longest_s=4)
    check_exactly_once(run)


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_resumes(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    labctl("up")
    process = labctl.start("sweep", "eptest", "--threads", "1", "--rounds", "30")
    results = labctl.directory / "results"
    while not list(results.glob("[!.]*/journal.jsonl")):
        time.sleep(0.02)
    (run,) = results.glob("[!.]*")
    while not read_journal(run).done:
        assert process.poll() is None
        time.sleep(0.05)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    text = process.communicate(timeout=30)[0]
    assert process.returncode == 130, text
    assert time.monotonic() - begun < 10
    assert f"--resume {run.name}" in text
    left = Counter(e.cell.target for e in read_journal(run).pending())
    assert 0 < left["here"] < 30
    labctl("sweep", "--resume", "latest")
    check_exactly_once(run)


@pytest.mark.slow
def test_nothing_of_a_killed_sweep_goes_on_running(labctl: Labctl) -> None:
    """The workload of a killed controller is ended before the resumed run measures."""
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    labctl("up")
    sweep = ("sweep", "eptest", "--threads", "1", "--rounds", "1", "--min-batch-ms", "20000")
    process = labctl.start(*sweep, "--batches", "1", "--warmup", "0")
    results = labctl.directory / "results"
    while not running(labctl):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (run,) = results.glob("[!.]*")
    old = set(running(labctl))  # none, if it had something to say and nobody to say it to
    resumed = labctl.start("sweep", "--resume", run.name)
    while not (now := set(running(labctl))) or now & old:
        assert resumed.poll() is None
        time.sleep(0.05)
    resumed.send_signal(signal.SIGINT)
    resumed.communicate(timeout=30)
    assert running(labctl) == []


def running(labctl: Labctl) -> list[int]:
    """Pids of workloads that this test's lab runs on this machine."""
    mine = str(labctl.environment["XDG_STATE_HOME"])
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].decode(errors="replace").startswith(mine):
            found.append(int(entry.name))
    return found
