"""labctl compare and report --beside: two runs of a simulated machine, one of them slower."""

import json

import pytest

from tests.conftest import Labctl


@pytest.mark.slow
def test_two_runs_are_compared_in_every_form(labctl: Labctl) -> None:
    text = "lab: two\ntargets:\n  box: {kind: sim, times: {base_us: 2.0, factor: %s}}\n"
    assert "Example: labctl compare" in labctl("compare", "--help").stdout
    names = []
    for factor, seed in ((1.0, "1"), (1.3, "2")):
        (labctl.directory / "lab.yaml").write_text(text % factor)
        names.append(labctl.json("sweep", "eptest", "--threads", "1,4", "--seed", seed)["run"])
    before, after = names
    done = labctl("compare", before)
    assert "box (new) / box (baseline), eptest: slower" in " ".join(done.stdout.split())
    page = labctl.directory / "results" / after / f"compare-{before}.html"
    assert str(page) in done.stderr.replace("\n", "")
    assert "box (baseline)" in page.read_text()
    document = json.loads(labctl("compare", before, after, "--json").stdout)
    assert document["schema"] == 3
    assert document["compared"]
    assert [run["label"] for run in document["runs"]] == ["baseline", "new"]
    assert [v["level"] for v in document["verdicts"]] == ["slower"]
    turned = json.loads(labctl("compare", after, before, "--json").stdout)
    assert [v["level"] for v in turned["verdicts"]] == ["faster"]
    assert "compared with itself" in labctl("compare", after, status=2).stderr
    assert "no run 'never'" in labctl("compare", before, "never", status=2).stderr
    report = json.loads(labctl("report", after, "--beside", before, "--json").stdout)
    assert [run["label"] for run in report["runs"]] == ["", before]
    assert report["verdicts"] == []


def test_there_must_be_runs_to_compare(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text("lab: none\ntargets: {box: {kind: sim}}\n")
    assert "there is no run yet" in labctl("compare", "nothing", status=2).stderr
