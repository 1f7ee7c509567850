"""The persistent shell: one POSIX sh kept open, framed replies, about a round trip a command.

How it works. The process at the other end is told to become ``/bin/sh -c LOOP``. The
loop reads a header and the text of a command with ``read``, which by POSIX takes not a
byte more than its line, runs the text in a subshell, and prints a mark on both outputs.
So nothing that is sent is ever executed unless a header announces it: a ``go`` that a
program did not read (it ended early, or never reads) is read by the loop and dropped.

The mark is random for each command and is sent in two halves that only the loop joins:
no output can hold it, not even that of ``set``, ``ps`` or a trace of the shell itself.

A command runs in a subshell: ``cd``, variables, ``exit`` and syntax errors end with it.
Output of a process left in the background after its command's end is not attributed.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator

from labctl.errors import MeasurementError, UnavailableError
from labctl.targets.base import CommandResult
from labctl.targets.channel import ByteChannel

MAX_OUTPUT = 64 << 20
"""The most bytes that are kept of one command's unread output, both streams together."""

# No single quote may stand in it. `kill 0` means the shell's own process group.
_LOOP = r"""
PATH="${PATH:-/bin:/usr/bin}:/sbin:/usr/sbin"; LC_ALL=C; export PATH LC_ALL
newline="
"
group=
if [ -r /proc/$$/stat ]; then read -r skip skip skip skip group skip </proc/$$/stat
else group=$(ps -o pgid= -p $$ 2>/dev/null)
fi
echo labctl-shell "$1" $$ $group
echo labctl-shell "$1" >&2
while read -r verb first second count source; do
  case $verb in
  quit) kill -9 0;;
  run)
    text=
    while [ "$count" -gt 0 ]; do
      IFS= read -r line || exit 1
      text="$text$line$newline"
      count=$((count - 1))
    done
    case $source in
    null) ( eval "$text" ) </dev/null;;
    *) ( eval "$text" );;
    esac
    echo "$first$second $?"
    echo "$first$second" >&2
    [ "$source" != once ] || exit 0;;
  esac
done
"""


def bootstrap(token: str, shell: str = "/bin/sh") -> bytes:
    """What a freshly started sh is sent, and nothing after it before its answer: a shell
    that reads its script in blocks would swallow it."""
    assert "'" not in _LOOP
    return f"exec {shell} -c '{_LOOP}' labctl-shell {token}\n".encode()


class _TooMuchError(Exception):
    """A command printed more than ``MAX_OUTPUT``."""


class PersistentShell:
    """A ``labctl.targets.base.Shell`` over any byte channel to a running sh.

    Attributes:
        pid, pgid: of the shell on the target; its commands run in this process group.
        token: a word in the shell's argument list, by which it can be told from
            another process that was given the same pid later.
    """

    def __init__(
        self,
        channel: ByteChannel,
        *,
        where: str,
        kill_group: Callable[[int], bool],
        timeout: float = 30.0,
        shell: str = "/bin/sh",
    ) -> None:
        """Start the loop over ``channel``.

        Args:
            channel: leads to a sh that reads commands from its standard input.
            where: the target's name, for errors.
            kill_group: kills a process group on the target, by another way than
                ``channel``; says whether that worked.
            timeout: seconds that the shell may take to answer first.
            shell: the interpreter to become.

        Raises:
            UnavailableError: no POSIX shell answered.
        """
        self._channel = channel
        self._where = where
        self._kill_group = kill_group
        self._lock = threading.Lock()
        self._running = False
        self._closed = False
        self._last: CommandResult | None = None
        self._out, self._err = bytearray(), bytearray()
        self._scanned = 0  # how much of _out is known to hold no mark
        self.token = secrets.token_hex(8)
        self.pid = self.pgid = 0
        try:
            self._greet(shell, time.monotonic() + timeout)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether the shell has ended: closed, lost, or given up after a timeout."""
        return self._closed

    @property
    def last(self) -> CommandResult:
        """The result of the command that ``stream`` ran last."""
        if self._last is None:
            raise RuntimeError("no stream has ended yet")
        return self._last

    def run(self, command: str, *, timeout: float, input: bytes | None = None) -> CommandResult:
        """Run one shell command and wait for its end; see ``base.Shell.run``.

        More than ``MAX_OUTPUT`` bytes of output end it: MeasurementError.

        With ``input`` the command reads that, to its end of file; the shell can run
        nothing more after it.
        """
        status, stdout, stderr = self._run(command, timeout, input)
        return CommandResult(command, status, _text(stdout), _text(stderr))

    def fetch(self, command: str, *, timeout: float) -> tuple[CommandResult, bytes]:
        """As ``run``; standard output comes apart from the result, as the bytes it was."""
        status, stdout, stderr = self._run(command, timeout, None)
        return CommandResult(command, status, "", _text(stderr)), stdout

    def _run(self, command: str, timeout: float, input: bytes | None) -> tuple[int, bytes, bytes]:
        with self._command(command, timeout) as (mark, deadline):
            # "once": the loop ends after it, so what the command leaves unread is not read
            # as headers.
            self._send(mark, command, "null" if input is None else "once")
            # A thread, so that a command that answers before it has read all cannot block.
            feeder = threading.Thread(target=self._feed, args=(input or b"",), daemon=True)
            if input is not None:
                feeder.start()
            while not (reply := self._reply(mark)):
                self._receive(deadline)
            if input is not None:
                feeder.join(5)  # the reader has gone, so it ends
            return reply

    def stream(self, command: str, *, timeout: float) -> Iterator[str]:
        """Run a command that rests after each batch line; see ``base.Shell.stream``.

        An iterator that is dropped before its end kills the command and closes the shell.
        """
        with self._command(command, timeout) as (mark, deadline):
            self._send(mark, command, "channel")
            while not (reply := self._reply(mark)):
                end = self._out.find(b"\n")
                if end >= 0 and mark not in self._out[:end]:
                    line = _text(bytes(self._out[:end]))
                    del self._out[: end + 1]
                    self._scanned = 0
                    yield line
                    if _is_batch(line):
                        self._channel.send(b"go\n")
                else:
                    self._receive(deadline)
            status, rest, stderr = reply
            if rest:  # came with the end: no leave is given any more
                yield from _text(rest).removesuffix("\n").split("\n")
            self._last = CommandResult(command, status, "", _text(stderr))

    def close(self) -> None:
        """End the shell and all of its process group. Never raises."""
        if self._closed:
            return
        self._closed = True
        if self._running and self._kill():
            return  # the thread that waits for the command sees its end and closes the channel
        if not self._running:
            with contextlib.suppress(OSError, EOFError):
                self._channel.send(b"quit\n")
        self._channel.close()

    # -- one command ------------------------------------------------------------------

    @contextlib.contextmanager
    def _command(self, command: str, timeout: float) -> Iterator[tuple[bytes, float]]:
        """Guard one command: whatever goes wrong while it runs ends it and the shell."""
        if "\0" in command:
            raise ValueError("a command cannot hold a NUL byte")
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this shell is already running a command")
        try:
            if self._closed:
                raise UnavailableError("the shell is closed", where=self._where)
            self._out.clear()
            self._err.clear()
            self._scanned = 0
            self._running = True
            yield secrets.token_hex(16).encode(), time.monotonic() + timeout
            self._running = False
        except TimeoutError:
            killed = self._give_up()
            raise UnavailableError(
                f"no reply within {timeout:g} s to: {_short(command)}",
                where=self._where,
                hint="it was killed on the target"
                if killed
                else "it may still be running there; the next run of labctl ends it",
                detail=_text(bytes(self._err[-2000:])),
            ) from None
        except _TooMuchError:
            self._give_up()
            raise MeasurementError(
                f"more than {MAX_OUTPUT >> 20} MiB of output from: {_short(command)}",
                where=self._where,
                hint="it was ended; a program prints one short line a batch and no more",
                detail=_text(bytes((self._err or self._out)[-200:])),
            ) from None
        except (EOFError, OSError) as error:
            self._give_up()
            raise UnavailableError(
                f"the connection was lost while running: {_short(command)}",
                where=self._where,
                hint="nothing is retried by itself; look whether the machine is up, then resume",
                detail=_text(bytes(self._err[-2000:])) or str(error),
            ) from error
        except BaseException:
            if self._running:
                self._give_up()
            raise
        finally:
            self._running = False
            self._lock.release()

    def _send(self, mark: bytes, command: str, source: str) -> None:
        body = command.encode("utf-8", "surrogateescape") + b"\n"
        header = b"run %s %s %d %s\n" % (mark[:16], mark[16:], body.count(b"\n"), source.encode())
        self._channel.send(header + body)

    def _feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError):  # ValueError: closed meanwhile
            self._channel.send(data)
        self._channel.send_eof()

    def _receive(self, deadline: float) -> None:
        stdout, stderr = self._channel.receive(deadline - time.monotonic())
        self._out += stdout
        self._err += stderr
        if len(self._out) + len(self._err) > MAX_OUTPUT:
            raise _TooMuchError

    def _reply(self, mark: bytes) -> tuple[int, bytes, bytes] | None:
        """(status, stdout, stderr) once both marks have come in whole."""
        if not self._err.endswith(mark + b"\n") and mark not in self._err:
            return None
        match = re.compile(mark + rb" (\d+)\n").search(self._out, self._scanned)
        if not match:
            # Look at each byte once, however much comes; the mark may come in two pieces.
            self._scanned = max(0, len(self._out) - len(mark) - 8)
            return None
        return int(match[1]), bytes(self._out[: match.start()]), bytes(self._err.split(mark, 1)[0])

    # -- beginning and end ------------------------------------------------------------

    def _greet(self, shell: str, deadline: float) -> None:
        """Become the loop; what a login shell printed before, on either output, is dropped."""
        on_stderr = b"labctl-shell %s" % self.token.encode()
        greeting = re.compile(rb"labctl-shell %s (\d+) ?(\d*)\r?\n" % self.token.encode())
        try:
            self._channel.send(bootstrap(self.token, shlex.quote(shell)))
            while not (match := greeting.search(self._out)) or on_stderr not in self._err:
                self._receive(deadline)
        except (TimeoutError, EOFError, OSError) as error:
            raise UnavailableError(
                "no POSIX shell answered",
                where=self._where,
                hint=f"the account must be able to run {shell}; a login shell that prints or "
                "asks something, or a forced command, stands in the way",
                detail=_text(bytes(self._out[-1000:] + self._err[-2000:])).strip() or str(error),
            ) from error
        self.pid = int(match[1])
        self.pgid = int(match[2] or match[1])

    def _give_up(self) -> bool:
        """Kill what runs and close; says whether the killing is known to have worked."""
        killed = not self._closed and self._kill()
        self._closed = True
        self._channel.close()
        return killed

    def _kill(self) -> bool:
        try:
            return self.pgid > 1 and self._kill_group(self.pgid)
        except Exception:  # a kill is best effort: the first error is the one to report
            return False


def _is_batch(line: str) -> bool:
    if not line.startswith("{") or '"batch"' not in line:
        return False
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("type") == "batch"


def _text(data: bytes | bytearray) -> str:
    """Bytes as text that can be printed and stored; what is not UTF-8 becomes ``\\xNN``."""
    return bytes(data).decode("utf-8", "backslashreplace")


def _short(command: str) -> str:
    """A command as an error may show it: a whole script would bury what is wrong."""
    lines = command.strip().splitlines()
    if len(lines) > 1:
        return f"a script of {len(lines)} lines"
    line = " ".join(command.split())
    return line if len(line) <= 120 else f"{line[:117]}..."
