"""Byte channels to a process: the protocol, and local pipes (SSH's is ``ssh_channel``).

What a shell needs of its transport and no more. Nothing here knows of commands,
frames or hosts. Reading waits in the kernel (no polling) and takes large chunks.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Sequence
from typing import Protocol

_CHUNK = 1 << 20


class ByteChannel(Protocol):
    """Standard input, output and error of one process somewhere."""

    def send(self, data: bytes) -> None:
        """Write all of ``data``; OSError when the other end is gone."""

    def send_eof(self) -> None:
        """Close the process's standard input. Never raises."""

    def receive(self, timeout: float) -> tuple[bytes, bytes]:
        """Wait for output; what came on (stdout, stderr), at least one of them not empty.

        Raises:
            EOFError: both have ended.
            TimeoutError: nothing came within ``timeout`` seconds.
        """

    def close(self) -> None:
        """Let go of the process. Never raises."""


class PipeChannel:
    """A child process of ours, in a session of its own (Ctrl-C does not reach it)."""

    def __init__(self, argv: Sequence[str], env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin
        self._poll = select.poll()
        self._streams = {
            stream.fileno(): stream for stream in (self._process.stdout, self._process.stderr)
        }
        self._stdout = self._process.stdout.fileno()
        for descriptor in self._streams:
            self._poll.register(descriptor, select.POLLIN)
        self._open = set(self._streams)

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        if self._stdin.closed:
            raise BrokenPipeError("the process's standard input is closed")
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdin.fileno(), view) :]

    def send_eof(self) -> None:
        """Close standard input."""
        with contextlib.suppress(OSError):
            self._stdin.close()

    def receive(self, timeout: float) -> tuple[bytes, bytes]:
        """What came on (stdout, stderr)."""
        if not self._open:
            raise EOFError
        ready = self._poll.poll(max(0.0, timeout) * 1000)
        if not ready:
            raise TimeoutError
        received = {True: b"", False: b""}
        for descriptor, _ in ready:
            data = os.read(descriptor, _CHUNK)
            received[descriptor == self._stdout] += data
            if not data:
                self._poll.unregister(descriptor)
                self._open.discard(descriptor)
        if not self._open and not any(received.values()):
            raise EOFError
        return received[True], received[False]

    def close(self) -> None:
        """Close the pipes and reap the process, which its end of file ends."""
        self.send_eof()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._open.clear()
        for stream in self._streams.values():
            stream.close()
