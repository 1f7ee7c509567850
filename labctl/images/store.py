"""The store of built images: one directory an image, found by what went into it.

Layout under the root: ``<name>/<key>/image.json`` and its files; ``<name>/stages`` (what
an interrupted or changed build goes on from); ``<name>/tmp`` (unfinished work; whatever is
there while nobody holds the lock is a dead build's, and is removed).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from labctl import paths
from labctl.errors import UnavailableError
from labctl.images.builder import (
    Builder,
    Finding,
    ImageFiles,
    Progress,
    Source,
    Stage,
    get_builder,
    no_progress,
)
from labctl.images.catalogue import Recipe, load_catalogue
from labctl.images.digest import FileName, FileRecord, content_digest
from labctl.images.stages import (
    digest,
    forget_others,
    locked,
    recorded,
    remove_tree,
    run_stages,
    stage_keys,
)

FORMAT: Literal[2] = 2
MANIFEST = "image.json"


class _File(FileRecord):
    """One file of an image, beside its manifest."""

    name: FileName


class _Files(BaseModel):
    """By role; the disk is what no image is without."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    disk: _File
    kernel: _File | None = None
    initrd: _File | None = None
    packages: _File | None = None

    def all(self) -> list[_File]:
        """Those that there are."""
        return [file for file in (self.disk, self.kernel, self.initrd, self.packages) if file]


class _Manifest(BaseModel):
    """``image.json``; written last, so what has one was whole once."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[2]
    name: str
    key: str
    built: AwareDatetime
    files: _Files
    disk_format: str = Field(pattern=r"^(raw|qcow2)$")
    cmdline: str
    notes: dict[str, str]
    recipe: Recipe


@dataclass(frozen=True)
class Image:
    """A whole, bootable image.

    Attributes:
        recipe: the recipe as it was built.
        built: when (UTC).
        size_bytes: disk space that it takes.
        packages: a text file of what is installed, one "name version" a line.
        cmdline: for the kernel; a builder's ``prepare_guest`` adds to it.
        notes: what the builder recorded, such as the kernel's release.
        digests: ``content_digest`` of each file, by name.
    """

    name: str
    key: str
    directory: Path
    disk: Path
    disk_format: str
    kernel: Path | None
    initrd: Path | None
    cmdline: str
    recipe: Recipe
    built: datetime
    size_bytes: int
    packages: Path | None
    notes: Mapping[str, str]
    digests: Mapping[str, str]


@dataclass(frozen=True)
class ImageStatus:
    """One row of what is there: state is "built", "stale" (the recipe has changed since)
    or "missing". ``built`` is ISO 8601 UTC or "".
    ``downloaded_bytes`` is what is kept of its ingredients."""

    name: str
    system: str
    state: str
    summary: str
    key: str = ""
    size_bytes: int = 0
    built: str = ""
    downloaded_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return asdict(self)


class ImageStore:
    """Built images under ``root`` (the user's cache unless given)."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.cache_dir() / "images"

    def find(self, recipe: Recipe) -> Image | None:
        """The image of this very content, or None."""
        _, key = _plan(recipe)
        return _read(self.root / recipe.name / key, recipe)

    def build(
        self,
        recipe: Recipe,
        *,
        source: Source | None = None,
        progress: Progress = no_progress,
    ) -> Image:
        """The image of this content, built if it is not there.

        One build of a recipe at a time; a second waits and says for whom. A ``source`` that
        brings something new makes this another content.

        Raises:
            UnavailableError: a program, the network or disk space is missing.
            ConfigError: an option or the recipe does not fit.
        """
        found = None if source else self.find(recipe)
        if found:
            return found
        builder = get_builder(recipe.builder)
        with locked(self.root, recipe.name, progress):
            trial = builder.fetch(recipe, source or Source(), progress)
            with trial or contextlib.nullcontext():
                return self._find_or_make(builder, recipe, progress)

    def _find_or_make(self, builder: Builder, recipe: Recipe, progress: Progress) -> Image:
        found = self.find(recipe)
        if found:
            return found
        home = self.root / recipe.name
        stages, key = _plan(recipe)
        scratch = home / "tmp"
        remove_tree(scratch)
        scratch.mkdir(parents=True, exist_ok=True)
        # A name of its own: a dead build's last process may still be ending in the old one.
        work = Path(tempfile.mkdtemp(dir=scratch))
        try:
            results = run_stages(stages, home / "stages", work, progress)
            files = builder.assemble(recipe, results)
            _finish(recipe, key, files, work / key, home / key)
            forget_others(stages, home / "stages")
        finally:
            remove_tree(scratch)
        image = self.find(recipe)
        if image is None:
            raise UnavailableError(
                "the image is not what was just made", where=str(home / key), hint="build it again"
            )
        return image

    def verify(self, recipe: Recipe, *, progress: Progress = no_progress) -> list[Finding]:
        """Read again all that is kept of an image, its ingredients included, and compare it
        with what was recorded when it was made."""
        findings = get_builder(recipe.builder).verify(recipe, progress)
        for manifest in sorted((self.root / recipe.name).glob(f"*/{MANIFEST}")):
            image = _read(manifest.parent, recipe)
            if image is None:
                findings.append(Finding(str(manifest), False, "the image is not whole"))
                continue
            findings += [
                _compare(image, name, wanted, progress) for name, wanted in image.digests.items()
            ]
        return findings

    def list(self) -> list[ImageStatus]:
        """For every recipe of the catalogue its image, built or missing, then its other
        builds, which are stale."""
        rows = []
        for recipe in load_catalogue().values():
            _, current = _plan(recipe)
            built = {
                path.parent.name: _read(path.parent, recipe)
                for path in sorted((self.root / recipe.name).glob(f"*/{MANIFEST}"))
            }
            plain = built.pop(current, None)
            rows.append(_status(recipe, plain, "built" if plain else "missing"))
            for image in filter(None, built.values()):
                rows.append(_status(recipe, image, "stale"))
        return rows

    def remove(self, name: str) -> bool:
        """Remove every build of ``name`` and what was kept for its next one.

        Guests that run on it lose their disk. Returns whether there was anything.
        """
        home = self.root / name
        if not home.is_dir():
            return False
        with locked(self.root, name, no_progress):
            for manifest in home.glob(f"*/{MANIFEST}"):
                manifest.unlink()  # first: what is half removed must not pass for whole
            remove_tree(home)
        if home.exists():
            raise UnavailableError(
                "not all of it could be removed",
                where=str(home),
                hint="look whether it is mounted somewhere, and whose it is",
            )
        return True


def _plan(recipe: Recipe) -> tuple[list[Stage], str]:
    """The stages and the image's content key: all stages' keys, and how it is booted."""
    stages = list(get_builder(recipe.builder).stages(recipe))
    content = recipe.model_dump(mode="json", exclude={"summary"})
    return stages, digest({"format": FORMAT, "stages": stage_keys(stages), "recipe": content})


def _finish(recipe: Recipe, key: str, files: ImageFiles, work: Path, target: Path) -> None:
    """Put the image's files together and, as the last act, in their place."""
    work.mkdir()
    taken: dict[str, _File] = {}
    for role in ("disk", "kernel", "initrd", "packages"):
        path: Path | None = getattr(files, role)
        if path:
            taken[role] = _File(name=path.name, **recorded(path).model_dump())
            os.link(path, work / path.name)  # no copy: stages lie on the same file system
            with (work / path.name).open("rb") as file:
                os.fsync(file.fileno())  # what is found later is not read again
    manifest = _Manifest(
        format=FORMAT,
        name=recipe.name,
        key=key,
        built=datetime.now(UTC).replace(microsecond=0),
        files=_Files(**taken),
        disk_format=files.disk_format,
        cmdline=files.cmdline,
        notes=dict(files.notes),
        recipe=recipe,
    )
    paths.write_atomic(work / MANIFEST, manifest.model_dump_json(indent=2) + "\n")
    remove_tree(target)  # without a readable manifest, or it would have been found
    try:
        work.rename(target)
    except OSError as error:
        raise UnavailableError(f"the image cannot be kept: {error}", where=str(target)) from None


def _compare(image: Image, name: str, wanted: str, progress: Progress) -> Finding:
    """One file of an image against the digest that was recorded when it was built."""
    found = content_digest(
        image.directory / name, lambda part: progress("image", part, f"reading {name}")
    )
    text = "as it was built" if found == wanted else "differs from what was built"
    return Finding(f"{name} of {image.key}", found == wanted, text)


def _read(directory: Path, recipe: Recipe) -> Image | None:
    """The image in ``directory``; None where it is not whole, as far as sizes tell."""
    try:
        manifest = _Manifest.model_validate_json((directory / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    files = manifest.files
    if manifest.key != directory.name or not all(
        file.has_size(directory / file.name) for file in files.all()
    ):
        return None
    manifest.recipe._directory = recipe.directory

    def place(file: _File | None) -> Path | None:
        return directory / file.name if file else None

    return Image(
        name=manifest.name,
        key=manifest.key,
        directory=directory,
        disk=directory / files.disk.name,
        disk_format=manifest.disk_format,
        kernel=place(files.kernel),
        initrd=place(files.initrd),
        cmdline=manifest.cmdline,
        recipe=manifest.recipe,
        built=manifest.built,
        size_bytes=sum((directory / file.name).stat().st_blocks * 512 for file in files.all()),
        packages=place(files.packages),
        notes=manifest.notes,
        digests={file.name: file.digest for file in files.all()},
    )


def _status(recipe: Recipe, image: Image | None, state: str) -> ImageStatus:
    return ImageStatus(
        name=recipe.name,
        system=recipe.system,
        state=state,
        summary=recipe.summary,
        key=image.key if image else "",
        size_bytes=image.size_bytes if image else 0,
        built=image.built.isoformat() if image else "",
        downloaded_bytes=get_builder(recipe.builder).downloaded_bytes(recipe),
    )
