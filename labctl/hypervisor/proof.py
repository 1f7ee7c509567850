"""The proof guest: 2 KiB of our own that QEMU boots to a marker, or does not.

Its source is ``guest/proof.S``. This module runs it under plain QEMU, within a
deadline, and leaves no process behind; what the outcome means is for ``accel``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import UnavailableError
from labctl.hypervisor import console

QEMU = "qemu-system-x86_64"
IMAGE = Path(__file__).with_name("guest") / "proof.bin"
MARKER = "labctl proof: complete"
DISK_BYTES = 1 << 20  # SeaBIOS reads no boot sector from a SATA disk of less than a cylinder
_EXIT_DONE = 33  # what the guest writes to isa-debug-exit, times two, plus one
_POLL_S = 0.05
_KVM_STOPPED = b"KVM internal error"  # QEMU says so, and holds the guest for good
_KILL_GRACE = 5.0  # seconds that a killed QEMU has to be gone


@dataclass(frozen=True)
class Boot:
    """How one boot of the proof guest went.

    Attributes:
        reached: whether the marker came and QEMU ended as the guest told it to.
        status: QEMU's exit status (negative: the signal that ended it); None: it did not
            end and was killed, at the deadline or when KVM gave up.
        seconds: wall time.
        serial: what the guest said, cleaned.
        firmware: the last lines of the BIOS's own log.
        stderr: what QEMU said.
        left_over: process id of a QEMU that could not be killed, else None.
    """

    reached: bool
    status: int | None
    seconds: float
    serial: str
    firmware: str
    stderr: str
    left_over: int | None = None

    @property
    def outcome(self) -> str:
        """How it ended, in a few words."""
        last = (self.serial or self.firmware).splitlines()[-1:]
        who = "the guest" if self.serial else "the firmware"
        where = f"{who} last said {last[0]!r}" if last else "not even the firmware spoke"
        if self.reached:
            return f"a guest booted in {self.seconds:.1f} s"
        if self.status is None and _KVM_STOPPED.decode() in self.stderr:
            return f"KVM gave up ({where})"
        if self.status is None:
            return f"a guest hung for {self.seconds:.0f} s ({where})"
        if self.status < 0:
            name = signal.Signals(-self.status).name
            said = f" ({self.stderr.splitlines()[0]})" if self.stderr else ""
            return f"QEMU was ended by {name}{said}"
        return f"QEMU exited with status {self.status} ({where})"


def qemu_binary() -> str:
    """Path of QEMU for x86-64.

    Raises:
        UnavailableError: it is not installed.
    """
    found = shutil.which(QEMU)
    if found is None:
        raise UnavailableError(f"{QEMU} is not installed", hint="apt-get install qemu-system-x86")
    return found


def write_disk(path: Path) -> None:
    """Write the proof guest as a raw disk (sparse, ``DISK_BYTES`` long)."""
    with path.open("wb") as stream:
        stream.write(IMAGE.read_bytes())
        stream.truncate(DISK_BYTES)


def boot(
    accel: str, *, cpu: str, machine: str = "q35", vcpus: int = 2, timeout: float = 10.0
) -> Boot:
    """Boot the proof guest under ``accel`` ("kvm" or "tcg") for ``timeout`` seconds at most.

    QEMU is gone on return, also by an exception. If labctl is killed outright, the
    kernel kills QEMU with it; a limit of CPU time stands behind that.

    Raises:
        UnavailableError: QEMU is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="labctl-proof-") as directory:
        serial, firmware, errors, disk = (
            Path(directory, name) for name in ("serial", "firmware", "stderr", "disk")
        )
        write_disk(disk)
        command = [
            *_leash(timeout),
            qemu_binary(),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", machine, "-accel", accel, "-cpu", cpu, "-smp", str(vcpus), "-m", "64"),
            *("-chardev", f"file,id=serial,path={serial}", "-serial", "chardev:serial"),
            *("-device", "isa-debug-exit,iobase=0x501"),
            *("-chardev", f"file,id=firmware,path={firmware}"),
            *("-device", "isa-debugcon,iobase=0x402,chardev=firmware"),
            *("-drive", f"file={disk},format=raw,if=none,id=disk"),
            *("-device", "ide-hd,drive=disk"),
        ]
        began = time.monotonic()
        with errors.open("wb") as stream:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # Ctrl-C is for labctl, which ends it below
            )
        try:
            _wait(process, errors, began + timeout)
            status, seconds = process.returncode, time.monotonic() - began
        finally:
            left_over = _end(process)
        said = console.tail(serial)
        return Boot(
            reached=status == _EXIT_DONE and MARKER in said,
            status=status,
            seconds=seconds,
            serial=said,
            firmware=console.tail(firmware, 5),
            stderr=errors.read_text(errors="replace").strip(),
            left_over=left_over,
        )


def _wait(process: subprocess.Popen[bytes], errors: Path, deadline: float) -> None:
    """Wait until QEMU ends, holds the guest for an error of KVM's, or the deadline has come."""
    while process.poll() is None and time.monotonic() < deadline:
        if _KVM_STOPPED in errors.read_bytes():
            return
        time.sleep(_POLL_S)


def _leash(timeout: float) -> list[str]:
    """A prefix that makes the kernel end QEMU when labctl dies, or when it burns CPU on."""
    leash = []
    if shutil.which("setpriv"):
        leash += ["setpriv", "--pdeathsig", "KILL", "--"]
    if shutil.which("prlimit"):
        leash += ["prlimit", f"--cpu={int(timeout) * 4 + 10}", "--core=0", "--"]
    return leash


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """Kill the process group and reap its leader; its pid if the kernel will not let it go."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(_KILL_GRACE)
        except subprocess.TimeoutExpired:
            return process.pid
    return None
