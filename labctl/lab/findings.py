"""Wording what the model finds wrong: file, line, key and remedy instead of pydantic's terms.

It only words; what is right and wrong is ``model``, and where a key stands ``yaml_lines``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from labctl.errors import ConfigError
from labctl.lab.model import (
    Defaults,
    Hypervisor,
    Lab,
    LocalSpec,
    Pair,
    SimSpec,
    SSHSpec,
    VMSpec,
)
from labctl.lab.yaml_lines import Keys

_KINDS: dict[str, type[BaseModel]] = {
    "local": LocalSpec,
    "ssh": SSHSpec,
    "vm": VMSpec,
    "sim": SimSpec,
}
_NAME = (
    "a name has letters, digits, '.', '_' and '-', begins with a letter or digit, "
    "and is at most 40 long"
)
_MAPPINGS = {
    "targets": "a mapping of names to targets",
    "hypervisors": "a mapping of names to hypervisors",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}
_WANTED = {
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "path_type": "a path",
}
_HINTS = {
    "int_type": "write the number without quotes and without a point",
    "bool_type": "write true or false without quotes",
    "tuple_type": "each entry begins with '- '",
}


def explain(
    error: ValidationError, path: Path, lines: dict[Keys, int], raw: dict[str, Any], root: type
) -> ConfigError:
    """All of pydantic's findings about ``raw``, checked as ``root``, as one error.

    The first gives the place, the others stand in ``detail``.
    """
    # A misspelt key comes first: it is also why another one is said to be missing.
    items = sorted(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    findings = [_finding(dict(item), lines, raw, root) for item in items]
    (line, message, hint), *others = findings
    detail = "\n".join(
        f"{path}:{n}: {text}" + (f" ({more})" if more else "") for n, text, more in others
    )
    return ConfigError(message, where=f"{path}:{line}", hint=hint, detail=detail)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint: which of the known words was meant, and which there are."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    listed = ", ".join(known)
    return f"did you mean {near[0]}? (known: {listed})" if near else f"known: {listed}"


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys a file may set; ``Lab.path`` is set by who reads it."""
    return [name for name in model.model_fields if not (model is Lab and name == "path")]


def _finding(
    item: dict[str, Any], lines: dict[Keys, int], raw: dict[str, Any], root: type
) -> tuple[int, str, str]:
    # pydantic puts the tag of a discriminated union into the location; the file has no such key.
    location: Keys = tuple(item["loc"])
    if location[:1] == ("targets",) and len(location) > 2 and location[2] in _KINDS:
        location = location[:2] + location[3:]
    location = tuple(part for part in location if part != "[key]")
    places = (location[:n] for n in range(len(location), -1, -1))
    line = next((lines[place] for place in places if place in lines), 1)
    message, hint = _worded(item, location, raw, root)
    key = ".".join(str(part) for part in location)
    return line, f"{key}: {message}" if key else message, hint


def _worded(
    item: dict[str, Any], location: Keys, raw: dict[str, Any], root: type
) -> tuple[str, str]:
    """Message and hint for one of pydantic's findings."""
    kind, given, limits = item["type"], item["input"], item.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(location[:-1], raw, root)
        return "there is no such key", nearest(str(location[-1]), known)
    if kind == "missing":
        return "this key is missing", "add it"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = given.get("kind") if isinstance(given, dict) else None
        what = f"the kind {_shown(tag)} is not known" if tag else "the key kind is missing"
        return what, f"a target's kind is one of {', '.join(_KINDS)}"
    if kind == "string_pattern_mismatch" and location[-1] == "cpu":
        return f"{_shown(given)} cannot be a CPU model", "one of QEMU's, like Nehalem, or max"
    if kind == "string_pattern_mismatch":
        return f"{_shown(given)} cannot be a name", _NAME
    if kind == "literal_error":
        return f"{_shown(given)} is not possible here", f"one of {limits['expected']}"
    if kind in _LIMITS:
        limit, words = _LIMITS[kind]
        return f"{_shown(given)} is out of range", f"{words} {limits[limit]}"
    if kind == "too_short":
        return "there is nothing here", f"declare at least {limits['min_length']}"
    if kind in _WANTED:
        wanted = _MAPPINGS.get(str(location[0]), "") if len(location) == 1 else ""
        wanted = wanted or _WANTED[kind]
        return f"{wanted} is wanted here, not {_described(given)}", _HINTS.get(kind, "")
    head, separator, hint = str(item["msg"]).removeprefix("Value error, ").rpartition("; ")
    return (head, hint) if separator else (hint, "")


def _known_keys(parent: Keys, raw: dict[str, Any], root: type) -> list[str]:
    if not parent:
        return keys_of(root)
    if parent[0] == "targets":
        model = _KINDS[raw["targets"][parent[1]]["kind"]]
        for part in parent[2:]:  # models within models: hardware, times.noise
            inner = model.model_fields[str(part)].annotation
            assert isinstance(inner, type)
            model = inner
        return keys_of(model)
    models: dict[str | int, type[BaseModel]] = {
        "defaults": Defaults,
        "hypervisors": Hypervisor,
        "pairs": Pair,
    }
    return keys_of(models[parent[0]])


def _described(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"the text {_shown(value)}" if isinstance(value, str) else _shown(value)


def _shown(value: Any) -> str:
    """As the file has it, as far as can be, and not at any length."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
