"""Exports, with real disks and qemu-img: whole or not at all, private, and as they should be."""

import hashlib
import json
import os
import stat
import subprocess
import tarfile

import pytest
from filelock import FileLock
from tiny import TinyBuilder, tiny_recipe

from labctl.errors import ConfigError, UnavailableError
from labctl.images import builder as builders
from labctl.images.box import BoxFiles, provider_options, vagrantfile, write_box
from labctl.images.builder import GuestBoot, GuestSettings, ImageFiles, Stage
from labctl.images.export import LOCK, export
from labctl.images.guest import ensure_overlay, public_key
from labctl.images.store import ImageStore

DISK_BYTES = 64 << 20
KEY = "ecdsa-sha2-nistp256 AAAAE2Vj user"


class DiskBuilder(TinyBuilder):
    """A sparse disk with a mark in the middle; a guest's overlay has its key in the first sector.

    ``build.kernel`` makes it one that is booted by its kernel.
    """

    def stages(self, recipe):
        def make(context):
            with (context.directory / "disk").open("wb") as disk:
                disk.truncate(DISK_BYTES)
                disk.seek(DISK_BYTES // 2)
                disk.write(b"mark")
            (context.directory / "vmlinuz").write_text("kernel")
            (context.directory / "initrd").write_text("initrd")

        return [Stage("disk", {}, make)]

    def assemble(self, recipe, results):
        directory = results["disk"]
        if not recipe.build.get("kernel"):
            return ImageFiles(disk=directory / "disk", disk_format="raw")
        return ImageFiles(
            disk=directory / "disk",
            disk_format="raw",
            kernel=directory / "vmlinuz",
            initrd=directory / "initrd",
            cmdline="root=/dev/vda",
        )

    def prepare_guest(self, image, directory, identity, settings):
        assert settings.network == "dhcp"
        if settings.tunables:
            raise ConfigError("no tunables here")
        overlay = ensure_overlay(image, directory)
        (directory / "sector").write_bytes(identity.host_key_pub.encode().ljust(512, b"\0"))
        write = f"write -s {directory / 'sector'} 0 512"
        subprocess.run(["qemu-io", "-f", "qcow2", "-c", write, overlay], check=True)
        if image.kernel is None:
            return GuestBoot(overlay, None, None, "", public_key(identity.host_key_pub))
        initrd = directory / "initrd"
        initrd.write_text(f"initrd {identity.hostname}")
        key = public_key(identity.host_key_pub)
        return GuestBoot(overlay, image.kernel, initrd, f"{image.cmdline} net=dhcp", key)


builders.BUILDERS["disk"] = f"{__name__}:DiskBuilder"


def recipe_of(**build):
    return tiny_recipe(**build).model_copy(update={"builder": "disk"})


@pytest.fixture
def image(tmp_path):
    return ImageStore(tmp_path / "store").build(recipe_of(text="t"))


@pytest.fixture
def kernel_image(tmp_path):
    return ImageStore(tmp_path / "store").build(recipe_of(text="t", kernel="yes"))


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def write(image, target, form="raw", **more):
    return export(image, target, form, authorized_key=KEY, hostname="guest", **more)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def info(path):
    shown = subprocess.run(["qemu-img", "info", "--output=json", path], capture_output=True)
    return json.loads(shown.stdout)


def test_a_raw_disk_has_image_and_identity_and_is_sparse_and_private(image, out):
    done = write(image, out / "d.raw")
    assert list(done.sha256) == [out / "d.raw"]
    content = (out / "d.raw").read_bytes()
    assert content[:512].rstrip(b"\0").decode().startswith(done.host_key)
    assert content[DISK_BYTES // 2 :].startswith(b"mark") and len(content) == DISK_BYTES
    assert hashlib.sha256(content).hexdigest() == done.sha256[out / "d.raw"]
    status = (out / "d.raw").stat()
    assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_blocks * 512 < 1 << 20
    assert names(out) == ["d.raw"]
    assert image.disk.read_bytes()[:512] != content[:512]  # the image itself has no identity


def test_a_qcow2_disk_has_nothing_behind_it_and_each_export_its_own_host_key(image, out):
    first = write(image, out / "d.qcow2", "qcow2")
    found = info(out / "d.qcow2")
    assert found["format"] == "qcow2" and found["virtual-size"] == DISK_BYTES
    assert "backing-filename" not in found
    assert write(image, out / "e.qcow2", "qcow2").host_key != first.host_key


def test_a_file_that_is_there_is_replaced_only_when_asked(image, out):
    (out / "d.raw").write_text("mine")
    with pytest.raises(ConfigError, match="there already") as error:
        write(image, out / "d.raw")
    assert "--force" in error.value.hint
    assert (out / "d.raw").read_text() == "mine"
    write(image, out / "d.raw", force=True)
    assert (out / "d.raw").stat().st_size == DISK_BYTES


def test_a_failed_export_leaves_what_was_there_and_nothing_else(image, out):
    (out / "d.raw").write_text("mine")
    with pytest.raises(ConfigError, match="no tunables"):
        write(image, out / "d.raw", force=True, settings=GuestSettings(tunables={"a": "b"}))
    with pytest.raises(UnavailableError, match="No space left"):
        write(image, out / "d.raw", force=True, progress=full)
    assert names(out) == ["d.raw"] and (out / "d.raw").read_text() == "mine"


def test_of_two_exports_to_one_file_the_first_stays(image, out):
    target = out / "disk.raw"

    def meanwhile(stage, part, text):
        if stage == "guest":
            target.write_text("another's")

    with pytest.raises(ConfigError, match="meanwhile"):
        write(image, target, progress=meanwhile)
    assert target.read_text() == "another's"
    assert names(out) == ["disk.raw"]


def test_what_a_killed_export_left_is_removed_and_a_running_one_is_let_be(image, out):
    target = out / "disk.raw"
    dead, alive, other = (out / name for name in (".disk.raw.1", ".disk.raw.2", ".disk.raw.3"))
    for directory in (dead, alive, other):
        directory.mkdir()
    (dead / LOCK).touch()
    with FileLock(alive / LOCK):
        write(image, target)
    assert names(out) == [alive.name, other.name, "disk.raw"]


def full(stage, part, text):
    if stage == "checksum":
        raise OSError(28, "No space left on device")


def test_no_device_and_no_directory_is_written_to(image, out):
    if os.geteuid() != 0:
        pytest.skip("making a device node needs root")
    os.mknod(out / "sdx", stat.S_IFBLK | 0o600, os.makedev(259, 1000))  # no such device
    with pytest.raises(ConfigError, match="block device") as error:
        write(image, out / "sdx", force=True)
    assert f"dd if=FILE of={out / 'sdx'}" in error.value.hint
    with pytest.raises(ConfigError, match="no regular file"):
        write(image, out, force=True)
    with pytest.raises(ConfigError, match="directory is not there"):
        write(image, out / "none" / "d.raw")


def test_an_image_that_has_no_boot_loader_comes_with_kernel_and_initrd(kernel_image, out):
    done = write(kernel_image, out / "d.raw")
    assert [path.name for path in done.sha256] == ["d.raw", "d.raw.kernel", "d.raw.initrd"]
    assert (out / "d.raw.kernel").read_text() == "kernel"
    assert (out / "d.raw.initrd").read_text() == "initrd guest"
    assert done.cmdline == "root=/dev/vda net=dhcp"
    for path, digest in done.sha256.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (out / "d.raw").unlink()
    with pytest.raises(ConfigError, match="there already"):
        write(kernel_image, out / "d.raw")


def test_a_box_is_what_vagrant_takes(kernel_image, out):
    done = write(kernel_image, out / "d.box", "box")
    assert list(done.sha256) == [out / "d.box"] and names(out) == ["d.box"]
    subprocess.run(["bsdtar", "-xf", "d.box"], cwd=out, check=True)
    metadata = json.loads((out / "metadata.json").read_text())
    assert metadata == {"provider": "libvirt", "format": "qcow2", "virtual_size": 1}
    assert "backing-filename" not in info(out / "box.img")
    assert (out / "vmlinuz").read_text() == "kernel"
    assert (out / "initrd").read_text() == "initrd guest"
    own = (out / "Vagrantfile").read_text()
    assert "config.vm.guest = :netbsd" in own
    assert "libvirt.kernel = File.expand_path('vmlinuz', __dir__)" in own
    assert "libvirt.cmd_line = 'root=/dev/vda net=dhcp'" in own
    assert "disk_bus = 'ide'" in own and "disk_device = 'hda'" in own
    with tarfile.open(out / "d.box") as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname) for m in archive} == {(0, 0, 0, "")}


def test_a_box_of_the_same_files_has_the_same_bytes(out):
    (out / "disk").write_bytes(os.urandom(3 << 20))
    recipe = tiny_recipe()
    for name in ("a", "b"):
        files = BoxFiles(out / "disk", (1 << 30) + 1)
        write_box(out / name, files, recipe, recipe.hardware)
        os.utime(out / "disk", (name == "a", 5))
    assert (out / "a").read_bytes() == (out / "b").read_bytes()
    with tarfile.open(out / "a") as archive:
        metadata = archive.extractfile("metadata.json")
        assert metadata and json.loads(metadata.read())["virtual_size"] == 2


def test_a_command_line_stays_itself_in_ruby(tmp_path):
    cmdline = r"""a='b' c="#{d}" e=\f\\"""
    recipe = tiny_recipe()
    text = vagrantfile(BoxFiles(tmp_path, 1, tmp_path, tmp_path, cmdline), recipe, recipe.hardware)
    literal = next(line for line in text.splitlines() if "cmd_line" in line).partition("= ")[2]
    said = subprocess.run(["ruby", "-e", f"print {literal}"], capture_output=True, text=True)
    assert said.stdout == cmdline


@pytest.mark.parametrize(
    "change, cpu, expected",
    [
        ({}, "Nehalem", {"cpu_mode": "custom", "cpu_model": "Nehalem", "nic_model_type": "e1000"}),
        ({"nic": "virtio-net-pci"}, "max", {"cpu_mode": "maximum", "nic_model_type": "virtio"}),
        ({"disk_bus": "virtio"}, "host", {"cpu_mode": "host-passthrough", "disk_device": "vda"}),
        ({"disk_bus": "sata"}, "host-passthrough", {"disk_device": "sda"}),
        ({"video": "vga"}, "max", {"graphics_type": "vnc", "video_type": "vga"}),
        ({"smbios_product": "KVM"}, "max", {"sysinfo": {"system": {"product": "KVM"}}}),
    ],
)
def test_hardware_in_the_words_of_vagrant_libvirt(change, cpu, expected):
    options = provider_options(tiny_recipe().hardware.model_copy(update=change), cpu=cpu)
    assert expected.items() <= options.items()
    assert ("cpu_model" in options) == (options["cpu_mode"] == "custom")
