"""Running the programs that build images: found or asked for, watched, never left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from labctl.errors import UnavailableError

TAIL_LINES = 25
_NETWORK = re.compile(r"resolve|unable to connect|failed to fetch|timed out|no route", re.I)
_SPACE = re.compile(r"no space left|disk full|not enough free space", re.I)


def require(program: str, package: str) -> str:
    """The path of ``program``.

    Raises:
        UnavailableError: it is not installed; the hint says how to install it.
    """
    # mke2fs and others live in sbin, which an ordinary user's PATH lacks.
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    found = shutil.which(program, path=search)
    if not found:
        raise UnavailableError(
            f"the program {program} is missing", hint=f"apt-get install {package}"
        )
    return found


def run(
    command: Sequence[str | Path],
    *,
    on_line: Callable[[str], None] = lambda line: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end; its output and errors, merged, go to ``on_line`` line by line.

    When this process is interrupted or dies, the program is ended too.

    Returns:
        The last lines of the output.

    Raises:
        UnavailableError: it failed; ``detail`` has its last lines.
    """
    arguments = [str(part) for part in command]
    setpriv = shutil.which("setpriv")
    tied = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    process = subprocess.Popen(
        tied + arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
        start_new_session=True,  # Ctrl-C reaches it once, from below, and not at the same time
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    try:
        with process.stdout as stream:
            for line in stream:
                text = line.rstrip()
                tail.append(text)
                on_line(text)
        status = process.wait()
    except BaseException:
        _end(process)
        raise
    output = "\n".join(tail)
    if status:
        raise UnavailableError(
            f"{Path(arguments[0]).name} failed with status {status}",
            hint=_hint(output),
            detail=output,
        )
    return output


def _hint(output: str) -> str:
    if _SPACE.search(output):
        return "free some disk space and run it again; finished stages are kept"
    if _NETWORK.search(output):
        return (
            "check the network and the apt sources (apt-get update must work here), "
            "then run it again; finished stages are kept"
        )
    return "run it again; finished stages are kept"


def _end(process: subprocess.Popen[str]) -> None:
    """End the program and what it started; it gets 20 s to tidy up (unmount)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
            return
