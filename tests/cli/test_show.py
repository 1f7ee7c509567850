"""labctl lab: the lab file, defaults and recipes put together, and nothing started."""

import os

import pytest

LAB = """\
lab: shown
defaults: {memory: 768MiB, accel: tcg}
targets:
  metal: {kind: local}
  box: {kind: ssh, host: 192.0.2.7, port: 2222, user: me, workdir: /var/tmp/lab}
  linux: {kind: vm, image: debian-12, vcpus: 3}
  freebsd9: {kind: vm, image: freebsd-9.3}
  seen: {kind: vm, image: freebsd-9.3, tunables: {kern.hz: 100}, hardware: {smbios_product: KVM}}
  older: {kind: vm, image: debian-12, kernel: debian/bullseye}
  own: {kind: vm, image: debian-12, kernel: {image: ./bzImage}}
pairs:
  - {guest: linux, metal: metal}
"""


@pytest.fixture
def shown(labctl):
    labctl.environment["XDG_CACHE_HOME"] = str(labctl.directory / "cache")
    (labctl.directory / "lab.yaml").write_text(LAB)
    return labctl


def test_every_target_is_shown_as_it_would_be_made(shown):
    document = shown.json("lab")
    assert document["lab"] == "shown"
    assert document["path"] == str(shown.directory / "lab.yaml")
    assert document["pairs"] == [{"guest": "linux", "metal": "metal"}]
    targets = {target["name"]: target for target in document["targets"]}
    assert list(targets) == ["metal", "box", "linux", "freebsd9", "seen", "older", "own"]
    assert targets["metal"] == {"name": "metal", "kind": "local", "machine": "local"}
    ssh = {"host": "192.0.2.7", "port": 2222, "user": "me", "identity": None}
    assert targets["box"]["ssh"] == ssh and targets["box"]["machine"] == "192.0.2.7"
    linux, freebsd = targets["linux"], targets["freebsd9"]
    assert (linux["vcpus"], linux["memory_mib"], linux["init"]) == (3, 768, "minimal")
    assert linux["accelerator"]["asked"] == linux["accelerator"]["chosen"] == "tcg"
    assert linux["hardware"]["cpu"] == "max" and linux["hardware"]["machine"] == "q35"
    assert freebsd["vcpus"] == 2 and freebsd["init"] == ""
    assert freebsd["tunables"] == {"kern.hz": "1000"}
    assert freebsd["hardware"]["cpu"] == freebsd["vagrant"]["libvirt"]["cpu_model"] == "Nehalem"
    assert freebsd["vagrant"]["libvirt"]["driver"] == "qemu"
    assert freebsd["vagrant"]["guest"] == "freebsd"


def test_settings_on_the_disk_want_a_box_of_their_own(shown):
    targets = {target["name"]: target for target in shown.json("lab")["targets"]}
    plain, seen = targets["freebsd9"]["vagrant"], targets["seen"]["vagrant"]
    assert targets["seen"]["tunables"] == {"kern.hz": "100"}
    assert targets["seen"]["hardware"]["smbios_product"] == "KVM"
    assert seen["libvirt"]["sysinfo"] == {"system": {"product": "KVM"}}
    assert plain["box"] == "labctl/freebsd-9.3" and seen["box"].startswith("labctl/freebsd-9.3-")
    assert plain["export"] == "labctl image export freebsd-9.3 --format box"
    assert seen["export"] == f"{plain['export']} --target seen"
    assert seen["file"].endswith(f"/boxes/{seen['box'].removeprefix('labctl/')}.box")


def test_another_kernel_wants_a_box_of_its_own(shown):
    targets = {target["name"]: target for target in shown.json("lab")["targets"]}
    kernels = {name: targets[name]["kernel"] for name in ("linux", "older", "own")}
    assert kernels == {"linux": "", "older": "debian/bullseye", "own": "bzImage"}
    assert len({targets[name]["vagrant"]["box"] for name in kernels}) == 3
    assert targets["older"]["vagrant"]["export"].endswith("debian-12 --format box --target older")
    assert "debian/bullseye" in shown("lab").stdout.replace("\n", " ")


def test_nothing_is_made_by_showing(shown):
    shown("lab")
    left = [name for _, _, names in os.walk(shown.directory) for name in names]
    assert left == ["lab.yaml"]


def test_people_get_a_line_a_target(shown):
    rows = shown("lab").stdout.splitlines()
    assert [row.split()[0] for row in rows[1:] if not row.startswith(" ")] == [
        *("metal", "box", "linux", "freebsd9", "seen", "older", "own")
    ]
    assert "me@192.0.2.7:2222" in rows[2]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--authorized-key", "key"], "not one public key"),
        (["--authorized-key", "none"], "cannot be read"),
        (["--hostname", "a b"], "no host name"),
        (["--target", "freebsd9"], "has freebsd-9.3, not debian-12"),
        (["--target", "metal"], "has no image"),
        (["--target", "nobody"], "no target 'nobody'"),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_anything_is_built(shown, arguments, said):
    (shown.directory / "key").write_text("-----BEGIN EC PRIVATE KEY-----")
    export = ("image", "export", "debian-12", "--format", "raw")
    assert said in shown(*export, *arguments, status=2).stderr
    assert not list(shown.directory.glob("debian-12*"))
