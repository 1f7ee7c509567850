"""The command line without a machine: help, exit codes, streams, errors a user can act on."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Labctl

VERBS = [
    ["init"], ["doctor"], ["up"], ["down"], ["destroy"], ["status"], ["ssh"], ["console"],
    ["deploy"], ["plan"], ["sweep"], ["runs"], ["runs", "prune"], ["nightly"], ["report"], ["compare"], ["import"], ["image", "ls"], ["image", "build"], ["image", "rm"],
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(labctl: Labctl, verb: list[str]) -> None:
    text = labctl(*verb, "--help").stdout
    assert re.search(r"Example: labctl|Example: `labctl", " ".join(text.split())), text


def test_version(labctl: Labctl) -> None:
    assert re.fullmatch(
        r"labctl \d+\.\d+\.\d+(\+g[0-9a-f]{10,}(\.dirty)?)?\n", labctl("--version").stdout
    )


def test_init_writes_a_lab_and_does_not_overwrite_one(labctl: Labctl) -> None:
    done = labctl("init")
    assert done.stdout == ""
    assert (labctl.directory / "lab.yaml").is_file()
    assert "a file already" in labctl("init", status=2).stderr
    labctl("init", "--force")


def test_no_lab_file(labctl: Labctl) -> None:
    error = labctl("status", status=2).stderr
    assert "no lab file" in error
    assert "labctl init" in error


def test_the_lab_file_is_found_by_option_and_environment(labctl: Labctl, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("lab: other\ntargets: {here: {kind: local}}\n")
    (labctl.directory / "lab.yaml").write_text("lab: wrong\ntargets: {no: {kind: local}}\n")
    preview = ("sweep", "eptest", "--dry-run")
    assert "here" in labctl(*preview, "-f", str(other)).stdout
    assert "here" in labctl("-f", str(other), *preview).stdout
    labctl.environment["LABCTL_CONFIG"] = str(other)
    assert "here" in labctl(*preview).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "kqtset", "--dry-run"], "did you mean kqtest"),
        (["sweep", "--dry-run"], "which workload"),
        (["sweep", "kqtest", "--threads", "1,two", "--dry-run"], "'two' is not a thread count"),
        (["sweep", "kqtest", "--threads", "0", "--dry-run"], "'0' is not a thread count"),
        (["sweep", "kqtest", "--threads", "1,", "--dry-run"], "an empty value"),
        (["sweep", "kqtest", "--param", "rearm", "--dry-run"], "NAME=VALUE"),
        (["sweep", "kqtest", "--param", "rearm=never", "--dry-run"], "'never' is not one of"),
        (["sweep", "kqtest", "--targets", "nobody", "--dry-run"], "no target 'nobody'"),
        (["sweep", "kqtest", "--rounds", "0", "--dry-run"], "'--rounds'"),
        (["sweep", "--resume", "nothing"], "there is no run yet"),
        (["report", "nothing"], "there is no run yet"),
        (["report", "../../etc"], "there is no run yet"),
        (["report", "--csv", "-"], "'-' names no file"),
        (["report", "--html", ""], "'' names no file"),
        (["up", "nobody"], "no target 'nobody'"),
        (["ssh", "nobody"], "no target 'nobody'"),
        (["console", "metal"], "is not a vm"),
        (["image", "build", "debian-21"], "did you mean debian-12"),
        (["frobnicate"], "No such command"),
    ],
)
def test_a_wrong_word_is_exit_code_2_and_says_what_is_right(
    labctl: Labctl, arguments: list[str], message: str
) -> None:
    labctl("init")
    done = labctl(*arguments, status=2)
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_plan_can_be_printed_priced_and_made_again(labctl: Labctl) -> None:
    labctl("init")
    arguments = ("sweep", "kqtest", "--threads", "1,2", "--rounds", "2", "--seed", "7", "--dry-run")
    plan = labctl.json(*arguments)
    assert plan["seed"] == 7
    assert plan["estimate_s"] > 0
    assert len(plan["executions"]) == 4 * 2 * 2, "targets, thread counts, rounds"
    assert labctl.json(*arguments)["digest"] == plan["digest"]
    done = labctl(*arguments)
    assert "16 processes, about" in done.stderr
    assert "eptest" in done.stdout
    assert not (labctl.directory / "results").exists()


def test_options_from_the_environment_are_beaten_by_flags(labctl: Labctl) -> None:
    labctl("init")
    labctl.environment["LABCTL_SWEEP_ROUNDS"] = "3"
    base = ("sweep", "kqtest", "--threads", "1", "--dry-run")
    assert len(labctl.json(*base)["executions"]) == 4 * 3
    assert len(labctl.json(*base, "--rounds", "1")["executions"]) == 4


def test_a_guest_that_is_not_up_is_exit_code_3(labctl: Labctl) -> None:
    labctl("init")
    done = labctl("ssh", "linux", "true", status=3)
    assert "labctl up linux" in done.stderr


def test_lists_are_empty_and_not_errors_at_first(labctl: Labctl) -> None:
    labctl("init")
    assert labctl.json("runs")["runs"] == []
    names = [image["name"] for image in labctl.json("image", "ls")["images"]]
    assert "debian-12" in names


def test_nothing_colours_or_spins_off_a_terminal(labctl: Labctl) -> None:
    labctl("init")
    done = labctl("sweep", "kqtest", "--dry-run")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stderr


def test_quiet_says_only_data_and_errors(labctl: Labctl) -> None:
    assert labctl("-q", "init").stderr == ""


def test_traceback_on_demand(labctl: Labctl) -> None:
    done = subprocess.run(
        labctl.command("--traceback", "status"), cwd=labctl.directory, env=labctl.env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(labctl: Labctl, shell: str) -> None:
    labctl.environment["_LABCTL_COMPLETE"] = f"source_{shell}"
    assert "_LABCTL_COMPLETE" in labctl().stdout


def test_what_is_completed(labctl: Labctl) -> None:
    labctl("init")
    labctl.environment |= {"_LABCTL_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    for words, expected in (
        ("labctl up l", ["linux"]),
        ("labctl sweep mm", ["mmapsem"]),
        ("labctl image b", ["build"]),
    ):
        labctl.environment["COMP_WORDS"] = words
        assert labctl().stdout.split() == expected


@pytest.mark.slow
def test_this_machine_alone_from_up_to_report(labctl: Labctl) -> None:
    """The whole main job on a lab of one local target."""
    (labctl.directory / "lab.yaml").write_text("lab: one\ntargets: {here: {kind: local}}\n")
    assert labctl.json("up")["targets"][0]["ready"]
    assert not labctl.json("up")["targets"][0]["changed"]
    sweep = ("sweep", "eptest", "mmapsem", "urandom", "--threads", "1,2", "--rounds", "2")
    done = labctl.json(*sweep, "--min-batch-ms", "5", "--batches", "2")
    assert done["done"] == 3 * 2 * 2
    (run,) = labctl.json("runs")["runs"]
    assert run["done"] == run["planned"] == 12
    report = labctl("report")
    assert "eptest" in report.stdout
    page = labctl.directory / "results" / run["run"] / "report.html"
    assert page.stat().st_size < 2_000_000
    json.loads(labctl("report", run["run"], "--json").stdout)
    labctl("report", "--markdown", "r.md", "--figures", "png", "--csv", "r.csv")
    assert (labctl.directory / "r.csv").read_text().count("\n") == 1 + 3 * 2
    assert "eptest" in (labctl.directory / "r.md").read_text()
    assert (labctl.directory / "r-1-eptest.png").is_file()
    again = labctl("sweep", "--resume", run["run"])
    assert "complete" in again.stderr
    for option in (("--dry-run",), ("--rounds", "1"), ("eptest",)):
        assert "has its plan" in labctl("sweep", "--resume", "latest", *option, status=2).stderr
    assert "eptest" in labctl("report", run["run"][:15]).stdout
    taken = labctl.directory / "fifo"
    os.mkfifo(taken)
    assert "not a regular file" in labctl("report", "--html", str(taken), status=2).stderr
    assert taken.is_fifo()
    assert "no such directory" in labctl("report", "--html", "nowhere/x", status=2).stderr
    damaged = labctl.directory / "results" / "damaged"
    damaged.mkdir()
    (damaged / "journal.jsonl").write_bytes(b"\xff\xfe\n")
    listed = labctl("runs")
    assert run["run"] in listed.stdout
    assert "damaged" in listed.stderr


def test_a_reader_that_goes_away_is_no_failure(labctl: Labctl) -> None:
    command = f"{shlex.join(labctl.command('doctor', '--help'))} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=labctl.directory, env=labctl.env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    assert "Traceback" not in done.stderr


def test_a_removal_is_not_asked_of_nobody(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    labctl("init")
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        assert "--yes" in labctl("destroy", status=2).stderr


def test_a_full_cache_is_an_error_that_says_what_to_do(labctl: Labctl, tmp_path: Path) -> None:
    """On a file system of the test's own, in a mount namespace of its own."""
    full = tmp_path / "full"
    full.mkdir()
    labctl("init")
    fill = (
        f"mount -t tmpfs -o size=64k tmpfs {full} && mkdir {full}/labctl && "
        f'{{ dd if=/dev/zero of={full}/fill bs=1k 2>/dev/null || :; }} && exec "$@"'
    )
    argv = labctl.command("image", "build", "debian-12")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", fill, "sh", *argv],
        cwd=labctl.directory,
        env={**labctl.env, "XDG_CACHE_HOME": str(full)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stderr
    assert "make room: `df -h`" in done.stderr
    assert "Traceback" not in done.stderr


def test_old_numbers_stand_beside_new_ones(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(
        "lab: x\ntargets: {box: {kind: sim, times: {base_us: 2.0}}}\n"
    )
    (labctl.directory / "old.csv").write_text(
        "workload,target,threads,us_per_op\nkqtest,laptop,1,5.08\nkqtest,laptop,4,25.3\n"
        "kqtest,laptop,,9\n"
    )
    labctl("sweep", "kqtest", "--threads", "1,4", "--rounds", "3")
    done = labctl("import", "old.csv", "--name", "old", "--json")
    assert "left out: old.csv, rows without a number of threads: 4" in done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["cells"], told["targets"]) == ("old", 2, ["laptop"])
    (measured, imported) = json.loads(labctl("runs", "--json").stdout)["runs"]
    assert (measured["imported"], imported["imported"]) == (False, True)
    report = labctl("report", "--beside", "old").stdout
    assert "laptop (old)" in report and "25.3 n=1" in report
    assert "imported, not measured by labctl" in report
    assert "was imported: there is nothing" in labctl("sweep", "--resume", "old", status=2).stderr
    plan = labctl("plan", "kqtest", "--from", "old", status=2).stderr
    assert "was imported: it tells of no spread" in plan
    error = labctl("import", "old.csv", "--name", "old", status=2).stderr
    assert "there is a run 'old' already" in error and "--name" in error
    (labctl.directory / "bad.csv").write_text("workload,target,threads,us_per_op\nkqtest,a,1,x\n")
    error = labctl("import", "bad.csv", status=2).stderr
    assert "bad.csv:2: us_per_op: 'x' is no number above 0" in error
    assert not (labctl.directory / "results" / "imported-bad").exists()


@pytest.mark.parametrize("verb", [["runs"], ["runs", "prune", "--keep", "1"], ["image", "ls"]])
def test_how_much_is_said_stands_before_the_verb_or_behind_it(
    labctl: Labctl, verb: list[str]
) -> None:
    labctl("init")
    for words in (["-q", *verb], [*verb, "-q"]):
        assert labctl(*words).stderr == ""
    assert "runs" in labctl("runs", "prune", "--keep", "1", "-v").stderr
    assert "--quiet" not in labctl(*verb, "--help").stdout


def test_a_traceback_is_shown_behind_the_verb_too(labctl: Labctl) -> None:
    done = subprocess.run(
        labctl.command("report", "--traceback"), cwd=labctl.directory, env=labctl.env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" in done.stderr
