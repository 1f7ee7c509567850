"""Disks of the BSDs for bare metal: made of sets of our own, and complete in themselves."""

import subprocess

import pytest

from labctl.errors import ConfigError
from labctl.images.box import plain_settings
from labctl.images.builder import GuestSettings, Source
from labctl.images.catalogue import find_recipe
from labctl.images.export import export
from labctl.images.store import ImageStore
from tests.images import bsd_sets

KEY = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTY user"


@pytest.mark.parametrize(
    "name, make, network",
    [
        ("freebsd-9.3", bsd_sets.freebsd, b'ifconfig_DEFAULT="SYNCDHCP"'),
        ("netbsd-6.1.5", bsd_sets.netbsd, b"dhcpcd=YES"),
    ],
)
def test_a_raw_disk_has_all_that_a_machine_needs(name, make, network, tmp_path, monkeypatch):
    for place in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(place, str(tmp_path / place))
    (tmp_path / "sets").mkdir()
    recipe = find_recipe(name)
    small = {"build": recipe.build | {"root_mib": 96, "swap_mib": 8}, "disk_mib": 128}
    recipe = recipe.model_copy(update=small)
    image = ImageStore().build(recipe, source=Source(sets=str(make(tmp_path / "sets"))))
    target = tmp_path / "disk.raw"
    settings = plain_settings(recipe)
    done = export(image, target, "raw", authorized_key=KEY, hostname="metal-7", settings=settings)
    disk, original = target.read_bytes(), image.disk.read_bytes()
    assert len(disk) == len(original) == 128 << 20
    wanted = [KEY.encode(), network, b"hostname=metal-7", done.host_key.encode()]
    wanted += [f'{key}="{value}"'.encode() for key, value in settings.tunables.items()]
    for text in [*wanted, b"BEGIN EC PRIVATE KEY"]:
        assert disk.count(text) == 1, text
        assert original.count(text) == 0, text
    assert list(done.sha256) == [target] and done.cmdline == ""
    shown = subprocess.run(["sfdisk", "--verify", target], capture_output=True, text=True)
    assert shown.returncode == 0 and "No errors detected" in shown.stdout
    with pytest.raises(ConfigError, match="takes no `cmdline`"):
        refused = GuestSettings(cmdline="single")
        export(image, tmp_path / "no", "raw", authorized_key=KEY, hostname="x", settings=refused)
    assert not (tmp_path / "no").exists()
