"""The Debian builder: mmdebstrap, an initramfs of labctl's own, mke2fs; no installer, no mount.

Four stages. ``root`` (the installed packages) and ``kernel`` (kernel package and busybox)
are fetched; ``initramfs`` and ``disk`` are put together from them and from the recipe's
guest files, in seconds. The kernel is apart from the root file system, so that a guest may
boot the same image with another one (``labctl.images.kernels``).
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from labctl.errors import ConfigError
from labctl.images import cpio, debian_kernel, kmodules
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
from labctl.images.debian_disk import make_disk
from labctl.images.guest import ensure_overlay, public_key
from labctl.images.mmdebstrap import run_mmdebstrap
from labctl.images.stages import hash_files
from labctl.paths import write_atomic

if TYPE_CHECKING:
    from labctl.images.catalogue import Hardware, Recipe
    from labctl.images.store import Image

VERSION = 1
"""Raise it when the code below makes something else of the same recipe."""

INITS = {"minimal": "/sbin/labctl-init", "systemd": "/lib/systemd/systemd"}
APPLETS = (
    *("sh", "mount", "modprobe", "cp", "ifconfig", "route"),
    *("usleep", "poweroff", "switch_root", "chroot"),
)
"""The programs of the initramfs, all of busybox."""

DHCP_DRIVERS = ("af_packet",)
"""Loaded only by a guest that asks for its address: raw sockets."""


class DebianSettings(BaseModel):
    """The ``build`` part of a Debian recipe.

    Attributes:
        suite: Debian's codename.
        kernel: kernel package (or metapackage).
        packages: what is installed besides the essential packages and apt.
        exclude: paths that are not unpacked (dpkg's path-exclude).
        remove: relative paths, with shell wildcards, deleted afterwards.
        links: symbolic links to make, relative path to target.
        guest: directory, beside the recipe, of files to copy to the guest's root.
        initramfs: the initramfs's first program, beside the recipe.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str = Field(pattern=r"^[a-z]+$")
    kernel: str = Field(pattern=r"^linux-image-[a-z0-9.+-]+$")
    packages: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    links: dict[str, str] = {}
    guest: str = "guest"
    initramfs: str = "initramfs-init"


@dataclass(frozen=True)
class _Plan:
    """A recipe, and its settings."""

    recipe: Recipe
    settings: DebianSettings

    @property
    def guest_files(self) -> Path:
        return self.recipe.directory / self.settings.guest

    @property
    def init_script(self) -> Path:
        return self.recipe.directory / self.settings.initramfs

    def fetch_root(self, context: StageContext) -> None:
        settings = self.settings
        run_mmdebstrap(
            settings.suite,
            context.directory / "root.tar",
            arguments=[
                "--variant=minbase",
                f"--include={','.join(settings.packages)}",
                "--skip=output/dev",  # the kernel fills /dev
                '--aptopt=Acquire::Languages "none"',
                *(f"--dpkgopt=path-exclude={path}" for path in settings.exclude),
            ],
            scratch=context.scratch,
            progress=context.progress,
            packages_guess=170,
        )

    def fetch_kernel(self, context: StageContext) -> None:
        unpacked, archive = debian_kernel.fetch(
            self.settings.suite,
            self.settings.kernel,
            "",
            also="busybox-static",
            scratch=context.scratch,
            progress=context.progress,
        )
        with tarfile.open(archive) as fetched:
            for member in fetched:
                content = fetched.extractfile(member) if member.isfile() else None
                if content and member.name.endswith("/bin/busybox"):
                    (context.directory / "busybox").write_bytes(content.read())
        unpacked.vmlinuz.rename(context.directory / "vmlinuz")
        unpacked.modules.rename(context.directory / "modules")
        (context.directory / "version").write_text(f"{unpacked.release}\n")
        (context.directory / "package").write_text(f"{unpacked.package}\n")

    def make_initramfs(self, context: StageContext) -> None:
        kernel = context.results["kernel"]
        version = (kernel / "version").read_text().strip()
        wanted = drivers(self.recipe.hardware)
        modules = kmodules.choose(kernel / "modules", version, wanted, context.scratch)
        entries = initramfs(
            version, modules, self.init_script.read_bytes(), (kernel / "busybox").read_bytes()
        )
        (context.directory / "initrd").write_bytes(cpio.archive(entries))
        shutil.copyfile(kernel / "vmlinuz", context.directory / "vmlinuz")
        for name in ("version", "package"):
            shutil.copyfile(kernel / name, context.directory / name)

    def make_disk(self, context: StageContext) -> None:
        make_disk(
            context,
            root=context.results["root"] / "root.tar",
            guest_files=self.guest_files,
            links=self.settings.links,
            remove=self.settings.remove,
            size_mib=self.recipe.disk_mib,
        )


class DebianBuilder:
    """Builds and boots Debian guests (``labctl.images.builder.Builder``)."""

    def check(self, recipe: Recipe) -> None:
        """Check the recipe's ``build`` part."""
        plan = _plan(recipe)
        if not recipe.inits:
            raise ConfigError(f"{recipe.name}: inits names none", hint=f"known: {', '.join(INITS)}")
        for path in (plan.guest_files, plan.init_script):
            if not path.exists():
                raise ConfigError(f"{recipe.name}: {path.name} is missing", where=str(path))

    def fetch(self, recipe: Recipe, source: Source, progress: Progress) -> None:
        """Nothing: its stages fetch packages by apt's own sources."""
        if source:
            raise ConfigError(
                f"{recipe.name} is not made of sets",
                hint="its packages come from the apt sources of this machine",
            )

    def verify(self, recipe: Recipe, progress: Progress) -> list[Finding]:
        """Nothing is kept; apt checked the packages when they came."""
        return []

    def downloaded_bytes(self, recipe: Recipe) -> int:
        """Nothing is kept."""
        return 0

    def stages(self, recipe: Recipe) -> Sequence[Stage]:
        """``root``, ``kernel``, ``initramfs``, ``disk``."""
        plan = _plan(recipe)
        settings = plan.settings
        root = settings.model_dump(mode="json", include={"suite", "packages", "exclude"})
        kernel = {"suite": settings.suite, "package": settings.kernel, "format": 2}
        files: dict[str, Any] = {
            "guest": hash_files(plan.guest_files),
            "links": settings.links,
            "remove": settings.remove,
            "size_mib": recipe.disk_mib,
        }
        boot = {
            "modules": drivers(recipe.hardware),
            "applets": list(APPLETS),
            "init": hash_files(plan.init_script),
        }
        version = {"builder": "debian", "version": VERSION}
        return [
            Stage("root", root | version, plan.fetch_root, needs_mib=1600),
            Stage("kernel", kernel | version, plan.fetch_kernel, needs_mib=400),
            Stage("initramfs", boot | version, plan.make_initramfs, ("kernel",)),
            Stage("disk", files | version, plan.make_disk, ("root",), needs_mib=1200),
        ]

    def assemble(self, recipe: Recipe, results: Mapping[str, Path]) -> ImageFiles:
        """The disk of ``disk``, kernel and initramfs of ``initramfs``."""
        boot = results["initramfs"]
        device = "/dev/vda" if recipe.hardware.disk_bus == "virtio" else "/dev/sda"
        return ImageFiles(
            disk=results["disk"] / "disk.ext4",
            disk_format="raw",
            kernel=boot / "vmlinuz",
            initrd=boot / "initrd",
            # notests: the crypto self-tests cost 0.4 s under TCG and change nothing after.
            cmdline=f"console=ttyS0 quiet cryptomgr.notests root={device}",
            packages=results["disk"] / "packages",
            notes={
                "kernel": (boot / "version").read_text().strip(),
                "kernel_package": (boot / "package").read_text().strip(),
            },
        )

    def prepare_guest(
        self, image: Image, directory: Path, identity: GuestIdentity, settings: GuestSettings
    ) -> GuestBoot:
        """Overlay, and an initrd that carries the guest's name and keys (mode 0600)."""
        assert image.initrd is not None
        for key in ("tunables", "sysctls"):
            if getattr(settings, key):
                raise ConfigError(
                    f"an image of Debian takes no {key}",
                    where=image.name,
                    hint="use `cmdline`, such as `cmdline: sysctl.kernel.randomize_va_space=0`",
                )
        chosen = INITS[image.recipe.init(settings.init)]
        disk = ensure_overlay(image, directory)
        initrd = directory / "initrd"
        parts = [image.initrd.read_bytes()]
        if settings.kernel:  # a later file of the same name replaces the image's
            parts.append(settings.kernel.modules.read_bytes())
        parts.append(cpio.archive(identity_files(identity)))
        write_atomic(initrd, b"".join(parts), mode=0o600)
        words = [image.cmdline, f"labctl.init={chosen}"]
        words += ["labctl.net=dhcp"] if settings.network == "dhcp" else []
        return GuestBoot(
            disk=disk,
            kernel=settings.kernel.vmlinuz if settings.kernel else image.kernel,
            initrd=initrd,
            cmdline=" ".join([*words, settings.cmdline]).strip(),
            host_key=public_key(identity.host_key_pub),
        )


def drivers(hardware: Hardware) -> list[str]:
    """The modules that a guest of this hardware needs, where its kernel has them as such."""
    wanted = kmodules.DRIVERS[hardware.disk_bus] + kmodules.DRIVERS[hardware.nic]
    return list(dict.fromkeys((*wanted, *kmodules.ALWAYS, *DHCP_DRIVERS)))


def initramfs(
    version: str, modules: Sequence[kmodules.Module], init: bytes, busybox: bytes
) -> list[cpio.Entry]:
    """The files of the initramfs."""
    return [
        cpio.file("init", init, 0o755),
        cpio.file("bin/busybox", busybox, 0o755),
        *(cpio.symlink(f"bin/{name}", "busybox") for name in APPLETS),
        *(cpio.directory(name) for name in ("dev", "proc", "sys", "root")),
        cpio.character_device("dev/console", 5, 1),
        *module_files(version, modules),
    ]


def module_files(version: str, modules: Sequence[kmodules.Module]) -> list[cpio.Entry]:
    """The part of the initramfs that goes with the kernel: its modules, and the list of those
    to load. One modprobe loads all, by a modules.dep of our own."""
    early = [module.name for module in modules if module.name not in DHCP_DRIVERS]
    place = f"lib/modules/{version}"
    depends = "".join(
        f"{m.name}.ko: {' '.join(f'{n}.ko' for n in reversed(m.depends))}\n" for m in modules
    )
    return [
        cpio.file("etc/modules", f"{' '.join(early)}\n".encode()),
        *(cpio.file(f"{place}/{m.name}.ko", m.data) for m in modules),
        cpio.file(f"{place}/modules.dep", depends.encode()),
    ]


def identity_files(identity: GuestIdentity) -> list[cpio.Entry]:
    """What makes one guest of an image, laid out below ``identity`` as below ``/``."""
    public = f"{identity.host_key_pub.strip()}\n".encode()
    return [
        cpio.file("identity/etc/hostname", f"{identity.hostname}\n".encode()),
        cpio.file("identity/etc/ssh/ssh_host_ecdsa_key", identity.host_key.read_bytes(), 0o600),
        cpio.file("identity/etc/ssh/ssh_host_ecdsa_key.pub", public),
        cpio.directory("identity/root", 0o700),
        cpio.directory("identity/root/.ssh", 0o700),
        cpio.file(
            "identity/root/.ssh/authorized_keys",
            f"{identity.authorized_key.strip()}\n".encode(),
            0o600,
        ),
    ]


def _plan(recipe: Recipe) -> _Plan:
    return _Plan(recipe, DebianSettings.model_validate(recipe.build))
