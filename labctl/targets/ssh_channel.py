"""A byte channel (``channel.ByteChannel``) over a session of a Paramiko connection."""

from __future__ import annotations

import contextlib
import select

import paramiko

_CHUNK = 1 << 20


class SSHChannel:
    """One session channel of a Paramiko connection, with a command started on it."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        self._channel.sendall(data)

    def send_eof(self) -> None:
        """Close standard input."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def receive(self, timeout: float) -> tuple[bytes, bytes]:
        """What came on (stdout, stderr)."""
        channel = self._channel
        # Paramiko's descriptor is readable while either buffer holds data, and for ever after
        # the end, but for one race: emptying one buffer clears it while the other is being
        # filled (pipe.OrPipe has no lock). Data that came in that moment never wakes a waiter;
        # so it is only waited for when there is none yet.
        if not self._is_ready() and not self._poll.poll(max(0.0, timeout) * 1000):
            raise TimeoutError
        stdout = channel.recv(_CHUNK) if channel.recv_ready() else b""
        stderr = channel.recv_stderr(_CHUNK) if channel.recv_stderr_ready() else b""
        if not stdout and not stderr and (channel.eof_received or channel.closed):
            # Data may have come between the two looks and the end of file.
            if channel.recv_ready() or channel.recv_stderr_ready():
                return self.receive(timeout)
            raise EOFError
        return stdout, stderr

    def _is_ready(self) -> bool:
        channel = self._channel
        # Each look takes its buffer's lock: it waits for a fill that is under way.
        ready = channel.recv_ready() or channel.recv_stderr_ready()
        return bool(ready or channel.eof_received or channel.closed)

    def close(self) -> None:
        """Close the channel."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
