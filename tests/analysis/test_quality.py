"""What a curve's samples are like, as the report tells it."""

from __future__ import annotations

import pytest

from labctl.analysis import Run
from labctl.analysis.quality import quality_of, scalability
from labctl.analysis.sentences import comparison_warnings, verdict_notes
from labctl.report import build_report
from labctl.report.terminal import plain_lines, render
from labctl.report.words import law
from labctl.stats.usl import Refused, Usl
from labctl.sweep.records import Sample
from labctl.workloads import load_workloads
from tests.analysis.made import GUEST, METAL, Made, records

MANY = (1, 2, 4, 8, 12, 16, 24)


def usl_us(n, rate=0.5, contention=0.05, coherency=0.002):
    """Time an operation of all threads together, by the law."""
    return (1 + contention * (n - 1) + coherency * n * (n - 1)) / (rate * n)


def curve_of(us, **design):
    (curve,) = Run(records({"metal": Made(us, METAL)}, **design)).curves
    return curve


def test_outliers_are_counted_and_kept():
    made = records({"metal": Made({1: 2.0}, METAL)})
    spoiled = [r for r in made if isinstance(r, Sample)][7]
    made[made.index(spoiled)] = spoiled.model_copy(update={"wall_ns": spoiled.wall_ns * 5})
    (curve,) = Run(made).curves
    assert quality_of([curve])[0][1].outliers == 1
    assert curve.cells[1].n_batches == 6 * 4 * 3
    notes = build_report(made).notes
    assert "metal, kqtest epoll (eptest): 1 of 72 samples are outliers; they are counted" in notes


def test_drift_over_the_rounds_is_told():
    made = records({"metal": Made({1: 2.0}, METAL)}, rounds=10)
    late = max(r.execution for r in made if isinstance(r, Sample)) // 2
    slower = [
        r.model_copy(update={"wall_ns": r.wall_ns * 2})
        if isinstance(r, Sample) and r.execution > late
        else r
        for r in made
    ]
    (curve,) = Run(slower).curves
    found = quality_of([curve])[0][1]
    assert found.rounds == "slow-down"
    assert found.processes == {"too short to tell": 60}
    assert any(
        ": slow-down over the rounds at N = 1" in note for note in build_report(slower).notes
    )
    assert quality_of([curve_of({1: 2.0}, rounds=10)])[0][1].rounds == "flat"


def test_the_law_of_scalability_and_its_gates():
    curve = curve_of({n: usl_us(n) for n in MANY}, noise=0.001)
    found = scalability(curve, fixed_token=False)
    assert isinstance(found, Usl)
    assert found.contention == pytest.approx(0.05, rel=0.1)
    assert found.rate == pytest.approx(0.5e6, rel=0.02), "operations a second"
    assert isinstance(scalability(curve, fixed_token=True), Refused)


def test_the_report_says_the_law_or_why_not():
    made = records({"metal": Made({n: usl_us(n) for n in MANY}, METAL)}, noise=0.001)
    (section,) = build_report(made, workloads=load_workloads()).sections
    assert law(section.series[0].scalability).startswith("refused, the law does not fit work")
    known = load_workloads()
    known["eptest"] = known["eptest"].model_copy(update={"fixed_token": False})
    model = build_report(made, workloads=known)
    text = plain_lines(render(model, 80), 80)
    assert "scalability law, metal: contention 0.05" in text


def test_remarks_on_a_pairs_data_name_its_sides_and_one_boot_is_said_once():
    sides = {"metal": Made({1: 2.0}, METAL, boots=1), "linux": Made({1: 2.0}, GUEST, "vm")}
    (comparison,) = Run(records(sides, noise=0.0)).comparisons
    warnings = comparison_warnings(comparison)
    assert any(text.startswith("metal: more than half of the samples") for text in warnings)
    assert not any("side has" in text or "one boot" in text for text in warnings)
    assert "It holds for the one boot of metal that was measured." in verdict_notes(comparison)
