"""The typed model of ``lab.yaml``. Reading the file and wording its errors is ``load``.

Adding a kind of target takes one class here and one in ``labctl.targets``.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

from labctl import paths
from labctl.sim.spec import Times

_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")
_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_GUESSES = {"m": "MiB", "mb": "MiB", "mib": "MiB", "g": "GiB", "gb": "GiB", "gib": "GiB"}
_MIN_MIB, _MAX_MIB = 128, 1024**3  # 1 PiB
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s]+([/?]\S*)?|/\S*)")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")
_MAX_MARGIN = 1.0
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_%-]+)*")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+@%=-]+( +[A-Za-z0-9_.,:/+@%=-]+)*")
_MAX_SETTING = 100
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def parse_memory(value: Any) -> int:
    """``"1GiB"`` -> 1024 (MiB). Decimal and bare units are refused: they are ambiguous."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GiB")
    match = _SIZE.fullmatch(str(value))
    if not match:
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GiB")
    number, unit = match[1].lstrip("0") or "0", match[2]
    if unit not in _MIB:
        guess = _GUESSES.get(unit.lower(), "MiB")
        what = f"the unit {unit!r} is not known" if unit else "the unit is missing"
        raise ValueError(f"{what}; write {number[:20]}{guess} (MiB, GiB or TiB)")
    # The length first: Python refuses to convert thousands of digits.
    size = int(number) * _MIB[unit] if len(number) < 20 else _MAX_MIB + 1
    if not _MIN_MIB <= size <= _MAX_MIB:
        raise ValueError(f"{number[:20]}{unit} is out of range; from {_MIN_MIB}MiB to 1024TiB")
    return size


def parse_margin(value: Any) -> float:
    """``"10%"`` -> 0.1. A bare number is refused: 10 could mean 10 % or tenfold."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        what = "there is nothing here" if value is None else f"{value!r} is not a share"
        raise ValueError(f"{what}; write it in per cent, like 10%")
    margin = float(match[1]) / 100
    if not 0 < margin <= _MAX_MARGIN:
        raise ValueError(f"{value} is out of range; above 0% and up to {_MAX_MARGIN:.0%}")
    return margin


def _text(value: Any) -> Any:
    if not isinstance(value, str | dict | list | None):
        kind = type(value).__name__
        shown = "" if isinstance(value, bytes) else f" {value}"
        raise ValueError(
            f"YAML reads this as the {kind}{shown}, a text is wanted; put it in quotes"
        )
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{value!r} has control characters; remove them")
    return value


def _no_template(value: str) -> str:
    """Ansible would expand it."""
    if any(mark in value for mark in _TEMPLATE_MARKS):
        raise ValueError(f"{value!r} has the marks of a template ({{{{, {{%, {{#); remove them")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path on the target")
    return _no_template(value)


def _word(value: str) -> str:
    """What becomes a word of ssh's command line."""
    if not value or " " in value:
        raise ValueError(f"{value!r} is empty or has spaces; write a name or an address")
    if value.startswith("-"):
        raise ValueError(f"{value!r} begins with '-'; ssh would take it for an option")
    return _no_template(value)


def _uri(value: str) -> str:
    if value in ("auto", "embed"):
        return value
    try:
        urlsplit(value).port  # noqa: B018  (raises for brackets and ports that are none)
        valid = _URI.fullmatch(value) is not None
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"{value!r} is not a libvirt URI; write auto, or one like qemu:///system "
            f"or qemu+ssh://HOST/system"
        )
    return value


def _user_path(value: Any) -> Any:
    if isinstance(value, Path):  # a model made from another's values
        return value
    text = _text(value)
    if not isinstance(text, str):
        return text
    if not text:
        raise ValueError("this path is empty; remove the key or name a file")
    try:
        return Path(_no_template(text)).expanduser()
    except RuntimeError:
        raise ValueError(f"{text!r} names a user who is not known here; check the path") from None


def _setting_name(value: str) -> str:
    """A name as boot loaders and sysctl have it: ``kern.hz``, ``hint.psm.0.disabled``."""
    if len(value) > _MAX_SETTING or not _SETTING.fullmatch(value):
        raise ValueError(
            f"{value!r} is not the name of a setting; letters, digits, '_', '-' and '%', in parts "
            f"joined by dots, like kern.timecounter.hardware"
        )
    return value


def _setting_value(value: Any) -> Any:
    """What a boot loader's or sysctl's file can hold and cannot be broken out of."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = _text(value)
    if isinstance(text, str) and (len(text) > _MAX_SETTING or not _VALUE.fullmatch(text)):
        raise ValueError(
            f"{text!r} cannot be the value of a setting; letters, digits, spaces within and "
            f"any of _.,:/+@%=- can"
        )
    return text


def _smbios(value: str) -> str:
    """What an SMBIOS table can hold; "" is the hypervisor's own."""
    if len(value) > 64 or not value.isascii():
        raise ValueError(f"{value!r} cannot be the name of a product; use at most 64 ASCII letters")
    return value


Text = Annotated[str, BeforeValidator(_text)]
Word = Annotated[Text, AfterValidator(_word)]
MemoryMiB = Annotated[int, BeforeValidator(parse_memory)]
Margin = Annotated[float, BeforeValidator(parse_margin)]
RemotePath = Annotated[Text, AfterValidator(_absolute)]
UserPath = Annotated[Path, BeforeValidator(_user_path)]
URI = Annotated[Text, AfterValidator(_uri)]
Accel = Literal["auto", "kvm", "tcg"]
Init = Literal["minimal", "systemd"]
Settings = dict[
    Annotated[str, AfterValidator(_setting_name)], Annotated[str, BeforeValidator(_setting_value)]
]
CpuModel = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]
Vcpus = Annotated[int, Field(strict=True, ge=1, le=256)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Defaults(_Model):
    """What a ``vm`` target has where it does not say otherwise. ``memory`` is in MiB."""

    vcpus: Vcpus = 2
    memory: MemoryMiB = 1024
    accel: Accel = "auto"
    init: Init = "minimal"


class UserConfig(_Model):
    """The user's own ``config.yaml``: defaults that stand below the lab file's."""

    defaults: Defaults | None = None


class Hypervisor(_Model):
    """A libvirt connection: ``auto``, ``embed`` or any libvirt URI."""

    uri: URI = "auto"

    @property
    def machine(self) -> str:
        """The physical machine that its guests run on."""
        host = urlsplit(self.uri).hostname
        return host if host and not is_loopback(host) else "local"


class LocalSpec(_Model):
    """This machine, without an SSH server."""

    kind: Literal["local"]
    workdir: RemotePath | None = None
    binaries: UserPath | None = None


class SSHSpec(_Model):
    """A machine that exists; nothing is installed on it but ``workdir``.

    ``machine`` names the physical machine where it is not plain from ``host``
    (a guest of somebody else's on this host, say): no two cells run on one at a time.
    """

    kind: Literal["ssh"]
    host: Word
    port: int = Field(22, strict=True, ge=1, le=65535)
    user: Word = "root"
    identity: UserPath | None = None
    known_hosts: UserPath | None = None
    workdir: RemotePath
    machine: Text | None = None
    reboot: Flag = False
    legacy_ssh: Flag = False
    binaries: UserPath | None = None


class HardwareSpec(_Model):
    """Virtual hardware that a guest has instead of its image's own; None: as the image says.

    ``cpu`` is a CPU model of QEMU's, ``max`` or ``host-passthrough``, with KVM or without.
    """

    machine: Literal["pc", "q35"] | None = None
    cpu: CpuModel | None = None
    disk_bus: Literal["virtio", "ide", "sata"] | None = None
    nic: Literal["virtio-net-pci", "e1000"] | None = None
    smbios_product: Annotated[Text, AfterValidator(_smbios)] | None = None
    video: Literal["none", "vga"] | None = None


class KernelSpec(_Model):
    """The kernel of a Linux guest, where it is not its image's own.

    In the lab file it is a text or a mapping: ``debian/bullseye`` (the newest of that suite),
    a version of the image's own suite (``6.1.0-18``), the path of a bzImage; or ``suite`` and
    ``version``, or ``image`` and ``modules``. Paths are relative to the lab file.
    """

    suite: Annotated[Text, Field(pattern=r"^([a-z]+)?$")] = ""
    version: Annotated[Text, Field(pattern=r"^([0-9][A-Za-z0-9.+~:-]*)?$")] = ""
    image: UserPath | None = None
    modules: UserPath | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        apt = bool(self.suite or self.version)
        if apt == (self.image is not None):
            raise ValueError("suite and version, or image, say which kernel; give one of both")
        if self.modules is not None and self.image is None:
            raise ValueError("modules go with a kernel of your own; give its image")
        return self

    def __str__(self) -> str:
        if self.image is not None:
            modules = f" with {self.modules}" if self.modules else ""
            return f"{self.image}{modules}"
        return "/".join(filter(None, ("debian" if self.suite else "", self.suite, self.version)))


def _kernel(value: Any) -> Any:
    """A kernel in one word, as the mapping that it stands for."""
    if isinstance(value, dict | KernelSpec) or value is None:
        return value
    if isinstance(value, list):
        raise ValueError("a list is no kernel; write debian/SUITE, a version, or a path")
    text = _text(value)
    debian = re.fullmatch(r"debian/([a-z]+)(?:/(\S+))?", text)
    if debian:
        return {"suite": debian[1], "version": debian[2] or ""}
    if re.fullmatch(r"[0-9][A-Za-z0-9.+~:-]*", text):
        return {"version": text}
    if text.startswith(("/", "./", "../", "~")) and not text.endswith("/"):
        return {"image": text}
    raise ValueError(
        f"{text!r} names no kernel; write debian/SUITE, such as debian/bullseye, a version such "
        f"as 6.1.0-18, or a path that begins with /, ./, ../ or ~"
    )


class VMSpec(_Model):
    """A libvirt domain, made from an image.

    ``kernel`` boots instead of the image's own. ``tunables`` and ``sysctls`` are laid over
    the image's own, one by one; ``cmdline`` is added to the kernel's command line.
    """

    kind: Literal["vm"]
    image: Text
    hypervisor: Text = "local"
    vcpus: Vcpus | None = None
    memory: MemoryMiB | None = None
    accel: Accel | None = None
    init: Init | None = None
    kernel: Annotated[KernelSpec | None, BeforeValidator(_kernel)] = None
    hardware: HardwareSpec = HardwareSpec()
    tunables: Settings = {}
    sysctls: Settings = {}
    cmdline: Text = ""
    binaries: UserPath | None = None


class SimSpec(_Model):
    """A machine that does not exist: its times are drawn from the model ``times``.

    Targets with the same ``machine`` are on one simulated host: one clock, one drift.
    ``guest`` sets the facts of a guest where ``facts`` does not say otherwise.
    """

    kind: Literal["sim"]
    machine: Name = "sim"
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    guest: Flag = False
    reboot: Flag = True
    times: Times = Times()
    facts: dict[str, str | int | float | list[str] | dict[str, str]] = {}


TargetSpec = Annotated[LocalSpec | SSHSpec | VMSpec | SimSpec, Field(discriminator="kind")]


class Pair(_Model):
    """Two targets to compare: the same work in a guest and on metal."""

    guest: Text
    metal: Text

    @property
    def names(self) -> tuple[str, str]:
        """The side that is asked about, and the one that it is compared with."""
        return self.guest, self.metal


class KernelPair(_Model):
    """Two targets to compare that have one system and two kernels."""

    kernel: Text
    against: Text

    @property
    def names(self) -> tuple[str, str]:
        """The side that is asked about, and the one that it is compared with."""
        return self.kernel, self.against


def _kind_of_pair(value: Any) -> str:
    keys = set(value) if isinstance(value, dict) else set()
    kernels = isinstance(value, KernelPair) or bool(keys & set(KernelPair.model_fields))
    return "[kernel pair]" if kernels else "[pair]"


PairSpec = Annotated[
    Annotated[KernelPair, Tag("[kernel pair]")] | Annotated[Pair, Tag("[pair]")],
    Discriminator(_kind_of_pair),
]


class Lab(_Model):
    """The whole lab file. ``path`` is where it was read from; ``margin`` the share by which
    two times may differ and still count as equal in practice."""

    lab: Name
    defaults: Defaults = Defaults()
    hypervisors: dict[Name, Hypervisor] = {"local": Hypervisor()}
    targets: dict[Name, TargetSpec] = Field(min_length=1)
    pairs: tuple[PairSpec, ...] = ()
    margin: Margin = 0.10
    path: Path = Path("lab.yaml")
    _lines: dict[tuple[str | int, ...], int] = PrivateAttr(default_factory=dict)

    def place(self, *keys: str | int) -> str:
        """Where a key, or the nearest one above it, stands in the file: ``lab.yaml:12``."""
        for count in range(len(keys), 0, -1):
            if keys[:count] in self._lines:
                return f"{self.path}:{self._lines[keys[:count]]}"
        return str(self.path)

    @property
    def ident(self) -> str:
        """Name of this lab on this machine: two labs of one name in two directories differ."""
        digest = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:6]
        return f"{self.lab}-{digest}"

    @property
    def state_dir(self) -> Path:
        """Keys, disks and consoles of this lab (mode 0700)."""
        return paths.private_dir(paths.state_dir() / "labs" / self.ident)

    @property
    def results_dir(self) -> Path:
        """Where runs go: beside the lab file."""
        return self.path.resolve().parent / "results"

    def vm(self, name: str) -> VMSpec:
        """The ``vm`` target ``name`` with the defaults filled in."""
        spec = self.targets[name]
        assert isinstance(spec, VMSpec)
        given = {key: value for key, value in spec.model_dump().items() if value is not None}
        return VMSpec.model_validate(self._size(self.defaults.model_dump()) | self._size(given))

    def beside(self, path: Path) -> Path:
        """A path of the lab file's, which may be relative to it."""
        return self.path.resolve().parent / path

    def machine_of(self, name: str) -> str:
        """The physical machine that a target runs on."""
        spec = self.targets[name]
        if isinstance(spec, VMSpec):
            return self.hypervisors[spec.hypervisor].machine
        if isinstance(spec, SSHSpec):
            return spec.machine or ("local" if is_loopback(spec.host) else spec.host)
        if isinstance(spec, SimSpec):
            return f"simulated {spec.machine}"
        return "local"

    @staticmethod
    def _size(values: dict[str, Any]) -> dict[str, Any]:
        """``memory`` back into the notation that the model reads."""
        memory = values.get("memory")
        return values | ({"memory": f"{memory}MiB"} if memory is not None else {})


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine by name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
