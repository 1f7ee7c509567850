"""A run as data frames, for notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labctl
from labctl.analysis import Run
from labctl.errors import ConfigError
from tests.analysis.made import GUEST, METAL, Made, records

ROOT = Path(__file__).parents[2]
TARGETS = {
    "metal": Made({1: 2.0, 4: 3.0}, METAL),
    "linux": Made({1: 4.0, 4: 9.0}, GUEST, "vm"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "20310102-030405-kqtest"
    path.mkdir()
    lines = [record.model_dump_json() for record in records(TARGETS)]
    (path / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(directory):
    return labctl.open_run(directory)


def test_a_directory_and_its_journal_are_one_run(directory, run):
    again = labctl.open_run(str(directory / "journal.jsonl"))
    assert again.samples.equals(run.samples) and again.verdicts.equals(run.verdicts)
    assert repr(run) == "<Run made>"


def test_samples_are_all_that_was_measured(run):
    assert len(run.samples) == 2 * 2 * 6 * 4 * 3
    assert {"us_per_op", "target", "threads", "complete", "warmup"} <= set(run.samples.columns)


def test_cells_have_times_and_growth_with_intervals(run):
    cells = run.cells.set_index(["target", "threads"])
    assert len(cells) == 4
    row = cells.loc["linux", 4]
    assert row.time_low < row.time < row.time_high
    assert row.time == pytest.approx(9.0, rel=0.05)
    assert row.growth == pytest.approx(9 / 4, rel=0.05) and row.growth_low < row.growth
    assert np.isnan(cells.loc["linux", 1].growth)


def test_effects_have_a_row_for_each_quantity_and_thread_count(run):
    effects = run.effects.set_index(["quantity", "threads"])
    assert list(effects.index) == [
        ("level", 1),
        ("level", 4),
        ("amplification", 4),
        ("growth_one", 4),
        ("growth_other", 4),
    ]
    assert set(effects.one + "/" + effects.other) == {"linux/metal"}
    row = effects.loc["amplification", 4]
    assert row.value == pytest.approx(1.5, rel=0.05)
    assert row.family_low <= row.low < row.value < row.high <= row.family_high
    assert row.n_boots == 6 and row.method


def test_verdicts_are_sentences_with_their_calls(run):
    (row,) = run.verdicts.itertuples()
    assert (row.level, row.scaling, row.subject) == ("virtualization", "both", "virtualization")
    assert row.sentence.startswith(
        "linux / metal, kqtest: at 1 thread virtualization, for scaling both:"
    )
    assert row.found.startswith("both run Debian") and row.barred == ""


def test_facts_are_text(run):
    facts = run.facts
    kernel = facts[(facts.target == "linux") & (facts.key == "kernel")]
    assert set(kernel.value) == {"6.1.0-18-amd64"} and len(kernel) == 6


def test_nothing_measured_gives_empty_frames_with_their_columns():
    empty = Run(records(TARGETS)[:1])
    assert empty.samples.empty and empty.cells.empty
    assert list(empty.effects.columns)[:3] == ["one", "other", "subject"]
    assert "sentence" in empty.verdicts.columns


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(ConfigError, match="no run here") as error:
        labctl.open_run(tmp_path)
    assert "labctl runs" in error.value.hint
    (tmp_path / "journal.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="not a journal record"):
        labctl.open_run(tmp_path)
    (tmp_path / "journal.jsonl").write_text("")
    with pytest.raises(ConfigError, match="does not begin with a whole header"):
        labctl.open_run(tmp_path)


def test_importing_labctl_imports_no_pandas():
    code = "import sys, labctl; sys.exit('pandas' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_documents_examples_run(directory, capsys):
    text = (ROOT / "docs" / "python.md").read_text()
    code, change = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert '"results/20310102-030405-kqtest"' in code
    exec(code.replace("results/20310102-030405-kqtest", str(directory)), {})
    printed = capsys.readouterr().out
    assert "linux / metal, kqtest" in printed and "family_low" in printed
    change = re.sub(r"results/(before|after)", str(directory), change)
    exec(change, {"labctl": labctl})
    assert "linux (new)" in capsys.readouterr().out
