"""The FreeBSD and NetBSD builders over sets of our own, read back by tools that are not ours."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.errors import ConfigError, UnavailableError
from labctl.images.builder import GuestIdentity, GuestSettings, Source, get_builder
from labctl.images.catalogue import find_recipe, load_catalogue
from labctl.images.freebsd import serial_ttys as freebsd_ttys
from labctl.images.keys import ensure_keypair
from labctl.images.netbsd import serial_ttys as netbsd_ttys
from labctl.images.store import ImageStore
from tests.images import bsd_sets

MAKE = {"freebsd-9.3": bsd_sets.freebsd, "netbsd-6.1.5": bsd_sets.netbsd}


@pytest.fixture(scope="module", autouse=True)
def own_caches(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


def recipe_of(name):
    """The recipe, with a smaller disk: the sets are small."""
    recipe = find_recipe(name)
    build = recipe.build | {"root_mib": 96, "swap_mib": 8}
    return recipe.model_copy(update={"build": build, "disk_mib": 128})


@pytest.fixture(scope="module")
def sets_of(tmp_path_factory):
    return {name: make(tmp_path_factory.mktemp("sets")) for name, make in MAKE.items()}


@pytest.fixture(scope="module", params=MAKE)
def image(request, sets_of):
    return ImageStore().build(
        recipe_of(request.param), source=Source(sets=str(sets_of[request.param]))
    )


class Disk:
    """A disk's root file system, read by sleuthkit."""

    def __init__(self, disk: Path, sector: int = 2048) -> None:
        self.options = ["-i", "raw", "-f", "ufs", "-o", str(sector), str(disk)]
        shown = self._run("fls", "-r", "-p", "-u", *self.options)
        pattern = r"\S+ (\d+):\t(.*)"
        self.inodes = {match[2]: match[1] for match in re.finditer(pattern, shown)}

    def read(self, path: str) -> bytes:
        return subprocess.run(
            ["icat", *self.options, self.inodes[path]], check=True, capture_output=True
        ).stdout

    def stat(self, path: str) -> str:
        return self._run("istat", *self.options, self.inodes[path])

    def mode(self, path: str) -> str:
        return re.search(r"mode: (\S+)", self.stat(path))[1]

    @staticmethod
    def _run(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_catalogue_has_every_line_of_both_systems():
    names = set(load_catalogue())
    assert {f"freebsd-9.{minor}" for minor in range(4)} <= names
    assert {"netbsd-6.0", "netbsd-6.1.5"} <= names
    assert {name.split("-")[1].split(".")[0] for name in names if name.startswith("freebsd")} >= {
        *map(str, range(9, 16))
    }


def test_the_disk_holds_the_sets_and_what_a_guest_needs(image):
    disk = Disk(image.disk)
    assert disk.read("usr/sbin/sshd") == b"sshd"
    assert disk.mode("usr/bin/su") in ("rrwsr-xr-x", "rr-sr-xr-x")
    config = disk.read("etc/ssh/sshd_config")
    assert config.startswith(b"# labctl:")
    assert config.endswith(bsd_sets.SSHD_CONFIG), "the set's own lines stay"
    assert b". /etc/labctl.conf" in disk.read("etc/rc.conf")
    assert disk.mode("etc/ssh/ssh_host_ecdsa_key") == "rrw-------"
    assert disk.mode("root/.ssh") == "drwx------"
    assert disk.mode("etc/rc.d/labctl") == "rrwxr-xr-x"


def test_what_was_used_is_recorded_with_how_far_it_is_trusted(image):
    sets = {name: note for name, note in image.notes.items() if name.startswith("set ")}
    assert sets
    for note in sets.values():
        assert re.match(r"sha256:[0-9a-f]{64} \(.*by hand", note)


def test_the_same_sets_give_the_same_bytes(image, sets_of, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    again = ImageStore().build(recipe_of(image.name), source=Source(sets=str(sets_of[image.name])))
    assert again.key == image.key
    assert again.digests == image.digests
    assert subprocess.run(["cmp", image.disk, again.disk], check=False).returncode == 0


def test_found_again_without_naming_the_sets_and_verified(image):
    store = ImageStore()
    assert store.find(recipe_of(image.name)).key == image.key
    findings = store.verify(image.recipe)
    assert findings
    assert all(finding.ok for finding in findings)


@pytest.fixture
def identity(tmp_path):
    return GuestIdentity(
        hostname="box",
        host_key=tmp_path / "key",
        host_key_pub=ensure_keypair(tmp_path / "key", "box"),
        authorized_key=ensure_keypair(tmp_path / "user", "user"),
    )


def flat(disk: Path, target: Path) -> Disk:
    subprocess.run(["qemu-img", "convert", "-O", "raw", disk, target], check=True)
    return Disk(target)


def test_a_guest_has_its_own_name_keys_and_settings(image, identity, tmp_path):
    builder = get_builder(image.recipe.builder)
    tunables = {"kern.hz": "100"} if builder.tunable else {}
    settings = GuestSettings(tunables=tunables, sysctls={"kern.timecounter.hardware": "HPET"})
    boot = builder.prepare_guest(image, tmp_path, identity, settings)
    assert boot.kernel is None
    assert identity.host_key_pub.startswith(boot.host_key)
    disk = flat(boot.disk, tmp_path / "flat")
    assert disk.read("etc/ssh/ssh_host_ecdsa_key").strip() == identity.host_key.read_bytes().strip()
    assert disk.read("root/.ssh/authorized_keys").decode().strip() == identity.authorized_key
    assert b"kern.timecounter.hardware=HPET\n" in disk.read("etc/labctl.sysctl")
    conf = disk.read("etc/labctl.conf").decode()
    assert "hostname=box\n" in conf
    assert "10.0.2.15" in conf
    subprocess.run(["sh", "-euc", conf], check=True)  # it is sourced by sh
    if tunables:
        assert b'kern.hz="100"\n' in disk.read("boot/loader.conf.local")
        assert disk.read("entropy") != disk.read("boot/entropy")
    # Again with the same: nothing changes. With other settings: the same disk, other words.
    before = boot.disk.stat().st_mtime_ns
    builder.prepare_guest(image, tmp_path, identity, settings)
    assert boot.disk.stat().st_mtime_ns == before
    builder.prepare_guest(image, tmp_path, identity, GuestSettings(network="dhcp"))
    again = flat(boot.disk, tmp_path / "flat")
    assert b"DHCP" in again.read("etc/labctl.conf").upper().replace(b"DHCPCD", b"DHCP")
    assert b"HPET" not in again.read("etc/labctl.sysctl")


def test_what_a_system_does_not_have_is_refused(image, identity, tmp_path):
    builder = get_builder(image.recipe.builder)
    for settings in (GuestSettings(init="systemd"), GuestSettings(cmdline="quiet")):
        with pytest.raises(ConfigError, match="own"):
            builder.prepare_guest(image, tmp_path, identity, settings)
    with pytest.raises(ConfigError, match="no driver for rtl8139"):
        builder.prepare_guest(image, tmp_path, identity, GuestSettings(nic="rtl8139"))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("freebsd-9.3", "boot/gptboot"),
        ("freebsd-9.3", "boot/kernel/kernel"),
        ("netbsd-6.1.5", "usr/mdec/bootxx_ffsv1"),
        ("netbsd-6.1.5", "usr/sbin/sshd"),
    ],
)
def test_sets_without_what_boots_are_no_image(name, missing, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sets = MAKE[name](tmp_path / "sets", without=[missing])
    with pytest.raises(UnavailableError, match=re.escape(f"no set holds /{missing}")) as raised:
        ImageStore().build(recipe_of(name), source=Source(sets=str(sets)))
    assert "--sets" in raised.value.hint
    assert ImageStore().find(recipe_of(name)) is None


def test_no_compiler_set_is_no_obstacle(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sets = bsd_sets.netbsd(tmp_path / "sets", comp=False)
    image = ImageStore().build(recipe_of("netbsd-6.1.5"), source=Source(sets=str(sets)))
    assert "set comp" not in image.notes


def test_partitions_are_as_the_tools_of_others_read_them(image):
    shown = subprocess.run(["mmls", image.disk], check=True, capture_output=True, text=True).stdout
    wanted = "labctl-root" if image.name.startswith("freebsd") else r"0xA9|NetBSD"
    assert re.search(wanted, shown, re.I)
    slots = json.loads(image.notes["slots"])
    for offset, size in slots.values():
        assert offset >= 2048 * 512
        assert offset + size <= image.disk.stat().st_size


def test_logins_are_on_the_serial_port_only():
    shown = freebsd_ttys(bsd_sets.FREEBSD_TTYS.decode())
    assert re.search(r'^ttyu0\t"/usr/libexec/getty std.115200"\tvt100\ton  secure$', shown, re.M)
    assert not re.search(r"^ttyv\d.*\son\s", shown, re.M)
    assert re.search(r"^ttyu1.*off", shown, re.M)
    shown = netbsd_ttys(bsd_sets.NETBSD_TTYS.decode())
    assert not re.search(r"^ttyE\d.*\son\s", shown, re.M)
    assert re.search(r"^constty.*\son secure$", shown, re.M)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labctl"


def test_a_set_that_changed_since_it_was_brought_is_not_built_in(own_cache, tmp_path, monkeypatch):
    recipe = recipe_of("freebsd-9.3")
    image = ImageStore().build(recipe, source=Source(sets=str(bsd_sets.freebsd(tmp_path / "a"))))
    (held,) = (own_cache / "sets" / recipe.name).glob("kernel-*.txz")
    monkeypatch.setattr(bsd_sets, "TIME", bsd_sets.TIME + 1)
    changed = (bsd_sets.freebsd(tmp_path / "b") / "kernel.txz").read_bytes()
    assert len(changed) == held.stat().st_size
    held.write_bytes(changed)
    assert not all(finding.ok for finding in ImageStore().verify(recipe))
    ImageStore().remove(recipe.name)
    with pytest.raises(UnavailableError, match="the set kernel was") as raised:
        ImageStore().build(recipe)
    assert raised.value.where == str(held)
    held.unlink()
    again = ImageStore().build(recipe, source=Source(sets=str(tmp_path / "a")))
    assert again.digests == image.digests


def test_the_space_that_a_build_needs_has_the_root_file_system_in_it(own_cache):
    (small,) = get_builder("freebsd").stages(recipe_of("freebsd-9.3"))
    recipe = recipe_of("freebsd-9.3")
    large = recipe.model_copy(update={"build": recipe.build | {"root_mib": 1096}})
    (disk,) = get_builder("freebsd").stages(large)
    assert disk.needs_mib - small.needs_mib == 1000


def test_an_image_whose_slots_make_no_sense_is_named(image, identity, tmp_path):
    for slots in ({}, {"slots": "x"}, {"slots": '{"etc/labctl.conf": [1]}'}):
        broken = replace(image, notes=slots)
        with pytest.raises(UnavailableError, match="not whole"):
            get_builder(image.recipe.builder).prepare_guest(
                broken, tmp_path, identity, GuestSettings()
            )
