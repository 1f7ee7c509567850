"""The typed model of ``lab.yaml``. Reading the file and wording its errors is ``load``.

Adding a kind of target takes one class here and one in ``labctl.targets``.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
)

from labctl import paths

_SIZE = re.compile(r"^\s*(\d+)\s*([A-Za-z]*)\s*$")
_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_GUESSES = {"m": "MiB", "mb": "MiB", "mib": "MiB", "g": "GiB", "gb": "GiB", "gib": "GiB"}


def parse_memory(value: Any) -> int:
    """``"1GiB"`` -> 1024 (MiB). Decimal and bare units are refused: they are ambiguous."""
    match = _SIZE.match(str(value))
    if not match:
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GiB")
    number, unit = int(match[1]), match[2]
    if unit not in _MIB:
        guess = _GUESSES.get(unit.lower(), "MiB")
        what = f"the unit {unit!r} is not known" if unit else "the unit is missing"
        raise ValueError(f"{what}; write {number}{guess} (MiB, GiB or TiB)")
    return number * _MIB[unit]


def _text(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        raise ValueError(
            f"YAML reads this as the {type(value).__name__} {value!r}, a text is wanted; "
            f"put it in quotes"
        )
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path on the target")
    return value


def _user_path(value: Any) -> Any:
    return Path(value).expanduser() if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]
MemoryMiB = Annotated[int, BeforeValidator(parse_memory), Field(ge=128)]
RemotePath = Annotated[Text, AfterValidator(_absolute)]
UserPath = Annotated[Path, BeforeValidator(_user_path)]
Accel = Literal["auto", "kvm", "tcg"]
Init = Literal["minimal", "systemd"]
Vcpus = Annotated[int, Field(ge=1, le=256)]
Name = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Defaults(_Model):
    """What a ``vm`` target has where it does not say otherwise. ``memory`` is in MiB."""

    vcpus: Vcpus = 2
    memory: MemoryMiB = 1024
    accel: Accel = "auto"
    init: Init = "minimal"


class Hypervisor(_Model):
    """A libvirt connection: ``auto`` or any libvirt URI."""

    uri: Text = "auto"

    @property
    def machine(self) -> str:
        """The physical machine that its guests run on."""
        host = urlsplit(self.uri).hostname
        return host if host and not is_loopback(host) else "local"


class LocalSpec(_Model):
    """This machine, without an SSH server."""

    kind: Literal["local"]
    workdir: RemotePath | None = None


class SSHSpec(_Model):
    """A machine that exists; nothing is installed on it but ``workdir``.

    ``machine`` names the physical machine where it is not plain from ``host``
    (a guest of somebody else's on this host, say): no two cells run on one at a time.
    """

    kind: Literal["ssh"]
    host: Text
    port: int = Field(22, ge=1, le=65535)
    user: Text = "root"
    identity: UserPath | None = None
    known_hosts: UserPath | None = None
    workdir: RemotePath
    machine: Text | None = None
    reboot: bool = False
    legacy_ssh: bool = False


class VMSpec(_Model):
    """A libvirt domain, made from an image."""

    kind: Literal["vm"]
    image: Text
    hypervisor: Text = "local"
    vcpus: Vcpus | None = None
    memory: MemoryMiB | None = None
    accel: Accel | None = None
    init: Init | None = None


TargetSpec = Annotated[LocalSpec | SSHSpec | VMSpec, Field(discriminator="kind")]


class Pair(_Model):
    """Two targets to compare: the same work in a guest and on metal."""

    guest: Text
    metal: Text


class Lab(_Model):
    """The whole lab file. ``path`` is where it was read from."""

    lab: Name
    defaults: Defaults = Defaults()
    hypervisors: dict[Name, Hypervisor] = {"local": Hypervisor()}
    targets: dict[Name, TargetSpec] = Field(min_length=1)
    pairs: tuple[Pair, ...] = ()
    path: Path = Path("lab.yaml")

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

    def machine_of(self, name: str) -> str:
        """The physical machine that a target runs on."""
        spec = self.targets[name]
        if isinstance(spec, VMSpec):
            return self.hypervisors[spec.hypervisor].machine
        if isinstance(spec, SSHSpec):
            return spec.machine or ("local" if is_loopback(spec.host) else spec.host)
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
