"""Reading ``lab.yaml``: from text to the model, with every error placed at its line.

YAML itself is ``yaml_lines``, the wording of the model's errors ``findings``; here the
user's defaults come in, and what one key says of another is checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl import paths
from labctl.errors import ConfigError
from labctl.lab.findings import explain, keys_of, nearest
from labctl.lab.model import Lab, LocalSpec, Pair, SSHSpec, UserConfig, VMSpec
from labctl.lab.yaml_lines import Keys, read


def locate(given: Path | None) -> Path:
    """The lab file to use: the one given, $LABCTL_CONFIG, or ./lab.yaml.

    Raises:
        ConfigError: there is none.
    """
    environment = os.environ.get("LABCTL_CONFIG")
    path = given or Path(environment or "lab.yaml")
    if not _is_file(path):
        raise ConfigError(
            "there is no lab file here",
            where=str(path),
            hint="`labctl init` writes one; -f FILE or LABCTL_CONFIG names another",
        )
    return path


def load_lab(path: Path, *, images: Collection[str]) -> Lab:
    """Read and check a lab file. ``images`` are the names of the catalogue.

    Defaults of the user's own (``$XDG_CONFIG_HOME/labctl/config.yaml``, key ``defaults``)
    stand below the lab file's.

    Raises:
        ConfigError: names file, line, key and remedy.
    """
    raw, lines = read(path)
    if not isinstance(raw, dict):
        raise ConfigError("this is not a lab file", where=f"{path}:1", hint=_SHAPE)
    if "path" in raw:  # a field of the model, but not the file's to set
        hint = nearest("path", keys_of(Lab))
        where = f"{path}:{lines[('path',)]}"
        raise ConfigError("path: there is no such key", where=where, hint=hint)
    given = raw.get("defaults")
    if given is None or isinstance(given, dict):  # else the model says what is wrong with it
        raw["defaults"] = _user_defaults() | (given or {})
    raw.setdefault("hypervisors", {"local": {"uri": "auto"}})
    try:
        lab = Lab.model_validate({**raw, "path": path})
    except ValidationError as error:
        raise explain(error, path, lines, raw, Lab) from None
    lab._lines.update(lines)
    _check_references(lab, lines, images)
    return lab


_SHAPE = (
    "a lab file has the keys lab, targets and, if wanted, defaults, hypervisors, pairs, margin, "
    "nightly"
)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a directory that may not be entered
        return False


def _user_defaults() -> dict[str, Any]:
    path = paths.config_dir() / "config.yaml"
    if not _is_file(path):
        return {}
    raw, lines = read(path)
    if raw is None:
        return {}
    try:
        UserConfig.model_validate(raw)
    except ValidationError as error:
        raise explain(error, path, lines, raw, UserConfig) from None
    return raw.get("defaults") or {}


def _check_references(lab: Lab, lines: dict[Keys, int], images: Collection[str]) -> None:
    """What one key says of another: images, hypervisors, pairs, key files."""

    def fail(at: Keys, message: str, hint: str) -> None:
        raise ConfigError(message, where=f"{lab.path}:{lines.get(at, 1)}", hint=hint)

    for name, spec in lab.targets.items():
        at: Keys = ("targets", name)
        if isinstance(spec, VMSpec):
            if spec.image not in images:
                hint = nearest(spec.image, sorted(images))
                fail((*at, "image"), f"targets.{name}: there is no image {spec.image!r}", hint)
            if spec.hypervisor not in lab.hypervisors:
                hint = nearest(spec.hypervisor, lab.hypervisors)
                what = f"targets.{name}: there is no hypervisor {spec.hypervisor!r}"
                fail((*at, "hypervisor"), what, hint)
        if isinstance(spec, SSHSpec) and spec.identity is not None:
            _check_key(spec.identity, lambda m, h, a=at: fail((*a, "identity"), m, h))
    _check_pairs(lab, fail)
    for name in (lab.nightly.targets if lab.nightly else None) or ():
        if name not in lab.targets:
            hint = nearest(name, lab.targets)
            fail(("nightly", "targets"), f"nightly: there is no target {name!r}", hint)


def _check_pairs(lab: Lab, fail: Callable[[Keys, str, str], None]) -> None:
    """Two sides that exist, each two once, and no guest that is called metal."""
    seen: set[frozenset[str]] = set()
    for index, pair in enumerate(lab.pairs):
        at: Keys = ("pairs", index)
        one, other = pair.names
        for side, name in zip(type(pair).model_fields, pair.names, strict=True):
            if name not in lab.targets:
                hint = nearest(name, lab.targets)
                fail((*at, side), f"pairs: there is no target {name!r}", hint)
        if one == other:
            fail(at, f"pairs: {one!r} is paired with itself", "name two")
        if frozenset(pair.names) in seen:
            fail(at, f"pairs: {one!r} and {other!r} are paired already", "remove one of the two")
        seen.add(frozenset(pair.names))
        kinds = tuple(type(lab.targets[name]) for name in pair.names)
        if isinstance(pair, Pair) and kinds == (LocalSpec, VMSpec):
            what = f"pairs: {other!r} is a guest and {one!r} is not"
            fail(at, what, f"the other way round: {{guest: {other}, metal: {one}}}")


def _check_key(identity: Path, fail: Any) -> None:
    try:
        status = identity.stat()
        if not stat.S_ISREG(status.st_mode):
            fail(f"the private key {identity} is not a file", "check the path")
        with identity.open("rb"):
            pass
    except OSError as error:
        fail(f"the private key {identity} cannot be read: {error.strerror}", "check the path")
        return
    if status.st_mode & 0o077:
        fail(f"the private key {identity} is readable by others", f"run: chmod 600 {identity}")
