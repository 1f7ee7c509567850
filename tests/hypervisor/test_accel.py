"""The accelerator proof, on whatever host the tests run."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl.errors import ConfigError, UnavailableError
from labctl.hypervisor import accel, proof

from .conftest import PYTHON

pytestmark = pytest.mark.skipif(shutil.which(proof.QEMU) is None, reason="QEMU is not installed")


def boot_that(**changes: object) -> proof.Boot:
    values: dict[str, object] = {
        "reached": False,
        "status": None,
        "seconds": 10.0,
        "serial": "",
        "firmware": "",
        "stderr": "",
    }
    return proof.Boot(**(values | changes))  # type: ignore[arg-type]


def test_no_device(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "DEVICE", new_home / "kvm")
    verdict = accel.prove_kvm()
    assert not verdict.usable and "absent" in verdict.reason and verdict.hint
    choice = accel.choose("auto")
    assert (choice.accel, choice.loud) == ("tcg", True)
    with pytest.raises(UnavailableError, match="absent") as caught:
        accel.choose("kvm")
    assert "accel: auto" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="must be root to become somebody else")
def test_no_permission(new_home: Path) -> None:
    device = Path("/tmp") / f"labctl-test-kvm-{os.getpid()}"
    device.touch(0o600)
    code = (
        "import os, sys; from pathlib import Path; from labctl.hypervisor import accel\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "accel.DEVICE = Path(sys.argv[1]); v = accel.prove_kvm(); print(v.usable, v.reason, v.hint)"
    )
    try:
        done = subprocess.run(
            [PYTHON, "-c", code, str(device)], capture_output=True, text=True, check=True
        )
    finally:
        device.unlink()
    assert done.stdout.startswith("False permission denied")
    assert "group kvm" in done.stdout


def test_tcg_is_not_questioned() -> None:
    assert accel.choose("tcg") == accel.Choice("tcg", "the lab file asks for TCG", loud=False)


def test_an_unknown_accelerator() -> None:
    with pytest.raises(ConfigError):
        accel.choose("hvf")


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm")
@pytest.mark.guest
def test_this_hosts_kvm_is_judged_by_a_boot_and_remembered(new_home: Path) -> None:
    verdict = accel.prove_kvm()
    assert not verdict.cached and verdict.key["kernel"]
    again = accel.prove_kvm()
    assert again.cached and again.usable == verdict.usable and again.reason == verdict.reason
    assert not accel.prove_kvm(force=True).cached
    if verdict.usable:
        assert accel.choose("kvm").accel == "kvm"
        return
    assert "boots no guest" in verdict.reason and "CPU:" in verdict.evidence
    with pytest.raises(UnavailableError) as caught:
        accel.choose("kvm")
    assert caught.value.detail == verdict.evidence


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm")
@pytest.mark.guest
def test_another_kernel_or_a_broken_record_is_proved_anew(new_home: Path) -> None:
    accel.prove_kvm()
    store = new_home / "cache" / "labctl" / "accel.json"
    record = json.loads(store.read_text())
    record["verdict"]["key"]["kernel"] = "another"
    for content in (json.dumps(record), "{", "[]", '{"verdict": {"no": 1}, "when": 0}'):
        store.write_text(content)
        assert not accel.prove_kvm().cached


def test_a_no_is_forgotten_after_a_day(new_home: Path) -> None:
    key = {"kernel": "x"}
    accel._remember(accel.Verdict(False, "hung", 10.0, key=key))
    assert accel._recall(key) is not None
    store = new_home / "cache" / "labctl" / "accel.json"
    store.write_text(json.dumps(json.loads(store.read_text()) | {"when": 0}))
    assert accel._recall(key) is None


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        (boot_that(firmware="Scan for option roms"), "firmware last said 'Scan for option roms'"),
        (boot_that(serial="labctl proof: rdmsr"), "guest last said 'labctl proof: rdmsr'"),
        (boot_that(), "not even the firmware spoke"),
        (boot_that(status=-6, stderr="failed to set MSR 0x10a"), r"SIGABRT \(failed to set MSR"),
        (boot_that(status=1), "status 1"),
        (boot_that(left_over=42), "process 42"),
    ],
)
def test_the_reason_says_where_it_stopped(boot: proof.Boot, words: str) -> None:
    verdict = accel._judge(boot, {})
    assert not verdict.usable
    assert re.search(words, verdict.reason)
