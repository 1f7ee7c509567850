"""The proof guest: its bytes are those of its source, and a good accelerator runs it."""

import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from labctl.hypervisor import proof

from .conftest import python


def test_the_shipped_bytes_are_those_of_the_source(tmp_path: Path) -> None:
    if shutil.which("gcc") is None or shutil.which("ld") is None:
        pytest.skip("no gcc and ld")
    built, image = tmp_path / "proof.o", tmp_path / "proof.bin"
    source = proof.IMAGE.with_name("proof.S")
    subprocess.run(["gcc", "-c", "-o", built, source], check=True)
    subprocess.run(["ld", "-Ttext=0x7c00", "--oformat=binary", "-o", image, built], check=True)
    assert image.read_bytes() == proof.IMAGE.read_bytes()


@pytest.mark.guest
@pytest.mark.parametrize(
    ("machine", "cpu", "vcpus"), [("q35", "max", 2), ("pc", "qemu64", 4), ("pc", "Nehalem", 1)]
)
def test_tcg_boots_it(machine: str, cpu: str, vcpus: int) -> None:
    boot = proof.boot("tcg", cpu=cpu, machine=machine, vcpus=vcpus, timeout=60)
    assert boot.reached, boot
    steps = [line.removeprefix("labctl proof: ").split()[0] for line in boot.serial.splitlines()]
    told = ["real", "long", "cpuid", "rdmsr", "page", "cmpxchg16b", "timer", "all", "complete"]
    assert steps == told


@pytest.fixture
def nothing_to_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A disk without a boot sector: QEMU's firmware gives up and waits for ever."""
    empty = tmp_path / "empty.bin"
    empty.write_bytes(bytes(2048))
    monkeypatch.setattr(proof, "IMAGE", empty)
    return empty


@pytest.mark.guest
def test_a_guest_that_hangs_is_ended_at_the_deadline(nothing_to_boot: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    boot = proof.boot("tcg", cpu="max", timeout=3)
    assert (boot.reached, boot.status, boot.left_over) == (False, None, None)
    assert "hung" in boot.outcome and "boot" in boot.firmware.lower()
    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.guest
def test_qemu_dies_with_a_labctl_that_is_killed(nothing_to_boot: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from labctl.hypervisor import proof\n"
        "proof.IMAGE = Path(sys.argv[1]); proof.boot('tcg', cpu='max', timeout=60)"
    )
    labctl = python(code, str(nothing_to_boot))
    qemu = _child_qemu(psutil.Process(labctl.pid))
    labctl.kill()
    labctl.communicate()
    psutil.wait_procs([qemu], timeout=10)
    assert not qemu.is_running() or qemu.status() == psutil.STATUS_ZOMBIE


def _child_qemu(parent: psutil.Process) -> psutil.Process:
    while True:
        for child in parent.children():
            if child.name().startswith("qemu"):
                return child


@pytest.mark.guest
def test_qemu_that_will_not_start_says_why() -> None:
    boot = proof.boot("tcg", cpu="no-such-cpu", timeout=10)
    assert not boot.reached and boot.status == 1
    assert "no-such-cpu" in boot.stderr
