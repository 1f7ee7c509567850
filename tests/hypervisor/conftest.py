"""Directories of the tests' own, so that no lab of the user's is touched."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = sys.executable


@pytest.fixture(scope="session")
def hypervisor_home() -> Iterator[Path]:
    """One state and cache directory for the session: libvirt looks at QEMU only once."""
    with tempfile.TemporaryDirectory(prefix="lt-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def home(hypervisor_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(hypervisor_home / name.lower()))
    return hypervisor_home


@pytest.fixture
def new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CACHE", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process with the same environment."""
    return subprocess.Popen(
        [PYTHON, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )
