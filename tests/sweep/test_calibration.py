"""Batches of one length on all targets that are compared."""

from __future__ import annotations

import pytest

from labctl.sweep import calibration
from labctl.sweep.calibration import told
from labctl.sweep.records import CalibrationRecord, Cell
from labctl.workloads import Calibration


def cell(target, threads=2):
    return Cell(
        target=target, workload="eptest", program="eptest", form="epoll", unit="message",
        params={"rearm": "oneshot"}, threads=threads,
    )  # fmt: skip


def found(ops, wall_ns):
    return Calibration(type="calibration", ops=ops, wall_ns=wall_ns)


MACHINES = {"metal": "here", "linux": "here", "box": "there"}


def settle(cell, found, others):
    return calibration.settle(cell, found, others, MACHINES.__getitem__)


FIRST = CalibrationRecord(time="", cell=cell("metal").key, ops=8192, wall_ns=20_000_000)


def test_the_first_of_a_cell_does_what_it_found():
    assert settle(cell("metal"), found(8192, 20), []) == (8192, 20)
    assert settle(cell("metal"), found(4096, 20), [FIRST]) == (4096, 20), "its own is no other"
    assert settle(cell("linux", 4), found(4096, 20), [FIRST]) == (4096, 20), "another work"
    assert settle(cell("box"), found(4096, 20), [FIRST]) == (4096, 20), "another machine"


@pytest.mark.parametrize("us", [1.3, 2.4, 4.5])
def test_times_that_are_near_take_equally_many_operations(us):
    for ops in (8192, 16384):
        settled, wall_ns = settle(cell("linux"), found(ops, round(ops * us * 1000)), [FIRST])
        assert settled == 8192
        assert wall_ns == pytest.approx(8192 * us * 1000, rel=1e-6)


@pytest.mark.parametrize("us", [0.3, 12.0, 100.0])
def test_times_that_are_far_apart_take_equally_long(us):
    ops, wall_ns = settle(cell("linux"), found(2048, round(2048 * us * 1000)), [FIRST])
    assert wall_ns == pytest.approx(20_000_000, rel=0.01)
    assert ops == pytest.approx(20_000 / us, rel=0.01)


def test_each_worker_has_an_operation_to_do():
    assert settle(cell("linux", 64), found(64, 64 * 10**9), [
        CalibrationRecord(time="", cell=cell("metal", 64).key, ops=8192, wall_ns=20_000_000)
    ])[0] == 64  # fmt: skip


def test_a_calibration_is_known_by_the_median_of_its_batches():
    batch = (
        '{{"type":"batch","index":{},"ops":64,"wall_ns":{},"user_ns":0,"sys_ns":0,"vcsw":0,'
        '"ivcsw":0,"min_thread_ops":32,"max_thread_ops":32}}'
    )
    lines = [
        '{"type":"calibration","ops":32,"wall_ns":100}',
        '{"type":"calibration","ops":64,"wall_ns":900}',
        *(batch.format(index, wall_ns) for index, wall_ns in enumerate((210, 200, 700))),
    ]
    assert told(lines) == found(64, 210)
    assert told(lines[:2]) is None, "it ended before a batch"
    assert told([]) is None
