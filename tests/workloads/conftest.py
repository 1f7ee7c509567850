"""Builds of the workloads for these tests, and a runner that reads their protocol."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from labctl.workloads import Batch, Calibration, Capabilities, End, Start, parse_line

HERE = Path(__file__).parent
WORKLOADS = HERE.parents[1] / "workloads"
STRICT = "-O1 -g -pedantic -Werror -Wshadow -Wstrict-prototypes"

Line = Capabilities | Start | Calibration | Batch | End


@dataclass(frozen=True)
class Result:
    """What a workload left: its exit status, its lines and its diagnostics."""

    status: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[Line]:
        return [parse_line(line) for line in self.stdout.splitlines()]

    @property
    def ended(self) -> bool:
        return '"type":"end"' in self.stdout


def sh_build(
    out: Path, *names: str, source: Path = WORKLOADS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the build script as a target would; upper-case keywords are its environment."""
    return subprocess.run(
        ["sh", str(source / "build.sh"), str(out), *names],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def built(out: Path, *, cflags: str) -> Path:
    """All four workloads in ``out``; kqtest over the tests' own kqueue."""
    shim = HERE / "kqueue_shim"
    shim_object = out / "kqueue.o"
    subprocess.run(
        ["cc", *cflags.split(), f"-I{shim}", "-c", shim / "kqueue.c", "-o", shim_object],
        check=True,
    )
    done = sh_build(
        out,
        *("eptest", "kqtest", "mmapsem", "urandom"),
        LINK="dynamic",
        CFLAGS=f"{cflags} -DHAVE_KQUEUE -I{shim}",
        LDFLAGS=str(shim_object),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return out


def run_program(program: Path, *arguments: str, timeout: float = 60, **environment: str) -> Result:
    """Run a workload to its end."""
    done = subprocess.run(
        [str(program), *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Result(done.returncode, done.stdout, done.stderr)


Run = Callable[..., Result]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a plain, dynamic build, without any warning under strict flags."""
    return built(tmp_path_factory.mktemp("plain"), cflags=STRICT)


@pytest.fixture
def run(programs: Path, tmp_path: Path) -> Run:
    """``run("eptest", "--threads", "4", ...)`` in an empty temporary directory."""

    def run(name: str, *arguments: str, **environment: str) -> Result:
        return run_program(programs / name, *arguments, **{"TMPDIR": str(tmp_path), **environment})

    return run
