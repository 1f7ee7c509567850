"""Two kernels on one root file system, under real libvirt and QEMU.

The image is taken from, and left in, the user's cache; state is the test's own.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labctl import guests
from labctl.errors import ConfigError
from labctl.images.catalogue import load_catalogue
from labctl.lab import Lab, load_lab

pytest.importorskip("libvirt")
pytestmark = pytest.mark.guest

CATALOGUE = load_catalogue()
LAB = """\
lab: kernels
defaults: {{vcpus: 2, memory: 512MiB, accel: tcg}}
hypervisors:
  local: {{uri: embed}}
targets:
  stock: {{kind: vm, image: debian-12}}
  other: {{kind: vm, image: debian-12{kernel}}}
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with (
        tempfile.TemporaryDirectory(prefix="lk-", dir="/tmp") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("STATE", "CONFIG"):
            patch.setenv(f"XDG_{name}_HOME", str(Path(directory) / name.lower()))
        yield Path(directory)


def read(home: Path, kernel: str) -> Lab:
    path = home / "lab.yaml"
    path.write_text(LAB.format(kernel=f", kernel: {kernel}"))
    return load_lab(path, images=CATALOGUE)


def uname(lab: Lab, name: str, watcher: guests.Started) -> str:
    target = guests.make_target(lab, name, CATALOGUE["debian-12"])
    with contextlib.closing(target):
        guests.wait_ready(target, watcher.watcher, booting=True, deadline=time.monotonic() + 180)
        return target.run("uname -r").stdout.strip()


def test_another_kernel_boots_the_same_image(home: Path) -> None:
    lab = read(home, "debian/bullseye")
    try:
        found = guests.start(lab, ["stock", "other"], CATALOGUE, progress=lambda *a: None)
        assert all(isinstance(one, guests.Started) for one in found.values()), found
        releases = {name: uname(lab, name, one) for name, one in found.items()}
        assert releases["stock"].startswith("6.1.")
        assert releases["other"].startswith("5.10.")
        facts = {name: guests.describe(lab, name) for name in found}
        same = ("image", "image_key", "kernel_cmdline", "init", "vcpus", "memory_mib")
        assert {k: facts["stock"][k] for k in same} == {k: facts["other"][k] for k in same}
        assert (facts["stock"]["kernel_spec"], facts["stock"]["kernel_key"]) == ("", "")
        assert facts["other"]["kernel_spec"] == "debian/bullseye"
        assert facts["other"]["kernel_package"].startswith(f"linux-image-{releases['other']} ")
        assert facts["stock"]["kernel_package"].startswith(f"linux-image-{releases['stock']} ")
        assert facts["stock"]["kernel_digest"] != facts["other"]["kernel_digest"]
        changed = read(home, "debian/trixie")
        error = guests.start(changed, ["other"], CATALOGUE, progress=lambda *a: None)["other"]
        assert isinstance(error, ConfigError)
        assert error.detail == "kernel: it has debian/bullseye, the lab file says debian/trixie"
        assert error.hint == "labctl down other && labctl up other"
    finally:
        guests.remove(lab, ["stock", "other"])
