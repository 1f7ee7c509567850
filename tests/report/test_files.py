"""The forms that are files: Markdown with pictures, CSV; and what is checked before."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from labctl.errors import ConfigError
from labctl.report import build_report
from labctl.report.figures import draw
from labctl.report.forms import Figures, Forms
from labctl.report.markdown import code, escaped, render_markdown, write_markdown
from labctl.report.panels import panels
from labctl.report.table import COLUMNS, render_csv
from tests.report.synthetic import make_header, make_records
from tests.report.test_forms import hostile_model  # noqa: F401  (a fixture)

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def model():
    return build_report(make_records(make_header(rearms=("oneshot", "level"))))


def rows(model):
    return list(csv.DictReader(io.StringIO(render_csv(model), newline="")))


def cells_of(line):
    """A table row's cells: "|" that is not escaped parts them."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


# -- what may share an axis --------------------------------------------------------------


def test_parameters_and_units_never_share_a_panel(model):
    (section,) = model.sections
    found = panels(section)
    assert [panel.name for panel in found] == ["rearm=level", "rearm=oneshot"]
    assert all({one.own_params for one in panel.series} == {panel.name} for panel in found)
    first, *others = section.series
    mixed = section.model_copy(
        update={"series": [first.model_copy(update={"unit": "page"}), *others]}
    )
    assert {panel.name: len(panel.series) for panel in panels(mixed)} == {
        "rearm=level, per page": 1,
        "rearm=level, per message": len(found[0].series) - 1,
        "rearm=oneshot, per message": len(found[1].series),
    }
    assert sum(len(panel.pairs) for panel in found) == len(section.pairs)


# -- CSV ---------------------------------------------------------------------------------


def test_csv_has_the_cells_of_the_model(model):
    table = rows(model)
    assert tuple(table[0]) == COLUMNS
    (section,) = model.sections
    points = [(one, point) for one in section.series for point in one.points]
    assert len(table) == len(points)
    for row, (one, point) in zip(table, points, strict=True):
        assert (row["target"], int(row["threads"])) == (one.target, point.threads)
        assert row["us_per_op"] == f"{point.time.value:.15g}"
        assert row["us_per_op_low"] == f"{point.time.low:.15g}"
        grown = point.growth
        assert row["growth"] == ("" if grown is None else f"{grown.value:.15g}")
    assert render_csv(model).count("\r\n") == len(points) + 1


def test_csv_shows_a_number_as_it_was_given(model):
    section = model.sections[0]
    one = section.series[0]
    time = replace(one.points[0].time, value=math.exp(math.log(5.0)))
    point = one.points[0].model_copy(update={"time": time})
    series = one.model_copy(update={"points": [point]})
    changed = section.model_copy(update={"series": [series]})
    assert rows(model.model_copy(update={"sections": [changed]}))[0]["us_per_op"] == "5"


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_csv_has_no_formulas(model, start):
    text = f"{start}HYPERLINK(1)"
    targets = [t.model_copy(update={"role": text}) for t in model.targets]
    evil = model.model_copy(update={"targets": targets})
    assert {row["role"] for row in rows(evil)} == {f"'{text}"}


def test_csv_keeps_its_shape_with_hostile_texts(hostile_model):  # noqa: F811
    table = rows(hostile_model)
    assert all(None not in row and None not in row.values() for row in table)
    shown = render_csv(hostile_model)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


# -- Markdown ----------------------------------------------------------------------------


def test_markdown_says_what_the_model_says(model):
    text = render_markdown(model)
    for verdict in model.verdicts:
        assert escaped(verdict.sentence) in text
    assert model.runs[0].journal_sha256 is None or model.runs[0].journal_sha256 in text
    for line in model.runs[0].commands:
        assert f"    {line}\n" in text
    assert text.index("## Verdicts") < text.index("## kqtest")


def test_markdown_tables_keep_their_shape(model, hostile_model):  # noqa: F811
    for made in (model, hostile_model):
        tables = re.findall(r"(?:^\|.*\n)+", render_markdown(made), re.MULTILINE)
        assert len(tables) >= 3
        for table in tables:
            assert len({len(cells_of(line)) for line in table.splitlines()}) == 1, table


def test_nothing_of_a_hostile_text_is_markup(hostile_model):  # noqa: F811
    text = render_markdown(hostile_model)
    assert "\x1b" not in text
    assert "\u202e" not in text
    prose = re.sub(r"(?m)^    .*$", "", text)  # commands are indented: code
    prose = re.sub(r"(?<!\\)(`+).*?(?<!`)\1(?!`)", "", prose)
    assert not re.search(r"(?<!\\)<", prose)
    assert not re.search(r"(?<!\\)\$", prose)


@pytest.mark.parametrize("text", ["a`b", "``", "x", "a``b`c", "|"])
def test_a_code_span_cannot_be_ended(text):
    shown = code(text)
    fence = re.match("`+", shown)[0]
    inside = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence)
    assert not re.search(rf"(?<!`){fence}(?!`)", inside)


# -- pictures ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_pictures_lie_beside_the_text_and_are_the_same_again(model, tmp_path, kind):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_markdown(model, tmp_path / name / "r.md", Figures(kind))
    one, two = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (tmp_path / "one" / "r.md").read_text())
    assert sorted(named) == [path.name for path in one if path.suffix == f".{kind}"]
    assert len(named) == 2


def test_a_picture_names_what_it_shows(model):
    (section,) = model.sections
    root = ET.fromstring(draw(model, section, panels(section)[0], "svg"))
    texts = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    for one in panels(section)[0].series:
        assert any(model.target(one.target).label in text for text in texts), texts
    assert "A(N) (log)" in texts
    assert any(text.startswith("published: 2012 FreeBSD") for text in texts)
    emulated = any(target.functional for target in model.targets)
    assert ("functional" in " ".join(texts)) is emulated


def texts_of(model, section, number=0):
    root = ET.fromstring(draw(model, section, panels(section)[number], "svg"))
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_a_picture_says_its_parameters_and_that_there_was_one_boot():
    (section,) = (one := build_report(make_records(make_header(boots=1)))).sections
    texts = texts_of(one, section)
    assert sum(text.endswith("(one boot)") for text in texts) == len(section.series)
    (section,) = (two := build_report(make_records(make_header(boots=2, rounds=2)))).sections
    assert not any("one boot" in text for text in texts_of(two, section))


def test_each_picture_is_titled_by_its_panel(model):
    (section,) = model.sections
    for number, panel in enumerate(panels(section)):
        assert f"kqtest, {panel.name}" in texts_of(model, section, number)


def test_a_ratio_of_machines_that_are_not_emulated_has_no_watermark(model):
    (section,) = model.sections
    assert [pair.functional for pair in section.pairs] == [False, False]
    marks = texts_of(model, section).count("functional")
    assert marks == 2, "time and growth show the emulated target, A(N) does not"


def test_published_numbers_of_another_variant_are_not_drawn(model):
    (section,) = model.sections
    seed = section.seeds[0]
    seeds = [seed.model_copy(update={"label": v, "variant": v}) for v in ("level", "oneshot")]
    mixed = section.model_copy(update={"seeds": seeds})
    for number, panel in enumerate(panels(mixed)):
        drawn = [text for text in texts_of(model, mixed, number) if text.startswith("published")]
        assert drawn == [f"published: {panel.name.removeprefix('rearm=')}"]


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(model):
    (section,) = model.sections
    targets = [t.model_copy(update={"name": f"_{t.name}"}) for t in model.targets]
    series = [one.model_copy(update={"target": f"_{one.target}"}) for one in section.series]
    renamed = section.model_copy(update={"series": series, "pairs": []})
    shown = texts_of(model.model_copy(update={"targets": targets}), renamed)
    assert any(text.startswith("_metal") for text in shown)


def test_pictures_can_be_found_from_a_text_with_any_name(model, tmp_path):
    path = write_markdown(model, tmp_path / "night (2) 100%#.md")
    for named in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", path.read_text()):
        assert (tmp_path / unquote(named)).is_file()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("text", ["https://evil.example", "www.evil.example", "@someone", "#1"])
def test_no_text_becomes_a_link(text):
    assert not re.search(r"(?<!\\)[@#]|://|www\.", escaped(text))


def test_hostile_names_are_drawn_as_text(hostile_model):  # noqa: F811
    section = hostile_model.sections[0]
    root = ET.fromstring(draw(hostile_model, section, panels(section)[0], "svg"))
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in "".join(text.itertext()) for text in root.iter(f"{SVG}text"))


# -- cells without an interval -----------------------------------------------------------


def test_one_sample_a_cell_claims_no_interval_in_any_form():
    made = build_report(make_records(make_header(boots=1, rounds=1, batches=1)))
    (section,) = made.sections
    assert all(row["us_per_op_low"] == row["us_per_op_high"] == "" for row in rows(made))
    table = next(line for line in render_markdown(made).splitlines() if "| metal: bare" in line)
    assert "±" not in table
    texts = texts_of(made, section)
    assert not any("one boot" in text for text in texts), "no interval, no word on it"


# -- what is checked before anything is computed -----------------------------------------


def test_where_a_form_cannot_be_written_is_said_before(tmp_path):
    good = tmp_path / "page.html"
    Forms(good).check()
    for path, said in (
        (tmp_path / "none" / "r.csv", "no such directory"),
        (tmp_path, "not a regular file"),
        (Path("/dev/null"), "not a regular file"),
        (good, "the same file"),
        (tmp_path / "\udcff.csv", "not UTF-8"),
        (Path("/proc/r.csv"), "no file can be made"),
    ):
        with pytest.raises(ConfigError, match=said):
            Forms(good, csv=path).check()


@pytest.mark.parametrize("form", ["html", "markdown", "csv"])
def test_nothing_but_such_a_report_is_replaced(tmp_path, form):
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"type":"header"}\n')
    link = tmp_path / "link"
    link.symlink_to(journal)
    other = tmp_path / "other"
    for path in (journal, link):
        with pytest.raises(ConfigError, match="no such report, and it is not replaced"):
            Forms(**{"html": other, form: path}).check()
    empty = tmp_path / "empty"
    empty.touch()
    forms = Forms(**{"html": other, form: empty})
    forms.check()
    forms.write(build_report(make_records()))
    assert empty.stat().st_size
    forms.check()  # its own is replaced


def test_a_figure_replaces_nothing_but_a_figure(tmp_path):
    markdown, mine = tmp_path / "r.md", tmp_path / "r-1-kqtest-time.svg"
    forms = Forms(tmp_path / "r.html", markdown)
    mine.write_text("mine")
    with pytest.raises(ConfigError, match=r"r-1-kqtest-time\.svg: there is a file that is no such"):
        forms.check()
    mine.unlink()
    with pytest.raises(ConfigError, match="the name of a figure"):
        Forms(tmp_path / "r.html", markdown, csv=mine).check()
    forms.write(build_report(make_records()))
    assert list(tmp_path.glob("r-1-*.svg"))
    forms.check()  # its own are replaced


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path):
    (tmp_path / "plain").touch()
    with pytest.raises(ConfigError, match=r"--csv .*plain: this is no directory"):
        Forms(tmp_path / "r.html", csv=tmp_path / "plain" / "r.csv").check()


def test_every_column_of_the_csv_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text("utf-8")
    table = text[text.index("| column | content |") :].split("\n\n")[0]
    told = [
        name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert sorted(told) == sorted(COLUMNS)
