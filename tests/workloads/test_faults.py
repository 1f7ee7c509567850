"""Faults put under the programs by LD_PRELOAD: each is found, and no `end` is printed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> str:
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(
        [
            *("cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
            *(str(HERE / "faults.c"), "-o", str(library), "-ldl", "-lpthread"),
        ],
        check=True,
    )
    return str(library)


@pytest.fixture
def faulty(run, faults):
    """Run with one fault at the call ``at`` of those of ``size`` bytes."""

    def faulty(fault, size, at, name, *arguments):
        return run(
            name,
            *arguments,
            LD_PRELOAD=faults,
            FAULT=fault,
            FAULT_SIZE=str(size),
            FAULT_AT=str(at),
        )

    return faulty


TOKENS = [
    *[("eptest", mode) for mode in ("oneshot", "edge", "level", "exclusive")],
    *[("kqtest", mode) for mode in ("oneshot", "dispatch", "clear", "level")],
]


def token_arguments(mode: str, threads: int) -> list[str]:
    return f"--rearm {mode} --threads {threads} --ops 1000 --batches 2 --stall 1".split()


@pytest.mark.parametrize(("name", "mode"), [TOKENS[1], TOKENS[4]])
def test_a_lost_message_is_no_hang(faulty, name, mode):
    result = faulty("drop", 4, 500, name, *token_arguments(mode, 4))
    assert (result.status, result.ended) == (70, False)
    # Call 1 sends message 0, so 499 have been taken when the 500th write is dropped.
    assert f"{name}: no progress for 1 s: 499 of 1000 messages are done" in result.stderr


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("name", "mode"), TOKENS)
def test_a_doubled_message_is_found(faulty, name, mode, threads):
    result = faulty("double", 4, 500, name, *token_arguments(mode, threads))
    assert (result.status, result.ended) == (70, False)
    assert result.stderr.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("eptest", "oneshot", "message 499 came out of order"),
        ("eptest", "edge", "a second message lay behind message 499"),
        ("kqtest", "dispatch", "message 499 came out of order"),
        ("kqtest", "clear", "a second message lay behind message 499"),
    ],
)
def test_one_thread_sees_at_once_what_is_doubled(faulty, name, mode, said):
    result = faulty("double", 4, 500, name, *token_arguments(mode, 1))
    assert (result.status, result.ended) == (70, False)
    assert said in result.stderr


@pytest.mark.parametrize(("name", "mode"), TOKENS)
def test_the_last_message_doubled_is_found(faulty, name, mode):
    result = faulty("double", 4, 1000, name, *token_arguments(mode, 4))
    assert (result.status, result.ended) == (70, False)


@pytest.mark.parametrize("name", ["eptest", "kqtest"])
def test_a_message_in_two_parts_is_an_error(faulty, name):
    result = faulty("short", 4, 500, name, *token_arguments("oneshot", 2))
    assert (result.status, result.ended) == (70, False)
    assert "short read: 2 of 4 bytes" in result.stderr


@pytest.mark.parametrize("name", ["eptest", "kqtest"])
def test_a_write_that_fails_is_named(faulty, name):
    result = faulty("write", 4, 500, name, *token_arguments("oneshot", 2))
    assert (result.status, result.ended) == (71, False)
    assert "write to the socket: No buffer space" in result.stderr


@pytest.mark.parametrize("name", ["eptest", "kqtest"])
def test_an_interrupted_read_is_not_an_error(faulty, name):
    result = faulty("interrupt", 4, 500, name, *token_arguments("oneshot", 2))
    assert (result.status, result.ended, result.stderr) == (0, True, "")


@pytest.mark.parametrize("call", ["mmap", "munmap"])
def test_a_mapping_that_fails_is_named(faulty, call):
    result = faulty(call, 12289, 70, "mmapsem", "--size", "12289", "--threads", "2", "--ops", "90")
    assert (result.status, result.ended) == (71, False)
    assert result.stderr.startswith(f"mmapsem: {call}: ")


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("source", ["device", "file", "getrandom"])
def test_a_short_read_spoils_the_result(faulty, source, workers):
    arguments = f"--source {source} --workers {workers} --size 1000 --threads 2 --ops 90".split()
    result = faulty("short", 1000, 30, "urandom", *arguments)
    assert (result.status, result.ended) == (70, False)
    assert "500 of 1000 bytes" in result.stderr


@pytest.mark.parametrize("source", ["device", "file", "getrandom"])
def test_an_interrupted_random_read_is_made_again(faulty, source):
    arguments = f"--source {source} --size 1000 --threads 2 --ops 90".split()
    result = faulty("interrupt", 1000, 30, "urandom", *arguments)
    assert (result.status, result.ended, result.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("fault", "workers", "said"),
    [("pthread_create", "threads", "thread 3 of 4"), ("fork", "processes", "process 3 of 4")],
)
def test_a_worker_that_cannot_be_started_is_named(faulty, fault, workers, said):
    result = faulty(fault, 0, 3, "urandom", "--workers", workers, "--threads", "4")
    assert (result.status, result.ended) == (71, False)
    assert f"{fault} of {said}" in result.stderr
