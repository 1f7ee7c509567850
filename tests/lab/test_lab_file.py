"""lab.yaml: what is accepted, and that every error names file, line, key and remedy."""

import textwrap
from pathlib import Path

import pytest

from labctl.errors import ConfigError
from labctl.lab import VMSpec, load_lab
from labctl.lab.template import write_lab_file

IMAGES = {"debian-12", "freebsd-9.3"}


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
    assert set(lab.targets) == {"metal", "linux"}
    assert lab.vm("linux") == VMSpec(
        kind="vm", image="debian-12", vcpus=2, memory="1GiB", accel="auto", init="minimal"
    )
    assert lab.vm("linux").memory == 1024
    with pytest.raises(ConfigError, match="a file already"):
        write_lab_file(path)


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
    "unknown hypervisor": (
        "lab: x\ntargets:\n  a: {kind: vm, image: debian-12, hypervisor: big}\n",
        3, "there is no hypervisor 'big'", "local",
    ),
    "no targets": ("lab: x\ntargets: {}\n", 2, "targets", ""),
    "bad name": ("lab: x\ntargets:\n  'a b': {kind: local}\n", 3, "cannot be a name", "letters"),
    "not a mapping": ("- a\n", 1, "not a lab file", "keys"),
    "empty": ("", 1, "not a lab file", "keys"),
    "not yaml": ("lab: [x\n", 2, "not valid YAML", ""),
    "too many vcpus": (
        "lab: x\ntargets:\n  a: {kind: vm, image: debian-12, vcpus: 0}\n", 3, "vcpus", "",
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
