"""What a guest is made of: recipe and lab file put together, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.guests.hardware import GuestPlan, resolve
from labctl.images.catalogue import Recipe
from labctl.lab import Lab, load_lab

LINUX = {
    "machine": "q35",
    "cpu": {"kvm": "host-passthrough", "tcg": "max"},
    "disk_bus": "virtio",
    "nic": "virtio-net-pci",
    "max_vcpus": 64,
    "memory_mib": 1024,
}
BSD = {
    "machine": "pc",
    "cpu": {"kvm": "Nehalem", "tcg": "qemu64"},
    "disk_bus": "ide",
    "nic": "e1000",
    "max_vcpus": 8,
    "memory_mib": 512,
    "video": "vga",
}


def recipe(system: str) -> Recipe:
    linux = system == "linux"
    return Recipe.model_validate(
        {
            "name": system,
            "summary": "",
            "system": system,
            "builder": "none",
            "inits": ["minimal", "systemd"] if linux else [],
            "disk_mib": 64,
            "hardware": LINUX if linux else BSD,
            "tunables": {"kern.hz": "1000", "hw.x": "1"} if system == "freebsd" else {},
        }
    )


def lab(tmp_path: Path, system: str, keys: str = "", defaults: str = "vcpus: 2") -> Lab:
    path = tmp_path / "lab.yaml"
    path.write_text(
        f"lab: x\ndefaults:\n  {defaults}\ntargets:\n  a:\n    kind: vm\n"
        f"    image: {system}\n    {keys}\n"
    )
    return load_lab(path, images={system})


@pytest.fixture(autouse=True)
def _xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def plan(tmp_path: Path, system: str, keys: str = "", defaults: str = "vcpus: 2") -> GuestPlan:
    return resolve(lab(tmp_path, system, keys, defaults), "a", recipe(system))


def test_without_a_word_it_is_the_recipes(tmp_path: Path) -> None:
    made = plan(tmp_path, "freebsd")
    assert made.hardware == recipe("freebsd").hardware
    assert made.settings.tunables == {"kern.hz": "1000", "hw.x": "1"}
    assert (made.settings.nic, made.settings.disk_bus) == ("e1000", "ide")
    assert (made.cpu("kvm"), made.cpu("tcg")) == ("Nehalem", "qemu64")
    assert (made.init, made.settings.init) == ("", None)
    assert (made.vcpus, made.memory_mib) == (2, 1024)


def test_the_lab_file_overrides_key_by_key(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        "freebsd",
        "hardware: {cpu: Westmere, disk_bus: sata, smbios_product: KVM}\n"
        "    tunables: {kern.hz: 100}\n    sysctls: {kern.timecounter.hardware: HPET}",
    )
    hardware = made.hardware
    assert (hardware.machine, hardware.disk_bus, hardware.nic) == ("pc", "sata", "e1000")
    assert (hardware.video, hardware.smbios_product) == ("vga", "KVM")
    assert made.cpu("kvm") == made.cpu("tcg") == "Westmere"
    assert made.settings.tunables == {"kern.hz": "100", "hw.x": "1"}
    assert made.settings.sysctls == {"kern.timecounter.hardware": "HPET"}
    assert made.settings.disk_bus == "sata"


def test_the_hosts_own_cpu_is_in_the_domains_words_and_needs_kvm(tmp_path: Path) -> None:
    made = plan(tmp_path, "linux")
    assert (made.cpu("kvm"), made.cpu("tcg"), made.needs_kvm) == ("host", "max", False)
    assert plan(tmp_path, "linux", "hardware: {cpu: host-passthrough}").needs_kvm


def test_a_default_init_is_for_those_that_have_one(tmp_path: Path) -> None:
    assert plan(tmp_path, "linux", defaults="init: systemd").settings.init == "systemd"
    assert plan(tmp_path, "netbsd", defaults="init: systemd").settings.init is None


@pytest.mark.parametrize(
    ("keys", "text", "suite", "version", "image", "modules"),
    [
        ("debian/bullseye", "debian/bullseye", "bullseye", "", None, None),
        ("debian/bullseye/5.10.223-1", "debian/bullseye/5.10.223-1", "bullseye", "5.10.223-1", None, None),
        ("6.1.0-18", "6.1.0-18", "", "6.1.0-18", None, None),
        ("{suite: sid, version: 7.0.1-1}", "debian/sid/7.0.1-1", "sid", "7.0.1-1", None, None),
        ("./linux/bzImage", "linux/bzImage", "", "", "linux/bzImage", None),
        ("/boot/vmlinuz", "/boot/vmlinuz", "", "", "/boot/vmlinuz", None),
        ("{image: bzImage, modules: ../m}", "bzImage with ../m", "", "", "bzImage", "../m"),
    ],
)  # fmt: skip
def test_a_kernel_is_named_in_a_word_or_a_mapping(
    tmp_path: Path, keys: str, text: str, suite: str, version: str, image: str, modules: str
) -> None:
    kernel = plan(tmp_path, "linux", f"kernel: {keys}").kernel
    assert kernel is not None
    assert (kernel.text, kernel.suite, kernel.version) == (text, suite, version)
    assert kernel.image == (tmp_path / image if image else None)
    assert kernel.modules == (tmp_path / modules if modules else None)
    assert plan(tmp_path, "linux").kernel is None


@pytest.mark.parametrize(
    ("system", "keys", "line", "message", "hint"),
    [
        ("freebsd", "hardware: {machine: q35}", 8, "q35 has no IDE bus", "sata"),
        ("freebsd", "cmdline: quiet", 8, "freebsd takes no `cmdline`", "boot loader"),
        ("netbsd", "tunables: {kern.hz: 1}", 8, "netbsd takes no `tunables`", "sysctls"),
        ("linux", "tunables: {kern.hz: 1}", 8, "linux takes no `tunables`", "cmdline"),
        ("linux", "sysctls: {kern.hz: 1}", 8, "linux takes no `sysctls`", "cmdline"),
        ("linux", "hardware: {nic: e1000}", 8, "drivers for virtio-net-pci only", "remove `nic`"),
        ("linux", "hardware: {disk_bus: sata}", 8, "drivers for virtio only", "disk_bus"),
        ("netbsd", "vcpus: 9", 8, "at most 8 vCPUs, not 9", "lower"),
        ("netbsd", "init: minimal", 8, "its own init only", "remove `init`"),
        ("freebsd", "kernel: debian/bullseye", 8, "freebsd takes no `kernel`", "another image"),
        ("netbsd", "kernel: ./bzImage", 8, "netbsd takes no `kernel`", "another image"),
        ("freebsd", "memory: 200MiB", 8, "does not boot with 200 MiB", "256MiB"),
    ],
)
def test_what_cannot_be_is_refused_at_its_line(
    tmp_path: Path, system: str, keys: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, system, keys)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.where == f"{tmp_path / 'lab.yaml'}:{line}"


@pytest.mark.parametrize(
    ("default", "message"),
    [("vcpus: 9", "at most 8 vCPUs"), ("memory: 200MiB", "does not boot with 200 MiB")],
)
def test_a_default_that_does_not_fit_is_refused_where_it_stands(
    tmp_path: Path, default: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        plan(tmp_path, "freebsd", defaults=default)
    assert caught.value.where == f"{tmp_path / 'lab.yaml'}:3"
