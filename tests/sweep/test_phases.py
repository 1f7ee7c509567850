"""Adaptive sweeps: when a cell stops, what the others do next, and that it is decided once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from labctl.stats.kalibera_jones import Costs
from labctl.stats.nested import Nested
from labctl.sweep.adaptive import open_cells, situation_of
from labctl.sweep.aggregate import samples_frame, stops_frame
from labctl.sweep.journal import JOURNAL, JournalView, read_journal
from labctl.sweep.measured import Measured
from labctl.sweep.phases import Situation, decide, half_width
from labctl.sweep.plan import Design
from labctl.sweep.records import Cell, Execution, Goal, PhaseRecord
from tests.sweep.drawn import Drawn, Noise

SMALL = Design(rounds=6, boots=1, batches=3, warmup=1, min_batch_ms=100, seed=7)
BOOTS = Design(rounds=3, boots=3, batches=3, warmup=1, min_batch_ms=100, seed=7)


def drawn(base: Path, goal: Goal, design: Design = SMALL, **changes: object) -> Drawn:
    return Drawn(base, {"metal": "m"}, design, goal, **changes)  # type: ignore[arg-type]


def test_the_half_width_is_the_t_interval_of_the_top_level() -> None:
    values = np.exp(np.random.default_rng(1).normal(0, 0.1, 24))
    processes, boots = np.repeat(np.arange(8), 3), np.repeat(["a", "b", "c", "d"], 6)
    for several, means in (
        (False, np.log(values).reshape(8, 3).mean(axis=1)),
        (True, np.log(values).reshape(4, 6).mean(axis=1)),
    ):
        cell = Nested.from_labels(values, boots if several else ["a"] * 24, processes)
        low, high = stats.t.interval(0.95, means.size - 1, means.mean(), stats.sem(means))
        middle = math.exp(means.mean())
        assert half_width(cell) == pytest.approx((math.exp(high) - math.exp(low)) / 2 / middle)
    assert half_width(Nested.from_labels([1, 2, 3], ["a"] * 3, [0, 0, 0])) is None
    assert half_width(None) is None


def test_a_cell_that_is_narrow_enough_stops_after_the_first_phase(tmp_path: Path) -> None:
    (only,) = drawn(tmp_path, Goal(half_width=0.2)).finish()
    assert not only.executions
    assert [stop.reason for stop in only.stops] == ["narrow", "narrow"]
    assert all(s.processes == 6 and s.batches == 18 and s.boots == 1 for s in only.stops)


def test_it_goes_on_until_the_goal_and_stopped_cells_take_no_further_part(tmp_path: Path) -> None:
    run = drawn(tmp_path, Goal(half_width=0.012, at_most=100), threads=(1, 2, 4))
    phases = run.finish()
    stops = {stop.cell: stop for phase in phases for stop in phase.stops}
    assert len(stops) == 3
    assert all(
        s.reason == "narrow" and s.half_width and s.half_width <= 0.012 for s in stops.values()
    )
    stopped: set[str] = set()
    for phase in phases:
        stopped |= {stop.cell for stop in phase.stops}
        keys = {execution.cell.key for execution in phase.executions}
        assert not keys & stopped
        assert keys | stopped == set(stops)
    assert len(phases) > 2
    view = read_journal(run.directory)
    ids = [execution.id for execution in view.executions]
    assert ids == list(range(len(ids)))
    places = [(e.cell.key, e.boot, e.round) for e in view.executions]
    assert len(set(places)) == len(places)


def test_fewer_than_six_processes_are_never_enough(tmp_path: Path) -> None:
    design = Design(rounds=3, batches=3, warmup=1, seed=7)
    phases = drawn(tmp_path, Goal(half_width=0.9), design).finish()
    assert [p.rounds for p in phases] == [3, 0]
    assert {stop.processes for stop in phases[-1].stops} == {6}


def test_a_phase_adds_a_quarter_at_least_and_as_much_again_at_most(tmp_path: Path) -> None:
    phases = drawn(tmp_path, Goal(half_width=0.004, at_most=40)).finish()
    there = 6
    for phase in phases[:-2]:  # the last before the end may be cut down to the cap
        assert math.ceil(there / 4) <= phase.rounds <= there
        there += phase.rounds


def test_no_cell_gets_more_than_the_cap(tmp_path: Path) -> None:
    phases = drawn(tmp_path, Goal(half_width=0.0001, at_most=5)).finish()
    assert {stop.reason for stop in phases[-1].stops} == {"cap"}
    batches = SMALL.rounds * (SMALL.batches + SMALL.warmup)
    further = sum(phase.rounds * (phase.batches + SMALL.warmup) for phase in phases)
    assert 4 * batches - (10 + SMALL.warmup) < further <= 4 * batches


def test_the_time_allowed_ends_it(tmp_path: Path) -> None:
    run = drawn(tmp_path, Goal(half_width=0.0001, at_most=1000, max_seconds=30))
    phases = run.finish()
    assert {stop.reason for stop in phases[-1].stops} == {"time"}
    spent = 0.0
    for record in read_journal(run.directory).records:
        spent += getattr(record, "total_ns", 0) / 1e9
    assert 25 < spent < 31


def test_a_cell_whose_process_fails_stops_and_the_others_go_on(tmp_path: Path) -> None:
    run = drawn(tmp_path, Goal(half_width=0.01, at_most=20), failing="metal/eptest/rearm=oneshot/1")
    phases = run.finish()
    assert {s.cell: s.reason for s in phases[0].stops} == {run.failing: "failed"}
    assert phases[0].stops[0].half_width is None
    assert {e.cell.threads for e in phases[0].executions} == {2}
    assert phases[-1].stops[-1].reason == "narrow"


def test_batches_are_repeated_where_they_are_what_varies_and_processes_where_those_do(
    tmp_path: Path,
) -> None:
    goal = Goal(half_width=0.01, at_most=50)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    batches = drawn(tmp_path / "a", goal, noise=Noise(batch=0.2, process=0.01)).finish()
    processes = drawn(tmp_path / "b", goal, noise=Noise(batch=0.001, process=0.1)).finish()
    assert batches[0].batches > 3
    assert processes[0].batches == 1


def test_boots_are_added_where_targets_are_rebooted(tmp_path: Path) -> None:
    run = Drawn(
        tmp_path, {"guest": "m", "metal": "m"}, BOOTS, Goal(half_width=0.05, at_most=30),
        Noise(boot=0.05), reboots={"guest": 20.0},
    )  # fmt: skip
    phases = run.finish()
    assert phases[0].boots == 3  # to the least number of units, which is also as much again
    stops = {s.cell.partition("/")[0]: s for phase in phases for s in phase.stops}
    assert stops["guest"].boots >= 6
    assert stops["guest"].reason == "narrow"
    assert stops["metal"].boots == 1  # one identity, however many boots are planned
    boots = [e.boot for e in phases[0].executions]
    assert sorted(set(boots)) == [3, 4, 5]


def test_near_the_cap_boots_are_kept_and_their_processes_get_shorter(tmp_path: Path) -> None:
    design = Design(rounds=1, boots=3, batches=3, warmup=1, seed=7)
    run = Drawn(
        tmp_path, {"guest": "m"}, design, Goal(half_width=0.5, at_most=3),
        Noise(batch=0.2, process=0.01, boot=0.001), reboots={"guest": 20.0},
    )  # fmt: skip
    first, last = run.finish()
    assert (first.boots, first.rounds) == (3, 1)
    assert 3 * (first.batches + 1) <= 2 * 3 * 4
    assert {stop.boots for stop in last.stops} == {6}


def test_a_cell_whose_boots_vary_and_cannot_be_added_says_so(tmp_path: Path) -> None:
    run = Drawn(
        tmp_path, {"guest": "m"}, BOOTS, Goal(half_width=0.01), Noise(boot=0.1),
        reboots={"guest": 20.0},
    )  # fmt: skip
    run.measure()
    run.reboots = {}
    phase = run.decide("m")
    assert phase is None
    assert {s.reason for s in read_journal(run.directory).phases[0].stops} == {"boots"}


def test_machines_go_on_by_themselves_and_ids_are_unique(tmp_path: Path) -> None:
    run = Drawn(tmp_path, {"metal": "m", "box": "n"}, SMALL, Goal(half_width=0.015, at_most=50))
    run.measure()
    first, second = run.decide("n"), run.decide("m")
    assert first and second
    assert {e.cell.target for e in first.executions} == {"box"}
    assert {e.cell.target for e in second.executions} == {"metal"}
    run.finish("m")
    run.finish("n")
    view = read_journal(run.directory)
    assert not open_cells(view)
    assert len({e.id for e in view.executions}) == len(view.executions)


def timeless(phase: PhaseRecord) -> PhaseRecord:
    return phase.model_copy(update={"time": ""})


@pytest.mark.slow
def test_at_each_instant_there_is_something_to_measure_or_the_same_decision_to_take(
    tmp_path: Path,
) -> None:
    """The journal of a finished run, cut at every record: what a kill at that instant leaves."""
    run = drawn(tmp_path, Goal(half_width=0.012, at_most=20), noise=Noise(process=0.03))
    run.finish()
    whole = read_journal(run.directory)
    assert len(whole.phases) > 2
    decisions = 0
    for cut in range(len(whole.records) + 1):
        view = JournalView(whole.path, whole.header, whole.records[:cut])
        samples = samples_frame([view.header, *view.records])
        situation = situation_of(view, samples, "m", {})
        if situation is None:
            assert view.pending() or not open_cells(view)
            continue
        following = whole.records[cut]
        assert isinstance(following, PhaseRecord)
        assert timeless(decide(situation, "")) == timeless(following)
        decisions += 1
    assert decisions == len(whole.phases)


def test_a_decision_that_was_torn_is_taken_again(tmp_path: Path) -> None:
    run = drawn(tmp_path, Goal(half_width=0.01))
    run.measure()
    before = (run.directory / JOURNAL).read_bytes()
    first = run.decide("m")
    assert first
    after = (run.directory / JOURNAL).read_bytes()
    (run.directory / JOURNAL).write_bytes(after[: len(before) + 200])
    again = run.decide("m")
    assert again
    assert timeless(again) == timeless(first)
    assert read_journal(run.directory).phases == [again]


def test_a_fixed_plan_has_no_phases(tmp_path: Path) -> None:
    run = Drawn(tmp_path, {"metal": "m"}, SMALL, None)
    assert run.finish() == []
    assert not open_cells(read_journal(run.directory))
    view = read_journal(run.directory)
    assert stops_frame([view.header, *view.records]).empty


def test_stops_are_a_frame(tmp_path: Path) -> None:
    run = drawn(tmp_path, Goal(half_width=0.012, at_most=100))
    run.finish()
    view = read_journal(run.directory)
    frame = stops_frame([view.header, *view.records])
    assert sorted(frame["threads"]) == [1, 2]
    assert set(frame["reason"]) == {"narrow"}
    assert (frame["half_width"] <= frame["goal"]).all()
    assert (frame["phase"] >= 0).all()


def test_intervals_of_cells_that_stopped_by_themselves_hold_the_truth() -> None:
    """Stopping favours narrow intervals; with few looks that costs little of the coverage."""
    rng, goal, held, experiments = np.random.default_rng(3), Goal(half_width=0.03), 0, 600
    place = Cell(
        target="metal", workload="eptest", program="eptest", form="epoll", unit="message",
        params={}, threads=1,
    )  # fmt: skip
    design = Design(rounds=6, batches=1, warmup=0)
    for _ in range(experiments):
        logs, phases = rng.normal(0, 0.05, 6), []
        while True:
            samples = Nested.from_labels(np.exp(logs), ["a"] * logs.size, np.arange(logs.size))
            now = Situation(
                machine="m", goal=goal, design=design, phases=phases, reboots={}, spent_s=0.0,
                executions=[Execution(id=0, boot=0, round=logs.size - 1, cell=place)], next_id=1,
                cells={place.key: Measured(place, samples, Costs(batch=1.0, process=0.1))},
            )  # fmt: skip
            phase = decide(now, "")
            if not phase.executions:
                break
            phases.append(phase)
            logs = np.append(logs, rng.normal(0, 0.05, len(phase.executions)))
        half = float(stats.t.ppf(0.975, logs.size - 1)) * float(stats.sem(logs))
        held += abs(logs.mean()) <= half
    print(f"coverage {held / experiments:.3f}")
    assert held / experiments > 0.91
