"""Fixtures: a tiny tree of workloads with the project's own build script, and targets."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # tests.sshd, under plain pytest too

from labctl.targets.local import LocalTarget  # noqa: E402

MANIFEST = """\
name: {name}
summary: a test's
question: none
unit: step
systems: [{system}]
form: plain
program: {name}_program
sources: [{name}.c]
libraries: [-lpthread]
"""
SOURCE = '#include "tiny.h"\nint main(void) { return tiny() + %d; }\n'


def add_workload(tree: Path, name: str, *, system: str = "linux") -> Path:
    """A workload that compiles; returns its C file."""
    folder = tree / name
    folder.mkdir()
    (folder / "workload.yaml").write_text(MANIFEST.format(name=name, system=system))
    (folder / f"{name}.c").write_text(SOURCE % 0)
    return folder / f"{name}.c"


@pytest.fixture
def tree(tmp_path):
    """Two workloads for this system and one for another."""
    made = tmp_path / "workloads"
    (made / "harness").mkdir(parents=True)
    (made / "harness" / "tiny.h").write_text("int tiny(void);\n")
    (made / "harness" / "tiny.c").write_text('#include "tiny.h"\nint tiny(void) { return 0; }\n')
    shutil.copy(ROOT / "workloads" / "build.sh", made / "build.sh")
    add_workload(made, "alpha")
    add_workload(made, "beta")
    add_workload(made, "gamma", system="freebsd")
    return made


@pytest.fixture
def local(tmp_path):
    target = LocalTarget("here", str(tmp_path / "local"))
    yield target
    target.close()
