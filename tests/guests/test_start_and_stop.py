"""Guests from image to domain and back, under real libvirt and QEMU, with a tiny guest."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl import guests
from labctl.errors import ConfigError, LabctlError, UnavailableError
from labctl.guests.record import GuestRecord, domain_name
from labctl.hypervisor import accel, domain
from labctl.hypervisor.connection import connect
from labctl.images.builder import BUILDERS
from labctl.images.catalogue import Recipe
from labctl.lab import Lab, load_lab

pytest.importorskip("libvirt")
pytestmark = pytest.mark.guest

LAB = """\
lab: proof
defaults: {{memory: 256MiB, accel: tcg, init: systemd}}
hypervisors:
  local: {{uri: embed}}
targets:
  good: {{kind: vm, image: good{good}}}
  broken: {{kind: vm, image: broken}}
  wrong: {{kind: vm, image: good, vcpus: 99}}
  hung: {{kind: vm, image: hung, vcpus: 1}}
"""


def recipe(name: str) -> Recipe:
    return Recipe.model_validate(
        {
            "name": name,
            "summary": "",
            "system": "freebsd",
            "builder": "proof",
            "disk_mib": 64,
            "hardware": {
                "machine": "pc",
                "cpu": {"kvm": "Nehalem", "tcg": "Nehalem"},
                "disk_bus": "ide",
                "nic": "e1000",
                "max_vcpus": 8,
                "memory_mib": 256,
                "video": "vga",
            },
            "tunables": {"kern.hz": "1000"},
            "build": {name: True},
        }
    )


CATALOGUE = {name: recipe(name) for name in ("good", "broken", "hung")}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One state for the module: libvirt looks at QEMU only once."""
    with (
        tempfile.TemporaryDirectory(prefix="lt-", dir="/tmp") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("CACHE", "STATE", "CONFIG"):
            patch.setenv(f"XDG_{name}_HOME", str(Path(directory) / name.lower()))
        patch.setitem(BUILDERS, "proof", "tests.guests.proof:ProofBuilder")
        yield Path(directory)


@pytest.fixture
def lab(home: Path) -> Iterator[Lab]:
    found = read(home)
    yield found
    guests.remove(found, list(found.targets))


def read(home: Path, good: str = "") -> Lab:
    path = home / "lab.yaml"
    path.write_text(LAB.format(good=good))
    return load_lab(path, images=CATALOGUE)


def start(lab: Lab, *names: str) -> dict[str, guests.Started | LabctlError]:
    return guests.start(lab, names, CATALOGUE, progress=lambda *_, **__: None)


def started(lab: Lab, name: str) -> guests.Started:
    """Start a guest and see it boot."""
    had = start(lab, name)[name]
    assert isinstance(had, guests.Started), had
    if had.started:
        deadline = time.monotonic() + 60
        while not any(event.name == "ready" for event in had.watcher.poll()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return had


def test_one_that_cannot_be_made_does_not_stop_the_others(lab: Lab) -> None:
    told: dict[str, LabctlError] = {}
    results = guests.start(
        lab,
        ["broken", "wrong", "good"],
        CATALOGUE,
        progress=lambda *_, **__: None,
        failed=told.__setitem__,
    )
    assert isinstance(results["good"], guests.Started)
    assert told == {name: results[name] for name in ("broken", "wrong")}
    assert isinstance(told["broken"], UnavailableError)
    assert told["broken"].where == "http://archive.invalid/base.txz"
    assert isinstance(told["wrong"], ConfigError)
    assert told["wrong"].where == f"{lab.path}:8"
    assert guests.look(lab, ["broken"])["broken"].state == "absent"


def test_what_was_chosen_is_recorded_with_every_run(lab: Lab, home: Path) -> None:
    changed = read(
        home,
        ", hardware: {machine: q35, disk_bus: sata, cpu: Westmere, smbios_product: KVM}, "
        "tunables: {kern.hz: 100}, sysctls: {kern.timecounter.hardware: HPET}",
    )
    assert started(changed, "good").started
    facts = guests.describe(changed, "good")
    wanted = {
        "accelerator": "tcg",
        "machine_type": "q35",
        "disk_bus": "sata",
        "nic": "e1000",
        "video": "vga",
        "cpu_model_virtual": "Westmere",
        "asked_smbios_product": "KVM",
        "asked_tunables": {"kern.hz": "100"},
        "asked_sysctls": {"kern.timecounter.hardware": "HPET"},
        "image": "good",
        "image_notes": {"set base": "sha256:1 (given by hand)"},
        "init": "",
        "vcpus": 2,
        "memory_mib": 256,
    }
    assert {key: facts[key] for key in wanted} == wanted
    assert facts["image_key"]
    assert not {"host_key", "port", "poweroff"} & facts.keys()
    with connect("embed") as connection:
        made = domain.spec_of(connection, domain_name(lab, "good"))
    assert made is not None
    assert (made.machine, made.disk_bus, made.cpu) == ("q35", "sata", "Westmere")
    assert (made.video, made.smbios_product, made.kernel) == ("vga", "KVM", None)


def test_a_guest_that_runs_otherwise_is_told_and_left_alone(lab: Lab, home: Path) -> None:
    assert started(lab, "good").started
    assert not started(lab, "good").started
    changed = read(
        home,
        ", vcpus: 3, hardware: {nic: virtio-net-pci, smbios_product: KVM}, "
        "tunables: {kern.hz: 100, a.b: 1}",
    )
    error = start(changed, "good")["good"]
    assert isinstance(error, ConfigError)
    assert error.detail.splitlines() == [
        "vcpus: it has 2, the lab file says 3",
        "nic: it has e1000, the lab file says virtio-net-pci",
        "smbios_product: it has none, the lab file says KVM",
        "tunables: it has kern.hz=1000, the lab file says a.b=1 kern.hz=100",
    ]
    assert error.hint == "labctl down good && labctl up good"
    assert not started(read(home), "good").started


def test_a_guest_of_an_older_labctl_is_known_by_what_it_recorded(lab: Lab) -> None:
    started(lab, "good")
    path = guests.directory(lab, "good") / "guest.json"
    record = GuestRecord.read(lab, "good")
    new = {name for name, info in GuestRecord.model_fields.items() if not info.is_required()}
    path.write_text(record.model_dump_json(exclude=new - {"uri", "uri_why"}))
    assert not started(lab, "good").started
    assert guests.stop(lab, ["good"], timeout=30) == {"good": "shut down"}


def test_a_killed_guest_is_started_again(lab: Lab) -> None:
    started(lab, "good")
    with connect("embed") as connection:
        pid = domain.qemu_pid(connection, domain_name(lab, "good"))
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while guests.look(lab, ["good"])["good"].state == "running":
        assert time.monotonic() < deadline
    assert started(lab, "good").started


def test_without_ssh_the_power_button_stops_it(lab: Lab) -> None:
    started(lab, "good")
    assert guests.stop(lab, ["good", "hung"], timeout=30) == {
        "good": "shut down",
        "hung": "is down already",
    }
    assert guests.stop(lab, ["good"], timeout=30) == {"good": "is down already"}
    assert started(lab, "good").started


def test_what_does_not_stop_is_powered_off_and_it_is_said(lab: Lab) -> None:
    assert isinstance(start(lab, "hung")["hung"], guests.Started)
    said = guests.stop(lab, ["hung"], timeout=1)["hung"]
    assert isinstance(said, str)
    assert said.startswith("did not shut down within 1 s and was powered off")
    assert guests.look(lab, ["hung"])["hung"].state == "shutoff"


def suspend(raw: Any, name: str) -> None:
    raw.lookupByName(name).suspend()


def hold(lab: Lab, name: str) -> None:
    """Stop a guest's virtual CPUs, as QEMU does after an error of KVM's."""
    with connect("embed") as connection:
        connection.call(suspend, domain_name(lab, name))


def test_a_guest_that_is_held_is_noticed_and_powered_off(lab: Lab) -> None:
    started(lab, "good")
    guests.check_runs(lab, "good")
    hold(lab, "good")
    with pytest.raises(guests.HeldError, match="guest is paused"):
        guests.check_runs(lab, "good")
    said = guests.stop(lab, ["good"], timeout=30)["good"]
    assert isinstance(said, str)
    assert said.startswith("was paused; it was powered off")
    with pytest.raises(UnavailableError, match="guest is shutoff") as found:
        guests.check_runs(lab, "good")
    assert not isinstance(found.value, guests.HeldError)


def test_a_guest_that_kvm_holds_is_started_under_tcg(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KVM's part is played by a verdict that is believed; the rest is as it is."""
    lab = read(home, "")
    error = guests.HeldError("held")
    under_kvm = replace(started(lab, "good"), accelerator="kvm")

    def again(held: Lab) -> guests.Started:
        return guests.start_without_kvm(
            held, "good", CATALOGUE, under_kvm, error, progress=lambda *_, **__: None
        )

    with pytest.raises(guests.HeldError):
        again(lab)  # the lab file asked for the accelerator
    (home / "lab.yaml").write_text(LAB.format(good="").replace("accel: tcg", "accel: auto"))
    free = load_lab(home / "lab.yaml", images=CATALOGUE)
    monkeypatch.setattr(
        accel,
        "prove_kvm",
        lambda **_: accel._recall(key) or accel.Verdict(True, "works", 0, key=key),
    )
    key = {"kernel": "of this test"}
    assert accel.choose("auto").accel == "kvm"
    try:
        hold(free, "good")
        new = again(free)
        assert (new.started, new.accelerator) == (True, "tcg")
        assert "no usable KVM" in new.notice
        assert "held the guest good" in accel.choose("auto").reason
    finally:
        guests.remove(free, ["good"])
