"""What somebody who has the report alone must find in it: in the page, Markdown, terminal, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

import pytest

from labctl.analysis import Run
from labctl.report import build_report, render_page, to_json
from labctl.report.markdown import render_markdown
from labctl.report.model import ReportModel
from labctl.report.terminal import plain_lines, render
from labctl.workloads import load_workloads
from tests.analysis.made import GUEST, METAL, Made, records

FLAT = {1: 2.0, 4: 2.0}
TCG = GUEST | {"accelerator": "tcg", "image": "debian-12", "kernel": "6.12"}
LAB = {"pairs": [{"guest": "linux", "metal": "metal"}]}
LABELS = ("page", "Markdown", "terminal")


def report(
    guest: Mapping[str, Any] = GUEST, metal: Mapping[str, Any] = METAL, **design: Any
) -> ReportModel:
    """Of a guest and metal, both flat."""
    us = design.pop("us", FLAT)
    made = {"linux": Made(us, guest, "vm"), "metal": Made(us, metal)}
    made_records = records(made, **{"lab": LAB, "boots": 2, "rounds": 2} | design)
    return build_report(Run(made_records), workloads=load_workloads())


def page(model: ReportModel) -> str:
    """Its text, without the style sheet, scripts and tags."""
    html = render_page(model)
    html = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    return one_line(unescape(re.sub(r"<[^>]*>", " ", html)))


def markdown(model: ReportModel) -> str:
    """Its text, without the marks and escapes."""
    return one_line(re.sub(r"[\\*]", "", render_markdown(model)))


def terminal(model: ReportModel) -> str:
    return one_line(plain_lines(render(model, 100), 100))


def one_line(text: str) -> str:
    return " ".join(text.split())


FORMS: list[Callable[[ReportModel], str]] = [page, markdown, terminal]


@pytest.fixture(params=FORMS, ids=LABELS)
def form(request: pytest.FixtureRequest) -> Callable[[ReportModel], str]:
    found: Callable[[ReportModel], str] = request.param
    return found


def test_a_run_that_cannot_answer_says_so_first(form: Callable[[ReportModel], str]) -> None:
    text = form(report(TCG))
    said = text.index("This run cannot separate the kernel from the emulation (TCG)")
    assert said < text.index("linux / metal, kqtest: cannot tell")
    assert "For the kernel, measure linux against a second guest" in text
    assert "cannot separate" not in form(report())


def test_the_json_has_it_apart_from_the_sentence() -> None:
    (verdict,) = json.loads(to_json(report(TCG)))["verdicts"]
    assert verdict["opening"].startswith("This run cannot separate")
    assert len(verdict["instead"]) == 2 and "cannot separate" not in verdict["sentence"]
