"""The report as JSON: what is printed, what is documented and the schema are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labctl.report import build_report, to_json
from labctl.report.model import json_schema
from tests.report.synthetic import make_header, make_records

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads(json_schema())
OBJECTS = {SCHEMA["title"]: SCHEMA, **SCHEMA["$defs"]}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    header = make_header(workloads=("kqtest", "urandom"), rounds=2)
    parsed: dict[str, Any] = json.loads(to_json(build_report(make_records(header, trouble=True))))
    return parsed


def documented() -> dict[str, list[str]]:
    """Keys of each object as docs/json.md has them."""
    found: dict[str, list[str]] = {}
    text = (DOCS / "json.md").read_text("utf-8")
    for name, table in re.findall(r"^\*\*(\w+)\*\*.*\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        assert name not in found
        rows = table.splitlines()[2:]
        found[name] = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    return found


def differences(value: Any, schema: dict[str, Any], where: str = "$") -> Iterator[str]:
    """Where a document is not as its schema says: keys, and kinds of values."""
    if "$ref" in schema:
        schema = OBJECTS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(differences(value, one, where)) for one in schema["anyOf"]]
        yield from min(found, key=len)
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kinds |= {"number": (int, float), "null": type(None)}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        yield f"{where}: {value!r:.40} is no {schema['type']}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    elif "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    elif "properties" in schema:
        if value.keys() != schema["properties"].keys():
            yield f"{where}: {value.keys() ^ schema['properties'].keys()}"
        for key, one in schema["properties"].items():
            if key in value:
                yield from differences(value[key], one, f"{where}.{key}")
    elif isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            yield from differences(one, schema["items"], f"{where}[{number}]")


def test_every_key_is_documented_and_no_other() -> None:
    keys = {name: list(one["properties"]) for name, one in OBJECTS.items() if "properties" in one}
    told = documented()
    assert told.keys() == keys.keys()
    for name, expected in keys.items():
        assert sorted(told[name]) == sorted(expected), name


def test_the_schema_in_the_documentation_is_current() -> None:
    current = (DOCS / "report.schema.json").read_text("utf-8")
    assert current == json_schema() + "\n", "make schema"


def test_a_report_is_as_its_schema_says(document: dict[str, Any]) -> None:
    assert list(differences(document, SCHEMA)) == []
    assert document["sections"][0]["pairs"][0]["points"][1]["amplification"]["value"] > 0


def test_what_is_not_as_the_schema_says_is_seen(document: dict[str, Any]) -> None:
    for change in ({"schema": 2}, {"more": 1}, {"level": "0.95"}, {"targets": [{}]}):
        assert list(differences(document | change, SCHEMA)), change


def test_json_is_ascii_and_means_what_it_meant() -> None:
    model = build_report(make_records(make_header(rounds=1, boots=1)))
    strange = model.model_copy(update={"notes": ["±4% → 測定 😀 é"]})
    text = to_json(strange)
    assert text.isascii()
    assert json.loads(text)["notes"] == strange.notes
