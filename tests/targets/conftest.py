"""Fixtures: a real SSH server for the module, and targets that lead to it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tests.sshd, under plain pytest too

from tests.sshd import Sshd, running_sshd


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory):
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def ssh_target(sshd: Sshd, tmp_path: Path):
    target = sshd.target(workdir=str(tmp_path / "work"))
    yield target
    target.close()
