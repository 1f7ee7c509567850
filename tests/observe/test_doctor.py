"""The checks before ``up``: the machinery with probes of every temper, then this machine."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from labctl import doctor
from labctl.doctor import Guest, run_checks
from labctl.errors import ConfigError
from labctl.observe.probes import Check, Probe, run_probes
from labctl.targets import LocalTarget, SSHTarget


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def fine(name: str) -> Check:
    return Check(group="g", name=name, status="ok", finding="as it should be")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_probe_that_raises_is_a_failure_with_its_hint() -> None:
    def wrong() -> Check:
        raise ConfigError("no such key", where="lab.yaml:3", hint="did you mean vcpus?")

    def broken() -> Check:
        raise ZeroDivisionError("by nought")

    probes = [Probe("g", "wrong", 5, wrong), Probe("g", "broken", 5, broken)]
    first, second = run_probes(probes)
    assert (first.status, first.finding) == ("fail", "lab.yaml:3: no such key")
    assert first.remedy == "did you mean vcpus?"
    assert (second.status, second.finding) == ("fail", "ZeroDivisionError: by nought")


def test_one_that_hangs_fails_at_its_deadline_and_holds_nobody_up(gate: threading.Event) -> None:
    def hang() -> Check:
        gate.wait()
        return fine("hung")

    said: list[tuple[str, str]] = []
    checks = run_probes(
        [
            Probe("g", "hung", 0.05, hang),
            Probe("g", "quick", 30, lambda: fine("quick")),
            Probe("g", "several", 30, lambda: [fine("one"), fine("two")]),
        ],
        lambda name, step: said.append((name, step)),
    )
    assert [(check.name, check.status) for check in checks] == [
        ("hung", "fail"),
        ("quick", "ok"),
        ("one", "ok"),
        ("two", "ok"),
    ]
    assert not gate.is_set()
    assert "0.05 s" in checks[0].finding
    assert ("hung", "no answer") in said
    assert {("quick", "checking"), ("quick", "done")} <= set(said)


def test_they_run_side_by_side() -> None:
    meet = threading.Barrier(2, timeout=20)

    def look() -> Check:
        meet.wait()  # passed only if the other one runs at the same time
        return fine("met")

    checks = run_probes([Probe("g", "a", 30, look), Probe("g", "b", 30, look)])
    assert [check.status for check in checks] == ["ok", "ok"]


def test_this_machine(tmp_path: Path) -> None:
    checks = run_checks(
        uris={"testing": "test:///default", "bad": "nonsense:///x"},
        guests=[Guest("wide", (os.cpu_count() or 1) + 1, 128), Guest("huge", 1, 1 << 40)],
        targets=[LocalTarget("metal", str(tmp_path / "work"))],
        load_lab=lambda: "contention: 2 targets",
    )
    by_name = {(check.group, check.name): check for check in checks}
    assert by_name["lab", "lab file"].finding == "contention: 2 targets"
    assert by_name["python", "libvirt-python"].status == "ok"
    assert by_name["hypervisor", "testing"].status == "ok"
    assert by_name["hypervisor", "bad"].status == "fail"
    assert by_name["room", "memory"].status == "fail"
    cpus = by_name["room", "cpus"]
    assert cpus.status == "warn" and "wide" in cpus.finding and "huge" not in cpus.finding
    assert by_name["targets", "metal"].status == "ok"
    assert by_name["room", "ports"].status == "ok"
    for check in checks:
        assert check.remedy or check.status in ("ok", "unknown"), check
    groups = list(dict.fromkeys(check.group for check in checks))
    assert groups[0] == "lab" and groups[-1] == "noise here"


def test_kvm_is_what_the_proof_says() -> None:
    from labctl.hypervisor.accel import prove_kvm

    verdict = prove_kvm()
    check = doctor._kvm(fresh=False)
    assert check.status == ("ok" if verdict.usable else "warn")
    assert verdict.reason in check.finding
    if not verdict.usable:
        assert "TCG" in check.finding and check.remedy


def test_programs_are_looked_for_and_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {check.name: check for check in doctor._programs(with_guests=True)}
    assert {"makefs", "sgdisk"} <= found.keys()
    for name, check in found.items():
        assert (check.status == "ok") == Path(check.finding).is_file(), name
    monkeypatch.setattr(doctor, "_PROGRAMS", (("no-such-program", "its-package", "guests"),))
    assert doctor._programs(with_guests=True)[0].status == "fail"
    monkeypatch.setattr(doctor, "_PROGRAMS", (("no-such-program", "its-package", "bsd"),))
    only_bsd = doctor._programs(with_guests=True)[0]
    assert (only_bsd.status, only_bsd.remedy) == ("warn", "apt install its-package")
    assert "FreeBSD and NetBSD images" in only_bsd.finding
    monkeypatch.setattr(doctor, "_PROGRAMS", (("no-such-program", "its-package", "guests"),))
    check = doctor._programs(with_guests=False)[0]
    assert (check.status, check.remedy) == ("warn", "apt install its-package")
    (tmp_path / "no-such-program").symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._programs(with_guests=True)[0].status == "ok"


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check = doctor._ports({"linux": port})
        assert check.status == "warn" and f"{port} (linux)" in check.finding
    assert doctor._ports({"linux": port}).status == "ok"


def test_a_target_that_does_not_answer_or_cannot_be_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    obstacle = tmp_path / "file"
    obstacle.write_text("in the way")
    known = tmp_path / "known_hosts"
    known.write_text("")
    gone = SSHTarget(
        "gone", "127.0.0.1", port=port, workdir="/tmp/x", machine="m", known_hosts=known
    )
    full = LocalTarget("full", str(obstacle / "work"))
    checks = run_probes(
        [
            Probe("targets", each.name, 30, partial(doctor._target, each, 30))
            for each in (gone, full)
        ]
    )
    assert [(check.name, check.status) for check in checks] == [("gone", "fail"), ("full", "fail")]
    assert all(check.remedy for check in checks)


def test_no_room_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {check.status for check in doctor._disk(guests=1 << 40)} <= {"ok", "warn"}
    assert doctor._disk(guests=1 << 40)[1].status == "warn"
    monkeypatch.setattr(doctor, "CACHE_NEEDS_BYTES", 1 << 60)
    cache = doctor._disk(guests=0)[0]
    assert cache.status == "warn" and "XDG_CACHE_HOME" in cache.remedy
