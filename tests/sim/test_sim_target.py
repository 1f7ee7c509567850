"""Simulated targets through the command line: the real planner, runner and journal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from labctl import machines
from labctl.lab import load_lab
from labctl.sim.experiment import Experiments, Side
from labctl.sim.model import SimulatedMachine
from labctl.sim.spec import Times
from labctl.sweep.aggregate import counted, samples_frame
from labctl.sweep.journal import iterate, read_journal
from labctl.sweep.plan import Design
from labctl.sweep.records import FactsRecord
from tests.conftest import Labctl
from tests.sweep.test_kill_and_resume import check_exactly_once, kill_and_resume

TIMES = """\
{base_us: 2.0, factor: 1.3, growth: {law: power, exponent: 0.3}, drift: {wander: 0.05, wander_minutes: 1},
 noise: {process_correlation: 0.4, batch_correlation: 0.3, freedom: 5}, warmup: {factor: 1.1}}"""
LAB = f"""\
lab: made-up
targets:
  one: {{kind: sim, seed: 7, guest: true, times: {TIMES}}}
  other: {{kind: sim, seed: 7, times: {TIMES}}}
pairs: [{{guest: one, metal: other}}]
"""
SWEEP = ("sweep", "eptest", "--seed", "7", "--threads", "1,4", "--rounds", "3")
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "sim.yaml"


def prepared(labctl: Labctl, text: str = LAB) -> Labctl:
    (labctl.directory / "lab.yaml").write_text(text)
    return labctl


def runs(labctl: Labctl) -> list[Path]:
    return sorted((labctl.directory / "results").glob("[!.]*"))


def times_of(run: Path) -> np.ndarray:
    """us an operation, shape (targets, threads, boots, rounds, batches)."""
    rows = counted(samples_frame(iterate(run / "journal.jsonl")))
    keys = ["target", "threads", "boot", "round", "batch"]
    shape = [rows[key].nunique() for key in keys]
    return rows.sort_values(keys)["us_per_op"].to_numpy().reshape(shape)


def test_a_sweep_takes_the_numbers_that_are_drawn_at_once(labctl: Labctl) -> None:
    prepared(labctl)(*SWEEP, "--boots", "2")
    (run,) = runs(labctl)
    times = TypeAdapter(Times).validate_python(
        load_lab(labctl.directory / "lab.yaml", images=()).targets["one"].times  # type: ignore[union-attr]
    )
    sides = [
        Side(SimulatedMachine(times, name=name, host="simulated sim")) for name in ("one", "other")
    ]
    drawn = Experiments(*sides, design=Design(boots=2, rounds=3), threads=(1, 4), seeds=[7])
    assert times_of(run) == pytest.approx(np.exp(drawn.logs[0]), rel=1e-6)
    boots = {
        (r.target, r.boot): r.boot_id
        for r in read_journal(run).records
        if isinstance(r, FactsRecord)
    }
    assert len(set(boots.values())) == 4


def test_what_is_forgotten_begins_anew_and_what_is_not_goes_on(labctl: Labctl) -> None:
    prepared(labctl)("up")
    for step in (SWEEP, SWEEP, ("destroy", "--yes"), SWEEP):
        labctl(*step)
    first, second, anew = (times_of(run) for run in runs(labctl))
    assert np.array_equal(first, anew)
    assert not np.any(first == second)


@pytest.mark.slow
def test_a_killed_sweep_is_resumed(labctl: Labctl) -> None:
    sweep = [*SWEEP[1:], "--rounds", "150", "--boots", "2"]
    run = kill_and_resume(prepared(labctl), sweep, kills=3, longest_s=1.5)
    check_exactly_once(run)
    header = read_journal(run).header
    assert {t["kind"] for t in header.targets.values()} == {"sim"}


def test_another_model_is_another_machine(labctl: Labctl) -> None:
    prepared(labctl)(*SWEEP)
    (run,) = runs(labctl)
    journal = run / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if '"type":"begin"' in line)
    journal.write_text("".join(lines[: last + 1]))
    prepared(labctl, LAB.replace("base_us: 2.0", "base_us: 2.1"))
    error = labctl("sweep", "--resume", "latest", status=2).stderr
    assert "model changed" in error
    prepared(labctl)("sweep", "--resume", "latest")


def test_a_machine_that_may_not_be_rebooted_has_one_boot(labctl: Labctl) -> None:
    text = LAB.replace("other: {kind: sim,", "other: {kind: sim, reboot: false,")
    prepared(labctl, text)(*SWEEP, "--boots", "3")
    (run,) = runs(labctl)
    boots: dict[str, set[str]] = {}
    for record in read_journal(run).records:
        if isinstance(record, FactsRecord):
            boots.setdefault(record.target, set()).add(record.boot_id)
    assert {name: len(ids) for name, ids in boots.items()} == {"one": 3, "other": 1}


def test_it_is_said_everywhere_that_it_is_simulated(labctl: Labctl) -> None:
    prepared(labctl)("up")
    assert all("simulated" in line for line in labctl("status").stdout.splitlines()[1:])
    labctl("deploy")
    labctl("deploy", "--force")
    labctl("down")
    labctl(*SWEEP)
    report = labctl("report").stdout
    assert "simulated" in report
    targets = read_journal(runs(labctl)[0]).header.targets
    assert targets["one"]["builds"]["eptest"]["origin"] == "simulated"
    error = labctl("ssh", "one", status=2).stderr
    assert "lab.yaml:3" in error and "nothing to log in to" in error
    assert "has no console" in labctl("console", "one", status=2).stderr


def test_a_program_does_not_measure_by_hand(labctl: Labctl) -> None:
    prepared(labctl)("up")
    lab = load_lab(labctl.directory / "lab.yaml", images=())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in labctl.env.items():
            patch.setenv(name, value)
        target = machines.make_target(lab, "one", {})
        target.connect()
        try:
            by_hand = target.run(f"{target.workdir}/bin/eptest 4 1000")
            shell = target.shell()
            assert list(shell.stream(f"{target.workdir}/bin/eptest --threads", timeout=5)) == []
            wrong = shell.last
            assert list(shell.stream("echo to a real shell", timeout=5)) == ["to a real shell"]
            assert [target.run(f"uname {o}").stdout for o in ("", "-s", "-r")] == [
                "Linux\n"
            ] * 2 + ["6.1.0-sim\n"]
        finally:
            target.close()
    assert by_hand.status == 69 and "simulated" in by_hand.stderr
    assert wrong.status == 64 and wrong.stderr


def test_facts_are_those_of_the_lab_file(labctl: Labctl) -> None:
    facts = "facts: {kernel: 5.10.0-old, cpus_online: 2, image: debian-12}"
    prepared(
        labctl, LAB.replace("{kind: sim, seed: 7, guest", f"{{kind: sim, {facts}, seed: 7, guest")
    )
    labctl(*SWEEP)
    first = {
        r.target: r.facts
        for r in read_journal(runs(labctl)[0]).records
        if isinstance(r, FactsRecord)
    }
    assert (first["one"]["kernel"], first["one"]["cpus_online"]) == ("5.10.0-old", 2)
    assert (first["one"]["hypervisor"], first["other"]["hypervisor"]) == ("kvm", "none")
    assert first["one"]["image"] == "debian-12"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("base_us: 2.0", "base: 2.0", 3, "did you mean base_us"),
        ("freedom: 5", "freedom: 1", 4, "above 2"),
        ("base_us: 2.0", "base_us: fast", 3, "a number is wanted"),
        ("base_us: 2.0", "base_us: .inf", 3, "a finite number"),
        ("freedom: 5", "fredom: 5", 4, "did you mean freedom"),
        ("exponent: 0.3", "slope: 0.3", 3, "slope is not of the law power"),
        ("law: power", "law: cubic", 3, "'flat', 'linear', 'power'"),
        ("seed: 7", "seed: -7", 3, "at least 0"),
        ("seed: 7", "sead: 7", 3, "did you mean seed"),
    ],
)
def test_a_wrong_model_is_an_error_with_its_line(
    labctl: Labctl, old: str, new: str, line: int, message: str
) -> None:
    error = prepared(labctl, LAB.replace(old, new, 1))("status", status=2).stderr
    assert f"lab.yaml:{line}" in error and message in error


@pytest.mark.parametrize(
    ("facts", "message"),
    [("kernle: x", "did you mean kernel"), ("cpus_online: many", "cannot be 'many'")],
)
def test_a_wrong_fact_is_an_error_with_its_line(labctl: Labctl, facts: str, message: str) -> None:
    text = (
        f"lab: x\ntargets:\n  good: {{kind: sim}}\n  bad:\n    kind: sim\n    facts: {{{facts}}}\n"
    )
    done = prepared(labctl, text)("up", status=2)
    assert message in done.stderr and "lab.yaml:6" in done.stderr


def test_the_example_of_the_documents_measures(labctl: Labctl) -> None:
    prepared(labctl, EXAMPLE.read_text())
    labctl("sweep", "eptest", "--rounds", "2")
    assert "loud" in labctl("report").stdout
