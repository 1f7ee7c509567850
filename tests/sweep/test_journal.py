"""The journal: whole lines, torn tails, what is left to do, one writer at a time."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from labctl.errors import ConfigError, PartialError, UnavailableError
from labctl.sweep.journal import Journal, create_run, now, read_journal
from labctl.sweep.records import Begin, Cell, EndRecord, Execution, Failure, Header, Note, Sample


def header(executions: int = 3) -> Header:
    cell = Cell(
        target="metal", workload="eptest", program="eptest", form="epoll", unit="message",
        params={"rearm": "oneshot"}, threads=1,
    )  # fmt: skip
    plan = [Execution(id=n, boot=0, round=n, cell=cell) for n in range(executions)]
    return Header(
        run="r1", created=now(), labctl="0", lab={}, targets={}, workloads=["eptest"], seed=1,
        rounds=executions, boots=1, batches=1, warmup=0, min_batch_ms=1, plan_digest="",
        executions=plan,
    )  # fmt: skip


def begin(execution: int, attempt: int = 1) -> Begin:
    return Begin(time=now(), execution=execution, attempt=attempt, boot_id="b")


def sample(execution: int, attempt: int = 1) -> Sample:
    return Sample(
        time=now(), execution=execution, attempt=attempt, batch=0, warmup=False, ops=1, wall_ns=1,
        user_ns=0, sys_ns=0, vcsw=0, ivcsw=0, min_thread_ops=1, max_thread_ops=1,
    )  # fmt: skip


def end(execution: int, attempt: int = 1) -> EndRecord:
    return EndRecord(time=now(), execution=execution, attempt=attempt, program_ns=1, total_ns=2)


def failure(execution: int, attempt: int = 1) -> Failure:
    return Failure(time=now(), execution=execution, attempt=attempt, status=70, message="m")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, header())


def test_what_is_written_is_read(run: Path) -> None:
    with Journal(run) as journal:
        for record in (begin(0), sample(0), end(0), begin(1), sample(1)):
            journal.append(record)
    view = read_journal(run)
    assert [type(r) for r in view.records] == [Begin, Sample, EndRecord, Begin, Sample]
    assert view.done == {0}
    assert [e.id for e in view.pending()] == [1, 2]
    assert view.attempts == {0: 1, 1: 1}


def test_a_failure_is_settled_unless_it_is_to_be_tried_again(run: Path) -> None:
    with Journal(run) as journal:
        for record in (begin(0), failure(0), begin(1), failure(1), begin(1, 2), end(1, 2)):
            journal.append(record)
    view = read_journal(run)
    assert view.failed == {0}
    assert [e.id for e in view.pending()] == [2]
    assert [e.id for e in view.pending(retry_failed=True)] == [0, 2]


def test_a_torn_last_line_is_cut_off_and_the_rest_kept(run: Path) -> None:
    with Journal(run) as journal:
        journal.append(begin(0))
        journal.append(sample(0))
    whole = (run / "journal.jsonl").read_bytes()
    for cut in range(1, 40, 7):
        (run / "journal.jsonl").write_bytes(whole[:-cut])
        with Journal(run) as journal:
            assert [type(r) for r in read_journal(run).records] == [Begin]
            journal.append(Note(time=now(), message="resumed"))
        assert [type(r) for r in read_journal(run).records] == [Begin, Note]


def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(run: Path) -> None:
    with Journal(run) as journal:
        journal.append(begin(0))
    text = (run / "journal.jsonl").read_text()
    (run / "journal.jsonl").write_text(text + "nonsense\n" + text.splitlines()[1] + "\n")
    with pytest.raises(ConfigError) as caught:
        read_journal(run)
    assert caught.value.where.endswith("journal.jsonl:3")
    assert "pydantic" not in caught.value.detail


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(json.dumps({"type": "note", "time": "", "message": ""}))
    with pytest.raises(ConfigError, match="does not begin with a whole header"):
        read_journal(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_journal(tmp_path / "nowhere.jsonl")


def test_a_second_writer_is_refused_while_the_first_lives(run: Path) -> None:
    with Journal(run), pytest.raises(UnavailableError, match="another labctl"):
        Journal(run)
    Journal(run).close()


def test_the_lock_of_a_killed_writer_is_free(run: Path) -> None:
    code = (
        "import sys, time, pathlib; from labctl.sweep.journal import Journal;"
        "j = Journal(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UnavailableError):
            Journal(run)
        holder.kill()
        holder.wait()
    Journal(run).close()


def test_a_full_disk_leaves_no_half_line(run: Path) -> None:
    """The disk is made full for real: by a limit on this process's file size."""
    path = run / "journal.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(run) as journal:
        journal.append(begin(0))
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        try:
            with pytest.raises(PartialError, match="cannot write the journal"):
                journal.append(sample(0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == size
        journal.append(sample(0))
    assert [type(r) for r in read_journal(run).records] == [Begin, Sample]


def test_a_run_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    create_run(tmp_path, header())
    assert [p.name for p in tmp_path.iterdir()] == ["r1"]
    with pytest.raises(UnavailableError, match="just begun a run of this name"):
        create_run(tmp_path, header())
    assert read_journal(tmp_path / "r1").header.run == "r1"


def test_a_journal_that_is_removed_while_it_is_written_is_noticed(run: Path) -> None:
    with Journal(run) as journal:
        journal.append(begin(0), durable=True)
        (run / "journal.jsonl").unlink()
        with pytest.raises(PartialError, match="removed or replaced"):
            journal.append(end(0), durable=True)


def test_what_is_no_journal_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"a line of somebody's\nand its tail")
    with pytest.raises(ConfigError):
        Journal(tmp_path)
    assert path.read_bytes() == b"a line of somebody's\nand its tail"


@pytest.mark.parametrize("created", ["x", "2031-01-02T03:04:05"])
def test_a_header_says_when_with_a_zone(created: str) -> None:
    with pytest.raises(ValidationError, match="created"):
        Header.model_validate(header().model_dump() | {"created": created})
