"""What a night becomes: JUnit XML and Markdown, whatever stands in it."""

from xml.etree import ElementTree as ET

from labctl.nightly.junit import to_junit
from labctl.nightly.record import CellResult, Night, Ratio
from labctl.nightly.words import headline, summary

HOSTILE = '<script>"&\x1b[31m]]>|`\u202e\x00'


def night(*cells: CellResult, outcome: str = "passed") -> Night:
    return Night.model_validate(
        {
            "night": "20300101-030000",
            "begun": "2030-01-01T03:00:00+00:00",
            "asked": "",
            "seed": 1,
            "margin": 0.1,
            "run": "r",
            "again": "a",
            "cells": [cell.model_dump() for cell in cells],
            "outcome": outcome,
        }
    )


def cell(state: str, **more: object) -> CellResult:
    base = {"target": "linux", "workload": "eptest", "threads": 4, "state": state}
    return CellResult.model_validate(base | more)


def test_counts_of_a_suite_are_those_of_its_cases() -> None:
    states = (
        "same", "faster", "slower", "not confirmed", "not measured again", "cannot tell",
        "new baseline", "no baseline", "failed", "failed once", "missing",
    )  # fmt: skip
    suite = ET.fromstring(to_junit(night(*(cell(state) for state in states)))).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert suite.get("tests") == str(len(states)) == str(len(cases))
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        found = [case for case in cases if case.find(tag) is not None]
        assert suite.get(count) == str(len(found)) != "0"


def test_a_failure_has_its_numbers_and_what_else_changed() -> None:
    slower = cell(
        "slower",
        ratio=Ratio(value=1.2, low=1.15, high=1.25),
        again=Ratio(value=1.21, low=1.16, high=1.26),
        causes=["cmdline: a → b"],
    )
    failure = ET.fromstring(to_junit(night(slower))).find(".//failure")
    assert failure is not None
    assert failure.get("message") == (
        "slower than the baseline, in both measurements: it takes 1.20 [1.15, 1.25] times as "
        "long, measured again 1.21 [1.16, 1.26] times"
    )
    assert "not as in the baseline: cmdline: a → b" in (failure.text or "")


def test_hostile_text_stays_text() -> None:
    bad = night(
        cell("slower", params=HOSTILE, causes=[HOSTILE], reason=HOSTILE),
        cell("missing", target=HOSTILE, threads=None, reason=HOSTILE),
        outcome="regressed",
    )
    root = ET.fromstring(to_junit(bad))  # it parses, with what XML cannot hold replaced
    case = root.find(".//testcase")
    assert case is not None
    assert '<script>"&' in (case.get("name") or "")
    text = summary(bad)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\<script\\>" in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in table} == {7}


def test_the_headline_counts_and_names() -> None:
    assert headline(night(cell("same"))) == (
        "Passed: the one cell compared is not slower than the baseline"
    )
    partial = night(cell("same"), cell("missing", threads=None), outcome="partial")
    assert headline(partial).endswith("not all was measured: linux was missing")
