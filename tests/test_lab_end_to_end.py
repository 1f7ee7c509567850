"""The main job on a real lab: this machine and a Linux guest under libvirt and QEMU.

Times are not asserted here (benchmarks/ has them); what is asserted is what was done.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from labctl.sweep.journal import read_journal
from labctl.sweep.records import FactsRecord
from tests.conftest import Labctl

pytestmark = pytest.mark.guest


def test_a_second_up_does_nothing(lab: Labctl) -> None:
    for target in lab.json("up")["targets"]:
        assert target["ready"]
        assert not target["changed"]


def test_status_says_what_qemu_says(lab: Labctl) -> None:
    rows = {row["name"]: row for row in lab.json("status")["targets"]}
    guest = rows["linux"]
    assert guest["state"] == "running"
    assert guest["deployed"] == "current"
    assert guest["accelerator"] in ("kvm", "tcg")
    assert guest["address"].startswith("127.0.0.1:")
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    port = guest["address"].rpartition(":")[2]
    mine = [
        line.split()[3] for line in listening.splitlines() if line.split()[3].endswith(f":{port}")
    ]
    assert mine == [guest["address"]]


def test_ssh_passes_the_exit_code_and_the_words_on(lab: Labctl) -> None:
    assert lab("ssh", "linux", "uname", "-s").stdout == "Linux\n"
    assert lab("ssh", "linux", "printf", "%s|", "a b", "$HOME;id").stdout == "a b|$HOME;id|"
    lab("ssh", "linux", "--", "sh", "-c", "exit 7", status=7)


def test_the_console_is_kept(lab: Labctl) -> None:
    assert "labctl: ready" in lab("console", "linux", "-n", "1000").stdout


def test_a_changed_lab_file_is_told_and_a_running_guest_left_alone(lab: Labctl) -> None:
    path = lab.directory / "lab.yaml"
    before = path.read_text()
    path.write_text(before.replace("image: debian-12", "image: debian-12, vcpus: 1"))
    try:
        error = lab("up", "linux", status=2).stderr
    finally:
        path.write_text(before)
    assert "vcpus: it has 2, the lab file says 1" in error
    assert "labctl down linux && labctl up linux" in error


def test_a_sweep_over_both_and_its_report(lab: Labctl) -> None:
    done = lab.json(
        "sweep", "kqtest", "urandom", "--threads", "1,2", "--rounds", "2", "--min-batch-ms", "10",
        "--param", "rearm=oneshot,exclusive",
    )  # fmt: skip
    run = lab.directory / "results" / done["run"]
    view = read_journal(run)
    assert len(view.done) == len(view.header.executions) == 2 * 2 * 2 * 3
    facts = {(r.target, r.moment): r.facts for r in view.records if isinstance(r, FactsRecord)}
    assert set(facts) == {(t, m) for t in ("metal", "linux") for m in ("start", "end")}
    assert facts["linux", "start"]["accelerator"] in ("kvm", "tcg")
    assert facts["linux", "start"]["image"] == "debian-12"
    text = lab("report", done["run"]).stdout
    assert "epoll (eptest)" in text
    assert "ratio linux / metal" in text
    assert (run / "samples.parquet").is_file()
    model = json.loads(lab("report", "--json").stdout)
    assert model["schema"] == 3


def test_boots_are_real_boots(lab: Labctl) -> None:
    done = lab.json(
        "sweep", "eptest", "--targets", "linux", "--threads", "1", "--rounds", "1",
        "--boots", "2", "--min-batch-ms", "10",
    )  # fmt: skip
    view = read_journal(lab.directory / "results" / done["run"])
    boots = {r.boot: r.boot_id for r in view.records if isinstance(r, FactsRecord)}
    assert set(boots) == {0, 1}
    assert boots[0] != boots[1]


def test_boots_are_added_until_the_interval_is_narrow(lab: Labctl) -> None:
    design = ("eptest", "--targets", "linux", "--threads", "1", "--rounds", "1", "--boots", "3")
    done = lab.json("sweep", *design, "--min-batch-ms", "10", "--until", "100%", "--at-most", "3")
    view = read_journal(lab.directory / "results" / done["run"])
    (stop,) = [stop for phase in view.phases for stop in phase.stops]
    assert stop.boots >= 6
    assert stop.reason in ("narrow", "cap")
    identities = {r.boot_id for r in view.records if isinstance(r, FactsRecord)}
    assert len(identities) == stop.boots
    told = lab.json("plan", *design[:-1], "4", "--min-batch-ms", "10", "--from", done["run"])
    (machine,) = told["machines"]
    assert machine["reboots"] == 3
    assert machine["reboot_s"] > 3
    assert told["cells"][0]["half_width"] is not None


def test_a_guest_that_dies_in_a_sweep_is_left_out_and_the_run_resumes(lab: Labctl) -> None:
    sweep = ("sweep", "eptest", "--threads", "1", "--rounds", "12", "--min-batch-ms", "100")
    before = set((lab.directory / "results").glob("*"))
    process = lab.start(*sweep)
    while not (new := set((lab.directory / "results").glob("[!.]*")) - before):
        assert process.poll() is None
    (run,) = new
    while not read_journal(run).done:
        assert process.poll() is None
    os.kill(qemu_of(lab, "linux"), signal.SIGKILL)
    text = process.communicate(timeout=200)[0]
    assert process.returncode == 4, text
    assert f"--resume {run.name}" in text
    left = {e.cell.target for e in read_journal(run).pending()}
    assert left == {"linux"}
    lab("up")
    lab("sweep", "--resume", run.name)
    assert not read_journal(run).pending()


def test_down_shuts_down_in_order_and_up_brings_back(lab: Labctl) -> None:
    assert "linux: shut down" in lab("down").stderr
    assert "is down already" in lab("down").stderr
    rows = {row["name"]: row["state"] for row in lab.json("status")["targets"]}
    assert rows["linux"] != "running"
    assert "labctl up" in lab("sweep", "eptest", "--targets", "linux", status=3).stderr
    lab("up")


def test_private_keys_are_private(lab: Labctl) -> None:
    state = Path(lab.environment["XDG_STATE_HOME"])
    found = [p for p in state.rglob("*") if p.is_file() and b"PRIVATE KEY" in p.read_bytes()[:200]]
    assert len(found) >= 2
    assert {oct(p.stat().st_mode & 0o777) for p in found} == {"0o600"}


def qemu_of(lab: Labctl, name: str) -> int:
    """Pid of a guest's QEMU, by the port that it listens on."""
    state = Path(lab.environment["XDG_STATE_HOME"])
    (record,) = state.glob(f"labctl/labs/*/guests/{name}/guest.json")
    domain = json.loads(record.read_text())["domain"]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "qemu" in words[0] and any(w.startswith(f"guest={domain}") for w in words):
            return int(entry.name)
    raise AssertionError("no QEMU")
