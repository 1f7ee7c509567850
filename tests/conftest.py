"""What all tests share: a labctl to run as a user would, and a lab that is up.

Guests, keys and locks go to a temporary state directory; images are taken from, and
left in, the user's cache, so that one build serves every test run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LAB = """\
lab: test
targets:
  metal: {kind: local}
  linux: {kind: vm, image: debian-12}
pairs:
  - {guest: linux, metal: metal}
"""


def pytest_configure() -> None:
    """Signals as in a terminal: under nohup or in a shell's background they come ignored, and
    the programs that tests start and interrupt would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass
class Labctl:
    """Runs ``labctl`` in a directory, as a process of its own."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The process environment."""
        return {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **self.environment}

    def command(self, *arguments: str) -> list[str]:
        """The argument list of an invocation."""
        return [sys.executable, "-m", "labctl", *arguments]

    def __call__(
        self, *arguments: str, status: int = 0, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run to its end; fails the test when the exit code is not ``status``."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        told = f"labctl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == status, f"exit code {done.returncode}, not {status}: {told}"
        assert "Traceback" not in done.stderr, told
        return done

    def json(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """Run with --json; its document."""
        document: dict[str, Any] = json.loads(self(*arguments, "--json", status=status).stdout)
        assert document["schema"] == 1
        return document

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start, in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


class InProcess(Labctl):
    """The same in this process: it saves the second that starting Python takes."""

    def __call__(
        self, *arguments: str, status: int = 0, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """As Labctl's; ``timeout`` is the test's own."""
        from labctl.cli import run

        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.chdir(self.directory)
            for name, value in self.env.items():
                patch.setenv(name, value)
            code = run(list(arguments))
        done = subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
        told = f"labctl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        assert code == status, f"exit code {code}, not {status}: {told}"
        assert "Traceback" not in done.stderr, told
        return done


@pytest.fixture
def labctl(tmp_path: Path) -> Labctl:
    """labctl in an empty directory, with state and settings of its own."""
    environment = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    project = tmp_path / "project"
    project.mkdir()
    return InProcess(project, environment)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labctl]:
    """A lab that is up: this machine and a real Linux guest. Shared; leave it up."""
    base = tmp_path_factory.mktemp("lab")
    (base / "lab.yaml").write_text(LAB)
    runner = Labctl(base, {"XDG_STATE_HOME": str(base / "s"), "XDG_CONFIG_HOME": str(base / "c")})
    try:
        runner("up", timeout=900)
        yield runner
    finally:
        runner("destroy", "--yes")
