"""A lab with an ``ssh`` target: a real sshd on loopback, from ``up`` to the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.sweep.journal import read_journal
from tests.conftest import Labctl
from tests.sshd import Sshd, running_sshd

pytestmark = pytest.mark.slow


def write_lab(labctl: Labctl, server: Sshd, workdir: Path) -> None:
    (labctl.directory / "lab.yaml").write_text(
        f"""
lab: two
targets:
  here: {{kind: local}}
  box:
    kind: ssh
    host: 127.0.0.1
    port: {server.port}
    user: {server.user}
    identity: {server.identity}
    known_hosts: {server.known_hosts}
    workdir: {workdir}
"""
    )


def test_an_ssh_target_from_up_to_report(labctl: Labctl, tmp_path: Path) -> None:
    workdir = tmp_path / "on the box"
    with running_sshd(tmp_path / "server") as server:
        write_lab(labctl, server, workdir)
        assert all(target["ready"] for target in labctl.json("up")["targets"])
        assert not any(target["changed"] for target in labctl.json("up")["targets"])
        assert labctl.json("sweep", "kqtest", "--dry-run", "--threads", "1")["executions"]
        done = labctl.json(
            "sweep", "kqtest", "--threads", "1,2", "--rounds", "2", "--min-batch-ms", "10"
        )
    assert done["done"] == 2 * 2 * 2
    view = read_journal(labctl.directory / "results" / done["run"])
    # Both are this machine: their cells never ran at the same time.
    assert {t["machine"] for t in view.header.targets.values()} == {"local"}
    assert "box" in labctl("report").stdout
    assert not (workdir / "lock").exists()


def test_a_target_that_cannot_be_used_does_not_stop_the_others(
    labctl: Labctl, tmp_path: Path
) -> None:
    with running_sshd(tmp_path / "server") as server:
        write_lab(labctl, server, tmp_path / "work")
        server.known_hosts.write_text("")
        done = labctl("up", status=4)
    assert "host key" in done.stderr
    assert "here: ready" in done.stderr
    sweep = ("sweep", "eptest", "--threads", "1", "--rounds", "1", "--min-batch-ms", "5")
    swept = labctl(*sweep, status=4)
    assert "left out: box: " in swept.stderr
    assert "is complete without box" in swept.stderr
    (run,) = (labctl.directory / "results").iterdir()
    (left_out,) = read_journal(run).header.skipped
    assert left_out.startswith("box: ")
    assert "left out: box: " in " ".join(labctl("report").stdout.split())
    # Who is named must be there.
    error = labctl(*sweep, "--targets", "here,box", status=3).stderr
    assert "cannot be measured: box" in error
    assert list((labctl.directory / "results").iterdir()) == [run]


def test_an_unwritable_workdir_is_found_before_anything_is_measured(
    labctl: Labctl, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")  # a file where a directory is wanted: root cannot write there either
    with running_sshd(tmp_path / "server") as server:
        write_lab(labctl, server, blocked / "work")
        done = labctl("up", "box", status=3)
    assert str(blocked) in done.stderr
    assert not (labctl.directory / "results").exists()
    assert blocked.is_file()
