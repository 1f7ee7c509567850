"""The catalogue: recipes of guest images, read from ``images/<name>/recipe.yaml``.

A recipe says what is built and on which virtual hardware it runs. How it is built is a
builder's business (``labctl.images.builder``), which also checks the recipe's ``build`` part.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from labctl import paths
from labctl.errors import ConfigError
from labctl.findings import findings
from labctl.images.builder import get_builder

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML was built with it


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cpu(_Model):
    """The CPU model for each accelerator, in libvirt's words (``host-passthrough``, ``max``)."""

    kvm: str
    tcg: str


class Hardware(_Model):
    """The virtual hardware that the image's drivers expect.

    Attributes:
        memory_mib: the default.
        video: "vga" for boot code that prints by the BIOS; it costs nothing that is measured.
        smbios_product: product name of the machine (SMBIOS type 1); "" is QEMU's own. Some
            kernels decide by it whether they are a guest.
    """

    machine: str
    cpu: Cpu
    disk_bus: Literal["virtio", "ide", "sata"]
    nic: Literal["virtio-net-pci", "e1000"]
    max_vcpus: int = Field(ge=1)
    memory_mib: int = Field(ge=64)
    video: Literal["none", "vga"] = "none"
    smbios_product: str = Field(default="", pattern=r"^[ -~]*$")


class Ssh(_Model):
    """How the guest is reached and told to stop. The commands return at once."""

    user: str = "root"
    port: int = Field(default=22, ge=1, le=65535)
    reboot: str = "/sbin/reboot"
    poweroff: str = "/sbin/poweroff"


class Recipe(_Model):
    """One image of the catalogue.

    Attributes:
        inits: what ``init`` a guest may choose; the first is the default, none means that
            the system has only its own.
        disk_mib: size of the guest's disk.
        tunables, sysctls: what the guest's boot loader and start-up set, where the builder
            supports it.
        build: what the builder needs, checked by the builder.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    summary: str
    system: Literal["linux", "freebsd", "netbsd"]
    builder: str
    inits: tuple[Literal["minimal", "systemd"], ...] = ()
    disk_mib: int = Field(ge=64)
    ssh: Ssh = Field(default_factory=Ssh)
    hardware: Hardware
    tunables: dict[str, str] = {}
    sysctls: dict[str, str] = {}
    build: dict[str, Any] = {}
    _directory: Path = PrivateAttr(default=Path())

    @property
    def directory(self) -> Path:
        """Where the recipe and the files that it names are."""
        return self._directory

    @property
    def default_init(self) -> str:
        """The init of a guest that does not choose; "" where there is no choice."""
        return self.inits[0] if self.inits else ""

    def init(self, wanted: str | None) -> str:
        """``wanted``, or the default when it is None or empty.

        Raises:
            ConfigError: the image does not have that init.
        """
        if not wanted or not self.inits:
            return self.default_init
        if wanted not in self.inits:
            raise ConfigError(
                f"the image {self.name} has no init {wanted!r}",
                hint=f"choose one of: {', '.join(self.inits)}",
            )
        return wanted


def load_recipes(path: Path) -> list[Recipe]:
    """Read and check one ``recipe.yaml``: one recipe, or one for each of its ``releases``.

    A release's part is laid over the rest of the file, key by key; its recipe is called
    ``<name>-<release>``. The releases stand in the file's order.

    Raises:
        ConfigError: unreadable, unknown or missing keys, or a ``build`` part that the
            builder refuses.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - both are safe
        if not isinstance(content, dict):
            raise ConfigError("a recipe is a mapping", where=str(path))
        if content.get("name") != path.parent.name:
            raise ConfigError(
                f"the name {content.get('name')!r} differs from its directory's", where=str(path)
            )
        releases = content.pop("releases", None)
        if releases is None:
            return [_recipe(content, path)]
        common = {key: value for key, value in content.items() if key != "name"}
        return [
            _recipe({**_laid_over(common, part or {}), "name": f"{content['name']}-{name}"}, path)
            for name, part in releases.items()
        ]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the recipe cannot be read: {error}", where=str(path)) from None


def _recipe(content: Mapping[str, Any], path: Path) -> Recipe:
    try:
        recipe = Recipe.model_validate(content)
        recipe._directory = path.parent
        get_builder(recipe.builder).check(recipe)
    except ValidationError as error:
        first, _, more = findings(error).partition("\n")
        raise ConfigError(f"{content.get('name')}: {first}", where=str(path), detail=more) from None
    return recipe


def _laid_over(common: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """``common`` with the values of ``part``; mappings are merged, all else is replaced."""
    merged = dict(common)
    for key, value in part.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _laid_over(below, value)
        else:
            merged[key] = value
    return merged


def load_catalogue(directory: Path | None = None) -> dict[str, Recipe]:
    """All recipes by name; of labctl itself unless a ``directory`` is given."""
    base = directory or paths.data_dir("images")
    return {
        recipe.name: recipe
        for path in sorted(base.glob("*/recipe.yaml"))
        for recipe in load_recipes(path)
    }


def find_recipe(name: str, directory: Path | None = None) -> Recipe:
    """The recipe of that name.

    Raises:
        ConfigError: there is none; the hint lists what there is.
    """
    catalogue = load_catalogue(directory)
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(name, catalogue, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(
        f"there is no image {name!r}", hint=f"{meant}known images: {', '.join(catalogue)}"
    )
