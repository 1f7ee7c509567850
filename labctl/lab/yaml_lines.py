"""Reading a YAML file with the line of each key, and refusing what a lab file never needs.

PyYAML's node tree keeps the line of every key, so a later check can say file, line and
key. Duplicate keys, which YAML libraries swallow, merge keys, tags, and nesting or
aliases without bound are refused here. What the keys mean is ``model``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from labctl.errors import ConfigError

Keys = tuple[str | int, ...]
"""Where a value stands: the keys and indexes that lead to it from the root."""

MOST_BYTES = 4 << 20
"""Of a file; more takes longer to read than anybody waits."""
MAX_DEPTH = 50
MAX_NODES = 100_000
_MAX_INTEGER = 2**63
_TAG = "tag:yaml.org,2002:"
_QUOTE = "put it in quotes"


def read(path: Path) -> tuple[Any, dict[Keys, int]]:
    """The file's content (None if it is empty) and the line, from 1, of each key.

    All keys are ``str``; values are what YAML 1.1's core types give.

    Raises:
        ConfigError: names file, line and remedy.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from None
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"the file is larger than {MOST_BYTES >> 10} KiB",
            where=str(path),
            hint="is it a lab file at all?",
        )
    try:
        _check_depth(text, path)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"not valid YAML: the character U+{ord(text[error.position]):04X} may not stand here",
            where=f"{path}:{line}",
            hint="remove it",
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"not valid YAML: {problem}", where=where) from None
    if root is None:
        return None, {}
    builder = _Builder(path)
    return builder.build(root, ()), builder.lines


def _check_depth(text: str, path: Path) -> None:
    """Refuse deep nesting before ``yaml.compose``, which recurses, sees it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise _too_deep(f"{path}:{line}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_deep(where: str) -> ConfigError:
    return ConfigError(
        f"nested more than {MAX_DEPTH} levels deep",
        where=where,
        hint="a lab file needs no more than five",
    )


class _Builder:
    """From YAML's nodes to values; keeps the lines on the way."""

    def __init__(self, path: Path) -> None:
        self.lines: dict[Keys, int] = {}
        self._path = path
        self._scalars = yaml.SafeLoader("")
        self._nodes = 0
        self._open: set[int] = set()

    def build(self, node: yaml.Node, at: Keys) -> Any:
        self.lines.setdefault(at, node.start_mark.line + 1)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(
                node,
                f"more than {MAX_NODES} values, aliases (*name) written out",
                "use fewer aliases",
            )
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._error(
                node, "an alias (*name) stands within what it is an alias of", "write it out"
            )
        if len(at) >= MAX_DEPTH:
            raise _too_deep(self._where(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, at)
            return self._sequence(node, at)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, at: Keys) -> dict[str, Any]:
        self._check_tag(node, "map")
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in result:
                raise self._error(
                    key_node,
                    f"{key!r} stands here a second time",
                    f"it is first declared in line {self.lines[(*at, key)]}; rename one of them",
                )
            self.lines[(*at, key)] = key_node.start_mark.line + 1
            result[key] = self.build(value_node, (*at, key))
        return result

    def _sequence(self, node: yaml.Node, at: Keys) -> list[Any]:
        self._check_tag(node, "seq")
        return [self.build(child, (*at, index)) for index, child in enumerate(node.value)]

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            kind = "mapping" if isinstance(node, yaml.MappingNode) else "list"
            raise self._error(node, f"a {kind} cannot be a key", "a key is a name")
        if node.tag == f"{_TAG}merge":
            raise self._error(
                node,
                "merge keys (<<) are not supported here",
                "write the keys out, or use defaults",
            )
        if node.tag != f"{_TAG}str":
            raise self._error(
                node,
                f"YAML reads the key {_shown(node.value)} as {_type(node.tag)}, not as a name",
                _QUOTE,
            )
        if not node.value.isprintable():
            raise self._error(
                node, f"the key {_shown(node.value)} has control characters", "remove them"
            )
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            value = self._scalars.construct_object(node, deep=True)
        except yaml.constructor.ConstructorError:
            self._check_tag(node, "str")
            value = None
        except (ValueError, LookupError, AttributeError, OverflowError):
            value = None
        else:
            if not isinstance(value, int) or abs(value) < _MAX_INTEGER:
                return value
            raise self._error(node, "this number is too large", "a text needs quotes")
        raise self._error(
            node, f"{_shown(node.value)} is not valid as {_type(node.tag)}", f"{_QUOTE} for a text"
        )

    def _check_tag(self, node: yaml.Node, wanted: str) -> None:
        """Refuse a tag that is neither ``wanted`` nor one of YAML's own scalars'."""
        collection = not isinstance(node, yaml.ScalarNode)
        if node.tag.startswith(_TAG) and not (collection and node.tag != _TAG + wanted):
            return
        tag = node.tag.replace(_TAG, "!!", 1)
        raise self._error(node, f"the tag {_shown(tag)} is not known here", "remove it")

    def _where(self, node: yaml.Node) -> str:
        return f"{self._path}:{node.start_mark.line + 1}"

    def _error(self, node: yaml.Node, message: str, hint: str) -> ConfigError:
        return ConfigError(message, where=self._where(node), hint=hint)


def _type(tag: str) -> str:
    names = {"int": "an integer", "null": "null", "bool": "a truth value", "binary": "base64"}
    name = tag.removeprefix(_TAG)
    return names.get(name, f"a {name}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
