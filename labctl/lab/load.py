"""Reading ``lab.yaml``: from text to the model, with every error placed at its line.

PyYAML's node tree keeps the line of every key, so a validation error of the model
can say file, line and key; duplicate keys, which YAML libraries swallow, are refused.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from labctl import paths
from labctl.errors import ConfigError
from labctl.lab.model import (
    Defaults,
    Hypervisor,
    Lab,
    LocalSpec,
    Pair,
    SSHSpec,
    VMSpec,
)

Path_ = tuple[str | int, ...]
_KINDS: dict[str, type[BaseModel]] = {"local": LocalSpec, "ssh": SSHSpec, "vm": VMSpec}


def locate(given: Path | None) -> Path:
    """The lab file to use: the one given, $LABCTL_CONFIG, or ./lab.yaml.

    Raises:
        ConfigError: there is none.
    """
    environment = os.environ.get("LABCTL_CONFIG")
    path = given or Path(environment or "lab.yaml")
    if not path.is_file():
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
    raw, lines = _read(path)
    if not isinstance(raw, dict):
        raise ConfigError("this is not a lab file", where=f"{path}:1", hint=_SHAPE)
    raw["defaults"] = _user_defaults() | (raw.get("defaults") or {})
    raw.setdefault("hypervisors", {"local": {"uri": "auto"}})
    try:
        lab = Lab.model_validate({**raw, "path": path})
    except ValidationError as error:
        raise _explain(error, path, lines, raw) from None
    _check_references(lab, lines, images)
    return lab


_SHAPE = "a lab file has the keys lab, targets and, if wanted, defaults, hypervisors, pairs"


def _user_defaults() -> dict[str, Any]:
    path = paths.config_dir() / "config.yaml"
    if not path.is_file():
        return {}
    raw, lines = _read(path)
    defaults: dict[str, Any] = (raw or {}).get("defaults") or {}
    try:
        Defaults.model_validate(defaults)
    except ValidationError as error:
        moved = {location[1:]: line for location, line in lines.items()}
        raise _explain(error, path, moved, defaults) from None
    return defaults


def _read(path: Path) -> tuple[Any, dict[Path_, int]]:
    """The file's content and the line (from 1) of each key, by its path of keys."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"not valid YAML: {problem}", where=where) from None
    lines: dict[Path_, int] = {}
    if root is None:
        return None, lines
    return _construct(root, (), lines, path), lines


def _construct(node: yaml.Node, at: Path_, lines: dict[Path_, int], path: Path) -> Any:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else str(key_node)
            line = key_node.start_mark.line + 1
            if key in result:
                raise ConfigError(
                    f"{key!r} stands here a second time",
                    where=f"{path}:{line}",
                    hint=f"it is first declared in line {lines[(*at, key)]}; rename one of them",
                )
            lines[(*at, key)] = line
            result[key] = _construct(value_node, (*at, key), lines, path)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_construct(n, (*at, i), lines, path) for i, n in enumerate(node.value)]
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_object(node, deep=True)
    finally:
        constructor.dispose()


def _explain(
    error: ValidationError, path: Path, lines: dict[Path_, int], raw: dict[str, Any]
) -> ConfigError:
    """All of pydantic's findings as one error; the first gives the place."""
    # A misspelt key comes first: it is also why another one is said to be missing.
    items = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    findings = [_finding(dict(item), lines, raw) for item in items]
    (line, message, hint), *others = findings
    detail = "\n".join(
        f"{path}:{n}: {text}" + (f" ({more})" if more else "") for n, text, more in others
    )
    return ConfigError(message, where=f"{path}:{line}", hint=hint, detail=detail)


def _finding(
    item: dict[str, Any], lines: dict[Path_, int], raw: dict[str, Any]
) -> tuple[int, str, str]:
    # pydantic puts the tag of a discriminated union into the location; the file has no such key.
    location: Path_ = tuple(part for part in item["loc"])
    if location[:1] == ("targets",) and len(location) > 2 and location[2] in _KINDS:
        location = location[:2] + location[3:]
    location = tuple(part for part in location if part != "[key]")
    line = next(lines[location[:n]] for n in range(len(location), -1, -1) if location[:n] in lines)
    key = ".".join(str(part) for part in location)
    kind = item["type"]
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1], raw)
        return line, f"{key}: there is no such key", _nearest(str(location[-1]), known)
    if kind == "missing":
        return line, f"{key}: this key is missing", "add it"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        given = item["input"].get("kind") if isinstance(item["input"], dict) else None
        what = f"the kind {given!r} is not known" if given else "the key kind is missing"
        return line, f"{key}: {what}", f"a target's kind is one of {', '.join(_KINDS)}"
    if kind == "string_pattern_mismatch":
        return (
            line,
            f"{key}: {item['input']!r} cannot be a name",
            "a name has letters, digits, '.', '_' and '-', begins with a letter or digit, "
            "and is at most 40 long",
        )
    message = str(item["msg"]).removeprefix("Value error, ")
    head, _, hint = message.partition("; ")
    return line, f"{key}: {head}", hint


def _known_keys(parent: Path_, raw: dict[str, Any]) -> list[str]:
    if parent[:1] == ("targets",) and len(parent) == 2:
        kind = raw["targets"][parent[1]].get("kind")
        return list(_KINDS[kind].model_fields)
    models: dict[str, type[BaseModel]] = {
        "defaults": Defaults,
        "hypervisors": Hypervisor,
        "pairs": Pair,
    }
    model = models.get(str(parent[0])) if parent else None
    if model is None:
        return [name for name in (Lab if not parent else Defaults).model_fields if name != "path"]
    return list(model.model_fields)


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    listed = ", ".join(known)
    return f"did you mean {near[0]}? (known: {listed})" if near else f"known: {listed}"


def _check_references(lab: Lab, lines: dict[Path_, int], images: Collection[str]) -> None:
    """What one key says of another: images, hypervisors, pairs, key files."""

    def fail(at: Path_, message: str, hint: str) -> None:
        raise ConfigError(message, where=f"{lab.path}:{lines.get(at, 1)}", hint=hint)

    for name, spec in lab.targets.items():
        at: Path_ = ("targets", name)
        if isinstance(spec, VMSpec):
            if spec.image not in images:
                hint = _nearest(spec.image, sorted(images))
                fail((*at, "image"), f"targets.{name}: there is no image {spec.image!r}", hint)
            if spec.hypervisor not in lab.hypervisors:
                hint = _nearest(spec.hypervisor, lab.hypervisors)
                what = f"targets.{name}: there is no hypervisor {spec.hypervisor!r}"
                fail((*at, "hypervisor"), what, hint)
        if isinstance(spec, SSHSpec) and spec.identity is not None:
            _check_key(spec.identity, lambda m, h, a=at: fail((*a, "identity"), m, h))
    for index, pair in enumerate(lab.pairs):
        for side in Pair.model_fields:
            name = getattr(pair, side)
            if name not in lab.targets:
                what = f"pairs: there is no target {name!r}"
                fail(("pairs", index, side), what, _nearest(name, lab.targets))
        if pair.guest == pair.metal:
            fail(("pairs", index), f"pairs: {pair.guest!r} is paired with itself", "name two")


def _check_key(identity: Path, fail: Any) -> None:
    try:
        with identity.open("rb"):
            mode = identity.stat().st_mode & 0o077
    except OSError as error:
        fail(f"the private key {identity} cannot be read: {error.strerror}", "check the path")
        return
    if mode:
        fail(f"the private key {identity} is readable by others", f"run: chmod 600 {identity}")
