"""KVM or TCG? KVM is believed when it has booted a guest, not when /dev/kvm is there.

``/dev/kvm`` can open, make a VM and vCPUs, and still run no guest (a host whose KVM
has neither VMX nor SVM under it). So the proof guest is booted under it, as labctl's
guests are run, and the verdict remembered for as long as kernel, QEMU and CPU stay
the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labctl import paths
from labctl.errors import ConfigError, UnavailableError
from labctl.hypervisor import proof

DEVICE = Path("/dev/kvm")
_RETRY_S = 24 * 3600  # a verdict "not usable" is looked at anew after a day
_FLAGS = ("vmx", "svm")


@dataclass(frozen=True)
class Verdict:
    """Whether KVM runs guests on this host.

    Attributes:
        reason: a sentence.
        seconds: how long the proof took (when it was made, if ``cached``).
        cached: whether it was remembered from an earlier proof.
        key: what it holds for: kernel, QEMU, CPU; {} where no boot was tried.
        evidence: QEMU's messages, the guest's last output, the CPU's flags.
        hint: what to do, "" if nothing.
    """

    usable: bool
    reason: str
    seconds: float
    cached: bool = False
    key: dict[str, str] = dataclasses.field(default_factory=dict)
    evidence: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Choice:
    """The accelerator to run guests with. ``loud``: a fall back that the user must be
    told, as times under TCG mean nothing."""

    accel: Literal["kvm", "tcg"]
    reason: str
    loud: bool


def choose(accel: str, *, timeout: float = 10.0) -> Choice:
    """The accelerator for "auto", "kvm" or "tcg" as the lab file says.

    Raises:
        UnavailableError: "kvm" was asked for and does not run guests here.
        ConfigError: any other word.
    """
    if accel == "tcg":
        return Choice("tcg", "the lab file asks for TCG", loud=False)
    if accel not in ("auto", "kvm"):
        raise ConfigError(f"no such accelerator: {accel!r}", hint="accel: auto, kvm or tcg")
    verdict = prove_kvm(timeout=timeout)
    if verdict.usable:
        return Choice("kvm", verdict.reason, loud=False)
    if accel == "kvm":
        raise UnavailableError(
            f"KVM is not usable on this host: {verdict.reason}",
            hint=f"{verdict.hint}; or set accel: auto (results under TCG are functional only)",
            detail=verdict.evidence,
        )
    return Choice("tcg", f"KVM is not usable: {verdict.reason}", loud=True)


def prove_kvm(
    *, timeout: float = 10.0, force: bool = False, cpu: str = "host", machine: str = "q35"
) -> Verdict:
    """Prove by a boot that KVM runs guests here, or say why not.

    Args:
        timeout: seconds that the guest has to reach its marker (it needs about one).
        force: boot even if a verdict is remembered.
        cpu, machine: as labctl's guests have them under KVM.
    """
    obvious = _obstacle()
    if obvious is not None:
        return obvious
    key = _key(cpu, machine)
    if not force:
        remembered = _recall(key)
        if remembered is not None:
            return remembered
    verdict = _judge(proof.boot("kvm", cpu=cpu, machine=machine, timeout=timeout), key)
    _remember(verdict)
    return verdict


def distrust(reason: str) -> None:
    """Remember that KVM is not usable though the proof guest booted: ``reason``, a clause.

    It holds as a verdict of the proof does, until kernel, QEMU or CPU change, a day at most.
    """
    verdict = prove_kvm()
    _remember(
        dataclasses.replace(
            verdict,
            usable=False,
            cached=False,
            reason=f"it boots the proof guest, but {reason}",
            hint="look at the kernel log (dmesg) for kvm; `labctl doctor --fresh` tries again",
        )
    )


def _obstacle() -> Verdict | None:
    """What makes a boot pointless: no QEMU, no device, no leave to open it."""
    if shutil.which(proof.QEMU) is None:
        return Verdict(
            False, f"{proof.QEMU} is not installed", 0.0, hint="apt-get install qemu-system-x86"
        )
    if not DEVICE.exists():
        return Verdict(
            False,
            f"{DEVICE} is absent",
            0.0,
            evidence=_flags_evidence(),
            hint="load kvm_intel or kvm_amd; turn on VT-x or AMD-V in the firmware, or nested "
            "virtualization on the host above",
        )
    try:
        os.close(os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Verdict(
            False,
            f"permission denied on {DEVICE}",
            0.0,
            hint="add yourself to group kvm: sudo usermod -aG kvm $USER, then log in again",
        )
    except OSError as error:
        return Verdict(
            False, f"{DEVICE} does not open: {error.strerror}", 0.0, evidence=_flags_evidence()
        )
    return None


def _judge(boot: proof.Boot, key: dict[str, str]) -> Verdict:
    if boot.reached:
        return Verdict(True, f"KVM works: {boot.outcome}", boot.seconds, key=key)
    flags = _cpu()["flags"].split()
    bare = not any(flag in flags for flag in _FLAGS)
    reason = f"{DEVICE} is there, but boots no guest: {boot.outcome}"
    if bare:
        reason += "; the CPU shows neither vmx nor svm"
    if boot.left_over is not None:
        reason += f"; QEMU (process {boot.left_over}) cannot be killed"
    evidence = [
        f"QEMU said:\n{boot.stderr}" if boot.stderr else "QEMU said nothing",
        f"the guest's serial port said:\n{boot.serial}"
        if boot.serial
        else "the guest's serial port said nothing",
        f"the firmware's log ended with:\n{boot.firmware}"
        if boot.firmware
        else "the firmware said nothing",
        _flags_evidence(),
    ]
    hint = (
        "turn on VT-x or AMD-V (on a virtual host: nested virtualization)"
        if bare
        else "look at the kernel log (dmesg) for kvm, and try a newer QEMU or kernel"
    )
    return Verdict(False, reason, boot.seconds, key=key, evidence="\n".join(evidence), hint=hint)


def _flags_evidence() -> str:
    cpu = _cpu()
    have = [flag for flag in _FLAGS if flag in cpu["flags"].split()]
    return f"CPU: {cpu['model']}, {'flag ' + have[0] if have else 'neither vmx nor svm'}"


def _cpu() -> dict[str, str]:
    """Model, flags and microcode of the first CPU ("" where not shown)."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return {
        "model": fields.get("model name", ""),
        "flags": fields.get("flags", ""),
        "microcode": fields.get("microcode", ""),
    }


def _key(cpu: str, machine: str) -> dict[str, str]:
    binary = proof.qemu_binary()
    host, stat = _cpu(), Path(binary).stat()
    version = subprocess.run(
        [binary, "--version"], capture_output=True, text=True, check=False, timeout=10
    )
    first_line = version.stdout.partition("\n")[0]
    system = platform.uname()
    return {
        "kernel": f"{system.release} {system.version}",
        "qemu": f"{binary} {stat.st_size} {stat.st_mtime_ns} {first_line}",
        "cpu": host["model"],
        "flags": hashlib.sha256(host["flags"].encode()).hexdigest()[:16],
        "microcode": host["microcode"],
        "guest": f"{machine} {cpu} {hashlib.sha256(proof.IMAGE.read_bytes()).hexdigest()[:16]}",
    }


def _store() -> Path:
    return paths.cache_dir() / "accel.json"


def _recall(key: dict[str, str]) -> Verdict | None:
    try:
        record = json.loads(_store().read_text())
        verdict = Verdict(**{**record["verdict"], "cached": True})
        age_s = time.time() - record["when"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fresh = verdict.usable or 0 <= age_s < _RETRY_S
    return verdict if verdict.key == key and fresh else None


def _remember(verdict: Verdict) -> None:
    record = {"when": time.time(), "verdict": dataclasses.asdict(verdict)}
    paths.write_atomic(_store(), json.dumps(record, indent=2) + "\n")
