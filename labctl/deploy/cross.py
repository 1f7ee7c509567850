"""Compiling workloads on this machine for another system, by the C compiler in ``zig``.

That is the optional package ``ziglang`` (``pip install labctl[cross]``), which brings headers
and libraries of FreeBSD from 14 on and musl for Linux. NetBSD it can compile for, but not
link kevent. What was compiled is kept by a hash of the sources, compiler and options.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from labctl import paths
from labctl.deploy.binary import Binary, record_beside
from labctl.deploy.sources import Source
from labctl.errors import InterruptedByUser, LabctlError, UnavailableError

SERVES = "FreeBSD 14 and later, and Linux"
INSTALL = "pip install labctl[cross]"
_OLDEST_FREEBSD = 14
_ARCHITECTURES = {
    "amd64": "x86_64",
    "x86_64": "x86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
    "riscv64": "riscv64",
    "ppc64le": "powerpc64le",
}
_TIMEOUT = 1200.0  # seconds; the first time, zig compiles the system's library
_POLL = 0.1  # seconds
_LDFLAGS = "-s"  # a library's debugging information would be most of the program


def triple_for(system: str, release: str, machine: str) -> str | None:
    """What zig calls a target; None where it cannot make programs for it. The arguments
    are what ``uname -s``, ``-r`` and ``-m`` say.

    >>> triple_for("FreeBSD", "14.2-RELEASE", "amd64")
    'x86_64-freebsd.14.0'
    >>> triple_for("FreeBSD", "9.3-RELEASE", "amd64")
    """
    architecture = _ARCHITECTURES.get(machine)
    major = re.match(r"\d+", release)
    if architecture is None or major is None:
        return None
    if system == "FreeBSD" and int(major[0]) >= _OLDEST_FREEBSD:
        return f"{architecture}-freebsd.{_OLDEST_FREEBSD}.0"
    return f"{architecture}-linux-musl" if system == "Linux" else None


@cache
def zig_version() -> str | None:
    """The version of the installed ``ziglang``; None if there is none."""
    try:
        return metadata.version("ziglang")
    except metadata.PackageNotFoundError:
        return None


def compile_for(
    triple: str, sources: Sequence[Source], workloads_dir: Path, *, stop: threading.Event
) -> list[Binary]:
    """Programs for ``triple``, compiled now or on an earlier day. ``stop`` ends it.

    Raises:
        InterruptedByUser: ``stop`` was set.
        UnavailableError: zig is not installed, or does not come to an end.
        LabctlError: a workload does not compile; its ``detail`` is the compiler's output.
    """
    version = zig_version()
    if version is None:
        raise UnavailableError("zig is not installed", hint=INSTALL)
    linked = "musl static" if triple.endswith("-musl") else "dynamic"
    origin = f"cross-compiled by zig {version} for {triple} ({linked})"
    store = paths.private_dir(paths.cache_dir() / "cross")
    kept = {source: store / _name(source, triple, version) for source in sources}
    with FileLock(store / "lock"):
        missing = [source for source, path in kept.items() if not path.is_file()]
        if missing:
            _compile(triple, missing, kept, workloads_dir, stop)
    return [Binary(s, path, origin, record_beside(path)) for s, path in kept.items()]


def _name(source: Source, triple: str, version: str) -> str:
    text = f"{source.sha} {triple} {version} {_LDFLAGS}"
    return f"{source.program}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def _compile(
    triple: str,
    sources: Sequence[Source],
    kept: dict[Source, Path],
    workloads_dir: Path,
    stop: threading.Event,
) -> None:
    names = [source.name for source in sources]
    with tempfile.TemporaryDirectory(prefix="labctl-cross-") as folder:
        base = Path(folder)
        compiler = base / "zig-cc"  # found by PATH: CC is split into words
        command = [sys.executable, "-m", "ziglang", "cc", "-target", triple]
        compiler.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        compiler.chmod(0o755)
        caches = str(paths.cache_dir() / "zig")
        environment = {
            "PATH": f"{base}:/usr/bin:/bin",
            "HOME": folder,
            "CC": compiler.name,
            "LDFLAGS": _LDFLAGS,
            "LINK": "static" if triple.endswith("-musl") else "dynamic",
            "ZIG_GLOBAL_CACHE_DIR": caches,
            "ZIG_LOCAL_CACHE_DIR": caches,
        }
        argv = ["/bin/sh", str(workloads_dir / "build.sh"), str(base / "out"), *names]
        status, said = _run(argv, environment, base / "said", stop)
        if status:
            raise LabctlError(f"zig cannot compile {', '.join(names)} for {triple}", detail=said)
        for source in sources:
            _keep(base / "out" / source.program, kept[source])


def _run(
    argv: Sequence[str], environment: dict[str, str], log: Path, stop: threading.Event
) -> tuple[int, str]:
    """Status and output of a command; all of it is ended on ``stop`` or after too long."""
    deadline = time.monotonic() + _TIMEOUT
    with (
        log.open("wb") as output,
        subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        while process.poll() is None:
            if stop.wait(_POLL) or time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if stop.is_set():
                    raise InterruptedByUser("deployment was interrupted", hint="run it again")
                raise UnavailableError(f"zig did not end within {_TIMEOUT:g} s")
    return process.returncode, log.read_text(errors="replace").strip()


def _keep(program: Path, goal: Path) -> None:
    record = program.with_name(f"{program.name}.build")
    paths.write_atomic(goal.with_name(f"{goal.name}.build"), record.read_bytes())
    paths.write_atomic(goal, program.read_bytes(), mode=0o755)
