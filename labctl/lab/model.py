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
from labctl.lab.fields import (
    URI,
    Accel,
    CpuModel,
    Flag,
    Init,
    Margin,
    MemoryMiB,
    Name,
    Parameter,
    RemotePath,
    Settings,
    Text,
    UserPath,
    Vcpus,
    Word,
    as_text,
    smbios_name,
)
from labctl.sim.spec import Times


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
    smbios_product: Annotated[Text, AfterValidator(smbios_name)] | None = None
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
    text = as_text(value)
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


Count = Annotated[int, Field(strict=True, ge=1, le=1_000)]


class NightlyDesign(_Model):
    """How often a night repeats everything (labctl.sweep.plan.Design); None: as ``sweep``."""

    rounds: Count | None = None
    boots: Count | None = None
    batches: Count | None = None
    warmup: Annotated[int | None, Field(strict=True, ge=0, le=1_000)] = None
    min_batch_ms: Annotated[int | None, Field(strict=True, ge=1, le=60_000)] = None


class Nightly(_Model):
    """What ``labctl nightly`` measures where its command line does not say otherwise.

    ``targets`` None: all of the lab; ``threads`` None: each manifest's own. ``directory`` is
    where the nights' reports go, relative to the lab file; None: ``results/nightly``.
    """

    workloads: Annotated[tuple[Text, ...], Field(min_length=1)]
    targets: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    threads: (
        Annotated[
            tuple[Annotated[int, Field(strict=True, ge=1, le=1024)], ...], Field(min_length=1)
        ]
        | None
    ) = None
    params: dict[str, Annotated[tuple[Parameter, ...], Field(min_length=1)]] = {}
    design: NightlyDesign = NightlyDesign()
    directory: UserPath | None = None


class Lab(_Model):
    """The whole lab file. ``path`` is where it was read from; ``margin`` the share by which
    two times may differ and still count as equal in practice."""

    lab: Name
    defaults: Defaults = Defaults()
    hypervisors: dict[Name, Hypervisor] = {"local": Hypervisor()}
    targets: dict[Name, TargetSpec] = Field(min_length=1)
    pairs: tuple[PairSpec, ...] = ()
    margin: Margin = 0.10
    nightly: Nightly | None = None
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
