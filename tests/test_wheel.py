"""An installed wheel has all that a checkout has: playbooks, recipes, workloads."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labctl import __version__

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, unpacked as pip would."""
    base = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        str(base),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = base.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(base / "site")
    return base


def test_nothing_is_left_behind(installed: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "playbooks", "images", "workloads", "labctl"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    site = installed / "site"
    where = [site / (f if f.startswith("labctl/") else f"labctl/_data/{f}") for f in tracked]
    assert [str(path) for path in where if not path.is_file()] == []


@pytest.mark.slow
def test_it_measures_this_machine(installed: Path) -> None:
    project = installed / "project"
    project.mkdir()
    (project / "lab.yaml").write_text("lab: wheel\ntargets: {here: {kind: local}}\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed / "site"),
        "XDG_STATE_HOME": str(installed / "state"),
        "XDG_CONFIG_HOME": str(installed / "config"),
    }

    def labctl(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "labctl", *arguments],
            cwd=project, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import labctl.paths as p; print(p.data_dir('images'))"],
        cwd=project, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert where.strip() == str(installed / "site" / "labctl" / "_data" / "images")
    assert labctl("--version") == f"labctl {__version__}\n", "of no commit"
    assert "debian-12" in labctl("image", "ls")
    labctl("up")
    labctl("sweep", "eptest", "--threads", "1", "--rounds", "1", "--min-batch-ms", "5")
    assert "eptest" in labctl("report")
