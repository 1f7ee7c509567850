"""Kernels beside an image: files of one's own, and packages as apt has them."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest

from labctl.errors import ConfigError, UnavailableError
from labctl.images import bzimage, kernels
from labctl.images.catalogue import Recipe, find_recipe
from labctl.images.kernels import KernelChoice, KernelStore

RELEASE = "6.8.0-lab"
DRIVERS = {"virtio_pci": "", "virtio_blk": "virtio_pci", "virtio_net": "virtio_pci", "ext4": ""}


@pytest.fixture
def recipe() -> Recipe:
    return find_recipe("debian-12")


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "kernels")


def bzimage_of(path: Path, release: str = RELEASE, body: bytes = b"") -> Path:
    """A file with the header that boot loaders read (Linux's boot protocol), and no code."""
    head = bytearray(0x1000)
    head[0x1FE:0x200] = b"\x55\xaa"
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x300 - 0x200)
    head[0x211] = 1
    text = f"{release} (me@here) #1 SMP\0".encode()
    head[0x300 : 0x300 + len(text)] = text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(head) + body)
    return path


def modules_of(base: Path, release: str = RELEASE, **others: str) -> Path:
    """What ``make modules_install INSTALL_MOD_PATH=base`` leaves, as far as it is read."""
    tree = base / "lib" / "modules" / release
    (tree / "kernel").mkdir(parents=True)
    for name, depends in {**DRIVERS, **others}.items():
        data = b"\x7fELF\0depends=" + depends.encode() + b"\0"
        (tree / "kernel" / f"{name}.ko.xz").write_bytes(lzma.compress(data))
    (tree / "modules.builtin").write_text("")
    return base


def own(image: Path, modules: Path | None = None) -> KernelChoice:
    return KernelChoice("./bzImage", image=image, modules=modules)


def test_a_kernel_of_ones_own_brings_the_modules_that_its_guest_needs(tmp_path, recipe, store):
    image = bzimage_of(tmp_path / "bzImage")
    kernel = store.get(recipe, own(image, modules_of(tmp_path / "m", evdev="", nouveau="")))
    assert (kernel.spec, kernel.release, kernel.package) == ("./bzImage", RELEASE, "")
    assert kernel.vmlinuz.read_bytes() == image.read_bytes()
    packed = kernel.modules.read_bytes()
    assert f"lib/modules/{RELEASE}/virtio_net.ko".encode() in packed
    assert b"virtio_pci virtio_blk virtio_net ext4 evdev\n" in packed.replace(
        b"ext4 virtio_net", b"virtio_net ext4"
    )
    assert b"nouveau" not in packed
    assert store.list() == [kernel]


def test_without_modules_nothing_is_to_be_loaded(tmp_path, recipe, store):
    kernel = store.get(recipe, own(bzimage_of(tmp_path / "bzImage")))
    assert b".ko" not in kernel.modules.read_bytes()
    assert b"etc/modules\0" in kernel.modules.read_bytes()


@pytest.mark.parametrize("given", ["m", "m/lib/modules", f"m/lib/modules/{RELEASE}"])
def test_modules_are_found_from_any_directory_above_them(tmp_path, recipe, store, given):
    modules_of(tmp_path / "m")
    image = bzimage_of(tmp_path / "bzImage")
    kernel = store.get(recipe, own(image, tmp_path / given))
    assert b"virtio_blk.ko" in kernel.modules.read_bytes()


def test_the_same_content_is_the_same_kernel_wherever_it_lies(tmp_path, recipe, store):
    modules = modules_of(tmp_path / "m")
    one = store.get(recipe, own(bzimage_of(tmp_path / "a" / "bzImage"), modules))
    two = store.get(recipe, own(bzimage_of(tmp_path / "b" / "bzImage"), modules))
    assert one == two
    elsewhere = KernelStore(tmp_path / "other").get(recipe, own(tmp_path / "a/bzImage", modules))
    assert (elsewhere.key, elsewhere.digest) == (one.key, one.digest)
    assert elsewhere.modules.read_bytes() == one.modules.read_bytes()


def test_another_content_at_the_same_place_is_another_kernel(tmp_path, recipe, store):
    image = bzimage_of(tmp_path / "bzImage")
    first = store.get(recipe, own(image))
    second = store.get(recipe, own(bzimage_of(image, body=b"patched")))
    third = store.get(recipe, own(image, modules_of(tmp_path / "m")))
    assert len({first.key, second.key, third.key}) == 3
    assert first.digest != second.digest == third.digest


def test_a_kernel_that_is_not_whole_is_made_again(tmp_path, recipe, store):
    choice = own(bzimage_of(tmp_path / "bzImage"))
    kernel = store.get(recipe, choice)
    kernel.modules.unlink()
    assert store.list() == []
    again = store.get(recipe, choice)
    assert again.key == kernel.key
    assert again.modules.is_file()
    again.vmlinuz.with_name(kernels.MANIFEST).write_text("{}")
    assert store.get(recipe, choice).key == kernel.key


def test_kernels_are_removed_by_their_name_or_key(tmp_path, recipe, store):
    image = bzimage_of(tmp_path / "bzImage")
    kernel = store.get(recipe, own(image))
    assert store.remove("another") == 0
    assert store.remove(kernel.key) == 1
    store.get(recipe, own(image))
    store.get(recipe, own(bzimage_of(image, body=b"2")))
    assert store.remove("./bzImage") == 2
    assert store.list() == []


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "is not a Linux kernel for x86", "arch/x86/boot/bzImage"),
        (b"#!/bin/sh\n" * 1000, "is not a Linux kernel for x86", "vmlinuz"),
        (b"\x7fELF" + bytes(5000), "is an ELF file (a vmlinux?), not a bzImage", "bzImage"),
        (None, "cannot be read: No such file", "check the path"),
    ],
)
def test_what_is_no_kernel_is_told(tmp_path, recipe, store, content, message, hint):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        store.get(recipe, own(path))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert store.list() == []


def test_a_zimage_and_a_kernel_without_a_name_are_told_apart(tmp_path):
    path = bzimage_of(tmp_path / "k")
    data = bytearray(path.read_bytes())
    data[0x211] = 0
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="is a zImage"):
        bzimage.release_of(path)
    data[0x211] = 1
    data[0x20E:0x210] = b"\0\0"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="does not say which kernel it is"):
        bzimage.release_of(path)


def test_modules_of_another_kernel_are_refused(tmp_path, recipe, store):
    modules = modules_of(tmp_path / "m", release="6.9.0")
    with pytest.raises(ConfigError, match="has no modules of the kernel"):
        store.get(recipe, own(bzimage_of(tmp_path / "k"), modules))
    with pytest.raises(ConfigError, match="has no modules of the kernel"):
        store.get(recipe, own(tmp_path / "k", modules / "lib/modules/6.9.0"))


def test_a_driver_that_is_missing_is_named(tmp_path, recipe, store):
    modules = modules_of(tmp_path / "m")
    next(modules.rglob("virtio_net.ko.xz")).unlink()
    with pytest.raises(ConfigError, match="has no driver virtio_net"):
        store.get(recipe, own(bzimage_of(tmp_path / "k"), modules))
    next(modules.rglob("modules.builtin")).write_text("kernel/drivers/net/virtio_net.ko\n")
    assert store.get(recipe, own(tmp_path / "k", modules)).release == RELEASE


@pytest.mark.slow
class TestFromPackages:
    """By this machine's apt, from Debian as it is today."""

    def test_a_suites_kernel_is_fetched_once(self, recipe, store):
        choice = KernelChoice("debian/bullseye", suite="bullseye")
        kernel = store.get(recipe, choice)
        assert kernel.release.startswith("5.10.")
        assert kernel.package.startswith(f"linux-image-{kernel.release} 5.10.")
        assert bzimage.release_of(kernel.vmlinuz) == kernel.release
        assert f"lib/modules/{kernel.release}/virtio_net.ko".encode() in kernel.modules.read_bytes()
        told = []
        assert store.get(recipe, choice, progress=lambda *step: told.append(step)) == kernel
        assert told == []

    def test_one_kernel_has_several_names(self, recipe, store):
        newest = store.get(recipe, KernelChoice("debian/bookworm", suite="bookworm"))
        release, version = newest.release, newest.package.split()[1]
        abi = release.removesuffix("-cloud-amd64")
        for name in (abi, release, version):
            kernel = store.get(recipe, KernelChoice(name, version=name))
            assert (kernel.package, kernel.digest) == (newest.package, newest.digest)

    def test_a_version_that_is_not_there_says_which_are(self, recipe, store):
        for version in ("6.1", "6.1.0-1"):
            with pytest.raises(ConfigError, match=f"bookworm has no kernel {version}") as caught:
                store.get(recipe, KernelChoice(version, version=version))
            assert "-cloud-amd64 (package version 6.1." in caught.value.hint
        assert store.list() == []

    def test_a_suite_that_is_not_served_is_told(self, recipe, store):
        with pytest.raises(UnavailableError, match="suite nosuch is not served") as caught:
            store.get(recipe, KernelChoice("debian/nosuch", suite="nosuch"))
        assert "image, modules" in caught.value.hint
        assert not list(store.root.glob("kernel-*"))
