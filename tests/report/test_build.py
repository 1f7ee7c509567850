"""The model: what is compared, what is noted, and that it depends on the journal alone."""

from __future__ import annotations

import hashlib
import json

import pytest

from labctl.report import build_report, to_json
from labctl.report.words import stops as stops_in_words
from labctl.seeds import load_seeds
from labctl.sweep.records import Begin, FactsRecord, Goal, PhaseRecord, Stop
from labctl.workloads import load_workloads
from tests.report.synthetic import SHAPES, make_header, make_records

SMALL = make_header(rounds=1)


@pytest.fixture(scope="module")
def model():
    return build_report(make_records(trouble=True))


def with_facts(records, target, **facts):
    return [
        r.model_copy(update={"facts": {**r.facts, **facts}})
        if isinstance(r, FactsRecord) and r.target == target
        else r
        for r in records
    ]


def test_estimates_are_near_what_the_run_was_made_of(model):
    (section,) = model.sections
    assert [one.target for one in section.series] == ["metal", "linux", "freebsd"]
    for one in section.series:
        base, exponent, _ = SHAPES[one.target]
        for point in one.points:
            assert point.time.value == pytest.approx(base * point.threads**exponent, rel=0.05)
            if point.growth:
                assert point.growth.value == pytest.approx(point.threads**exponent, rel=0.05)


def test_workloads_stand_in_the_order_that_they_were_asked_for():
    """Not as the shuffle had them: the numbers in the names of the figures depend on it."""
    header = make_header(workloads=("kqtest", "urandom"), rounds=1)
    for asked in (["kqtest", "urandom"], ["urandom", "kqtest"]):
        records = make_records(header.model_copy(update={"workloads": asked}))
        assert [section.workload for section in build_report(records).sections] == asked


def test_growth_and_ratio_are_those_of_the_table(model):
    """A reader who divides two entries of the time table finds the number printed."""
    section = model.sections[0]
    by_target = {one.target: {p.threads: p for p in one.points} for one in section.series}
    (pair,) = section.pairs
    for point in pair.points:
        times = (by_target[name][point.threads].time.value for name in ("linux", "metal"))
        assert point.ratio.value == pytest.approx(next(times) / next(times))
        if point.amplification:
            grown = (by_target[name][point.threads].growth.value for name in ("linux", "metal"))
            assert point.amplification.value == pytest.approx(next(grown) / next(grown))
    linux = by_target["linux"]
    assert linux[8].growth.value == pytest.approx(linux[8].time.value / linux[1].time.value)


def test_linux_shows_its_own_form_of_the_workload(model):
    labels = {one.target: one.program_label for one in model.sections[0].series}
    assert labels["metal"] == "epoll (eptest)"
    assert labels["freebsd"] == "kqueue (kqtest)"


def test_pairs_may_be_given_and_name_what_differs():
    pairs = [{"guest": "freebsd", "metal": "metal"}, {"guest": "nobody", "metal": "metal"}, {}]
    (pair,) = build_report(make_records(SMALL), pairs).sections[0].pairs
    assert pair.functional
    differ = {row.key: (row.one, row.other) for row in pair.confounders}
    assert differ["program"] == ("kqtest", "eptest")
    assert differ["system"] == ("freebsd", "linux")
    assert "libc" in differ, "unknown on one side is a difference"
    assert "baseline" not in differ
    assert [row.bars for row in pair.confounders][:2] == ["all", "all"], "what bars most first"


def test_a_baseline_that_is_a_guest_is_named_as_a_confounder():
    model = build_report(with_facts(make_records(SMALL), "metal", hypervisor="kvm"))
    (pair,) = model.sections[0].pairs
    found = {row.key: row for row in pair.confounders}
    assert found["baseline"].other == "host (itself a guest of kvm)"
    assert "bare metal" not in model.target("metal").role
    assert any("is not bare metal" in note for note in model.notes)


def test_the_verdict_stands_in_the_pair_and_before_all_else(model):
    (pair,) = model.sections[0].pairs
    assert model.verdicts == [pair.verdict]
    assert pair.verdict.sentence.startswith(
        "linux / metal, kqtest: cannot tell, because the mitigation"
    )
    document = json.loads(to_json(model))
    assert document["verdicts"][0]["level"] == "cannot tell"
    assert document["margin"] == 0.1


def test_a_pair_that_no_lab_file_declares_is_found_and_said():
    header = make_header(rounds=1, lab={"lab": "synthetic", "margin": 0.25})
    model = build_report(make_records(header))
    (pair,) = model.sections[0].pairs
    assert (pair.one, pair.other) == ("linux", "metal")
    assert pair.found == "both run Synthetic Linux 12 with the kernel 6.1.0-synthetic-amd64"
    assert any("The pair was found" in note for note in pair.verdict.notes)
    assert model.margin == pair.verdict.margin == 0.25


def test_what_was_expected_of_the_kernels_is_answered():
    (section,) = build_report(make_records(SMALL), workloads=load_workloads()).sections
    by_name = {expected.name: expected for expected in section.expectations}
    assert {row.target for row in by_name["one-is-woken"].answers} == {"metal", "linux"}
    (answer,) = by_name["all-are-woken"].answers
    assert (answer.target, answer.verdict) == ("freebsd", "agrees")
    assert by_name["all-are-woken"].params == "rearm=oneshot"
    assert section.question


def test_variants_are_compared_like_with_like():
    model = build_report(make_records(make_header(rearms=("oneshot", "level"), rounds=1)))
    pairs = model.sections[0].pairs
    assert [pair.one_variant for pair in pairs] == [pair.other_variant for pair in pairs]
    assert len({pair.verdict.sentence.split(":")[0] for pair in pairs}) == 2, "variants are named"
    assert len(pairs) == 2
    assert model.sections[0].common_params == ""


def test_trouble_is_told(model):
    design = model.runs[0].design
    assert (design.planned, design.completed) == (180, 179)
    assert design.unfinished_attempts == 1
    assert design.uncounted_samples == 2 + 1
    assert design.failures[0].status == 70
    assert design.skipped and design.journal_notes
    text = "\n".join(model.notes)
    assert "freebsd: guest, TCG; functional: shapes and switches mean something" in text
    assert "1 of 180 planned processes" in text
    assert "two boots: the interval is true but very wide (metal, linux, freebsd)" in text


def test_boots_that_were_none_are_told():
    records = [
        r.model_copy(update={"boot_id": "only"}) if isinstance(r, Begin) else r
        for r in make_records(SMALL)
    ]
    notes = build_report(records).notes
    assert "metal: 2 boots planned, measured in 1" in notes
    (note,) = [note for note in notes if note.startswith("one boot")]
    assert note.endswith("(freebsd)"), "of the others their verdict says it"


def test_json_is_one_document_with_a_schema(model):
    document = json.loads(to_json(model))
    assert document["schema"] == 3
    assert document["sections"][0]["pairs"][0]["points"][0]["ratio"]["low"] > 1
    assert document["targets"][0]["role"] == "bare metal"


def test_the_report_is_the_same_for_the_same_journal():
    records = make_records(SMALL)
    assert to_json(build_report(records)) == to_json(build_report(records))


def journal_bytes(records):
    return b"".join(record.model_dump_json().encode() + b"\n" for record in records)


def test_from_a_run_directory_with_the_journals_hash(tmp_path):
    data = journal_bytes(make_records(SMALL))
    (tmp_path / "journal.jsonl").write_bytes(data)
    model = build_report(tmp_path)
    assert model.runs[0].journal_sha256 == hashlib.sha256(data).hexdigest()
    assert model == build_report(tmp_path / "journal.jsonl")


@pytest.mark.parametrize("share", [0.999, 0.9, 0.5])
def test_a_journal_cut_anywhere_can_be_reported(tmp_path, share):
    data = journal_bytes(make_records(make_header(rounds=1)))
    (tmp_path / "journal.jsonl").write_bytes(data[: int(len(data) * share)])
    design = build_report(tmp_path).runs[0].design
    assert 0 < design.completed < design.planned


def test_nothing_complete_yet_is_a_report_too():
    header = make_header(rounds=1, boots=1)
    model = build_report([header])
    assert model.sections == []
    assert "15 of 15 planned processes have no complete result" in model.notes


def test_one_batch_has_no_interval():
    records = make_records(make_header(rounds=1, boots=1, batches=1))
    model = build_report(records)
    point = model.sections[0].series[0].points[0]
    assert point.time.low is None and point.cv is None
    assert (
        json.loads(to_json(model))["sections"][0]["series"][0]["points"][0]["time"]["low"] is None
    )


def test_seeds_stand_beside_the_question_that_they_put(model):
    seeds = model.sections[0].seeds
    assert {seed.workload for seed in seeds} == {"kqtest", "eptest"}
    assert all(seed.year == 2012 and seed.environment for seed in seeds)


def test_seed_numbers_are_consistent():
    for seed in load_seeds():
        assert seed.us_per_op == pytest.approx(seed.seconds / seed.operations * 1e6, rel=1e-5)


def test_the_commands_repeat_the_plan(model):
    sweep = model.runs[0].commands[-2]
    assert sweep.startswith(
        "labctl sweep kqtest --targets metal,linux,freebsd --threads 1,2,4,8,16"
    )
    assert model.runs[0].commands[-1] == "labctl report"
    assert "--param rearm=oneshot" in sweep
    assert "--rounds 6 --boots 2 --batches 3 --warmup 1 --seed 42" in sweep


def test_why_an_adaptive_sweep_stopped_is_told_and_it_can_be_repeated():
    goal = Goal(half_width=0.015, at_most=3.0, max_seconds=90.0)
    header = make_header(rounds=1, until=goal)
    keys = [execution.cell.key for execution in header.executions[:2]]
    shared = {"boots": 2, "processes": 4, "batches": 12}
    stops = [
        Stop(cell=keys[0], reason="narrow", half_width=0.01, **shared),
        Stop(cell=keys[1], reason="boots", half_width=0.03, **shared),
    ]
    phase = PhaseRecord(
        time="", machine="local", number=1, boots=0, rounds=0, batches=0, stops=stops
    )
    model = build_report([*make_records(header), phase])
    assert [stop.reason for stop in model.runs[0].design.stops] == ["narrow", "boots"]
    told = stops_in_words(model.runs[0].design)
    assert told[0] == "1 of 2 cells reached ±1.5%"
    assert told[1].endswith(": stopped at ±3.0%: boots differ, and no boot can be added")
    assert "--until 1.5% --at-most 3 --max-time 90s" in model.runs[0].commands[-2]
    assert stops_in_words(build_report(make_records(SMALL)).runs[0].design) == []
