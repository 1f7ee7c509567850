"""The terminal's tables and the page: they fit, they say it, and nothing gets out of them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from labctl.analysis.roles import FUNCTIONAL
from labctl.analysis.words import number
from labctl.report import build_report, render_page, write_page
from labctl.report.terminal import plain_lines, print_report, render
from labctl.sweep.records import FactsRecord, Failure, Note
from tests.report.synthetic import make_header, make_records

HOSTILE = "[red]x[/red]\x1b[31m</script><script>alert(1)</script>{{7*7}}<b>\u202e$$x$$"


@pytest.fixture(scope="module")
def hostile_model():
    """Every text that a machine or a user can send is hostile."""
    header = make_header(rounds=1, boots=1, rearms=("oneshot", "level"))

    def rename(cell):
        params = {"rearm" + HOSTILE: str(cell.params["rearm"]) + HOSTILE}
        names = {"target": cell.target + HOSTILE, "form": HOSTILE, "unit": HOSTILE}
        names |= {"workload": "kqtest" + HOSTILE, "program": cell.program + HOSTILE}
        return cell.model_copy(update={**names, "params": params})

    update = {
        "run": HOSTILE,
        "created": HOSTILE,
        "plan_digest": HOSTILE,
        "skipped": [HOSTILE],
        "workloads": ["kqtest" + HOSTILE],
        "targets": {name + HOSTILE: kind for name, kind in header.targets.items()},
        "lab": {
            "targets": {"linux" + HOSTILE: {"kind": HOSTILE, "image": HOSTILE}},
            "pairs": [{"guest": "linux" + HOSTILE, "metal": "metal" + HOSTILE}],
        },
        "executions": [e.model_copy(update={"cell": rename(e.cell)}) for e in header.executions],
    }
    records = make_records(header, trouble=True)
    records[0] = header.model_copy(update=update)
    hostile = []
    for record in records:
        if isinstance(record, FactsRecord):
            facts = {**record.facts, "kernel": HOSTILE, "k" + HOSTILE: HOSTILE}
            record = record.model_copy(update={"target": record.target + HOSTILE, "facts": facts})
        elif isinstance(record, Failure):
            record = record.model_copy(update={"message": HOSTILE, "detail": HOSTILE})
        elif isinstance(record, Note):
            record = record.model_copy(update={"message": HOSTILE, "target": HOSTILE})
        hostile.append(record)
    return build_report(hostile)


class Page(HTMLParser):
    """What a browser would find: tags with attributes, scripts, text outside of them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self.ids, self.text, self._stack = [], [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._stack.append((tag, dict(attrs)))
            if tag == "script":
                self.scripts.append("")
                self.ids.append(dict(attrs).get("id"))

    def handle_endtag(self, tag):
        if self._stack and self._stack[-1][0] == tag:
            self._stack.pop()

    def handle_data(self, data):
        if not self._stack:
            self.text.append(data)
        elif self._stack[-1][0] == "script":
            self.scripts[-1] += data

    def unpacked(self, name):
        """What the page's own script makes of a compressed part."""
        return gzip.decompress(base64.b64decode(self.scripts[self.ids.index(name)])).decode()


@pytest.fixture(scope="module")
def model():
    header = make_header(
        workloads=("kqtest", "urandom"),
        rounds=2,
        lab={
            "pairs": [
                {"guest": "linux", "metal": "metal"},
                {"guest": "freebsd", "metal": "metal"},
            ]
        },
    )
    return build_report(make_records(header, trouble=True))


@pytest.fixture(scope="module")
def html(model):
    return render_page(model)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_tables_fit(model, width):
    lines = plain_lines(render(model, width), width).splitlines()
    assert max(len(line) for line in lines) <= width
    table = lines[lines.index(next(line for line in lines if "time per message" in line)) :]
    assert table[1].split()[:2] == ["all", "with"]
    assert table[2].split() == ["1", "2", "4", "8", "16"], "one table at 80 columns, not two"


def test_many_threads_are_split_evenly():
    header = make_header(rounds=1)
    executions = [
        e.model_copy(update={"cell": e.cell.model_copy(update={"threads": 2**i})} | {"id": i})
        for i, e in enumerate(header.executions[:9])
    ]
    one = [
        e.model_copy(update={"cell": e.cell.model_copy(update={"target": "metal"})})
        for e in executions
    ]
    header = header.model_copy(update={"executions": one})
    text = plain_lines(render(build_report(make_records(header)), 80), 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "512" not in text and "256" in text


def test_the_word_functional_stands_with_every_time_and_ratio(model):
    text = plain_lines(render(model, 80), 80)
    for block in re.split(r"\n\n", text):
        title = block.strip().splitlines()[0]
        if title.startswith(("ratio freebsd", "growth", "latency", "kqtest", "urandom")):
            assert "functional" in block, title
    assert FUNCTIONAL in text


def test_a_terminal_gets_colours_and_a_pipe_none(model):
    pipe = Console(width=80, force_terminal=False)
    with pipe.capture() as captured:
        print_report(model, pipe)
    assert "\x1b" not in captured.get()


def test_hostile_text_cannot_steer_a_terminal(hostile_model):
    text = plain_lines(render(hostile_model, 80), 80)
    assert "\x1b" not in text and "\u202e" not in text
    assert "[red]" in text.replace("\n", ""), "markup is shown, not obeyed"
    assert max(len(line) for line in text.splitlines()) <= 80


def test_hostile_text_cannot_get_out_of_the_page(hostile_model):
    page = Page(render_page(hostile_model))
    assert page.ids == ["bokeh", "figures", None]
    assert "alert(1)" not in "".join(page.scripts)
    assert "alert(1)" in page.unpacked("figures")
    assert "b" not in [tag for tag, _ in page.tags]
    assert "<script>alert(1)</script>" in "".join(page.text)
    assert "{{7*7}}" in "".join(page.text)


def test_the_page_asks_nobody_for_anything(html):
    page = Page(html)
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "base", "object", "embed", "form")
        assert not {"src", "srcset", "action"} & attrs.keys(), tag
        assert attrs.get("href", "#").startswith("#"), "only within the page"
        assert not any(name.startswith("on") for name in attrs)
    css = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in css and "@import" not in css
    assert len(html.encode()) < 2_000_000


def test_the_policy_admits_the_pages_own_scripts_alone(html):
    page = Page(html)
    policy = next(attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs)
    assert "default-src 'none'" in policy
    allowed = re.search(r"script-src ([^;]*);", policy)[1].split()
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
        for code in (page.unpacked("bokeh"), page.scripts[2])
    ]
    assert allowed == hashes


def test_the_page_says_what_the_model_says(model, html):
    text = "".join(Page(html).text)
    for note in model.notes:
        assert note in text
    assert FUNCTIONAL in text
    assert "meerwald 2012, kqtest, kvm-guest" in re.sub(r"\s+", " ", text)
    assert "labctl sweep kqtest urandom" in text
    assert "a message was lost" in text
    for figure in (
        "Time per message",
        "Growth",
        "Ratio",
        "Amplification A(N)",
        "Context switches",
        "Latency",
    ):
        assert figure in text


def test_every_legend_entry_has_renderers_to_hide(html):
    page = Page(html)
    names = [attrs["data-series"] for tag, attrs in page.tags if "data-series" in attrs]
    assert len(names) == len(set(names)) == 3 + 3 + 3
    for name in names:
        assert f'"name":"{name}"' in page.unpacked("figures")
    (group,) = [attrs["data-group"] for tag, attrs in page.tags if "data-group" in attrs]
    assert group.split() == [name for name in names if name.startswith("seed")]


def test_every_figure_has_its_values_as_a_table(html):
    page = Page(html)
    figures = [attrs for _, attrs in page.tags if "plot" in attrs.get("class", "").split()]
    assert len(figures) == len(json.loads(page.unpacked("figures")))
    for attrs in figures:
        assert re.search(r"\d", attrs["aria-label"]), "in words, with numbers"
    tables = [attrs for tag, attrs in page.tags if attrs.get("class") == "values"]
    assert len(tables) == len([tag for tag, _ in page.tags if tag == "figure"]) >= 10


def test_what_was_emulated_is_marked_on_every_figures_canvas(html):
    for figure in json.loads(Page(html).unpacked("figures")):
        text = json.dumps(figure)
        if "freebsd" in text:
            assert "functional (emulated)" in text


def test_a_verdict_is_given_with_the_numbers_of_its_sentence(model, html):
    text = re.sub(r"\s+", " ", "".join(Page(html).text))
    for verdict in model.verdicts:
        assert verdict.sentence in text
        for told in (verdict.level_told, verdict.scaling_told):
            bracket = f"[{number(told.low)}, {number(told.high)}]"
            assert bracket in verdict.sentence.replace("[95%: ", "[")
            assert f"{number(told.low)} to {number(told.high)}" in text


def test_published_numbers_without_threads_are_shown_as_such():
    header = make_header(rounds=1)
    asked = {"workload": "mmapsem", "params": {"lock": "nolock"}}
    executions = [
        e.model_copy(update={"cell": e.cell.model_copy(update=asked)}) for e in header.executions
    ]
    model = build_report(make_records(header.model_copy(update={"executions": executions})))
    text = plain_lines(render(model, 80), 80)
    assert "us, threads not stated" in text and "2165" in text
    html = render_page(model)
    assert "not stated: 2165" in html
    figures = Page(html).unpacked("figures")
    assert '"name":"seed-0-1"' in figures and '"name":"seed-0-5"' in figures
    assert "seed-0-7" not in figures + html, "of another lock: in the table alone"


def test_an_empty_run_has_a_page_without_scripts(tmp_path):
    path = write_page(build_report([make_header(rounds=1)]), tmp_path / "new" / "page.html")
    text = path.read_text()
    assert "No complete result yet" in text and "<script" not in text
