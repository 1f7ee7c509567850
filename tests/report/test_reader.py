"""What somebody who has the report alone must find in it: in the page, Markdown, terminal, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

import pytest

from labctl.analysis import Run
from labctl.analysis.words import number
from labctl.report import build_report, render_page, to_json
from labctl.report.markdown import render_markdown
from labctl.report.model import ReportModel
from labctl.report.panels import panels
from labctl.report.plots import panel_plots
from labctl.report.terminal import plain_lines, render
from labctl.report.words import coded
from labctl.sweep.records import Sample
from labctl.workloads import load_workloads
from tests.analysis.made import GUEST, METAL, Made, records
from tests.report.synthetic import make_header, make_records

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


def test_what_is_to_be_typed_is_code() -> None:
    made = report(TCG)
    assert "<code>kernel: FILE</code>" in render_page(made)
    assert "`kernel: FILE`" in render_markdown(made)
    assert coded("a `b` c") == [("a ", False), ("b", True), (" c", False)]
    assert coded("a ` c") == [("a ` c", False)], "somebody else's backtick"


def test_each_badge_says_its_own_reason_and_the_legend_what_it_means() -> None:
    few = report(GUEST | {"kernel": "6.12"}, boots=1, rounds=2, noise=0.2, us={1: 2.0, 4: 2.2})
    (verdict,) = few.verdicts
    assert (verdict.level, verdict.scaling) == ("cannot tell", "cannot tell")
    text = page(few)
    for badge in (verdict.level_badge, verdict.scaling_badge):
        assert "cannot tell" not in badge and text.count(badge) >= 1
    assert "too imprecise the interval reaches across the margin; n is the number" in text
    assert "alike, but confounded" not in text, "only the reasons that are there"


def test_a_cards_interval_says_its_level_and_its_processes() -> None:
    model = report()
    (verdict,) = model.verdicts
    assert verdict.level_told.n_processes == 4
    assert re.search(r"\d to \d[.\d]* \(95 %, n=4\)", page(model))


WHY_NARROWER = "The interval of A(N) is narrower here than that of one side's growth"


def test_why_a_family_is_narrower_is_said_where_it_is(form: Callable[[ReportModel], str]) -> None:
    few = report(boots=1, rounds=2, noise=0.03)
    (pair,) = few.sections[0].pairs
    point = pair.points[-1]
    assert point.amplification and point.growth_one and point.growth_other
    wide = max(math.log(e.high / e.low) for e in (point.growth_one, point.growth_other))
    assert math.log(point.amplification.family_high / point.amplification.family_low) < wide
    assert WHY_NARROWER in form(few)
    assert WHY_NARROWER not in form(report(boots=1, rounds=12))


def test_what_was_measured_is_described(form: Callable[[ReportModel], str]) -> None:
    text = form(report())
    if form is terminal:
        return
    assert "One operation is one message read. A thread blocks where it asks the queue" in text
    assert re.search(r"rearm=oneshot\W+how an end is armed again after its event", text)


@pytest.mark.parametrize("name", sorted(load_workloads()))
def test_every_workload_is_described_and_every_value_explained(name: str) -> None:
    workload = load_workloads()[name]
    for word in ("One operation is", "thread", "One operation" if name == "urandom" else "blocks"):
        assert word in workload.description
    for param in workload.params.values():
        for value in param.values:
            assert value in param.help, f"{name}: {value}"


def test_more_threads_than_cpus_are_called_oversubscribed(
    form: Callable[[ReportModel], str],
) -> None:
    two, many = {"cpus_online": 2}, {"cpus_online": 64}
    us = {1: 2.0, 2: 2.0, 4: 2.0, 8: 2.0}
    model = report(GUEST | two, METAL | many | {"cpus_allowed": 4}, us=us)
    assert model.sections[0].oversubscribed == [
        "linux: 4 and 8 threads on 2 CPUs",
        "metal: 8 threads on 4 CPUs",
    ]
    assert "linux: 4 and 8 threads on 2 CPUs; metal: 8 threads on 4 CPUs" in form(model)
    assert "oversubscribed" not in form(report(GUEST | many, METAL | many, us=us)).lower()


def test_it_is_said_how_both_sides_were_measured(form: Callable[[ReportModel], str]) -> None:
    assert "Both sides ran on the same machine and took turns" in form(report())


FACTS = {"kernel_version": "#2", "cmdline": "root=/dev/vda quiet", "kernel_options": ["quiet"]}


def test_what_differs_is_counted_alike_everywhere(form: Callable[[ReportModel], str]) -> None:
    model = report(TCG | FACTS | {"clocksource": "hpet"}, METAL | {"cmdline": "root=/dev/sda"})
    (pair,) = model.sections[0].pairs
    topics = {row.topic for row in pair.confounders}
    assert topics == {"kernel", "hypervisor", "kernel_options", "clocksource"}
    counted = "4 things, of which 2 bar a verdict or a part of it"
    assert pair.differing == counted
    assert form(model).count(counted) == 2, "beside the sentence, and above the list"


def test_the_facts_mark_what_is_counted_and_no_more() -> None:
    model = report(TCG | FACTS, METAL | {"cmdline": "root=/dev/sda"})
    rows = {row.key: (row.state, row.counted) for row in model.facts}
    for key in ("kernel", "kernel_version", "kernel_options", "cmdline", "hypervisor"):
        assert rows[key] == ("differs", True), key
    plain_guest = report(GUEST | {"cmdline": "root=/dev/vda"}, METAL | {"cmdline": "root=/dev/sda"})
    assert not plain_guest.sections[0].pairs[0].confounders
    rows = {row.key: (row.state, row.counted) for row in plain_guest.facts}
    assert rows["hypervisor"] == rows["cmdline"] == ("differs", False)
    text = page(plain_guest)
    assert "hypervisor differs, not counted" in text and "cmdline differs, not counted" in text
    marked = text[text.index("that is not compared.") :]
    assert marked.count("differs") == marked.count("differs, not counted") > 0


def test_a_spread_above_the_value_shows_the_ends(form: Callable[[ReportModel], str]) -> None:
    wild = report(boots=1, rounds=2, noise=0.5)
    text = form(wild)
    estimate = wild.sections[0].series[0].points[0].time
    assert estimate.half_width and estimate.half_width > 0.5 and estimate.low and estimate.high
    assert f"[{number(estimate.low)}, {number(estimate.high)}]" in text
    assert not re.search(r"±([6-9]\d|\d{3,})%|±>", text)
    assert "in brackets are its ends where that is more than 50" in text
    assert "in brackets are" not in form(report())


def test_one_boot_and_few_rounds_are_said_once(form: Callable[[ReportModel], str]) -> None:
    model = report(boots=1, rounds=3)
    text = form(model)
    assert text.count("It holds for the one boot of each side that was measured.") == 1
    assert text.count("fewer than 6 rounds of one boot") == 1
    assert "what is said holds for that boot" not in text
    assert "the interval covers variation between processes only" not in text
    assert "nothing is known of other boots" not in text


def test_the_order_says_what_has_no_point() -> None:
    gap = "Places in the order that have no point"
    assert f"{gap}: warm-up batches." in page(build_report(make_records(make_header(rounds=1))))
    assert gap not in page(report()), "its batches all count"
    two = make_header(rounds=1, workloads=("kqtest", "urandom"))
    told = f"{gap}: warm-up batches, interrupted or failed attempts and other workloads."
    assert told in page(build_report(make_records(two, trouble=True)))


def test_the_watermark_lies_behind_the_data() -> None:
    labels = []
    section = report(TCG).sections[0]
    model = report(TCG)
    for plot in panel_plots(model, section, 0, panels(section)[0]):
        labels += [one for one in plot.figure.center if type(one).__name__ == "Label"]
    assert len(labels) >= 4
    assert {one.level for one in labels} == {"underlay"}


def test_what_the_lab_file_leaves_open_is_said_beside_the_commands() -> None:
    model = report(TCG | {"qemu_version": "7.2.22", "image_key": "abc"})
    (linux,) = [text for text in model.runs[0].ran_with if text.startswith("linux: ")]
    assert "accelerator tcg" in linux and "QEMU 7.2.22" in linux
    assert "build of the image abc" in linux and "kernel 6.12" in linux
    for form in (page, markdown):
        assert linux in form(model)


def test_two_mitigations_that_differ_alike_are_both_told() -> None:
    off, on = "Vulnerable", "Not affected"
    sides = [GUEST | {"mitigations": {"retbleed": text, "tsa": text}} for text in (on, off)]
    (pair,) = report(sides[0], METAL | {"mitigations": sides[1]["mitigations"]}).sections[0].pairs
    (thing,) = [thing for thing in pair.differences if thing.topic == "mitigations"]
    assert thing.values == [("retbleed", on, off), ("tsa", on, off)]


def test_a_message_that_nobody_waits_for_is_said() -> None:
    said = "as a rule the one that wrote a message read the next itself"
    records = make_records()
    known = load_workloads()
    assert not any(said in note for note in build_report(records, workloads=known).notes)
    alone = [r.model_copy(update={"vcsw": 0}) if isinstance(r, Sample) else r for r in records]
    (note,) = [
        n for n in build_report(alone, workloads=known).notes if said in n and n.startswith("metal")
    ]
    assert note.startswith("metal, kqtest, N = 2, 4, 8, 16: ")


def test_a_declared_pair_that_lost_a_side_is_said() -> None:
    model = report(lab={"pairs": [{"guest": "older", "metal": "metal"}, *LAB["pairs"]]})
    said = "older / metal: older was not measured, so the pair has no verdict"
    assert [note for note in model.notes if "no verdict" in note] == [said]
