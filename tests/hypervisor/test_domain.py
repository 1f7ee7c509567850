"""Real domains under the embedded driver, with the proof guest as their disk."""

import dataclasses
import pickle
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labctl.errors import UnavailableError
from labctl.hypervisor import domain, ports, proof
from labctl.hypervisor.connection import connect
from labctl.hypervisor.console import Watcher, tail
from labctl.hypervisor.domain import DomainDiffersError, DomainSpec, PortTakenError

from .conftest import python

pytest.importorskip("libvirt")
pytestmark = pytest.mark.guest

NAME = "labctl-test & <guest>"
START = """
import pickle, sys, time
from labctl.hypervisor import domain
from labctl.hypervisor.connection import connect
with connect("embed") as connection:
    print(domain.ensure_running(connection, pickle.loads(bytes.fromhex(sys.argv[1]))), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def spec(home: Path, tmp_path: Path) -> Iterator[DomainSpec]:
    disk = tmp_path / "disk, <a&b>.img"
    proof.write_disk(disk)
    yield DomainSpec(
        name=NAME,
        title="a test's guest",
        vcpus=2,
        memory_mib=64,
        accel="tcg",
        machine="q35",
        disk=disk,
        disk_format="raw",
        console_log=tmp_path / "log" / "console.log",
        ssh_port=ports.claim_port(NAME, tmp_path / "ports"),
    )
    with connect("embed") as connection:
        domain.destroy(connection, NAME)
        domain.undefine(connection, NAME)
        assert domain.state(connection, NAME) == "absent"


def wait_for(watcher: Watcher, name: str) -> None:
    deadline = time.monotonic() + 60
    while name not in [event.name for event in watcher.poll()]:
        assert time.monotonic() < deadline, tail(watcher.path)
        time.sleep(0.05)


def test_start_ask_shut_down_start_again(spec: DomainSpec, tmp_path: Path) -> None:
    watcher = Watcher(spec.console_log)
    with connect("embed") as connection:
        assert domain.ensure_running(connection, spec)
        assert not domain.ensure_running(connection, spec)
        assert domain.list_domains(connection, "labctl-test") == {NAME: "running"}
        assert domain.query_accelerator(connection, NAME) == "tcg"
        assert domain.vcpu_threads(connection, NAME) == 2
        assert domain.qemu_version(connection, NAME).count(".") == 2
        assert domain.domstats(connection, NAME)["vcpu.current"] == 2
        assert domain.spec_of(connection, NAME) == spec
        assert domain.qemu_version(connection, NAME) in proof_version()
        qemu = psutil.Process(domain.qemu_pid(connection, NAME))
        assert qemu.name().startswith("qemu")
    wait_for(watcher, "ready")
    assert stat.S_IMODE(spec.console_log.stat().st_mode) == 0o600
    assert ports.claim_port(NAME, tmp_path / "ports") == spec.ssh_port  # its own QEMU has it
    with connect("embed") as connection:
        assert domain.shutdown(connection, NAME, timeout=30)
        assert domain.state(connection, NAME) == "shutoff"
        assert domain.shutdown(connection, NAME)
        assert not qemu.is_running()
        with pytest.raises(UnavailableError):
            domain.query_accelerator(connection, NAME)
        assert domain.ensure_running(connection, dataclasses.replace(spec, vcpus=1))
        wait_for(watcher, "ready")
    assert tail(spec.console_log).count(proof.MARKER) == 2  # the first boot's log stays


def proof_version() -> str:
    return subprocess.run([proof.QEMU, "--version"], capture_output=True, text=True).stdout


def test_another_spec_is_reported_and_replaced_when_asked(spec: DomainSpec) -> None:
    other = dataclasses.replace(spec, vcpus=1, memory_mib=32)
    with connect("embed") as connection:
        domain.ensure_running(connection, spec)
        with pytest.raises(DomainDiffersError) as caught:
            domain.ensure_running(connection, other)
        assert caught.value.detail.splitlines() == ["vcpus is 2, not 1", "memory_mib is 64, not 32"]
        assert domain.spec_of(connection, NAME) == spec
        assert domain.ensure_running(connection, other, replace=True)
        assert domain.vcpu_threads(connection, NAME) == 1


def test_a_taken_port_is_told_apart_and_leaves_nothing(spec: DomainSpec) -> None:
    with socket.socket() as squatter, connect("embed") as connection:
        squatter.bind(("127.0.0.1", spec.ssh_port))
        squatter.listen()
        with pytest.raises(PortTakenError):
            domain.ensure_running(connection, spec)
        assert domain.state(connection, NAME) == "absent"


def test_a_guest_outlives_a_labctl_that_is_killed(spec: DomainSpec) -> None:
    starter = python(START, pickle.dumps(spec).hex())
    assert starter.stdout and starter.stdout.readline() == "True\n"
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    with connect("auto") as connection:
        assert connection.is_embedded, "auto stays where the guests are"
        assert domain.state(connection, NAME) == "running"
        assert not domain.ensure_running(connection, spec)
        pid = domain.qemu_pid(connection, NAME)
        domain.destroy(connection, NAME)
        assert domain.state(connection, NAME) == "shutoff"
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("machine", "bus", "nic", "video"),
    [
        ("pc", "ide", "e1000", "vga"),
        ("pc", "sata", "e1000", "none"),
        ("pc", "virtio", "virtio-net-pci", "vga"),
        ("q35", "sata", "e1000", "vga"),
        ("q35", "virtio", "virtio-net-pci", "none"),
    ],
)
def test_each_hardware_with_pinning_and_smbios(
    spec: DomainSpec, machine: str, bus: str, nic: str, video: str
) -> None:
    spec = dataclasses.replace(
        spec,
        machine=machine,
        disk_bus=bus,  # type: ignore[arg-type]
        nic=nic,
        video=video,  # type: ignore[arg-type]
        cpu="Nehalem",
        pinning=(0, 0),
        smbios_product="KVM",
    )
    watcher = Watcher(spec.console_log)
    with connect("embed") as connection:
        domain.ensure_running(connection, spec)
        wait_for(watcher, "ready")
        command = psutil.Process(domain.qemu_pid(connection, NAME)).cmdline()
        devices = [
            device
            for pci in domain._monitor(connection, NAME, "query-pci")
            for device in pci["devices"]
        ]
    (smbios,) = [word for word in command if "product=KVM" in word]
    assert smbios.startswith("type=1,")
    assert "manufacturer" not in smbios  # QEMU's own stays
    assert any(word.startswith(f"{nic},") for word in command)
    classes = {device["class_info"]["class"] for device in devices}
    assert (0x0300 in classes) == (video == "vga")
    assert 0x0C03 not in classes, "a USB controller"
    if bus == "virtio":  # also the device that systems of before virtio 1.0 know
        assert 0x1001 in [device["id"]["device"] for device in devices]
