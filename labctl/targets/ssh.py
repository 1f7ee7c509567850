"""A machine reached by SSH: bare metal, or anything that exists already.

Host keys are always verified. One deadline covers name look-up, TCP, key exchange and
authentication; nothing is retried. One connection carries all channels.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
import threading
import time
from pathlib import Path
from typing import Any, cast

import paramiko

from labctl.errors import ConfigError, UnavailableError
from labctl.targets import hostkeys, openssh
from labctl.targets.channel import ByteChannel, PipeChannel
from labctl.targets.posix import PosixTarget
from labctl.targets.ssh_channel import SSHChannel

# What goes wrong is raised, with a remedy; Paramiko's own log of it would only repeat it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# `exec` and `env` are the same to sh and csh; what follows goes to sh by standard input.
_START = "exec env LC_ALL=C /bin/sh"
_KEEPALIVE = 15  # seconds
_NOTICED = 0.5
"""Seconds within which Paramiko notices that a connection has ended."""


class SSHTarget(PosixTarget):
    """A machine that runs an SSH server, of any age and with any login shell."""

    kind = "ssh"

    def __init__(
        self,
        name: str,
        host: str,
        *,
        workdir: str,
        machine: str,
        port: int = 22,
        user: str = "root",
        identity: Path | None = None,
        known_hosts: Path | None = None,
        can_reboot: bool = False,
        connect_timeout: float = 20.0,
        legacy_algorithms: bool = False,
        reboot_command: str = "/sbin/shutdown -r now",
    ) -> None:
        """
        Args:
            name: the key in lab.yaml.
            host, port, user: where to and as whom.
            workdir: absolute directory on the target.
            machine: the physical machine that it runs on.
            identity: private key file; without it the agent's and the default keys are tried.
            known_hosts: the one file to trust; default: the user's and the system's.
            can_reboot: whether ``reboot`` is allowed.
            connect_timeout: seconds for all of connecting.
            legacy_algorithms: go through the ``ssh`` program with SHA-1 algorithms allowed.
            reboot_command: for the target's sh.
        """
        super().__init__(
            name,
            workdir=workdir,
            machine=machine,
            can_reboot=can_reboot,
            reboot_command=reboot_command,
        )
        self.host, self.port, self.user = host, port, user
        self.identity = identity.expanduser() if identity else None
        self.known_hosts = (known_hosts.expanduser(),) if known_hosts else hostkeys.DEFAULT_FILES
        self.connect_timeout = connect_timeout
        self.legacy_algorithms = legacy_algorithms
        self._client: paramiko.SSHClient | None = None
        self._client_lock = threading.Lock()

    def ansible_vars(self) -> dict[str, Any]:
        """Ansible's OpenSSH connection, with the same key and the same known hosts."""
        return {
            "ansible_connection": "ssh",
            "ansible_host": self.host,
            "ansible_port": self.port,
            "ansible_user": self.user,
            "ansible_ssh_common_args": shlex.join(self._ssh_options()),
        }

    def close(self) -> None:
        """Close shells and connection. Never raises."""
        super().close()
        client, self._client = self._client, None
        if client:
            with contextlib.suppress(Exception):  # whatever is wrong with it, it is gone
                client.close()

    # -- channels -----------------------------------------------------------------------

    def _open_channel(self, timeout: float) -> ByteChannel:
        deadline = time.monotonic() + min(timeout, self.connect_timeout)
        if self.legacy_algorithms:
            destination = [f"{self.user}@{self.host}", "-p", str(self.port)]
            return PipeChannel(["ssh", *self._ssh_options(), "-T", *destination, _START])
        with self._client_lock:
            transport = self._client.get_transport() if self._client else None
            fresh = not transport or not transport.is_active()
            if not transport or fresh:
                transport = self._connected(deadline)
        try:
            return SSHChannel(self._start_sh(transport, deadline))
        except UnavailableError:
            # A connection can be dead before Paramiko's thread has noticed. Nothing has been
            # asked of the target yet, so that a new one repeats nothing.
            if fresh or not _closed(transport, deadline):
                raise
        with self._client_lock:
            transport = self._client.get_transport() if self._client else None
            if not transport or not transport.is_active():
                transport = self._connected(deadline)
        return SSHChannel(self._start_sh(transport, deadline))

    def _start_sh(self, transport: paramiko.Transport, deadline: float) -> paramiko.Channel:
        """A channel on which sh runs.

        Raises:
            UnavailableError: the server, or the connection, gave none.
        """
        try:
            channel = transport.open_session(timeout=_left(deadline))
            channel.exec_command(_START)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if transport.is_active() and _left(deadline) <= 0.1:
                raise UnavailableError(
                    "the machine does not answer, though the connection stands",
                    where=self.name,
                    hint="it may be stopped, paused or hung: look at its console",
                    detail=str(error),
                ) from error
            raise UnavailableError(
                "the SSH server opened no session",
                where=self.name,
                hint="look at the server's log; the connection may have been lost",
                detail=str(error),
            ) from error
        return channel

    def _ssh_options(self) -> list[str]:
        return openssh.options(
            identity=self.identity,
            known_hosts=self.known_hosts,
            connect_timeout=self.connect_timeout,
            legacy=self.legacy_algorithms,
        )

    # -- connecting -----------------------------------------------------------------------

    def _connected(self, deadline: float) -> paramiko.Transport:
        if self._client:
            self._client.close()
            self._client = None
        pkey = self._private_key()
        keys = self._known_keys()
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(self._key_check(keys))

        def transport_for(sock: socket.socket, **kwargs: Any) -> paramiko.Transport:
            transport = paramiko.Transport(sock, **kwargs)
            hostkeys.prefer_known(transport, keys)
            return transport

        sock = self._socket(deadline)
        try:
            client.connect(
                self.host,
                self.port,
                self.user,
                sock=sock,
                pkey=pkey,
                allow_agent=pkey is None,
                look_for_keys=pkey is None,
                timeout=_left(deadline),
                banner_timeout=min(self._banner_timeout(), _left(deadline)),
                auth_timeout=_left(deadline),
                channel_timeout=_left(deadline),
                transport_factory=cast(Any, transport_for),  # the stub knows fewer arguments
            )
        except BaseException as error:
            client.close()
            sock.close()
            if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
                raise self._refused(error, deadline) from error
            raise
        transport = client.get_transport()
        assert transport
        transport.set_keepalive(_KEEPALIVE)
        self._client = client
        return transport

    def _known_keys(self) -> list[hostkeys.KnownKey]:
        return hostkeys.known_keys(self.host, self.port, self.known_hosts)

    def _key_check(self, keys: list[hostkeys.KnownKey]) -> hostkeys.KeyCheck:
        return hostkeys.KeyCheck(
            where=self.name, host=self.host, port=self.port, keys=keys, file=self.known_hosts[0]
        )

    def _banner_timeout(self) -> float:
        """Seconds to wait for the server's first line."""
        return self.connect_timeout

    def _private_key(self) -> paramiko.PKey | None:
        path = self.identity
        if path is None:
            return None
        try:
            # OpenSSH, by which Ansible connects, refuses such a key; say so at once.
            if path.stat().st_mode & 0o077 and path.stat().st_uid == os.getuid():
                raise ConfigError(
                    "others can read this private key",
                    where=str(path),
                    hint=f"chmod 600 {shlex.quote(str(path))}",
                )
            return paramiko.PKey.from_path(path)
        except OSError as error:
            raise ConfigError(
                f"the identity file cannot be read: {error.strerror}",
                where=str(path),
                hint=f"look at `identity` of target {self.name}",
            ) from error
        except (paramiko.PasswordRequiredException, TypeError) as error:
            raise ConfigError(
                "this private key has a passphrase",
                where=str(path),
                hint="add it to the agent (ssh-add) and leave `identity` out of the target",
            ) from error
        except (paramiko.SSHException, ValueError, paramiko.pkey.UnknownKeyType) as error:
            raise ConfigError(
                "this is not a private key that can be used",
                where=str(path),
                hint="name the private file (not .pub), of type ed25519, ecdsa or rsa",
                detail=str(error),
            ) from error

    def _socket(self, deadline: float) -> socket.socket:
        where = f"{self.host}:{self.port}"
        try:
            sock = socket.create_connection((self.host, self.port), timeout=_left(deadline))
        except socket.gaierror as error:
            raise UnavailableError(
                f"the host name {self.host!r} cannot be resolved",
                where=self.name,
                hint="look at `host` in the lab file, and at the name service",
                detail=str(error),
            ) from error
        except ConnectionRefusedError as error:
            raise UnavailableError(
                f"{where} refused the connection",
                where=self.name,
                hint="the machine is up, but no SSH server listens there: start sshd, or look "
                "at `port`",
            ) from error
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise UnavailableError(
                f"{where} cannot be reached: {reason}",
                where=self.name,
                hint="is the machine on, and no firewall in between?",
            ) from error
        # A command is a small packet that waits for its answer: Nagle would delay each.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _refused(self, error: Exception, deadline: float) -> UnavailableError:
        where = f"{self.user}@{self.host}:{self.port}"
        key = f"the key {self.identity}" if self.identity else "any key of the agent or ~/.ssh"
        if isinstance(error, paramiko.AuthenticationException) and _left(deadline) > 0.1:
            return UnavailableError(
                f"{where} does not accept {key}",
                where=self.name,
                hint="add the public key to ~/.ssh/authorized_keys there, or look at `user` and "
                "`identity`",
                detail=str(error),
            )
        if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
            return UnavailableError(
                f"{where} speaks only algorithms that are too old",
                where=self.name,
                hint="if the machine cannot be updated: `legacy_ssh: true` in its lab entry",
                detail=str(error),
            )
        # The wait for the server's first line may end before the deadline.
        silent = _left(deadline) <= 0.1 or isinstance(error.__context__, TimeoutError)
        what = "took the connection, but did not answer as an SSH server in time"
        return UnavailableError(
            f"{where} {what if silent else 'broke off'}",
            where=self.name,
            hint="the machine may be starting still, or be stopped or hung; or something else "
            "listens on that port",
            detail=str(error),
        )


def _left(deadline: float) -> float:
    """Seconds until ``deadline``, never nothing: 0 means "for ever" to some callees."""
    return max(0.05, deadline - time.monotonic())


def _closed(transport: paramiko.Transport, deadline: float) -> bool:
    """Whether the connection proves to be dead, given a moment to be noticed."""
    if time.monotonic() < deadline:
        transport.join(min(_NOTICED, _left(deadline)))
    return not transport.is_active()
