"""Choosing modules, from files that say what they depend on as the kernel's own do."""

import lzma
from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.images import cpio, kmodules
from labctl.images.debian import initramfs


@pytest.fixture
def tree(tmp_path) -> Path:
    modules = {
        "drivers/virtio/virtio_ring.ko": "",
        "drivers/virtio/virtio.ko": "virtio_ring",
        "drivers/net/virtio-net.ko": "virtio,failover,ext4",
        "drivers/net/failover.ko.xz": "",
    }
    for name, depends in modules.items():
        path = tmp_path / "modules" / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"\x7fELF\0alias=x\0depends=" + depends.encode() + b"\0name=y\0"
        path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    (tmp_path / "modules" / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    return tmp_path / "modules"


def test_modules_come_after_all_that_they_depend_on(tree, tmp_path):
    chosen = kmodules.choose(tree, "6.1.0", ["virtio_net", "ext4"], tmp_path)
    assert [module.name for module in chosen] == ["virtio_ring", "virtio", "failover", "virtio_net"]
    assert chosen[-1].depends == ("virtio_ring", "virtio", "failover")
    assert all(module.data.startswith(b"\x7fELF") for module in chosen)


def test_a_driver_that_the_kernel_lacks_is_named(tree, tmp_path):
    with pytest.raises(ConfigError) as caught:
        kmodules.choose(tree, "6.1.0", ["e1000"], tmp_path)
    assert "e1000" in caught.value.message
    assert "6.1.0" in caught.value.message


def test_modprobe_is_told_to_load_the_deepest_dependency_first(tree, tmp_path):
    chosen = kmodules.choose(tree, "6.1.0", ["virtio_net"], tmp_path)
    entries = {entry.path: entry for entry in initramfs("6.1.0", chosen, b"#!", b"bb")}
    depends = entries["lib/modules/6.1.0/modules.dep"].data.decode().splitlines()
    # modprobe goes through a line from its end.
    assert depends[-1] == "virtio_net.ko: failover.ko virtio.ko virtio_ring.ko"
    assert cpio.archive(entries.values()) == cpio.archive(initramfs("6.1.0", chosen, b"#!", b"bb"))
