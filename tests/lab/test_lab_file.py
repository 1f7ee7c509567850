"""lab.yaml: what is accepted, and that every error names file, line, key and remedy."""

import re
import textwrap
from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.lab import KernelPair, Pair, VMSpec, load_lab, locate
from labctl.lab.template import write_lab_file

IMAGES = {"debian-12", "freebsd-9.3", "netbsd-6.1.5"}
LOCAL = "lab: x\ntargets: {a: {kind: local}}\n"
PAIRS = """lab: x
targets:
  m: {kind: local}
  g: {kind: vm, image: debian-12}
  h: {kind: vm, image: debian-12}
pairs:
"""
SSH = "lab: x\ntargets:\n  a: {{kind: ssh, host: h, workdir: /w, {}}}\n"


@pytest.fixture(autouse=True)
def _xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def lab_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def error_of(tmp_path: Path, text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_lab(lab_file(tmp_path, text), images=IMAGES)
    return caught.value


def test_the_file_that_init_writes_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    write_lab_file(path)
    lab = load_lab(path, images=IMAGES)
    assert set(lab.targets) == {"metal", "linux", "freebsd9", "netbsd6"}
    assert [(pair.guest, pair.metal) for pair in lab.pairs] == [("linux", "metal")]
    assert lab.vm("linux") == VMSpec(
        kind="vm", image="debian-12", vcpus=2, memory="1GiB", accel="auto", init="minimal"
    )
    assert lab.vm("linux").memory == 1024
    with pytest.raises(ConfigError, match="a file already"):
        write_lab_file(path)


def test_what_init_has_in_comments_is_valid_too(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    write_lab_file(path)
    shown = re.sub(r"^  # (?=  |[a-z0-9-]+:$)", "  ", path.read_text(), flags=re.MULTILINE)
    path.write_text(shown.replace("    identity: ~/.ssh/lab\n", ""))
    lab = load_lab(path, images=IMAGES)
    assert set(lab.targets) > {"freebsd9-as-guest", "linux-unmitigated", "box"}
    guest = lab.vm("freebsd9-as-guest")
    assert None not in guest.hardware.model_dump().values()  # every key is shown
    assert guest.tunables and guest.sysctls and lab.vm("linux-unmitigated").cmdline


def test_pairs_of_both_kinds_and_the_margin(tmp_path: Path) -> None:
    text = f"{PAIRS}  - {{guest: g, metal: m}}\n  - {{kernel: h, against: g}}\nmargin: 12.5%\n"
    lab = load_lab(lab_file(tmp_path, text), images=IMAGES)
    assert [(type(pair), pair.names) for pair in lab.pairs] == [
        (Pair, ("g", "m")),
        (KernelPair, ("h", "g")),
    ]
    assert lab.margin == 0.125
    assert load_lab(lab_file(tmp_path, LOCAL), images=IMAGES).margin == 0.1


def test_a_vm_overrides_the_defaults(tmp_path: Path) -> None:
    text = """
        lab: x
        defaults: {vcpus: 4, memory: 512MiB}
        targets:
          a: {kind: vm, image: debian-12, vcpus: 1}
    """
    lab = load_lab(lab_file(tmp_path, text), images=IMAGES)
    assert (lab.vm("a").vcpus, lab.vm("a").memory) == (1, 512)


def test_the_lab_file_beats_the_users_own_defaults(tmp_path: Path) -> None:
    config = tmp_path / "config" / "labctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("defaults: {vcpus: 8, memory: 2GiB}\n")
    text = "lab: x\ndefaults: {vcpus: 3}\ntargets: {a: {kind: vm, image: debian-12}}\n"
    lab = load_lab(lab_file(tmp_path, text), images=IMAGES)
    assert (lab.vm("a").vcpus, lab.vm("a").memory) == (3, 2048)
    config.write_text("defaults:\n  memory: 2GB\n")
    assert error_of(tmp_path, text).where == f"{config}:2"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("- a\n", 1, "a mapping of keys is wanted here, not a list", ""),
        ("abc\n", 1, "a mapping of keys is wanted here, not the text 'abc'", ""),
        ("\ndefault: {vcpus: 2}\n", 2, "default: there is no such key", "did you mean defaults?"),
        ("defaults:\n  vcpu: 2\n", 2, "defaults.vcpu: there is no such key", "did you mean vcpus?"),
        ("defaults: []\n", 1, "defaults: a mapping of keys is wanted", ""),
    ],
)
def test_the_users_own_file_is_checked_too(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    config = tmp_path / "config" / "labctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    error = error_of(tmp_path, LOCAL)
    assert error.where == f"{config}:{line}"
    assert error.message.startswith(message)
    assert hint in error.hint


@pytest.mark.parametrize("text", ["", "# nothing\n", "defaults:\n"])
def test_an_empty_file_of_the_users_own_is_fine(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config" / "labctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(text)
    assert load_lab(lab_file(tmp_path, LOCAL), images=IMAGES).defaults.vcpus == 2


@pytest.mark.parametrize(
    "uri",
    [
        "auto", "embed", "qemu:///system", "qemu:///embed?root=/a", "qemu+ssh://me@big:22/system",
        "qemu+ssh://big", "qemu+tcp://[::1]/system", "test:///default",
    ],
)  # fmt: skip
def test_a_uri_of_libvirt_is_taken(tmp_path: Path, uri: str) -> None:
    text = f"{LOCAL}hypervisors: {{local: {{uri: '{uri}'}}}}\n"
    assert load_lab(lab_file(tmp_path, text), images=IMAGES).hypervisors["local"].uri == uri


def test_quoted_names_and_plain_aliases_are_fine(tmp_path: Path) -> None:
    text = "lab: x\ntargets:\n  '1': &a {kind: local}\n  'on': *a\n"
    assert set(load_lab(lab_file(tmp_path, text), images=IMAGES).targets) == {"1", "on"}


def test_a_file_name_that_cannot_be_is_no_lab_file() -> None:
    with pytest.raises(ConfigError, match="no lab file here"):
        locate(Path("a" * 5000))


def test_a_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    error = error_of(tmp_path, LOCAL + "# " + "x" * (4 << 20) + "\n")
    assert "larger than 4096 KiB" in error.message


def test_a_guests_hardware_and_settings(tmp_path: Path) -> None:
    text = """
        lab: x
        targets:
          a:
            kind: vm
            image: freebsd-9.3
            hardware:
              machine: pc
              cpu: Westmere
              smbios_product: KVM
            tunables: {kern.hz: 100, hint.psm.0.disabled: "1", if_em_load: 'YES'}
            sysctls: {kern.timecounter.hardware: HPET, net.inet.ip.portrange.first: 1024}
          b: {kind: vm, image: debian-12, cmdline: mitigations=off nosmt}
    """
    lab = load_lab(lab_file(tmp_path, text), images=IMAGES)
    spec = lab.vm("a")
    assert spec.hardware.model_dump(exclude_none=True) == {
        "machine": "pc", "cpu": "Westmere", "smbios_product": "KVM",
    }  # fmt: skip
    assert spec.tunables == {"kern.hz": "100", "hint.psm.0.disabled": "1", "if_em_load": "YES"}
    assert spec.sysctls["net.inet.ip.portrange.first"] == "1024"
    assert lab.vm("b").cmdline == "mitigations=off nosmt"
    assert lab.place("targets", "a", "hardware", "cpu") == f"{lab.path}:9"
    assert lab.place("targets", "a", "hardware", "nic") == f"{lab.path}:7"  # where it would be
    assert lab.place("nothing") == str(lab.path)


VM = "lab: x\ntargets:\n  a:\n    kind: vm\n    image: debian-12\n    {}\n"

CASES = {
    "unknown image": (
        """
        lab: x
        targets:
          a:
            kind: vm
            image: debian-21
        """,
        6, "there is no image 'debian-21'", "did you mean debian-12?",
    ),
    "duplicate name": (
        """
        lab: x
        targets:
          a: {kind: local}
          a: {kind: local}
        """,
        5, "'a' stands here a second time", "line 4",
    ),
    "wrong unit": (
        """
        lab: x
        defaults:
          memory: 1GB
        targets: {a: {kind: local}}
        """,
        4, "the unit 'GB' is not known", "write 1GiB",
    ),
    "no unit": (
        """
        lab: x
        targets:
          a: {kind: vm, image: debian-12, memory: 512}
        """,
        4, "the unit is missing", "write 512MiB",
    ),
    "unquoted version": (
        """
        lab: x
        targets:
          a:
            kind: vm
            image: 13.0
        """,
        6, "reads this as the float 13.0", "quotes",
    ),
    "unknown key": (
        """
        lab: x
        targets:
          a: {kind: vm, image: debian-12, vcpu: 2}
        """,
        4, "there is no such key", "did you mean vcpus?",
    ),
    "unknown top key": ("lab: x\ntarget: {a: {kind: local}}\n", 2, "there is no such key", "targets"),
    "unknown kind": (
        "lab: x\ntargets:\n  a: {kind: docker}\n", 3, "the kind 'docker' is not known", "local, ssh, vm",
    ),
    "no kind": ("lab: x\ntargets:\n  a: {image: debian-12}\n", 3, "kind is missing", "local, ssh, vm"),
    "missing key": ("lab: x\ntargets:\n  a: {kind: ssh, host: h}\n", 3, "workdir: this key is missing", ""),
    "relative workdir": (
        "lab: x\ntargets:\n  a: {kind: ssh, host: h, workdir: tmp}\n", 3, "must be an absolute path", "",
    ),
    "unreadable key": (
        """
        lab: x
        targets:
          a: {kind: ssh, host: h, workdir: /w, identity: /nowhere/key}
        """,
        4, "/nowhere/key cannot be read", "check the path",
    ),
    "pair of nobody": (
        """
        lab: x
        targets: {metal: {kind: local}}
        pairs:
          - {guest: linus, metal: metal}
        """,
        5, "there is no target 'linus'", "metal",
    ),
    "pair with itself": (
        "lab: x\ntargets: {m: {kind: local}}\npairs:\n  - {guest: m, metal: m}\n", 4, "paired with itself", "",
    ),
    "pair twice": (
        f"{PAIRS}  - {{guest: g, metal: m}}\n  - {{kernel: m, against: g}}\n", 8, "'m' and 'g' are paired already", "remove",
    ),
    "pair the wrong way": (
        f"{PAIRS}  - {{guest: m, metal: g}}\n", 7, "'g' is a guest and 'm' is not", "{guest: g, metal: m}",
    ),
    "pair half a kernel": (
        f"{PAIRS}  - {{kernel: g, metal: m}}\n", 7, "pairs.0.metal: there is no such key", "kernel, against",
    ),
    "pair's kernel of nobody": (
        f"{PAIRS}  - {{kernel: g, against: k}}\n", 7, "there is no target 'k'", "known: m, g, h",
    ),
    "pair's name a number": (f"{PAIRS}  - {{kernel: 5.10, against: g}}\n", 7, "as the float 5.1", "quotes"),
    "pair without sides": (f"{PAIRS}  - {{}}\n", 7, "pairs.0.guest: this key is missing", "add it"),
    "pair a text": (f"{PAIRS}  - g\n", 7, "pairs.0: a mapping of keys is wanted", ""),
    "margin a number": (f"{LOCAL}margin: 0.1\n", 3, "0.1 is not a share", "per cent, like 10%"),
    "margin of nothing": (f"{LOCAL}margin: 0%\n", 3, "0% is out of range", "above 0%"),
    "margin too large": (f"{LOCAL}margin: 101%\n", 3, "101% is out of range", "up to 100%"),
    "margin nothing": (f"{LOCAL}margin:\n", 3, "margin: there is nothing here", "like 10%"),
    "unknown hypervisor": (
        "lab: x\ntargets:\n  a: {kind: vm, image: debian-12, hypervisor: big}\n",
        3, "there is no hypervisor 'big'", "local",
    ),
    # Hardware and settings of a guest.
    "hardware a text": (VM.format("hardware: pc"), 6, "hardware: a mapping of keys is wanted", ""),
    "hardware nothing": (VM.format("hardware:"), 6, "a mapping of keys is wanted here, not nothing", ""),
    "unknown hardware": (
        VM.format("hardware: {disk: ide}"), 6, "hardware.disk: there is no such key", "did you mean disk_bus?",
    ),
    "unknown machine": (VM.format("hardware: {machine: microvm}"), 6, "'microvm' is not possible", "'pc' or 'q35'"),
    "unknown bus": (VM.format("hardware: {disk_bus: scsi}"), 6, "'scsi' is not possible", "'virtio', 'ide' or"),
    "unknown card": (VM.format("hardware: {nic: ne2k_pci}"), 6, "'ne2k_pci' is not possible", "e1000"),
    "options as a cpu": (VM.format("hardware: {cpu: 'max,-xsave'}"), 6, "cannot be a CPU model", "Nehalem"),
    "product not ASCII": (VM.format("hardware: {smbios_product: \u00fc}"), 6, "name of a product", "ASCII"),
    "tunables a list": (VM.format("tunables: [kern.hz]"), 6, "tunables: a mapping of keys is wanted", ""),
    "tunable's name": (VM.format("tunables: {'kern.hz=1\"': 1}"), 6, "not the name of a setting", "dots"),
    "tunable's quote": (
        VM.format("tunables: {kern.hz: '1\"'}"), 6, "cannot be the value of a setting", "digits",
    ),
    "tunable's newline": (VM.format('tunables: {kern.hz: "1\\n2"}'), 6, "has control characters", "remove"),
    "tunable a truth": (VM.format("tunables: {if_em_load: YES}"), 6, "as the bool True", "quotes"),
    "tunable a fraction": (VM.format("tunables: {kern.hz: 1.5}"), 6, "as the float 1.5", "quotes"),
    "sysctl's command": (VM.format("sysctls: {kern.x: $(id)}"), 6, "cannot be the value", ""),
    "sysctl's comment": (VM.format("sysctls: {kern.x: '#'}"), 6, "cannot be the value", ""),
    "sysctl empty": (VM.format("sysctls: {kern.x: ''}"), 6, "cannot be the value", ""),
    "sysctl nested": (VM.format("sysctls: {kern: {hz: 1}}"), 6, "sysctls.kern: a text is wanted here", ""),
    "sysctl too long": (VM.format(f"sysctls: {{kern.x: {'a' * 200}}}"), 6, "cannot be the value", ""),
    "command line a number": (VM.format("cmdline: 1"), 6, "YAML reads this as the int 1", "quotes"),
    "no targets": ("lab: x\ntargets: {}\n", 2, "targets", ""),
    "bad name": ("lab: x\ntargets:\n  'a b': {kind: local}\n", 3, "cannot be a name", "letters"),
    "not a mapping": ("- a\n", 1, "not a lab file", "keys"),
    "empty": ("", 1, "not a lab file", "keys"),
    "not yaml": ("lab: [x\n", 2, "not valid YAML", ""),
    "too many vcpus": (
        "lab: x\ntargets:\n  a: {kind: vm, image: debian-12, vcpus: 0}\n", 3, "vcpus", "",
    ),
    # What is not the shape that is wanted.
    "defaults a list": (f"{LOCAL}defaults: [a]\n", 3, "defaults: a mapping of keys is wanted here, not a list", ""),
    "defaults an empty list": (f"{LOCAL}defaults: []\n", 3, "a mapping of keys is wanted here", ""),
    "defaults a text": (f"{LOCAL}defaults: abc\n", 3, "not the text 'abc'", ""),
    "defaults a number": (f"{LOCAL}defaults: 3\n", 3, "a mapping of keys is wanted here, not 3", ""),
    "hypervisors a list": (f"{LOCAL}hypervisors: []\n", 3, "a mapping of names to hypervisors is wanted", ""),
    "targets a list": ("lab: x\ntargets: [a]\n", 2, "a mapping of names to targets is wanted here, not a list", ""),
    "target a text": ("lab: x\ntargets:\n  a: local\n", 3, "targets.a: a mapping of keys is wanted", ""),
    "pairs a text": (f"{LOCAL}pairs: a\n", 3, "a list is wanted here, not the text 'a'", "- "),
    "pairs null": (f"{LOCAL}pairs:\n", 3, "a list is wanted here, not nothing", "- "),
    "the model's own field": (f"{LOCAL}path: /etc\n", 3, "path: there is no such key", "known: lab"),
    # YAML that is valid but not wanted.
    "alias of itself": ("lab: x\ntargets: &a\n  a: *a\n", 2, "within what it is an alias of", ""),
    "list of itself": ("lab: &x [*x]\n", 1, "within what it is an alias of", ""),
    "deep lists": ("lab: x\ntargets: " + "[" * 3000, 2, "nested more than 50 levels deep", ""),
    "deep mappings": (
        "".join(f"{' ' * n}a:\n" for n in range(1500)), 51, "nested more than 50 levels deep", "",
    ),
    "deep aliases": (
        "a0: &a0 {}\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 60)),
        1, "nested more than 50 levels deep", "",
    ),
    "alias bomb": (
        "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 8)),
        1, "more than 100000 values", "aliases",
    ),
    "merge key": (
        "lab: x\ntargets:\n  a: &a {kind: local}\n  b:\n    <<: *a\n", 5, "merge keys (<<) are not supported", "",
    ),
    "complex key": ("lab: x\n? [a]\n: 1\n", 2, "a list cannot be a key", "a name"),
    "null as a name": ("lab: x\ntargets:\n  null: {kind: local}\n", 3, "key 'null' as null", "quotes"),
    "number as a name": ("lab: x\ntargets:\n  1: {kind: local}\n", 3, "key '1' as an integer", "quotes"),
    "truth as a name": ("lab: x\ntargets:\n  on: {kind: local}\n", 3, "key 'on' as a truth value", "quotes"),
    "control character in a key": (LOCAL + '"b\\n": 1\n', 3, "the key 'b\\n' has control", "remove"),
    "half a character as a key": (LOCAL + '"\\ud800": 1\n', 3, "the key '\\ud800' has control", "remove"),
    "unknown tag": ("lab: !foo x\n", 1, "the tag '!foo' is not known", "remove it"),
    "unknown tag of a mapping": ("lab: x\ntargets: !foo {}\n", 2, "the tag '!foo' is not known", ""),
    "set": ("lab: x\ntargets: !!set {}\n", 2, "the tag '!!set' is not known", ""),
    "bad int": ("lab: !!int x\n", 1, "'x' is not valid as an integer", "quotes"),
    "empty int": ("lab: !!int ''\n", 1, "'' is not valid as an integer", "quotes"),
    "bad float": ("lab: !!float x\n", 1, "'x' is not valid as a float", ""),
    "bad bool": ("lab: !!bool x\n", 1, "'x' is not valid as a truth value", ""),
    "bad binary": ("lab: !!binary x\n", 1, "'x' is not valid as base64", ""),
    "binary": ("lab: !!binary eA==\ntargets: {a: {kind: local}}\n", 1, "lab: YAML reads this as the bytes", ""),
    "bad timestamp": ("lab: !!timestamp x\n", 1, "'x' is not valid as a timestamp", ""),
    "no such date": ("lab: 2020-13-45\n", 1, "'2020-13-45' is not valid as a timestamp", "quotes"),
    "date": ("lab: 2020-12-24\ntargets: {a: {kind: local}}\n", 1, "the date 2020-12-24", "quotes"),
    "long integer": (f"lab: {'7' * 5000}\n", 1, "is not valid as an integer", "quotes"),
    "long hexadecimal": (f"lab: 0x{'7' * 9000}\n", 1, "too large", "quotes"),
    "NUL in the file": ("lab: x\ny: \0\n", 2, "the character U+0000 may not stand here", "remove"),
    # Values.
    "kernel a number": (VM.format("kernel: 6.1"), 6, "kernel: YAML reads this as the float 6.1", "quotes"),
    "kernel without its vendor": (
        VM.format("kernel: bullseye"), 6, "'bullseye' names no kernel", "debian/bullseye",
    ),
    "kernel of another vendor": (VM.format("kernel: fedora/39"), 6, "names no kernel", "debian/SUITE"),
    "kernel a directory": (VM.format("kernel: ./linux/"), 6, "names no kernel", "a path"),
    "kernel of the path's user": (VM.format("kernel: ~nosuchuser/x"), 6, "names a user who is not known", ""),
    "kernel a list": (VM.format("kernel: [debian/sid]"), 6, "a list is no kernel", "a version"),
    "two kernels": (VM.format("kernel: {suite: sid, image: x}"), 6, "say which kernel", "give one of both"),
    "no kernel": (VM.format("kernel: {}"), 6, "say which kernel", "give one of both"),
    "modules alone": (VM.format("kernel: {suite: sid, modules: x}"), 6, "modules go with a kernel", "its image"),
    "a kernel's key": (VM.format("kernel: {modul: x}"), 6, "kernel.modul: there is no such key", "modules"),
    "nobody's identity": (SSH.format("identity: ~nosuchuser/x"), 3, "names a user who is not known", "path"),
    "nobody's known_hosts": (SSH.format("known_hosts: ~nosuchuser/x"), 3, "names a user who is not known", ""),
    "NUL in identity": (SSH.format(r'identity: "/a\0"'), 3, "has control characters", "remove"),
    "empty identity": (SSH.format("identity: ''"), 3, "this path is empty", ""),
    "identity a directory": (SSH.format("identity: /"), 3, "is not a file", "path"),
    "NUL in machine": (SSH.format(r'machine: "a\0"'), 3, "has control characters", ""),
    "NUL in workdir": (
        'lab: x\ntargets:\n  a: {kind: local, workdir: "/a\\0"}\n', 3, "has control characters", "",
    ),
    "template in workdir": (
        "lab: x\ntargets:\n  a: {kind: local, workdir: '/a/{{ b }}'}\n", 3, "marks of a template", "remove",
    ),
    "template block": ("lab: x\ntargets:\n  a: {kind: local, workdir: '/{%b'}\n", 3, "marks of a template", ""),
    "template comment": ("lab: x\ntargets:\n  a: {kind: local, workdir: '/{#b'}\n", 3, "marks of a template", ""),
    "empty host": ("lab: x\ntargets:\n  a: {kind: ssh, host: '', workdir: /w}\n", 3, "is empty or has spaces", ""),
    "two hosts": ("lab: x\ntargets:\n  a: {kind: ssh, host: b c, workdir: /w}\n", 3, "is empty or has spaces", ""),
    "option as host": (
        "lab: x\ntargets:\n  a: {kind: ssh, host: -oX=y, workdir: /w}\n", 3, "begins with '-'", "option",
    ),
    "NUL in host": (
        'lab: x\ntargets:\n  a: {kind: ssh, host: "a\\0", workdir: /w}\n', 3, "has control characters", "",
    ),
    "option as user": (SSH.format("user: -x"), 3, "targets.a.user: '-x' begins with '-'", ""),
    "port in quotes": (SSH.format("port: '22'"), 3, "a whole number is wanted here, not the text '22'", "quotes"),
    "port out of range": (SSH.format("port: 65536"), 3, "65536 is out of range", "at most 65535"),
    "reboot in quotes": (SSH.format("reboot: 'no'"), 3, "true or false is wanted here", "quotes"),
    "vcpus a truth": (f"{LOCAL}defaults: {{vcpus: true}}\n", 3, "a whole number is wanted here, not true", ""),
    "vcpus a text": (f"{LOCAL}defaults: {{vcpus: '2'}}\n", 3, "a whole number is wanted here", "quotes"),
    "vcpus a fraction": (f"{LOCAL}defaults: {{vcpus: 2.0}}\n", 3, "a whole number is wanted here, not 2.0", "point"),
    "unknown accelerator": (f"{LOCAL}defaults: {{accel: hvf}}\n", 3, "'hvf' is not possible", "'auto', 'kvm' or 'tcg'"),
    "too much memory": (
        f"{LOCAL}defaults: {{memory: 99999999999999999999TiB}}\n", 3, "is out of range", "to 1024TiB",
    ),
    "too long memory": (f"{LOCAL}defaults: {{memory: {'9' * 5000}MiB}}\n", 3, "is out of range", "to 1024TiB"),
    "too little memory": (f"{LOCAL}defaults: {{memory: 127MiB}}\n", 3, "127MiB is out of range", "from 128MiB"),
    "memory a truth": (f"{LOCAL}defaults: {{memory: true}}\n", 3, "True is not a size", "512MiB"),
    "foreign digits": (f"{LOCAL}defaults: {{memory: ٥١٢MiB}}\n", 3, "is not a size", "512MiB"),
    "no URI": (f"{LOCAL}hypervisors: {{local: {{uri: garbage}}}}\n", 3, "'garbage' is not a libvirt URI", "auto"),
    "empty URI": (f"{LOCAL}hypervisors: {{local: {{uri: ''}}}}\n", 3, "'' is not a libvirt URI", "auto"),
    "NUL in URI": (f'{LOCAL}hypervisors: {{local: {{uri: "qemu:///\\0"}}}}\n', 3, "has control characters", ""),
    "half an address in a URI": (
        f"{LOCAL}hypervisors: {{local: {{uri: 'qemu://[::1/system'}}}}\n", 3, "is not a libvirt URI", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_file_line_and_remedy(tmp_path: Path, case: str) -> None:
    text, line, message, hint = CASES[case]
    error = error_of(tmp_path, text)
    assert error.where == f"{tmp_path / 'lab.yaml'}:{line}", error
    assert message in error.message
    assert hint in error.hint
    assert error.exit_code == 2


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    text = f"lab: x\ntargets:\n  a: {{kind: ssh, host: h, workdir: /w, identity: {key}}}\n"
    assert "chmod 600" in error_of(tmp_path, text).hint
    key.chmod(0o600)
    load_lab(lab_file(tmp_path, text), images=IMAGES)


def test_all_findings_are_told_at_once(tmp_path: Path) -> None:
    text = "lab: x\ndefaults: {memory: 1GB}\ntargets:\n  a: {kind: what}\n"
    error = error_of(tmp_path, text)
    assert "GB" in error.message
    assert "lab.yaml:4" in error.detail
    assert "what" in error.detail


def test_which_targets_share_a_machine(tmp_path: Path) -> None:
    text = """
        lab: x
        hypervisors: {local: {uri: auto}, far: {uri: "qemu+ssh://big/system"}}
        targets:
          metal: {kind: local}
          here: {kind: vm, image: debian-12}
          there: {kind: vm, image: debian-12, hypervisor: far}
          loop: {kind: ssh, host: 127.0.0.1, workdir: /w}
          box: {kind: ssh, host: 192.0.2.7, workdir: /w}
          guest-of-box: {kind: ssh, host: 192.0.2.8, workdir: /w, machine: 192.0.2.7}
    """
    lab = load_lab(lab_file(tmp_path, text), images=IMAGES)
    assert {name: lab.machine_of(name) for name in lab.targets} == {
        "metal": "local",
        "here": "local",
        "there": "big",
        "loop": "local",
        "box": "192.0.2.7",
        "guest-of-box": "192.0.2.7",
    }


def test_two_labs_of_one_name_differ(tmp_path: Path) -> None:
    text = "lab: x\ntargets: {metal: {kind: local}}\n"
    (tmp_path / "other").mkdir()
    one = load_lab(lab_file(tmp_path, text), images=IMAGES)
    two = load_lab(lab_file(tmp_path / "other", text), images=IMAGES)
    assert one.ident != two.ident


@pytest.mark.parametrize(
    ("nightly", "message"),
    [
        ("{}", "nightly"),
        ("{workloads: []}", "nightly.workloads"),
        ("{workloads: [eptest], targets: [b]}", "nightly: there is no target 'b'"),
        ("{workloads: [eptest], threads: [0]}", "nightly.threads"),
        ("{workloads: [eptest], threads: 4}", "a list is wanted"),
        ("{workloads: [eptest], design: {round: 3}}", "there is no such key"),
        ("{workloads: [eptest], design: {boots: 0}}", "nightly.design.boots"),
        ("{workloads: [eptest], params: {rearm: [true]}}", "nightly.params"),
    ],
)
def test_what_is_wrong_with_a_night_is_said_with_its_line(
    tmp_path: Path, nightly: str, message: str
) -> None:
    error = error_of(tmp_path, f"{LOCAL}nightly: {nightly}\n")
    assert message in error.message
    assert "lab.yaml:3" in error.where


def test_what_a_night_measures(tmp_path: Path) -> None:
    text = f"{LOCAL}nightly: {{workloads: [eptest], params: {{rearm: [level], size: [4]}}}}\n"
    nightly = load_lab(lab_file(tmp_path, text), images=IMAGES).nightly
    assert nightly is not None
    assert nightly.params == {"rearm": ("level",), "size": ("4",)}
    assert (nightly.targets, nightly.threads, nightly.directory) == (None, None, None)
