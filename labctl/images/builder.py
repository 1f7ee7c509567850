"""What a builder of images offers, and the registry of builders.

Adding an operating system takes one recipe and one builder class: a module here, and its
line in ``BUILDERS``. A builder describes its work as stages; running, caching and
resuming them is ``labctl.images.stages``, keeping finished images ``labctl.images.store``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.images.catalogue import Recipe
    from labctl.images.kernels import Kernel
    from labctl.images.store import Image

Progress = Callable[[str, float | None, str], None]
"""Called with a stage's name, the fraction done (0..1; None: unknown) and a detail."""


def no_progress(stage: str, fraction: float | None, detail: str) -> None:
    """A Progress that tells nobody."""


@dataclass(frozen=True)
class GuestIdentity:
    """Who one guest is; planted by ``prepare_guest``, so no first boot makes it up.

    Attributes:
        host_key: file of the private host key (PEM, ECDSA P-256).
        host_key_pub: its public line, ``ecdsa-sha2-nistp256 AAAA... comment``.
        authorized_key: public line of the key that may log in.
    """

    hostname: str
    host_key: Path
    host_key_pub: str
    authorized_key: str


@dataclass(frozen=True)
class GuestSettings:
    """How one guest differs from the others of its image; from recipe and lab file.

    Attributes:
        init: one of the recipe's ``inits``, or None.
        cmdline: words to add to the kernel's command line (direct kernel boot only).
        tunables: set by the boot loader, such as ``kern.hz``.
        sysctls: set by the guest's own start-up.
        nic, disk_bus: the devices, as in ``Hardware``; "" for the recipe's.
        kernel: boots instead of the image's own.
        network: "user" (QEMU's user-mode network, whose address is known beforehand) or
            "dhcp" (any other: a libvirt network, a real one).
    """

    init: str | None = None
    cmdline: str = ""
    tunables: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    nic: str = ""
    disk_bus: str = ""
    kernel: Kernel | None = None
    network: Literal["user", "dhcp"] = "user"


@dataclass(frozen=True)
class Source:
    """Where an image's ingredients come from, if not from where its recipe says.

    Attributes:
        sets: a directory, or the URL of one, that holds the release's sets themselves.
        mirror: URL that stands for the recipe's archive; the same files are expected.
    """

    sets: str = ""
    mirror: str = ""

    def __bool__(self) -> bool:
        return bool(self.sets or self.mirror)


@dataclass(frozen=True)
class GuestBoot:
    """What a hypervisor boots. Without ``kernel`` the disk boots by itself.

    Attributes:
        disk: the guest's own qcow2 overlay on the image.
        host_key: type and base64 of the public host key, as in known_hosts.
    """

    disk: Path
    kernel: Path | None
    initrd: Path | None
    cmdline: str
    host_key: str


@dataclass(frozen=True)
class StageContext:
    """What a running stage gets.

    Attributes:
        directory: empty; what is left in it is the stage's result.
        scratch: empty; thrown away afterwards.
        results: the directories of the stages named in ``after``.
        progress: fraction done (0..1, None unknown) and a detail.
    """

    directory: Path
    scratch: Path
    results: Mapping[str, Path]
    progress: Callable[[float | None, str], None]


@dataclass(frozen=True)
class Stage:
    """One step of a build, cached by its content key.

    Attributes:
        inputs: all that the result depends on besides ``after``; JSON values.
        after: names of earlier stages whose results it reads.
        needs_mib: free disk space that it takes.
    """

    name: str
    inputs: Mapping[str, Any]
    run: Callable[[StageContext], None]
    after: tuple[str, ...] = ()
    needs_mib: int = 64


@dataclass(frozen=True)
class ImageFiles:
    """The files of stages' results that together make the image, and how it boots."""

    disk: Path
    disk_format: str
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""
    packages: Path | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What a check of something that is kept found. ``text`` says what is so, or wrong."""

    name: str
    ok: bool
    text: str


class Builder(Protocol):
    """One way of making images: one class an operating system (family)."""

    def check(self, recipe: Recipe) -> None:
        """Check the recipe's ``build`` part.

        Raises:
            pydantic.ValidationError, ConfigError: it is wrong.
        """

    def fetch(
        self, recipe: Recipe, source: Source, progress: Progress
    ) -> AbstractContextManager[None] | None:
        """Bring what the content of the image depends on and the recipe cannot tell.

        Called before ``stages`` by a build, not by a look at what is there. Does nothing where
        it is there already, unless a ``source`` is named.

        Returns:
            In what the image is made, where a failure takes back what was brought.

        Raises:
            ConfigError: this image takes nothing from a ``source``.
            UnavailableError: it cannot be had, or is not what it should be.
        """

    def verify(self, recipe: Recipe, progress: Progress) -> list[Finding]:
        """Read again what ``fetch`` brought and compare it with what is known of it."""

    def downloaded_bytes(self, recipe: Recipe) -> int:
        """Disk space that what ``fetch`` brought takes."""

    def stages(self, recipe: Recipe) -> Sequence[Stage]:
        """The work, in order. Reads nothing but the recipe's files and what ``fetch`` recorded."""

    def assemble(self, recipe: Recipe, results: Mapping[str, Path]) -> ImageFiles:
        """Which files of the finished stages make the image."""

    def prepare_guest(
        self, image: Image, directory: Path, identity: GuestIdentity, settings: GuestSettings
    ) -> GuestBoot:
        """Make what one guest boots from ``image``, in ``directory``.

        The disk overlay is created when it is missing or belongs to another image; the rest
        is written anew. Must not be called while the guest runs.

        Raises:
            ConfigError: a setting is not one that this system has.
            UnavailableError: a program is missing or failed.
        """


BUILDERS: dict[str, str] = {
    "debian": "labctl.images.debian:DebianBuilder",
    "freebsd": "labctl.images.freebsd:FreeBSDBuilder",
    "netbsd": "labctl.images.netbsd:NetBSDBuilder",
}
"""Builders by the name that recipes use, as module:class; imported when asked for."""


def get_builder(name: str) -> Builder:
    """The builder of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in BUILDERS:
        raise ConfigError(
            f"there is no builder {name!r}", hint=f"known builders: {', '.join(BUILDERS)}"
        )
    module, _, attribute = BUILDERS[name].partition(":")
    builder: Builder = getattr(importlib.import_module(module), attribute)()
    return builder
