"""What the FreeBSD and the NetBSD builder share: from release sets to a bootable disk.

One stage, ``disk``: the sets are unpacked into a tree, the recipe's guest files are laid over
it, a UFS1 file system is made of it (``labctl.images.ufs``) and put behind boot blocks
(``labctl.images.layout``). What differs between two guests of an image (keys, name,
network, tunables) lies in *slots*, files of fixed size at known places of the disk; they
are filled in each guest's own overlay, so that the image has no secrets and no guest
waits for a file system to be made.
"""

from __future__ import annotations

import json
import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from labctl.errors import ConfigError, LabctlError, UnavailableError
from labctl.images.builder import (
    Finding,
    GuestBoot,
    GuestIdentity,
    GuestSettings,
    ImageFiles,
    Progress,
    Source,
    Stage,
    StageContext,
)
from labctl.images.guest import ensure_overlay, public_key
from labctl.images.sets import SetsSpec, Supply
from labctl.images.stages import hash_files, remove_tree
from labctl.images.ufs import Slot, SlotMovedError, Tree, find, make_ffs, placeholder, plant

if TYPE_CHECKING:
    from labctl.images.catalogue import Recipe
    from labctl.images.store import Image

VERSION = 1
"""Raise it when the code below, or below ``ufs`` and ``layout``, makes something else."""

ADDRESS, NETMASK, GATEWAY = "10.0.2.15", "255.255.255.0", "10.0.2.2"
"""What QEMU's user-mode network gives its first guest: known, so that nobody need ask."""

RECORD = "planted.json"
"""In a guest's directory: what was written into the slots of its disk."""

_PLACES = TypeAdapter(dict[str, tuple[NonNegativeInt, PositiveInt]])

_KEY = "etc/ssh/ssh_host_ecdsa_key"
_OTHER_KEYS = ("ssh_host_key", "ssh_host_dsa_key", "ssh_host_rsa_key", "ssh_host_ed25519_key")

# The first value that sshd reads is the one that counts, so these stand before the set's own
# lines, which stay. PAM is left out: a set may lack a module that its configuration names.
SSHD = """\
# labctl: one user, one key, one host key; no PAM, no lookups.
HostKey /etc/ssh/ssh_host_ecdsa_key
PermitRootLogin without-password
PubkeyAuthentication yes
PasswordAuthentication no
ChallengeResponseAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
MaxSessions 64
MaxStartups 64
# labctl: end; what follows is the system's own.
"""


class BsdSettings(BaseModel):
    """The ``build`` part of a BSD recipe.

    Attributes:
        sets: where the release's sets are.
        root_mib, swap_mib: sizes of the root file system and of the swap partition.
        guest: directory, beside the recipe, of files laid over the sets.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sets: SetsSpec
    root_mib: int = Field(ge=64, le=1024 * 1024)
    swap_mib: int = Field(ge=1, le=1024 * 1024)
    guest: str = "guest"


class BsdBuilder(ABC):
    """Builds and boots BSD guests (``labctl.images.builder.Builder``); a system adds the rest."""

    name: str
    tunable = True
    """Whether the boot loader takes tunables."""

    boot_slots: ClassVar[Mapping[str, int]] = {}
    """Further slots of this system: path to size in bytes."""

    # -- what a system adds -----------------------------------------------------------

    @abstractmethod
    def configure(self, tree: Tree) -> None:
        """Change what the sets and the guest files leave to be changed."""

    @abstractmethod
    def lay_out(
        self, tree: Tree, root: Path, disk: Path, recipe: Recipe, settings: BsdSettings
    ) -> None:
        """Put boot blocks, partition table and the file system ``root`` together on ``disk``."""

    @abstractmethod
    def network(self, settings: GuestSettings, nic: str) -> list[str]:
        """Lines of rc.conf for the network."""

    def boot_contents(self, settings: GuestSettings, disk_bus: str) -> dict[str, str]:
        """Contents of ``boot_slots`` for one guest; what is left out is written only once."""
        return {}

    # -- the builder's protocol -------------------------------------------------------

    def check(self, recipe: Recipe) -> None:
        """Check the recipe's ``build`` part."""
        settings = _settings(recipe)
        guest = recipe.directory / settings.guest
        if not guest.is_dir():
            raise ConfigError(f"{recipe.name}: there are no guest files", where=str(guest))
        room = settings.root_mib + settings.swap_mib + 2
        if recipe.disk_mib < room:
            raise ConfigError(
                f"{recipe.name}: disk_mib is {recipe.disk_mib}, the partitions take {room}"
            )
        if recipe.tunables and not self.tunable:
            raise ConfigError(f"{recipe.name}: this system's boot loader takes no tunables")

    def fetch(
        self, recipe: Recipe, source: Source, progress: Progress
    ) -> AbstractContextManager[None]:
        """See that the release's sets are here; those before stay until these have proved good."""
        supply = _supply(recipe)
        supply.obtain(source, progress)
        return _on_trial(supply)

    def verify(self, recipe: Recipe, progress: Progress) -> list[Finding]:
        """The sets against their record and their pins."""
        return _supply(recipe).verify(progress)

    def downloaded_bytes(self, recipe: Recipe) -> int:
        """The sets."""
        return sum(held.size for held in (_supply(recipe).current() or {}).values())

    def stages(self, recipe: Recipe) -> Sequence[Stage]:
        """``disk``, whose content the sets decide."""
        settings = _settings(recipe)
        sets = _supply(recipe).current()
        inputs = {
            "builder": [self.name, VERSION],
            "sets": {name: held.digest for name, held in sets.items()} if sets else None,
            "guest": hash_files(recipe.directory / settings.guest),
            "settings": settings.model_dump(mode="json", exclude={"sets"}),
        }
        # makefs writes the root's zeros too, before they are given back.
        unpacked = 8 * sum(held.size for held in (sets or {}).values()) // 2**20
        needs_mib = 512 + unpacked + settings.root_mib
        return [
            Stage(
                "disk",
                inputs,
                lambda context: self._make_disk(recipe, settings, context),
                needs_mib=needs_mib,
            )
        ]

    def assemble(self, recipe: Recipe, results: Mapping[str, Path]) -> ImageFiles:
        """The disk; its notes name the sets, how far they are trusted, and the slots."""
        made = results["disk"]
        sets = _supply(recipe).current() or {}
        notes = {f"set {name}": f"{held.digest} ({held.trust})" for name, held in sets.items()}
        notes["slots"] = (made / "slots.json").read_text()
        return ImageFiles(
            disk=made / "disk.raw", disk_format="raw", packages=made / "sets.txt", notes=notes
        )

    def prepare_guest(
        self, image: Image, directory: Path, identity: GuestIdentity, settings: GuestSettings
    ) -> GuestBoot:
        """Overlay whose slots carry what makes this guest itself."""
        self._refuse(image, settings)
        slots = _slots(image)
        hardware = image.recipe.hardware
        contents = self._contents(
            identity, settings, settings.nic or hardware.nic, settings.disk_bus or hardware.disk_bus
        )
        once = {path: os.urandom(slot.size) for path, slot in slots.items() if path not in contents}
        encoded = {path: text.encode() for path, text in contents.items()}
        record = directory / RECORD
        disk = ensure_overlay(image, directory, forget=(record,))
        try:
            plant(disk, slots, encoded, once, record)
        except SlotMovedError:
            # The guest has written such a file anew, elsewhere. What was on its disk can be
            # had again (deploy does it); writing over a block of another file could not be.
            disk.unlink()
            disk = ensure_overlay(image, directory, forget=(record,))
            plant(disk, slots, encoded, once, record)
        return GuestBoot(
            disk=disk,
            kernel=None,
            initrd=None,
            cmdline="",
            host_key=public_key(identity.host_key_pub),
        )

    # -- the work ---------------------------------------------------------------------

    def _make_disk(self, recipe: Recipe, settings: BsdSettings, context: StageContext) -> None:
        sets = _supply(recipe).current()
        if sets is None:
            raise UnavailableError(
                "the sets are not here", hint=f"labctl image build {recipe.name}"
            )
        tree = Tree(context.scratch / "tree", settings.root_mib)
        for number, (name, held) in enumerate(sets.items()):
            progress = _part(context, number / len(sets), f"unpacking {name}")
            found = tree.unpack(held.path, progress=progress)
            if found != held.digest:
                raise UnavailableError(
                    f"the set {name} was {held.digest} when it was brought, and is {found}",
                    where=str(held.path),
                    hint="remove this file, and the next build brings it again",
                )
        for file in sorted((recipe.directory / settings.guest).rglob("*")):
            if file.is_file():
                path = file.relative_to(recipe.directory / settings.guest).as_posix()
                mode = 0o755 if path.startswith("etc/rc.d/") else 0o644
                tree.add_file(path, file.read_bytes(), mode=mode)
        self._configure_common(tree)
        self.configure(tree)
        sizes = self._slot_sizes()
        for path, size in sizes.items():
            secret = path == _KEY or path.endswith("entropy")
            mode = 0o600 if secret or path.endswith("authorized_keys") else 0o644
            tree.add_file(path, placeholder(path, size), mode=mode)
        context.progress(None, "writing the file system")
        root = context.scratch / "root.ufs"
        make_ffs(
            tree,
            root,
            size_mib=settings.root_mib,
            scratch=context.scratch,
            progress=context.progress,
        )
        disk = context.directory / "disk.raw"
        self.lay_out(tree, root, disk, recipe, settings)
        root.unlink()
        places = {path: [slot.offset, slot.size] for path, slot in find(disk, sizes).items()}
        (context.directory / "slots.json").write_text(json.dumps(places))
        listed = [f"{name} {held.digest}" for name, held in sets.items()]
        (context.directory / "sets.txt").write_text("\n".join(listed) + "\n")
        remove_tree(context.scratch / "tree")

    def _configure_common(self, tree: Tree) -> None:
        need(tree, "usr/sbin/sshd", "an SSH server")
        config = "etc/ssh/sshd_config"
        own = tree.read(config) if config in tree else b""
        tree.add_file(config, SSHD.encode() + own)
        for name in _OTHER_KEYS:
            # The system makes the keys that are missing, which takes seconds. These are there,
            # and sshd is told of none of them.
            tree.add_file(f"etc/ssh/{name}", b"labctl: no such key is used\n", mode=0o600)
        tree.add_dir("root/.ssh", mode=0o700)
        if "usr/share/zoneinfo/UTC" in tree:
            tree.add_link("etc/localtime", "/usr/share/zoneinfo/UTC")

    def _slot_sizes(self) -> dict[str, int]:
        return {
            _KEY: 1024,
            f"{_KEY}.pub": 1024,
            "root/.ssh/authorized_keys": 2048,
            "etc/labctl.conf": 1024,
            "etc/labctl.sysctl": 1024,
            **self.boot_slots,
        }

    def _contents(
        self, identity: GuestIdentity, settings: GuestSettings, nic: str, disk_bus: str
    ) -> dict[str, str]:
        rc = [f"hostname={shlex.quote(identity.hostname)}", *self.network(settings, nic)]
        sysctls = [f"{key}={value}" for key, value in settings.sysctls.items()]
        return {
            _KEY: identity.host_key.read_text(),
            f"{_KEY}.pub": lines([identity.host_key_pub.strip()]),
            "root/.ssh/authorized_keys": lines([identity.authorized_key.strip()]),
            "etc/labctl.conf": lines(rc),
            "etc/labctl.sysctl": lines(sysctls),
            **self.boot_contents(settings, disk_bus),
        }

    def _refuse(self, image: Image, settings: GuestSettings) -> None:
        if settings.init and settings.init != "minimal":
            raise ConfigError(
                f"{image.name} has its own init only", hint="remove `init` from the target"
            )
        if settings.cmdline:
            raise ConfigError(
                f"{image.name} has a boot loader of its own, which takes no `cmdline`",
                hint="use `tunables` (FreeBSD) or `sysctls`",
            )
        if settings.tunables and not self.tunable:
            raise ConfigError(
                f"{image.name}: its boot loader takes no tunables", hint="use `sysctls`"
            )


def need(tree: Tree, path: str, what: str) -> bytes:
    """The content of ``path``.

    Raises:
        UnavailableError: the sets do not hold it; says ``what`` it is for.
    """
    if path not in tree:
        raise UnavailableError(
            f"no set holds /{path}: {what}",
            hint="the sets are incomplete, or of another system; look at what --sets names",
        )
    return tree.read(path)


def lines(texts: Sequence[str]) -> str:
    """The texts, a line each."""
    return "".join(f"{text}\n" for text in texts)


def _slots(image: Image) -> dict[str, Slot]:
    """Where the slots of an image are, as its notes say."""
    try:
        places = _PLACES.validate_json(image.notes.get("slots", ""))
    except ValidationError:
        raise UnavailableError(
            "its record does not say where a guest's own files go: the image is not whole",
            where=str(image.directory),
            hint=f"labctl image build {image.name} --force",
        ) from None
    return {path: Slot(offset, size) for path, (offset, size) in places.items()}


def _settings(recipe: Recipe) -> BsdSettings:
    return BsdSettings.model_validate(recipe.build)


def _supply(recipe: Recipe) -> Supply:
    settings = _settings(recipe)
    return Supply(recipe.name, settings.sets, most_bytes=settings.root_mib << 20)


@contextmanager
def _on_trial(supply: Supply) -> Iterator[None]:
    try:
        yield
    except LabctlError:
        supply.take_back()
        raise
    supply.settle()


def _part(context: StageContext, begin: float, text: str) -> Callable[[float | None, str], None]:
    del begin
    return lambda fraction, detail: context.progress(fraction, f"{text} {detail}".strip())
