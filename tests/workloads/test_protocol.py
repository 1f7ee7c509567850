"""Every workload, in every mode: its lines parse, and what they say adds up."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from labctl.workloads import Batch, Calibration, Capabilities, End, Start, load_workloads

KNOWN = load_workloads()

MODES = [
    *[("eptest", {"rearm": mode}) for mode in ("oneshot", "edge", "level", "exclusive")],
    *[("kqtest", {"rearm": mode}) for mode in ("oneshot", "dispatch", "clear", "level")],
    *[("mmapsem", {"lock": mode}) for mode in ("yield", "nolock", "spinlock", "mutex")],
    *[("mmapsem", {"touch": mode, "size": 10000}) for mode in ("none", "populate")],
    *[
        ("urandom", {"source": source, "workers": workers, "size": size})
        for source, size in (("device", 1), ("file", 5000), ("getrandom", 300))
        for workers in ("threads", "processes")
    ],
]


def name_of(mode: object) -> str:
    return "-".join(map(str, mode.values())) if isinstance(mode, dict) else str(mode)


def options(params: dict[str, object]) -> list[str]:
    return [word for name, value in params.items() for word in (f"--{name}", str(value))]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("name", "params"), MODES, ids=name_of)
def test_batches_add_up(run, name, params, threads):
    ops = 1003  # does not divide by 4
    result = run(
        name,
        *("--threads", str(threads), "--ops", str(ops), "--batches", "3", "--warmup", "2"),
        *options(params),
    )
    assert (result.status, result.stderr) == (0, "")

    start, *batches, end = result.lines
    assert isinstance(start, Start)
    assert (start.workload, start.form, start.unit) == (
        name,
        KNOWN[name].form,
        KNOWN[name].unit,
    )
    assert (start.threads, start.ops, start.batches, start.warmup) == (threads, ops, 3, 2)
    defaults = {key: param.default for key, param in KNOWN[name].params.items()}
    assert start.params == {**defaults, **params}

    assert [(batch.type, batch.index) for batch in batches] == [
        ("warmup", 0),
        ("warmup", 1),
        ("batch", 0),
        ("batch", 1),
        ("batch", 2),
    ]
    for batch in batches:
        check_batch(batch, ops, threads, name)
    assert isinstance(end, End)
    assert end.batches == 3
    assert end.wall_ns >= sum(batch.wall_ns for batch in batches)


def check_batch(batch: Batch, ops: int, threads: int, name: str) -> None:
    assert batch.ops == ops
    assert min(batch.user_ns, batch.sys_ns, batch.vcsw, batch.ivcsw) >= 0
    if KNOWN[name].fixed_token:
        assert 0 <= batch.min_thread_ops <= ops // threads
        assert -(-ops // threads) <= batch.max_thread_ops <= ops
    else:
        assert batch.min_thread_ops == ops // threads
        assert batch.max_thread_ops == -(-ops // threads)
    if name == "urandom":
        check_latency(batch)
    else:
        assert batch.latency is None


def check_latency(batch: Batch) -> None:
    latency = batch.latency
    assert latency is not None
    lowers = [lower for lower, _ in latency.buckets]
    assert sum(count for _, count in latency.buckets) == batch.ops
    assert lowers == sorted(set(lowers))
    assert lowers[0] <= latency.p50_ns <= latency.p99_ns <= latency.max_ns
    assert lowers[-1] <= latency.max_ns
    assert latency.max_ns <= batch.wall_ns


@pytest.mark.parametrize("name", sorted(KNOWN))
@pytest.mark.parametrize("threads", [1, 4])
def test_plain_form_prints_one_number_of_seconds(run, name, threads):
    result = run(name, str(threads), "2000")
    assert (result.status, result.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d{6}\n", result.stdout)
    assert float(result.stdout) > 0


def test_plain_form_takes_parameters(run):
    assert run("mmapsem", "--lock=mutex", "2", "100", "--touch", "none").status == 0


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_capabilities_are_the_manifests_values(run, name):
    (capabilities,) = run(name, "--capabilities").lines
    assert isinstance(capabilities, Capabilities)
    assert (capabilities.workload, capabilities.form) == (name, KNOWN[name].form)
    assert capabilities.params == {
        key: list(param.values) for key, param in KNOWN[name].params.items() if param.values
    }


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_ranges_are_the_manifests(run, name):
    for key, param in KNOWN[name].params.items():
        if param.values:
            continue
        for inside in (param.minimum, param.maximum):
            assert run(name, f"--{key}", str(inside), "--capabilities").status == 0
        for outside in (param.minimum - 1, param.maximum + 1):
            assert run(name, f"--{key}", str(outside), "--capabilities").status == 64


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_calibration_doubles_until_the_batch_is_long_enough(run, name):
    result = run(name, "--threads", "3", "--min-ms", "5", "--batches", "1", "--warmup", "0")
    assert result.status == 0
    start, *steps, batch, _ = result.lines
    assert start.ops == 0
    assert all(isinstance(step, Calibration) for step in steps)
    assert [step.ops for step in steps] == [16 * 2**i for i in range(len(steps))]
    assert all(step.wall_ns < 5_000_000 for step in steps[:-1])
    assert steps[-1].wall_ns >= 5_000_000
    assert batch.ops == steps[-1].ops


def test_calibration_gives_every_worker_a_share(run):
    result = run("mmapsem", "--threads", "40", "--min-ms", "1", "--batches", "1")
    assert result.status == 0
    assert result.lines[1].ops == 40


def test_token_workloads_tell_of_vain_wakeups(run):
    result = run("eptest", "--threads", "1", "--ops", "100", "--batches", "1")
    batch = json.loads(result.stdout.splitlines()[-2])
    assert batch["empty_wakeups"] == 0  # alone, nobody is faster


def test_latency_workloads_tell_what_the_clock_costs(run):
    start = json.loads(run("urandom", "--ops", "10").stdout.splitlines()[0])
    assert start["clock_read_ns"] > 0
    assert start["clock"] == "CLOCK_MONOTONIC"
    assert start["clock_res_ns"] >= 1


@pytest.mark.parametrize("name", ["eptest", "mmapsem"])
def test_many_threads(run, name):
    result = run(name, "--threads", "300", "--ops", "900", "--batches", "1")
    assert (result.status, result.stderr) == (0, "")


def test_many_processes(run):
    result = run("urandom", "--workers=processes", "--threads=120", "--ops=360", "--batches=2")
    assert (result.status, result.stderr) == (0, "")


def test_more_threads_than_the_soft_limit_of_descriptors(run, programs):
    limited = ["sh", "-c", 'ulimit -S -n 64 && exec "$0" "$@"', str(programs / "eptest")]
    done = subprocess.run(
        [*limited, "--rearm", "exclusive", "--threads", "100", "--ops", "200"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
