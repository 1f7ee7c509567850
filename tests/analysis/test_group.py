"""Several runs read as one: what changed, and what only stands beside. The runs are of
simulated machines whose truth is known."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.analysis import Run, beside, compare_runs, open_run
from labctl.errors import ConfigError
from labctl.report import build_report
from tests.conftest import InProcess

LAB = """lab: nights
targets:
  box: {kind: sim, times: {base_us: 2.0, factor: %s, growth: {law: power, exponent: 0.3}}}
  %s: {kind: sim, times: {base_us: 5.0}}
"""

Night = Callable[..., Run]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """``night(FACTOR, SEED)``: a run of a lab whose box is slower by that factor."""
    made: dict[tuple[object, ...], Path] = {}

    def measure(factor: float, seed: int, *, other: str = "rest", threads: str = "1,4,16") -> Run:
        key = (factor, seed, other, threads)
        if key not in made:
            base = tmp_path_factory.mktemp("night")
            (base / "lab.yaml").write_text(LAB % (factor, other))
            labctl = InProcess(base, {"XDG_STATE_HOME": str(base / "state")})
            labctl("sweep", "kqtest", "--seed", str(seed), "--threads", threads)
            (made[key],) = (base / "results").iterdir()
        return open_run(made[key])

    return measure


def calls(run: Run) -> dict[str, tuple[str, str]]:
    return {c.pair.one: (c.level.call, c.scaling.call) for c in run.comparisons}


def test_an_unchanged_machine_is_unchanged(night: Night) -> None:
    change = compare_runs(night(1.0, 1), night(1.0, 2))
    assert calls(change) == dict.fromkeys(("box (new)", "rest (new)"), ("unchanged",) * 2)
    assert change.unmatched == []
    (box, _) = change.comparisons
    assert (box.pair.one, box.pair.other, box.pair.subject) == (
        "box (new)",
        "box (baseline)",
        "change",
    )


@pytest.mark.parametrize(("factor", "call"), [(1.15, "slower"), (0.85, "faster")])
def test_a_change_of_fifteen_per_cent_is_seen_and_only_there(
    night: Night, factor: float, call: str
) -> None:
    change = compare_runs(night(1.0, 1), night(factor, 3))
    assert calls(change) == {"box (new)": (call, "unchanged"), "rest (new)": ("unchanged",) * 2}
    row = change.effects.query("one == 'box (new)' and quantity == 'level'")
    assert (row["family_low"] < factor).all()
    assert (factor < row["family_high"]).all()


def test_the_runs_are_not_taken_for_paired(night: Night) -> None:
    """Rounds of two runs share no drift: the interval is Welch's, not of differences."""
    change = compare_runs(night(1.0, 1), night(1.0, 2))
    assert all("Welch" in method for method in change.effects.query("quantity == 'level'").method)


def test_what_one_run_alone_has_is_said(night: Night) -> None:
    change = compare_runs(night(1.0, 1), night(1.0, 4, other="later", threads="1,4,32"))
    assert set(calls(change)) == {"box (new)"}
    assert change.comparisons[0].effects.level.threads == (1, 4)
    told = "\n".join(change.unmatched)
    assert "in the baseline run alone: box, eptest rearm=oneshot at N = 16" in told
    assert "in the baseline run alone: rest, eptest rearm=oneshot at N = 1, 4, 16" in told
    assert "in the new run alone: later" in told
    assert all(text in build_report(change).notes for text in change.unmatched)


def test_a_run_without_results_is_compared_with_nothing(night: Night, tmp_path: Path) -> None:
    path = night(1.0, 1).path
    assert path is not None
    header = path.read_text().splitlines(keepends=True)[0]
    (tmp_path / "journal.jsonl").write_text(header)
    for runs in ((night(1.0, 1), open_run(tmp_path)), (open_run(tmp_path), night(1.0, 1))):
        change = compare_runs(*runs)
        assert change.comparisons == []
        assert len([text for text in change.unmatched if "alone: box" in text]) == 1
        model = build_report(change)
        assert model.verdicts == [] and "both runs" in model.no_pairs


def test_runs_without_a_common_target_are_refused(night: Night, tmp_path: Path) -> None:
    other = tmp_path / "run"
    source = night(1.0, 1).path
    assert source is not None
    shutil.copytree(source.parent, other)
    text = (other / "journal.jsonl").read_text()
    (other / "journal.jsonl").write_text(text.replace('"box', '"a').replace('"rest', '"b'))
    with pytest.raises(ConfigError, match="no target in common"):
        compare_runs(night(1.0, 1), open_run(other))


def test_what_the_runs_recorded_is_in_the_frames_of_both(night: Night) -> None:
    change = compare_runs(night(1.0, 1), night(1.15, 3))
    assert set(change.facts.target) == set(change.cells.target) == set(change.sides)
    (box, _) = change.comparisons
    assert [c.key for c in box.confounders if c.key == "model"], "it is another machine now"
    assert change.stops.empty


def test_a_run_beside_another_is_shown_and_not_compared(night: Night) -> None:
    group = beside(night(1.0, 1), {"old": night(1.15, 3)})
    assert [c.pair for c in group.comparisons] == night(1.0, 1).pairs
    model = build_report(group)
    assert [target.name for target in model.targets] == ["box", "rest", "box (old)", "rest (old)"]
    assert [run.label for run in model.runs] == ["", "old"]
    assert not model.compared
    (section,) = model.sections
    assert [one.target for one in section.series] == [target.name for target in model.targets]
