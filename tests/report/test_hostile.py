"""Hostile strings from machines, lab files and imported tables, in every form but the page."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from rich.cells import cell_len

from labctl.report import build_report, to_json
from labctl.report.figures import draw
from labctl.report.markdown import render_markdown
from labctl.report.model import ReportModel
from labctl.report.panels import panels
from labctl.report.table import render_csv
from labctl.report.terminal import plain_lines, render
from labctl.sweep.records import FactsRecord
from tests.report.synthetic import make_header, make_records

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "entity": "&lt;img src=x onerror=alert(1)&gt;",
    "pipe": "a|b||c\\|d",
    "backticks": "`code` ```\nfence",
    "newlines": "one\ntwo\r\n\n# heading\u2028three\x85four",
    "formula": '=HYPERLINK("http://evil.example","x")',
    "formula after a space": " \t=1+1",
    "plus": "+1+1|calc",
    "minus": "-1+1",
    "at": "@SUM(A1)",
    "escape": "\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\",
    "C1": "\x9b31m\x90q\x9c",
    "bidi": "a\u202eb\u2066c\u200f",
    "NUL": "a\x00b",
    "markup": "[red]x[/red] [link=http://evil.example]y[/link] [/]",
    "markdown": "[a](http://evil.example) ![b](x) **c** _d_ ~e~ $f$ #1 <http://evil.example>",
    "template": "{{ 7*7 }} {% raw %} ${x}",
    "formulas of TeX": "$\\frac{$ _{ ^{ $$",
    "underscore": "_hidden",
    "long": "x" * 3000,
    "wide": "測" * 40 + "😀" * 10,
    "combining": "e" + "\u0301" * 50,
    "empty looking": "\u200b\u2060\ufeff",
}


def hostile_report(text: str) -> ReportModel:
    """A run whose targets, facts and kernel command lines carry ``text``."""
    header = make_header(rounds=2, boots=1)
    few = [e for e in header.executions if e.cell.threads <= 4]
    few = [e.model_copy(update={"id": i}) for i, e in enumerate(few)]
    header = header.model_copy(update={"executions": few})

    def named(name: str) -> str:
        return f"{text}{name}"

    executions = []
    for execution in few:
        cell = execution.cell.model_copy(update={"target": named(execution.cell.target)})
        executions.append(execution.model_copy(update={"cell": cell}))
    pair = {"guest": named("linux"), "metal": named("metal")}
    changes = {
        "executions": executions,
        "targets": {named(name): kind for name, kind in header.targets.items()},
        "lab": {"pairs": [pair], "targets": {named("linux"): {"kind": "vm", "image": text}}},
        "skipped": [text],
    }
    records = make_records(header)
    records[0] = header.model_copy(update=changes)
    for place, record in enumerate(records):
        if isinstance(record, FactsRecord):
            facts = {**record.facts, "cmdline": f"{text} quiet", "os_release": text}
            changed = {"target": named(record.target), "facts": facts}
            records[place] = record.model_copy(update=changed)
    return build_report(records)


@pytest.fixture(scope="module", params=HOSTILE.values(), ids=HOSTILE.keys())
def hostile(request: pytest.FixtureRequest) -> ReportModel:
    return hostile_report(request.param)


def unprintable(text: str) -> set[str]:
    """Characters that steer a terminal or turn a line about, but for ends of lines."""
    bad = {"Cc", "Cs", "Zl", "Zp"}
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return {
        character
        for character in text
        if character not in "\r\n"
        and (unicodedata.category(character) in bad or unicodedata.bidirectional(character) in bidi)
    }


def test_on_a_terminal(hostile: ReportModel) -> None:
    for width in (80, 50):
        shown = plain_lines(render(hostile, width), width)
        assert not unprintable(shown)
        assert max(map(cell_len, shown.splitlines())) <= width
        assert "metal" in shown


def test_in_markdown(hostile: ReportModel) -> None:
    text = render_markdown(hostile)
    assert not unprintable(text)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) >= 4
    for table in tables:
        columns = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()}
        assert len(columns) == 1, table
    headings = re.findall(r"^#+ .*", text, re.MULTILINE)
    assert not [line for line in headings if line.startswith("# ") and "synthetic" not in line]
    outside = re.sub(r"(?m)^ {4}.*$", "", text)  # without commands, which are code
    outside = re.sub(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"(?<!\\)(?:\\\\)*[<`$]", outside)
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "://" not in outside


def test_commands_in_markdown_stay_in_their_block(hostile: ReportModel) -> None:
    text = render_markdown(hostile)
    block = text[text.index("## To repeat it") :]
    for run in hostile.runs:
        for command in run.commands:
            assert f"\n    {command}\n" in block
            assert "\n" not in command
        assert run.lab_file
        for line in run.lab_file.split("\n"):
            assert f"\n    {line}\n" in block


def test_in_csv(hostile: ReportModel) -> None:
    text = render_csv(hostile)
    assert not unprintable(text)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 1 + 3 * 3
    for row in rows:
        for cell in row:
            assert not re.match(r"\s*[=+\-@]", cell) or re.fullmatch(r"-?[\d.e+-]+", cell), cell


@pytest.mark.filterwarnings("error")
def test_in_a_picture(hostile: ReportModel) -> None:
    (section,) = hostile.sections
    root = ET.fromstring(draw(hostile, section, panels(section)[0], "svg"))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "a", "image", "foreignObject"}
    assert not unprintable("".join(root.itertext()).replace("\t", ""))


def test_in_json(hostile: ReportModel) -> None:
    text = to_json(hostile)
    assert text.isascii()
    assert not unprintable(text)
    assert [target["name"] for target in json.loads(text)["targets"]] == [
        target.name for target in hostile.targets
    ]


def test_what_is_harmless_stands_as_it_is() -> None:
    text = HOSTILE["script"]
    made = hostile_report(text)
    assert f"{text}metal" in plain_lines(render(made, 200), 200)
    assert f"{text}metal" in render_csv(made)
