"""A real SSH server on loopback, started by a test: own port, own keys, own known_hosts.

    with running_sshd(tmp_path) as server:
        target = server.target(workdir=str(tmp_path / "work"))

It lets in the user who runs the tests, with a key made for the occasion, and touches
neither ~/.ssh nor /etc/ssh. ``login_shell`` stands in for an account with another shell.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.targets.ssh import SSHTarget

SFTP_SERVERS = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/libexec/sftp-server",
    "/usr/lib/ssh/sftp-server",
)


@dataclass
class Sshd:
    """A running server. ``host_key`` and ``identity`` are private key files."""

    directory: Path
    port: int
    user: str
    host_key: Path
    identity: Path
    known_hosts: Path
    process: subprocess.Popen[bytes]

    @property
    def host_key_line(self) -> str:
        """The server's public key, as one line."""
        return self.host_key.with_suffix(".pub").read_text().strip()

    def target(self, name: str = "box", **options: Any) -> SSHTarget:
        """A target that leads here; ``options`` as for SSHTarget."""
        given = {
            "workdir": str(self.directory / "work"),
            "machine": "local",
            "port": self.port,
            "user": self.user,
            "identity": self.identity,
            "known_hosts": self.known_hosts,
            "connect_timeout": 10.0,
        }
        return SSHTarget(name, "127.0.0.1", **(given | options))

    def trust(self, line: str) -> None:
        """Write the known_hosts file: ``line`` is a public key, for this server's name."""
        key = " ".join(line.split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def restart(self) -> None:
        """Start the server again, on the same port."""
        self.process = subprocess.Popen(self.process.args)
        assert _answers(self.port, self.process), "sshd did not come back"

    def stop(self) -> None:
        """End the server; connections that are open live on."""
        self.process.terminate()
        self.process.wait(timeout=10)


def make_key(path: Path, *, kind: str = "ecdsa", passphrase: str = "") -> Path:
    """Make a key pair; returns the private file."""
    bits = ["-b", "256"] if kind == "ecdsa" else []
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, *bits, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
    )
    return path


@contextlib.contextmanager
def running_sshd(
    directory: Path, *, login_shell: str = "", sftp: bool = True, options: tuple[str, ...] = ()
) -> Iterator[Sshd]:
    """Run a server until the block ends.

    Args:
        directory: for its files; made if need be.
        login_shell: a program that gets each command as ``login_shell -c COMMAND``.
        sftp: whether it offers file transfer.
        options: lines for its configuration.
    """
    directory.mkdir(parents=True, exist_ok=True)
    host_key = make_key(directory / "host_key")
    identity = make_key(directory / "identity")
    (directory / "authorized_keys").write_bytes(identity.with_suffix(".pub").read_bytes())
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd drops its privileges into it
    lines = [
        "ListenAddress 127.0.0.1",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {directory / 'authorized_keys'}",
        "PidFile none",
        "StrictModes no",
        "UsePAM no",
        "UseDNS no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "LogLevel ERROR",
        "MaxStartups 100",
        *options,
    ]
    server = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
    if sftp:
        lines.append(f"Subsystem sftp {server}")
    if login_shell:
        lines.append(f'ForceCommand exec {login_shell} -c "$SSH_ORIGINAL_COMMAND"')
    config = directory / "sshd_config"
    process, port = _start(config, lines, directory / "sshd.log")
    server_here = Sshd(
        directory,
        port,
        getpass.getuser(),
        host_key,
        identity,
        directory / "known_hosts",
        process,
    )
    server_here.trust(server_here.host_key_line)
    try:
        yield server_here
    finally:
        if server_here.process.poll() is None:
            server_here.stop()


def _start(config: Path, lines: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int]:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    assert program, "these tests need an SSH server: apt-get install openssh-server"
    for _ in range(5):  # another process may take the port in between
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        config.write_text("\n".join([f"Port {port}", *lines]) + "\n")
        process = subprocess.Popen([program, "-D", "-f", str(config), "-E", str(log)])
        if _answers(port, process):
            return process, port
        process.kill()
        process.wait()
    raise AssertionError(f"sshd does not start: {log.read_text() if log.exists() else ''}")


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=1) as sock,
        ):
            return sock.recv(4) == b"SSH-"
        time.sleep(0.02)
    return False
