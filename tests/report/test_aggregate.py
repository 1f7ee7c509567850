"""From a journal's records to frames: every sample once or not at all."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.errors import ConfigError, MeasurementError
from labctl.sweep import aggregate
from labctl.sweep.records import Begin, EndRecord, Failure, Sample
from tests.report.synthetic import attempt_records, make_header, make_records

SMALL = make_header(rounds=1, boots=1, batches=2)


def interrupted(cuts, *, same_number=False):
    """A journal in which the attempts at execution i are cut after cuts[i] records each."""
    rng = random.Random(1)
    records = [SMALL]
    for execution, lengths in zip(SMALL.executions, cuts, strict=False):
        for number, length in enumerate(lengths, 1):
            attempt = 1 if same_number else number
            records += attempt_records(SMALL, execution, attempt, rng)[:length]
    return records


WHOLE = 1 + SMALL.warmup + SMALL.batches + 1
cut_lists = st.lists(st.lists(st.integers(0, WHOLE), max_size=4), max_size=5)


@settings(max_examples=60, deadline=None)
@given(cut_lists, st.booleans())
def test_an_execution_counts_once_wherever_its_attempts_were_cut(cuts, same_number):
    records = interrupted(cuts, same_number=same_number)
    samples = aggregate.samples_frame(records)
    counted = aggregate.counted(samples)
    complete = {i for i, lengths in enumerate(cuts) if WHOLE in lengths}
    assert set(counted["execution"]) == complete
    per_execution = counted.groupby("execution")["batch"].apply(list)
    assert all(batches == [0, 1] for batches in per_execution)
    assert len(samples) == sum(isinstance(record, Sample) for record in records)
    summary = aggregate.attempts_summary(*aggregate.split(records))
    assert summary["completed"] == len(complete)
    assert summary["uncounted"] == (~samples["complete"]).sum()


def test_the_first_complete_attempt_counts():
    execution = SMALL.executions[0]
    rng = random.Random(2)
    records = [SMALL, *attempt_records(SMALL, execution, 1, rng)]
    records += attempt_records(SMALL, execution, 2, rng)
    assert set(aggregate.counted(aggregate.samples_frame(records))["attempt"]) == {1}


def test_an_attempt_with_a_failure_does_not_count_even_with_an_end():
    execution = SMALL.executions[0]
    records = [SMALL, *attempt_records(SMALL, execution, 1, random.Random(3))]
    records.append(Failure(time="", execution=0, attempt=1, status=70, message="lost"))
    assert aggregate.counted(aggregate.samples_frame(records)).empty


def test_a_batch_written_twice_counts_once():
    execution = SMALL.executions[0]
    whole = attempt_records(SMALL, execution, 1, random.Random(3))
    records = [SMALL, *whole[:-1], whole[-2], whole[-1]]
    samples = aggregate.samples_frame(records)
    assert len(samples) == 4
    assert list(aggregate.counted(samples)["batch"]) == [0, 1]


def test_a_sample_of_another_plan_is_an_error():
    stray = attempt_records(SMALL, SMALL.executions[0], 1, random.Random(1))[1]
    with pytest.raises(MeasurementError, match="its plan has not"):
        aggregate.samples_frame([SMALL, stray.model_copy(update={"execution": 999})])


def test_a_journal_without_header_is_an_error():
    with pytest.raises(MeasurementError, match="no header"):
        aggregate.samples_frame([])


def test_columns_and_units():
    execution = SMALL.executions[0]
    records = [SMALL, Begin(time="", execution=0, attempt=1, boot_id="b")]
    sample = attempt_records(SMALL, execution, 1, random.Random(1))[2]
    sample = sample.model_copy(
        update={"ops": 1000, "wall_ns": 5_000_000, "user_ns": 1_000_000, "vcsw": 2500, "ivcsw": 10}
    )
    records += [sample, EndRecord(time="", execution=0, attempt=1, program_ns=1, total_ns=1)]
    row = aggregate.samples_frame(records).iloc[0]
    assert row["us_per_op"] == 5.0
    assert row["user_us_per_op"] == 1.0
    assert row["vcsw_per_op"] == 2.5
    assert row["ivcsw_per_op"] == 0.01
    assert (row["param_rearm"], row["params"]) == ("oneshot", "rearm=oneshot")
    assert (row["boot_id"], row["order"]) == ("b", 0)
    assert row["target"] == execution.cell.target
    assert str(row["time"]) == "2031-01-02 03:04:06.500000+00:00"


def test_cells_have_the_statistics_of_their_samples():
    samples = aggregate.samples_frame(make_records())
    cells = aggregate.cells_frame(samples)
    assert len(cells) == 15
    assert (cells["n_samples"] == 36).all()
    assert (cells["n_processes"] == 12).all()
    assert (cells["n_boots"] == 2).all()
    one = cells[(cells["target"] == "metal") & (cells["threads"] == 4)].iloc[0]
    rows = aggregate.counted(samples)
    rows = rows[(rows["target"] == "metal") & (rows["threads"] == 4)]["us_per_op"]
    assert one["median"] == pytest.approx(rows.median())
    assert one["q1"] == pytest.approx(rows.quantile(0.25))
    assert one["cv"] == pytest.approx(rows.std() / rows.mean())


def test_planned_boots_without_a_reboot_are_one_boot():
    same = [
        r.model_copy(update={"boot_id": "only"}) if isinstance(r, Begin) else r
        for r in make_records()
    ]
    assert set(aggregate.cells_frame(aggregate.samples_frame(same))["n_boots"]) == {1}


def test_parameters_of_both_kinds_keep_their_types():
    samples = aggregate.samples_frame(make_records(make_header(workloads=("kqtest", "urandom"))))
    urandom = samples[samples["workload"] == "urandom"]
    assert set(urandom["param_size"]) == {4096}
    assert urandom["param_rearm"].isna().all()
    assert samples["param_size"].dtype == "Int64"
    assert urandom["p99_ns"].notna().all()


def test_nothing_measured_yet_gives_empty_frames():
    samples = aggregate.samples_frame([SMALL])
    assert samples.empty
    assert aggregate.cells_frame(samples).empty


def test_facts_one_row_a_fact():
    facts = aggregate.facts_frame(make_records())
    row = facts[(facts["target"] == "metal") & (facts["key"] == "clocksource")]
    assert set(row["value"]) == {"tsc"}


def test_parquet_is_whole_and_made_again_the_same(tmp_path):
    import pandas as pd

    records = make_records(trouble=True)
    text = "".join(record.model_dump_json() + "\n" for record in records)
    (tmp_path / "journal.jsonl").write_text(text)
    path = aggregate.write_parquet(tmp_path, aggregate.read_run(tmp_path)[1])
    first = path.read_bytes()
    again = pd.read_parquet(path)
    pd.testing.assert_frame_equal(again, aggregate.samples_frame(records), check_dtype=False)
    aggregate.write_parquet(tmp_path, aggregate.read_run(tmp_path)[1])
    assert path.read_bytes() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal.jsonl", "samples.parquet"]


def test_samples_read_from_the_file_are_those_of_the_records(tmp_path, monkeypatch):
    import pandas as pd

    records = make_records(make_header(workloads=("kqtest", "urandom")), trouble=True)
    path = tmp_path / "journal.jsonl"
    lines = [record.model_dump_json() + "\n" for record in records]
    path.write_text("".join(lines) + lines[-1][:20])  # and a torn one
    expected = aggregate.samples_frame(records)
    assert expected["p50_ns"].notna().any()
    assert expected["p50_ns"].isna().any()
    assert not expected["complete"].all()
    pd.testing.assert_frame_equal(aggregate.read_run(tmp_path)[1], expected)
    monkeypatch.setattr("labctl.sweep.columns._BLOCK", 2_000)  # more blocks than one
    pd.testing.assert_frame_equal(aggregate.read_run(path)[1], expected)


@pytest.mark.parametrize(
    "damage", [('"wall_ns":', '"wall":'), ('"ops":', '"ops":"many","was":'), ("}", "")]
)
def test_a_damaged_sample_is_named_by_its_line(tmp_path, damage):
    lines = [record.model_dump_json() + "\n" for record in make_records()]
    number = next(n for n, line in enumerate(lines) if '"type":"sample"' in line)
    lines[number] = lines[number].replace(*damage)
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(lines))
    with pytest.raises(ConfigError) as caught:
        aggregate.read_run(path)[1]
    assert caught.value.where == f"{path}:{number + 1}"


def test_a_journal_without_samples_is_an_empty_frame(tmp_path):
    (tmp_path / "journal.jsonl").write_text(make_records()[0].model_dump_json() + "\n")
    assert aggregate.read_run(tmp_path)[1].empty
    with pytest.raises(ConfigError, match="cannot be read"):
        aggregate.read_run(tmp_path / "nothing")[1]
