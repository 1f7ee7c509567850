"""The real image, built and booted: what a guest promises to the layers above.

The image is taken from the cache of LABCTL_TEST_CACHE (a directory), else from the user's.
"""

import os
import stat
from pathlib import Path

import pytest
from plain_qemu import PlainQemu

from labctl.images.builder import GuestIdentity, GuestSettings, get_builder
from labctl.images.catalogue import find_recipe
from labctl.images.keys import ensure_keypair
from labctl.images.store import Image, ImageStore

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def image() -> Image:
    cache = os.environ.get("LABCTL_TEST_CACHE")
    store = ImageStore(Path(cache) / "images" if cache else None)
    return store.build(find_recipe("debian-12"))


@pytest.fixture
def guest(image, tmp_path):
    """A function that makes a guest ready to boot with the given init."""
    authorized = ensure_keypair(tmp_path / "id", "user")
    public = ensure_keypair(tmp_path / "host", "host")
    identity = GuestIdentity("guest-7", tmp_path / "host", public, authorized)

    def make(init: str | None = None) -> PlainQemu:
        boot = get_builder("debian").prepare_guest(
            image, tmp_path, identity, GuestSettings(init=init)
        )
        assert boot.initrd is not None
        assert stat.S_IMODE(boot.initrd.stat().st_mode) == 0o600
        return PlainQemu(image.recipe, boot, tmp_path, tmp_path / "id")

    return make


@pytest.mark.parametrize("init", ["minimal", "systemd"])
def test_a_guest_answers_with_its_planted_keys_and_switches_off_in_order(guest, init):
    with guest(init) as machine:
        machine.wait_ready()
        assert machine.check("hostname; id -un; date +%Z") == "guest-7\nroot\nUTC"
        program = "int main(void){return 0;}"
        machine.check(f"cd /tmp && echo '{program}' | gcc -pthread -x c - -o t && ./t")
        assert machine.check("ls /proc/sys/kernel/random/boot_id")
        assert "10.0.2.15" in machine.check("ip -4 address show dev eth0")
        assert "LOOPBACK,UP" in machine.check("ip address show dev lo")
        if init == "systemd":
            timers = machine.check("systemctl list-timers --no-legend --plain")
            assert timers == ""
            assert machine.check("systemctl --failed --no-legend --plain") == ""
        machine.check("echo kept >/root/kept; sync")
        machine.check("/sbin/labctl-poweroff")
        assert machine.wait_off() == 0
    with guest(init) as machine:
        machine.wait_ready()
        assert machine.check("cat /root/kept") == "kept"
        machine.press_power_button()
        assert machine.wait_off() == 0


def test_a_guest_comes_up_again_after_its_power_was_cut(guest):
    with guest() as machine:
        machine.wait_ready()
        machine.check("echo kept >/root/kept; sync")
        machine.check("(while :; do echo x >>/root/log; done) >/dev/null 2>&1 & sleep 1")
        machine.process.kill()
        machine.process.wait()
    with guest() as machine:
        machine.wait_ready()
        assert machine.check("cat /root/kept") == "kept"
        assert "recover" in machine.check("dmesg | grep -i 'EXT4-fs.*recover'")
        machine.check("touch /root/writable")


def test_the_reboot_command_boots_anew(guest):
    with guest() as machine:
        machine.wait_ready()
        machine.check("/sbin/labctl-reboot")
        assert machine.wait_off() == 0  # QEMU runs with -no-reboot


def test_an_overlay_of_another_image_is_not_kept(image, guest, tmp_path):
    guest()
    disk = tmp_path / "disk.qcow2"
    first = disk.stat().st_ino
    guest()
    assert disk.stat().st_ino == first
    disk.write_bytes(b"not a disk")
    guest()
    assert disk.stat().st_size > 1000
