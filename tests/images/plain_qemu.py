"""A guest booted by plain QEMU under TCG, with no labctl between it and the test."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from labctl.images.builder import GuestBoot
from labctl.images.catalogue import Recipe


class PlainQemu:
    """Boots on entering, is killed on leaving. ``begun``: monotonic time of QEMU's start."""

    def __init__(self, recipe: Recipe, boot: GuestBoot, directory: Path, key: Path) -> None:
        self.console = directory / "console.log"
        self.monitor = directory / "monitor"
        self._key = key
        self.port = _free_port()
        self._known = directory / "known_hosts"
        self._known.write_text(f"[127.0.0.1]:{self.port} {boot.host_key}\n")
        hardware = recipe.hardware
        self._command = [
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", hardware.machine),
            *("-cpu", hardware.cpu.tcg, "-smp", "2", "-m", str(hardware.memory_mib)),
            *("-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-serial", f"file:{self.console}"),
            *("-monitor", f"unix:{self.monitor},server=on,wait=off"),
            *("-drive", f"file={boot.disk},if=virtio,format=qcow2"),
            *("-netdev", f"user,id=n0,hostfwd=tcp:127.0.0.1:{self.port}-:22"),
            *("-device", f"{hardware.nic},netdev=n0,romfile="),
            *("-kernel", str(boot.kernel), "-initrd", str(boot.initrd), "-append", boot.cmdline),
        ]

    def __enter__(self) -> Self:
        self.console.write_text("")
        self.begun = time.monotonic()
        self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.console.read_text(errors="replace")

    def wait_ready(self, timeout: float = 300.0) -> None:
        deadline = time.monotonic() + timeout
        while "labctl: ready" not in self.text():
            assert self.process.poll() is None, f"QEMU ended: {self.text()[-2000:]}"
            assert time.monotonic() < deadline, (
                f"not ready: {self.text()[-2000:]}\n{self.ask('info registers -a')}"
            )
            time.sleep(0.02)

    def ssh(self, command: str) -> subprocess.CompletedProcess[str]:
        options = {
            "UserKnownHostsFile": self._known,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "30",
        }
        flags = [f"-o{name}={value}" for name, value in options.items()]
        login = ["-F", "none", "-i", str(self._key), "-p", str(self.port), "root@127.0.0.1"]
        return subprocess.run(
            ["ssh", *flags, *login, command], capture_output=True, text=True, timeout=120
        )

    def check(self, command: str) -> str:
        done = self.ssh(command)
        assert done.returncode == 0, f"{shlex.quote(command)}: {done.stderr}\n{self.text()[-2000:]}"
        return done.stdout.strip()

    def press_power_button(self) -> None:
        self.ask("system_powerdown")

    def ask(self, command: str) -> str:
        """What QEMU's monitor says to a command."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(self.monitor))
            channel.recv(4096)
            channel.sendall(f"{command}\n".encode())
            time.sleep(0.2)
            return channel.recv(65536).decode(errors="replace")

    def wait_off(self, timeout: float = 60.0) -> int:
        return self.process.wait(timeout)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
