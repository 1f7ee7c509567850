"""The harness by itself: a workload of the tests' own in a folder, and the histogram."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from labctl.workloads import load_workloads

from .conftest import HERE, STRICT, WORKLOADS, run_program, sh_build

MANIFEST = """\
name: lazy
summary: a workload with faults
question: none
unit: nothing
systems: [linux]
form: lazy
program: lazy     # a comment
sources: [lazy.c, "other.c"]
libraries: [-lpthread, -lm]
params:
  fault: {help: what goes wrong, default: none, values: [none, lazy, stuck]}
  workers: {help: kind, default: threads, values: [threads, processes]}
"""

SOURCE = """\
#include "harness.h"
#include <unistd.h>

extern void other(void);
static const char *const faults[] = {"none", "lazy", "stuck", NULL};
static const char *const kinds[] = {"threads", "processes", NULL};

static void setup(struct run *run)
{
    run->processes = (int)run->values[1];
}

static void work(struct worker *worker)
{
    unsigned long done = 0;
    int odd = worker->index == 1 ? (int)worker->run->values[0] : 0;

    while (odd == 2)
        sleep(1);
    while (odd == 0 && done < worker->share) {
        other();
        count_ops(worker, ++done);
    }
}

int main(int argc, char **argv)
{
    static const struct param params[] = {
        {.name = "fault", .values = faults},
        {.name = "workers", .values = kinds},
        {.name = NULL},
    };
    static const struct workload lazy = {
        .name = "lazy", .form = "lazy", .unit = "nothing", .params = params, .setup = setup,
        .work = work,
    };
    return harness_main(argc, argv, &lazy);
}
"""


@pytest.fixture(scope="module")
def lazy(tmp_path_factory) -> Path:
    """A new workload: a folder with C and a manifest, nothing else."""
    base = tmp_path_factory.mktemp("added")
    tree = base / "workloads"
    shutil.copytree(WORKLOADS, tree)
    (tree / "lazy").mkdir()
    (tree / "lazy" / "workload.yaml").write_text(MANIFEST)
    (tree / "lazy" / "lazy.c").write_text(SOURCE)
    (tree / "lazy" / "other.c").write_text("void other(void);\nvoid other(void)\n{\n}\n")
    assert "lazy" in load_workloads(tree)
    done = sh_build(base / "bin", "lazy", source=tree, CFLAGS=STRICT, LINK="dynamic")
    assert (done.returncode, done.stderr) == (0, "")
    return base / "bin" / "lazy"


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_an_added_workload_runs(lazy, workers):
    result = run_program(lazy, "--workers", workers, "--threads=3", "--ops=100000")
    assert (result.status, result.stderr, result.ended) == (0, "", True)


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_worker_without_its_share_spoils_the_result(lazy, workers):
    result = run_program(lazy, f"--workers={workers}", "--threads=3", "--ops=10", "--fault=lazy")
    assert (result.status, result.ended) == (70, False)
    assert "worker 1 did 0 of its 3 operations" in result.stderr


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_worker_that_is_stuck_is_no_hang(lazy, workers):
    result = run_program(
        lazy, f"--workers={workers}", "--threads=3", "--ops=9", "--fault=stuck", "--stall=1"
    )
    assert (result.status, result.ended) == (70, False)
    assert "no progress for 1 s: 6 of 9 nothings are done" in result.stderr


@pytest.fixture(scope="module")
def histogram(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("histogram") / "histogram"
    harness = WORKLOADS / "harness"
    subprocess.run(
        [
            *("cc", "-std=c99", *STRICT.split(), f"-I{harness}"),
            *(str(HERE / "histogram_main.c"), str(harness / "latency.c"), "-o", str(program)),
        ],
        check=True,
    )
    return program


def summarise(program: Path, times: list[int]) -> list[list[int]]:
    text = "".join(f"{ns}\n" for ns in times)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def test_histogram_keeps_quantiles_within_its_resolution(histogram):
    rng = np.random.default_rng(7)
    times = sorted(int(t) for t in np.exp(rng.uniform(0, np.log(1e11), 5001)))
    (total, p50, p99, most), *buckets = summarise(histogram, times)
    assert total == len(times) == sum(count for _, _, count in buckets)
    assert most == times[-1]
    assert abs(p50 / times[2500] - 1) <= 1 / 63
    assert abs(p99 / times[4950] - 1) <= 1 / 63
    for lower, upper, count in buckets:
        assert sum(lower <= t < upper for t in times) == count
        assert upper - lower <= max(1, lower / 32)


def test_histogram_at_the_edges(histogram):
    edges = [0, 1, 31, 32, 63, 64, 65, 2**20 - 1, 2**20, 2**40 - 1, 2**40, 2**50]
    (total, _, p99, most), *buckets = summarise(histogram, edges)
    assert (total, most, p99) == (len(edges), 2**50, 2**50)
    assert [lower for lower, _, _ in buckets[:5]] == [0, 1, 31, 32, 63]
    assert buckets[-1][2] == 3  # beyond the range: kept in the last one


def test_histogram_of_one_time(histogram):
    (_, p50, p99, most), _ = summarise(histogram, [1000])
    assert (p50, p99, most) == (1000, 1000, 1000)
