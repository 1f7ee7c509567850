"""The Vagrantfile, as Vagrant itself reads it: no machine is started."""

import os
import shutil
from pathlib import Path

import pytest
from vagrant_machine import LAB, ROOT, Vagrant

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("vagrant"), reason="vagrant is not installed"),
]


@pytest.fixture
def vagrant(tmp_path: Path) -> Vagrant:
    (tmp_path / "lab.yaml").write_text(LAB)
    places = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    return Vagrant(tmp_path, places)


def test_it_is_valid_and_has_the_guests_of_the_lab_file(vagrant):
    assert "validated successfully" in vagrant("validate")
    lines = vagrant("status", "--machine-readable").splitlines()
    machines = {fields[1] for fields in (line.split(",") for line in lines) if fields[1]}
    assert machines == {"linux", "freebsd9", "netbsd6"}


def test_a_box_that_is_not_made_is_said_before_anything_is_downloaded(vagrant):
    said = vagrant("up", "netbsd6", "--provider=libvirt", status=1)
    assert "labctl image export netbsd-6.1.5 --format box" in said
    assert "Adding box" not in said


def test_the_lab_file_can_be_named_and_its_errors_are_shown(vagrant, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(LAB.replace("freebsd-9.3", "freebsd-99"))
    vagrant.environment["LABCTL_CONFIG"] = str(other)
    said = vagrant("validate", status=1)
    assert f"{other}:5" in said and "freebsd-99" in said
    vagrant.environment["LABCTL_CONFIG"] = str(tmp_path / "none.yaml")
    assert "there is no lab file here" in vagrant("validate", status=1)


def test_a_missing_labctl_is_said(vagrant, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(ROOT / "Vagrantfile", alone)
    paths = [p for p in os.environ["PATH"].split(":") if not (Path(p) / "labctl").exists()]
    vagrant.environment |= {"VAGRANT_CWD": str(alone), "PATH": ":".join(paths)}
    assert "labctl is missing" in vagrant("validate", status=1)
