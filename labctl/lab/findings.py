"""Wording what the model finds wrong: file, line, key and remedy instead of pydantic's terms.

It only words; what is right and wrong is ``model``, and where a key stands ``yaml_lines``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from labctl.errors import ConfigError
from labctl.lab.model import Lab
from labctl.lab.yaml_lines import Keys

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
    error: ValidationError,
    path: Path,
    lines: dict[Keys, int],
    raw: dict[str, Any],
    root: type[BaseModel],
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
    item: dict[str, Any], lines: dict[Keys, int], raw: dict[str, Any], root: type[BaseModel]
) -> tuple[int, str, str]:
    location = _without_tags(tuple(item["loc"]), raw)
    location = tuple(part for part in location if not str(part).startswith("["))
    places = (location[:n] for n in range(len(location), -1, -1))
    line = next((lines[place] for place in places if place in lines), 1)
    message, hint = _worded(item, location, raw, root)
    key = ".".join(str(part) for part in location)
    return line, f"{key}: {message}" if key else message, hint


def _worded(
    item: dict[str, Any], location: Keys, raw: dict[str, Any], root: type[BaseModel]
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
        return what, f"the kind is one of {', '.join(_kinds(location, raw, root))}"
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


def _known_keys(parent: Keys, raw: dict[str, Any], root: type[BaseModel]) -> list[str]:
    """The keys of the model that stands at ``parent``."""
    models = _models_at(parent, raw, root)
    return keys_of(models[0])


def _kinds(place: Keys, raw: dict[str, Any], root: type[BaseModel]) -> list[str]:
    """What ``kind`` may be of the union that stands at ``place``."""
    models = _models_at(place, raw, root)
    return [kind for m in models for kind in get_args(m.model_fields["kind"].annotation)]


def _models_at(place: Keys, raw: dict[str, Any], root: type[BaseModel]) -> list[Any]:
    """The model or type at a place; of a union the one that its ``kind`` names, or all."""
    models: list[Any] = [root]
    value: Any = raw
    for part in place:
        value, model = value[part], models[0]
        if isinstance(model, type) and issubclass(model, BaseModel):
            annotation = model.model_fields[str(part)].annotation
        else:  # a mapping or a list
            annotation = [x for x in get_args(model) if x is not ...][-1]
        models = _members(annotation)
        if len(models) > 1 and isinstance(value, dict):
            models = _meant(models, value)
    return models


def _meant(models: list[Any], value: dict[str, Any]) -> list[Any]:
    """The member of a union that a mapping names by its ``kind``, or else by its keys."""
    if all("kind" in model.model_fields for model in models):
        kind = value.get("kind")
        return [m for m in models if kind in get_args(m.model_fields["kind"].annotation)] or models
    return sorted(models, key=lambda model: -len(value.keys() & model.model_fields.keys()))


def _members(annotation: Any) -> list[Any]:
    """The members of a union, or the type itself, without what annotates them."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) not in (Union, UnionType):
        return [annotation]
    return [x for x in get_args(annotation) if x is not type(None)]


def _without_tags(location: Keys, raw: Any) -> Keys:
    """pydantic puts the tag of a discriminated union into the location; the file has no such
    key there, but says it as ``kind``."""
    kept: Keys = ()
    value, tagged = raw, False
    for part in location:
        kind = value.get("kind") if isinstance(value, dict) and not tagged else None
        tagged = part == kind
        if tagged:
            continue
        kept = (*kept, part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    return kept


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
