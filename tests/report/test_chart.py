"""The terminal's small charts: they fit, marks stand where the values are, ASCII suffices."""

from __future__ import annotations

from itertools import pairwise

import pytest
from rich.console import Console

from labctl.cli.output import Output
from labctl.report import build_report
from labctl.report.chart import Line, chart
from labctl.report.terminal import plain_lines, render
from tests.report.synthetic import make_header, make_records

ONE = Line("metal: bare metal", "#0072B2", [(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)])
OTHER = Line("linux: guest", "#D55E00", [(1, 100.0), (2, 100.0), (4, 100.0), (8, 100.0)])
BRAILLE = {chr(code) for code in range(0x2800, 0x2900)}


def drawn(lines, width=80, **kwargs):
    return [text.plain for text in chart(lines, width, **kwargs)]


def places(rows, mark):
    """Row and column of each ``mark`` within the frame."""
    return [
        (number, column)
        for number, row in enumerate(rows)
        if row[:8].strip(" 0123456789.")[:1] in ("┤", "│")
        for column, character in enumerate(row)
        if character == mark
    ]


@pytest.mark.parametrize("width", [40, 50, 64, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_row_is_longer_than_the_width(width, ascii_only):
    long = Line("x" * 300, "red", ONE.points)
    wide = Line("測" * 100, "red", OTHER.points)
    rows = list(chart([ONE, OTHER, long, wide], width, ascii_only=ascii_only))
    assert max(row.cell_len for row in rows) <= width
    assert len(rows) <= 16


def test_a_power_law_is_a_straight_line_on_log_axes():
    found = places(drawn([ONE]), "●")
    assert len(found) == len(ONE.points)
    found.sort(key=lambda place: place[1])
    steps = [b - a for (_, a), (_, b) in pairwise(found)]
    assert max(steps) - min(steps) <= 1, "each doubling of threads is as wide"
    assert [row for row, _ in found] == sorted((row for row, _ in found), reverse=True)
    assert len({row for row, _ in places(drawn([OTHER]), "●")}) == 1


def test_value_labels_stand_in_the_row_of_their_value():
    rows = drawn([ONE, Line("flat", "red", [(1, 10.0), (8, 100.0)])])
    marked = next(row for row in rows if row.lstrip().startswith("100 ┤"))
    assert "■" in marked


def test_marks_that_meet_are_shown_as_several():
    rows = drawn([ONE, Line("twin", "red", ONE.points)])
    assert len(places(rows, "✱")) == len(ONE.points)
    assert rows[-1].endswith("✱ several")
    assert not places(rows, "●")


def test_ascii_is_ascii_and_the_same_shape():
    plain = drawn([ONE, OTHER], ascii_only=True)
    assert all(row.isascii() for row in plain)
    fine = drawn([ONE, OTHER])
    assert any(BRAILLE & set(row) for row in fine)
    assert len(plain) == len(fine)
    assert plain[-1] == "o metal: bare metal   x linux: guest"


def test_noise_does_not_fill_the_chart():
    rows = drawn([Line("flat", "red", [(1, 10.0), (2, 10.1), (4, 9.9)])])
    assert len({row for row, _ in places(rows, "●")}) == 1


def test_thread_counts_without_room_are_left_out_but_the_last():
    line = Line("many", "red", [(n, 1.0 + n) for n in range(1, 129)])
    label_row = drawn([line], 40)[-2]
    assert label_row.split()[-1] == "128"
    assert len(label_row.split()) < 20


@pytest.fixture(scope="module")
def model():
    return build_report(make_records(make_header(rounds=1, rearms=("oneshot", "level"))))


def test_a_section_has_a_chart_a_panel(model):
    text = plain_lines(render(model, 80), 80)
    for rearm in ("level", "oneshot"):
        assert f"us per message, rearm={rearm}, against threads" in text
    assert text.count("both axes are logarithmic") == 2


def test_two_numbers_of_threads_make_no_chart():
    header = make_header(rounds=1)
    few = [e for e in header.executions if e.cell.threads <= 2]
    few = [e.model_copy(update={"id": i}) for i, e in enumerate(few)]
    model = build_report(make_records(header.model_copy(update={"executions": few})))
    assert "logarithmic" not in plain_lines(render(model, 80), 80)


@pytest.mark.parametrize("width", [40, 50, 64])
def test_a_narrow_terminal_is_not_overrun(model, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        for part in render(model, width):
            console.print(part)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert any("3.9" in line or "3.8" in line for line in lines), "numbers are whole"


def test_an_output_without_these_characters_gets_similar_ones_as_wide():
    Output()
    text = "3.2 ±4% → 5×10…"
    shown = text.encode("ascii", "labctl.similar").decode("ascii")
    assert shown == "3.2 ~4% > 5x10~"
    assert "测│x".encode("ascii", "labctl.similar") == b"???x", "as wide as it was"
