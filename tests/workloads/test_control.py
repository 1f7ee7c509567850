"""Arguments, and how a run is stopped: --step, --limit, signals, a full disk."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from labctl.workloads import Batch, Start

USAGE = [
    ("eptest", ["--rearm", "dispatch"], "oneshot, edge, level, exclusive"),
    ("eptest", ["--rearm"], "needs a value"),
    ("eptest", ["--what", "1"], "unknown option --what"),
    ("eptest", ["--thread", "1"], "unknown option --thread"),
    ("eptest", ["--threads", "0"], "1 to 1024"),
    ("eptest", ["--threads", "1025"], "1 to 1024"),
    ("eptest", ["--threads", "two"], "not a whole number"),
    ("eptest", ["--threads", "2x"], "not a whole number"),
    ("eptest", ["--threads", ""], "not a whole number"),
    ("eptest", ["--ops", "-1"], "not a whole number"),
    ("eptest", ["--ops", "99999999999999999999999"], "out of range"),
    ("eptest", ["--batches", "0"], "1 to 1000000"),
    ("eptest", ["--min-ms", "0"], "1 to 600000"),
    ("eptest", ["2"], "only 2 was given"),
    ("eptest", ["2", "100", "3"], "too many arguments"),
    ("eptest", ["2", "0"], "out of range"),
    ("mmapsem", ["--size", "0"], "1 to 67108864"),
    ("mmapsem", ["--threads", "8", "--ops", "7"], "fewer than one for each of the 8"),
    ("urandom", ["--source", "random"], "device, file, getrandom"),
]


@pytest.mark.parametrize(("name", "arguments", "said"), USAGE)
def test_usage_errors_say_what_is_allowed(run, name, arguments, said):
    result = run(name, *arguments)
    assert result.status == 64
    assert result.stdout == ""
    assert result.stderr.startswith(f"{name}: ")
    assert said in result.stderr


def test_help_lists_the_parameters(run):
    result = run("eptest", "--help")
    assert result.status == 0
    assert "--rearm" in result.stdout
    assert "exclusive" in result.stdout


def start_program(programs: Path, cwd: Path, name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(programs / name), *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_step_waits_after_each_batch(programs, tmp_path):
    with start_program(
        programs, tmp_path, "urandom", "--source=file", "--ops=10", "--batches=2", "--step"
    ) as process:
        kinds = []
        for _ in range(2):
            while not kinds or not kinds[-1].startswith('{"type":"batch"'):
                kinds.append(process.stdout.readline())
            assert select.select([process.stdout], [], [], 0.2)[0] == []
            assert list(tmp_path.iterdir()) == []  # the file has no name by now
            process.stdin.write("go\n")
            process.stdin.flush()
            kinds.append("")
        rest = process.stdout.read()
        assert rest.startswith('{"type":"end"')
        assert process.wait(timeout=10) == 0


def test_end_of_input_stops_a_stepped_run(run):
    result = run("eptest", "--ops", "10", "--batches", "5", "--step")
    assert result.status == 75
    start, warmup, batch = result.lines
    assert isinstance(start, Start)
    assert isinstance(batch, Batch)
    assert (warmup.type, batch.type) == ("warmup", "batch")
    assert "told to stop" in result.stderr


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("eptest", ["--threads", "3"]), ("urandom", ["--workers=processes", "--threads=3"])],
)
def test_limit_ends_the_program_and_its_processes(programs, tmp_path, name, arguments):
    with start_program(
        programs, tmp_path, name, *arguments, "--batches=1000000", "--limit=1"
    ) as process:
        # The output is at its end only when the last of the processes is gone.
        out, err = process.communicate(timeout=30)
        assert process.returncode == 124
        assert err == f"{name}: the limit of 1 s is reached\n"
        assert '"type":"end"' not in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_program_and_its_processes(programs, tmp_path, number):
    with start_program(
        programs, tmp_path, "urandom", "--workers=processes", "--threads=3", "--ops=2000000000"
    ) as process:
        process.stdout.readline()
        process.send_signal(number)
        # The output is at its end only when the last of the processes is gone.
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 75
        assert '"type":"end"' not in out


def test_a_worker_process_that_is_killed_spoils_the_result(programs, tmp_path):
    with start_program(
        programs,
        tmp_path,
        "urandom",
        *("--workers=processes", "--threads=2", "--min-ms=10", "--batches=1000000"),
    ) as process:
        while '"type":"batch"' not in process.stdout.readline():
            pass
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        os.kill(int(children[1]), signal.SIGKILL)
        # The output is at its end only when the last of the processes is gone.
        out, err = process.communicate(timeout=30)
        assert process.returncode == 70
        assert "was killed by signal 9" in err
        assert '"type":"end"' not in out


def test_worker_processes_do_not_outlive_a_killed_program(programs, tmp_path):
    with start_program(
        programs,
        tmp_path,
        "urandom",
        *("--workers=processes", "--threads=2", "--min-ms=10", "--batches=1000000"),
    ) as process:
        while '"type":"batch"' not in process.stdout.readline():
            pass
        process.kill()
        process.communicate(timeout=30)


def test_a_directory_that_is_not_there_is_named(run):
    result = run("urandom", "--source", "file", TMPDIR="/nonexistent")
    assert result.status == 71
    assert "/nonexistent/urandom." in result.stderr
    assert "No such file" in result.stderr


def test_output_that_cannot_be_written_is_an_error(programs):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(programs / "eptest"), "--ops", "10"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    assert done.returncode == 71
    assert "No space left" in done.stderr
