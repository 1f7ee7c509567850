"""Kernels that a guest boots instead of its image's own, on the same root file system.

A kernel is its image and the few modules that the guest's hardware needs. It stands in the
cache under a hash of what it is made from, whole or not at all, for all guests that ask
for it: ``kernel-<key>/`` with ``vmlinuz``, ``modules`` (a cpio archive that goes behind the
image's initramfs) and ``kernel.json``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.errors import ConfigError
from labctl.images import bzimage, cpio, debian, debian_kernel, kmodules
from labctl.images.builder import Progress, Stage, StageContext, no_progress
from labctl.images.catalogue import Recipe
from labctl.images.digest import content_digest
from labctl.images.stages import locked, remove_tree, run_stages, stage_keys

VERSION = 1
"""Raise it when the code below makes something else of the same kernel."""

MANIFEST = "kernel.json"
NEEDS_MIB = 600


@dataclass(frozen=True)
class KernelChoice:
    """Which kernel a guest is to have.

    Attributes:
        text: as it was asked for.
        suite: Debian's codename; "" for the image's own suite.
        version: an ABI, a release or a package's version; "" for the newest.
        image: a bzImage of one's own instead.
        modules: its ``lib/modules/<release>``, or a directory that holds that; None: all that
            the guest needs is built in.
    """

    text: str
    suite: str = ""
    version: str = ""
    image: Path | None = None
    modules: Path | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache.

    Attributes:
        key: hash of what it is made from.
        spec: as it was asked for when it was fetched.
        release: as ``uname -r`` gives it.
        package: name and version of its package; "" for one's own.
        digest: ``content_digest`` of ``vmlinuz``.
        modules: cpio archive of its modules and the list of those to load.
        built: when, ISO 8601 UTC.
    """

    key: str
    spec: str
    release: str
    package: str
    digest: str
    vmlinuz: Path
    modules: Path
    built: str
    size_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return asdict(self) | {"vmlinuz": str(self.vmlinuz), "modules": str(self.modules)}


@dataclass(frozen=True)
class _Found:
    """A kernel before it is kept: where it lies, and what was chosen of its modules."""

    vmlinuz: Path
    release: str
    package: str
    modules: list[kmodules.Module]


class KernelStore:
    """Kernels under ``root`` (the user's cache unless given)."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.cache_dir() / "kernels"

    def get(
        self, recipe: Recipe, choice: KernelChoice, *, progress: Progress = no_progress
    ) -> Kernel:
        """The kernel that ``choice`` means for guests of ``recipe``, fetched if need be.

        A package stays the one that was fetched first until it is removed. A file of one's
        own is read every time: another content is another kernel.

        Raises:
            ConfigError: the suite has no such kernel, the file is none, or it lacks a driver.
            UnavailableError: a program, the network or disk space is missing.
        """
        if choice.image is not None:
            return self._own(recipe, choice, choice.image, progress)
        settings = debian.DebianSettings.model_validate(recipe.build)
        suite = choice.suite or settings.suite
        inputs = {"suite": suite, "package": settings.kernel, "version": choice.version}

        def find(context: StageContext) -> _Found:
            unpacked, _ = debian_kernel.fetch(
                suite,
                settings.kernel,
                choice.version,
                scratch=context.scratch,
                progress=context.progress,
            )
            drivers = debian.drivers(recipe.hardware)
            chosen = kmodules.choose(unpacked.modules, unpacked.release, drivers, context.scratch)
            return _Found(unpacked.vmlinuz, unpacked.release, unpacked.package, chosen)

        return self._kept(recipe, choice, inputs, find, progress)

    def list(self) -> list[Kernel]:
        """All that are there, by what was asked for."""
        found = [self._read(path.parent) for path in self.root.glob(f"kernel-*/{MANIFEST}")]
        return sorted(filter(None, found), key=lambda kernel: (kernel.spec, kernel.key))

    def remove(self, name: str) -> int:
        """Remove the kernels of this key, or that were asked for in these words; how many."""
        mine = [kernel for kernel in self.list() if name in (kernel.key, kernel.spec)]
        for kernel in mine:
            with locked(self.root, f"kernel-{kernel.key}", no_progress):
                (kernel.vmlinuz.parent / MANIFEST).unlink(missing_ok=True)  # no longer whole
                remove_tree(kernel.vmlinuz.parent)
        return len(mine)

    def _own(self, recipe: Recipe, choice: KernelChoice, image: Path, progress: Progress) -> Kernel:
        release = bzimage.release_of(image)
        with tempfile.TemporaryDirectory(prefix="labctl-") as scratch:
            chosen = _own_modules(recipe, choice.modules, release, Path(scratch))
        inputs = {
            "image": hashlib.sha256(image.read_bytes()).hexdigest(),
            "modules": [(m.name, hashlib.sha256(m.data).hexdigest()) for m in chosen],
        }
        found = _Found(image, release, "", chosen)
        return self._kept(recipe, choice, inputs, lambda context: found, progress)

    def _kept(
        self,
        recipe: Recipe,
        choice: KernelChoice,
        inputs: dict[str, Any],
        find: Callable[[StageContext], _Found],
        progress: Progress,
    ) -> Kernel:
        inputs = inputs | {"version_of_this": VERSION, "drivers": debian.drivers(recipe.hardware)}

        def make(context: StageContext) -> None:
            found = find(context)
            vmlinuz = context.directory / "vmlinuz"
            shutil.copyfile(found.vmlinuz, vmlinuz)
            entries = debian.module_files(found.release, found.modules)
            (context.directory / "modules").write_bytes(cpio.archive(entries))
            manifest = {
                "spec": choice.text,
                "release": found.release,
                "package": found.package,
                "digest": content_digest(vmlinuz),
                "built": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            (context.directory / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")

        stages = [Stage("kernel", inputs, make, needs_mib=NEEDS_MIB)]
        name = f"kernel-{stage_keys(stages)['kernel']}"
        kernel = self._read(self.root / name)
        if kernel is not None:
            return kernel
        with locked(self.root, name, progress):
            remove_tree(self.root / f".{name}.tmp")  # a dead one's
            work = self.root / f".{name}.tmp"
            try:
                if self._read(self.root / name) is None:
                    remove_tree(self.root / name)
                run_stages(stages, self.root, work, progress)
            finally:
                remove_tree(work)
        kernel = self._read(self.root / name)
        assert kernel is not None
        return kernel

    def _read(self, directory: Path) -> Kernel | None:
        """The kernel in ``directory``; None where it is not whole."""
        vmlinuz, modules = directory / "vmlinuz", directory / "modules"
        try:
            manifest = json.loads((directory / MANIFEST).read_text())
            return Kernel(
                key=directory.name.removeprefix("kernel-"),
                vmlinuz=vmlinuz,
                modules=modules,
                size_bytes=vmlinuz.stat().st_size + modules.stat().st_size,
                **manifest,
            )
        except (OSError, ValueError, TypeError):
            return None


def _own_modules(
    recipe: Recipe, directory: Path | None, release: str, scratch: Path
) -> list[kmodules.Module]:
    """What a guest needs of the modules beside a kernel of one's own; [] without any."""
    if directory is None:
        return []
    tree = _module_tree(directory, release)
    needed = [*kmodules.DRIVERS[recipe.hardware.disk_bus], "ext4"]
    needed += kmodules.DRIVERS[recipe.hardware.nic]
    others = [name for name in debian.drivers(recipe.hardware) if name not in needed]
    return kmodules.choose(tree, release, needed, scratch, optional=others)


def _module_tree(directory: Path, release: str) -> Path:
    """``lib/modules/<release>`` in or above which ``directory`` stands.

    Raises:
        ConfigError: it is not there.
    """
    places = (f"lib/modules/{release}", f"usr/lib/modules/{release}", release)
    for tree in (*(directory / place for place in places), directory):
        if (tree / "modules.builtin").is_file() and tree.resolve().name == release:
            return tree
    raise ConfigError(
        f"{directory} has no modules of the kernel {release}",
        hint="name what `make modules_install INSTALL_MOD_PATH=DIR` filled, of the same build",
    )
