"""The domain's XML: right by libvirt's own schema, whatever the names hold."""

import contextlib
import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import ConfigError
from labctl.hypervisor import libvirt_api
from labctl.hypervisor.spec import DomainSpec, differences, parse, render

QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
LINUX = DomainSpec(
    name="labctl-contention-linux",
    title="contention: linux",
    vcpus=2,
    memory_mib=512,
    accel="kvm",
    cpu="host",
    machine="q35",
    disk=Path("/var/lib/labctl/disk.qcow2"),
    kernel=Path("/var/lib/labctl/vmlinuz"),
    initrd=Path("/var/lib/labctl/initrd"),
    cmdline="root=/dev/vda console=ttyS0",
    console_log=Path("/var/lib/labctl/console.log"),
    ssh_port=22022,
    pinning=(0, 1),
)
BSD = DomainSpec(
    name="labctl-contention-freebsd9",
    title="",
    vcpus=1,
    memory_mib=512,
    accel="tcg",
    cpu="Nehalem",
    disk=Path("/d.raw"),
    disk_format="raw",
    disk_bus="ide",
    nic="e1000",
    console_log=Path("/c.log"),
    ssh_port=22023,
    video="vga",
    smbios_product="KVM",
    rng=False,
)
HOSTILE = dataclasses.replace(
    LINUX,
    name="""a"b'c<d>&e;-->{{ 7*7 }}""",
    title="</title><devices/> & {% raw %}",
    disk=Path("""/tmp/a b,c&<"'>/ü.qcow2"""),
    cmdline='root=/dev/vda init="<&>"',
)


def schema_error(xml: str) -> str:
    """What libvirt's RelaxNG schema has against ``xml``, "" if nothing."""
    libvirt = libvirt_api.prepare()
    try:
        with contextlib.closing(libvirt.open("test:///default")) as connection:
            connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    except libvirt.libvirtError as error:
        # The test driver then refuses the domain's type; the schema comes first.
        if error.get_error_code() == libvirt.VIR_ERR_XML_INVALID_SCHEMA:
            return str(error)
        assert "domain type" in str(error), error
    return ""


@pytest.mark.parametrize("spec", [LINUX, BSD, HOSTILE], ids=["linux", "bsd", "hostile"])
def test_libvirts_schema_accepts_it(spec: DomainSpec) -> None:
    xml = render(spec)
    assert schema_error(xml) == ""
    assert "vcpus" in schema_error(xml.replace("vcpu ", "vcpus ").replace("/vcpu>", "/vcpus>"))


@pytest.mark.parametrize("spec", [LINUX, BSD, HOSTILE], ids=["linux", "bsd", "hostile"])
def test_it_carries_its_spec(spec: DomainSpec) -> None:
    assert parse(render(spec)) == spec


def test_hostile_texts_stay_texts() -> None:
    root = ET.fromstring(render(HOSTILE))
    assert root.findtext("name") == HOSTILE.name
    assert root.findtext("title") == HOSTILE.title
    assert root.find("devices/disk/source").attrib["file"] == str(HOSTILE.disk)  # type: ignore[union-attr]
    assert root.findtext("os/cmdline") == HOSTILE.cmdline
    assert len(root.findall("devices")) == 1


printable = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
)


@given(name=printable.filter(lambda text: text and "/" not in text), cmdline=printable)
def test_any_text_survives(name: str, cmdline: str) -> None:
    spec = dataclasses.replace(LINUX, name=name, cmdline=cmdline)
    assert parse(render(spec)) == spec
    assert ET.fromstring(render(spec)).findtext("name") == name


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "a\0b", "a\x1b[31m"])
def test_names_that_libvirt_cannot_hold_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        render(dataclasses.replace(LINUX, name=name))


def test_a_network_device_cannot_smuggle_options() -> None:
    with pytest.raises(ConfigError, match="network device"):
        render(dataclasses.replace(LINUX, nic="e1000,romfile=/etc/passwd"))


def test_pinning_must_name_each_vcpu() -> None:
    with pytest.raises(ConfigError, match="1 CPUs for 2 vCPUs"):
        render(dataclasses.replace(LINUX, pinning=(0,)))
    pins = ET.fromstring(render(LINUX)).findall("cputune/vcpupin")
    assert [(pin.get("vcpu"), pin.get("cpuset")) for pin in pins] == [("0", "0"), ("1", "1")]


@pytest.mark.parametrize(("spec", "bus"), [(LINUX, "pcie.0"), (BSD, "pci.0")])
def test_network_is_loopback_only_at_an_address_of_its_own(spec: DomainSpec, bus: str) -> None:
    words = [a.attrib["value"] for a in ET.fromstring(render(spec)).iter(f"{QEMU}arg")]
    assert f"hostfwd=tcp:127.0.0.1:{spec.ssh_port}-:22" in words[1]
    assert words[3].startswith(f"{spec.nic},") and words[3].endswith(
        f"bus={bus},addr=0x10,romfile="
    )


def test_a_domain_of_somebody_else_has_no_spec() -> None:
    assert parse("<domain type='qemu'><name>x</name></domain>") is None


def test_differences_are_named_and_the_title_is_none() -> None:
    other = dataclasses.replace(LINUX, vcpus=4, title="other")
    assert differences(LINUX, other) == ["vcpus is 2, not 4"]
    assert differences(LINUX, LINUX) == []
