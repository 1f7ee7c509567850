"""Boxes and the Vagrantfile for real: vagrant-libvirt on a libvirtd of the test's own."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from vagrant_machine import LAB, Namespace, Vagrant

from labctl.images.box import BoxFiles, write_box
from labctl.images.catalogue import find_recipe
from labctl.images.store import ImageStore

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(not shutil.which("vagrant"), reason="vagrant is not installed"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A cache of its own for boxes, with the user's images in it."""
    ImageStore().build(find_recipe("debian-12"))
    cache = tmp_path / "cache" / "labctl"
    (cache / "boxes").mkdir(parents=True)
    (cache / "images").symlink_to(ImageStore().root)
    (tmp_path / "lab.yaml").write_text(LAB)
    return tmp_path


@pytest.fixture
def vagrant(place: Path, libvirtd: Namespace) -> Vagrant:
    environment = {"XDG_CACHE_HOME": str(place / "cache"), "XDG_STATE_HOME": str(place / "state")}
    made = Vagrant(place, environment)
    made.namespace = libvirtd
    return made


def test_a_linux_box_comes_up_answers_ssh_and_halts_in_order(vagrant, place, labctl):
    labctl.directory, labctl.environment = (
        place,
        {key: vagrant.environment[key] for key in ("XDG_CACHE_HOME", "XDG_STATE_HOME")},
    )
    labctl("image", "export", "debian-12", "--format", "box")
    try:
        assert "Machine booted and ready" in vagrant("up", "linux", "--provider=libvirt")
        vagrant("ssh", "linux", "-c", "true")
        said = vagrant("ssh", "linux", "-c", "nproc; hostname; exit 7", status=7)
        assert said.split() == ["3", "debian-12"]
        assert "Forcing" not in vagrant("halt", "linux")
    finally:
        vagrant("destroy", "-f", "linux")
    assert vagrant.namespace.run("virsh", "-c", "qemu:///system", "list", "--all", "--name") == "\n"


def test_libvirt_takes_the_hardware_of_the_bsd_recipes(vagrant, place):
    """Boxes with an empty disk: what counts is the machine that is started for it."""
    names = {"freebsd9": "freebsd-9.3", "netbsd6": "netbsd-6.1.5"}
    disk = place / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "1G"], check=True)
    for image in names.values():
        recipe = find_recipe(image)
        box = place / "cache" / "labctl" / "boxes" / f"{image}.box"
        write_box(box, BoxFiles(disk, 1 << 30), recipe, recipe.hardware)
    with in_background(vagrant, "up", *names, "--provider=libvirt") as process:
        found = {
            name: running(vagrant.namespace, process, f"contention-vagrant-{name}")
            for name in names
        }
    vagrant("destroy", "-f", *names)
    for name, domain in found.items():
        hardware = find_recipe(names[name]).hardware
        assert domain.get("type") == "qemu"
        assert text(domain, "vcpu") == "2"
        assert domain.find("os/type").get("machine").startswith(f"{hardware.machine}-")
        assert text(domain, "cpu/model") == hardware.cpu.tcg
        assert domain.find("devices/disk/target").get("bus") == hardware.disk_bus
        assert domain.find("devices/interface/model").get("type") == hardware.nic
        assert domain.find("devices/controller[@type='usb']").get("model") == "none"
        videos = [video.get("type") for video in domain.findall("devices/video/model")]
        assert videos == ([] if hardware.video == "none" else [hardware.video])


def text(domain: ET.Element, path: str) -> str | None:
    element = domain.find(path)
    return element.text if element is not None else None


@contextlib.contextmanager
def in_background(vagrant: Vagrant, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run it until the block ends; it would wait for SSH."""
    process = vagrant.start(*arguments)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        print(out)


def running(namespace: Namespace, process: subprocess.Popen[str], name: str) -> ET.Element:
    """The XML of a domain once ``process`` has started it."""
    virsh = ("virsh", "-c", "qemu:///system")
    deadline = time.monotonic() + 60
    while name not in namespace.run(*virsh, "list", "--name").split():
        assert process.poll() is None, "vagrant ended"
        assert time.monotonic() < deadline, f"{name} does not run"
        time.sleep(0.5)
    return ET.fromstring(namespace.run(*virsh, "dumpxml", name))
