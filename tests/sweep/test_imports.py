"""Results made by hand as runs: what is taken, what is refused, and where it is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pytest import approx

from labctl import seeds
from labctl.analysis import Run, beside, compare_runs, open_run
from labctl.errors import ConfigError
from labctl.report import build_report, to_json
from labctl.report.markdown import render_markdown
from labctl.report.page import render_page
from labctl.report.table import render_csv
from labctl.sweep.handmade import MOST_BYTES, MOST_ERRORS, MOST_ROWS, Table, read_table
from labctl.sweep.imports import import_run, run_name
from labctl.sweep.journal import read_journal
from labctl.sweep.runs import find_run, list_runs
from labctl.workloads import load_workloads
from tests.report.synthetic import make_records

SEEDS = Path(seeds.__file__).with_name("seed-results.csv")
KNOWN = load_workloads()
HEAD = "workload,target,threads,us_per_op\n"


def read(tmp_path: Path, content: str | bytes, **options: int) -> Table:
    path = tmp_path / "old.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, KNOWN, **options)


def imported(tmp_path: Path, content: str, name: str = "old", **options: int) -> Run:
    table = read(tmp_path, content, **options)
    return open_run(import_run(tmp_path / "results", table, name=name, labctl="0"))


def refused(tmp_path: Path, content: str | bytes) -> list[str]:
    """The findings, each without its file."""
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, content)
    error = raised.value
    found = error.detail.splitlines() or [f"{error.where}: {error.message}"]
    return [text.removeprefix(f"{tmp_path / 'old.csv'}:") for text in found]


def test_the_seeds_table_is_imported_as_it_is(tmp_path: Path) -> None:
    table = read_table(SEEDS, KNOWN)
    run = open_run(import_run(tmp_path, table, name="seeds", labctl="0"))
    stated = [point for point in seeds.load_seeds() if point.threads is not None]
    times = {
        (row["target"], row["program"], row["threads"]): row["time"]
        for row in run.cells.to_dict("records")
    }
    assert times == {
        (f"{p.system} {p.environment} {p.year}", p.workload, p.threads): approx(p.us_per_op)
        for p in stated
    }
    assert set(run.cells["workload"]) == {"kqtest"}  # eptest answers the same question
    assert set(run.samples["ops"]) == {100_000}
    assert run.cells["vcsw_per_op"].isna().all() and run.cells["time_low"].isna().all()
    assert table.left_out == ["seed-results.csv, rows without a number of threads: 16 to 23"]
    header = run.header
    assert header.skipped == table.left_out
    assert header.imported is not None
    assert header.imported.sha256 == hashlib.sha256(SEEDS.read_bytes()).hexdigest()


def test_rows_that_do_not_say_their_threads_can_be_told(tmp_path: Path) -> None:
    table = read_table(SEEDS, KNOWN, threads=2)
    assert len(table.rows) == 22 and not table.left_out
    last = table.rows[-1].cell
    assert last.params == {"lock": "mutex"}  # the parameter of mmapsem that has the variant
    assert last.threads == 2


def test_columns_and_their_units(tmp_path: Path) -> None:
    rows = (
        "workload,target,threads,params,param.cpu,ops_per_s,unit,note\r\n"
        'mine,"a, b",4,depth=2 kind=x,07,250000,loop,by hand\r\n'
        "\r\n"
        "urandom,c,1,source=getrandom size=16,,2e6,,\r\n"
    )
    table = read(tmp_path, b"\xef\xbb\xbf" + rows.encode())
    mine, urandom = table.rows
    assert (mine.us_per_op, urandom.us_per_op) == (4.0, 0.5)
    assert mine.cell.params == {"depth": 2, "kind": "x", "cpu": "07"}
    assert (mine.cell.target, mine.cell.unit, mine.note) == ("a, b", "loop", "by hand")
    assert urandom.cell.params == {"source": "getrandom", "size": 16}
    assert urandom.cell.unit == "read"
    assert table.unknown == ["mine"]
    nano = read(tmp_path, "workload,system,threads,ns_per_op\nmine,Plan 9,1,0.125\n")
    assert nano.rows[0].us_per_op == approx(0.000125)
    run = open_run(import_run(tmp_path, nano, name="nano", labctl="0"))
    assert run.cells["time"].tolist() == [approx(0.000125)]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", ": the file is empty"),
        (HEAD, ": there is no row but the header"),
        ("workload;target;threads;us_per_op\n", "1: fields are separated by semicolons"),
        ("workload,target,threads\n", "1: one of the columns us_per_op, ns_per_op, ops_per_s"),
        ("workload,us_per_op,ns_per_op\n", "1: one of the columns"),
        ("target,us_per_op\n", "1: the column workload is missing"),
        ("workload,us_per_op,us_per_op\n", "1: the column 'us_per_op' is there twice"),
        ("workload,thread,us_per_op\n", "1: there is no column 'thread'; did you mean threads?"),
        ("workload,param.\x1b,us_per_op\n", r"1: there is no column 'param.\x1b'"),
        (HEAD + "eptest,a,1,5,08\n", "2: 5 fields where the header has 4; is a number written"),
        (HEAD + 'eptest,a,1,"5,08"\n', "2: us_per_op: '5,08' is no number above 0; decimals"),
        *(
            (HEAD + f"eptest,a,1,{text}\n", f"2: us_per_op: '{text}' is no number above 0")
            for text in ("nan", "inf", "-1", "0", "1e400", "1_0", "0x10", "", "=1+1", "9" * 30 + "e9x")
        ),
        (HEAD + "eptest,a,1,1e300\n", "2: us_per_op: 1e+300 us an operation cannot be"),
        (HEAD + "eptest,a,0,1\n", "2: threads: '0' is no whole number"),
        (HEAD + "eptest,a,\u0661,1\n", "2: threads: '\\u0661' is no whole number"),
        (HEAD + "eptest,,1,1\n", "2: target: what was measured on?"),
        (HEAD + "../x,a,1,1\n", "2: workload: '../x' is no name"),
        (HEAD + "eptest,a\x1b[31m,1,1\n", r"2: target: 'a\x1b[31m' holds the control character"),
        (HEAD + "eptest,a\0,1,1\n", r"2: target: 'a\x00' holds the control character U+0000"),
        (HEAD + 'eptest,"a\nb",1,1\n', r"2: target: 'a\nb' holds the control character U+000A"),
        (HEAD + f"eptest,{'a' * 201},1,1\n", "2: target: 'aaaa"),
        (HEAD + "eptest,a,1,1\n" * 2, "3: the same cell as line 2"),
        (HEAD + 'eptest,"a,1,1\n', "2: this is not CSV"),
        (HEAD + f"eptest,{'a' * 200_000},1,1\n", "2: this is not CSV: field larger"),
        (HEAD.encode() + b"eptest,\xe9,1,1\n", "2: this is not UTF-8"),
        (HEAD.encode("utf-16"), ": this is UTF-16"),
        (HEAD + "eptest,a,1,1\n" * (MOST_ROWS + 1), "10002: there are more than 10,000 rows"),
        (b"x" * (MOST_BYTES + 1), ": the file is larger than 16 MiB"),
        ("workload,target,threads,us_per_op,unit\neptest,a,1,1,read\n", "2: unit: an operation"),
        (
            "workload,target,threads,us_per_op,params\neptest,a,1,1,rearm\n",
            "2: params: 'rearm=' is no NAME=VALUE",
        ),
        (
            "workload,target,threads,us_per_op,kernel\neptest,a,1,1,5\neptest,a,2,1,6\n",
            "3: kernel: 'a' has '6' here and '5' in line 2",
        ),
        (
            "workload,target,threads,us_per_op,operations,seconds\neptest,a,1,5,100,1\n",
            "2: seconds / operations is 10000 us, and us_per_op says 5 us",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_names_its_line(tmp_path: Path, content: str | bytes, found: str) -> None:
    (told,) = refused(tmp_path, content)
    assert found in f":{told}" or told.startswith(found)
    assert told.isprintable() and len(told) < 400


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    told = refused(tmp_path, HEAD + "eptest,a,0,-1\nok,a,1,1\nBAD,a,1,1\n")
    assert [text.split(":")[:2] for text in told] == [
        ["2", " threads"], ["2", " us_per_op"], ["4", " workload"],
    ]  # fmt: skip
    assert len(refused(tmp_path, HEAD + "BAD,a,1,1\n" * 1000)) == MOST_ERRORS


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "no regular file"), (tmp_path / "none", "cannot be read")):
        with pytest.raises(ConfigError, match=message):
            read_table(path, KNOWN)


def test_names_of_runs(tmp_path: Path) -> None:
    assert run_name(Path("x/my old <numbers>.csv"), None) == "imported-my-old-numbers"
    assert run_name(Path("..."), None) == "imported-file"
    for bad in ("", "../x", "latest", "nightly", "baseline.json", ".hidden", "a b", "x" * 81):
        with pytest.raises(ConfigError, match="no run's name"):
            run_name(Path("x.csv"), bad)
    imported(tmp_path, HEAD + "eptest,a,1,1\n")
    before = (tmp_path / "results" / "old" / "journal.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="a run 'old' already"):
        imported(tmp_path, HEAD + "eptest,a,1,2\n")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["old"]
    assert (tmp_path / "results" / "old" / "journal.jsonl").read_bytes() == before


def test_an_import_is_listed_and_is_never_the_latest(tmp_path: Path) -> None:
    results = tmp_path / "results"
    (results / "measured").mkdir(parents=True)
    text = "".join(record.model_dump_json() + "\n" for record in make_records())
    (results / "measured" / "journal.jsonl").write_text(text.replace("2031-", "2001-"))
    imported(tmp_path, HEAD + "eptest,a,1,1\n")
    assert [(row.run, row.imported, row.done) for row in list_runs(results)] == [
        ("measured", False, 180), ("old", True, 1),
    ]  # fmt: skip
    assert find_run(results, "latest").name == "measured"
    assert find_run(results, "old").name == "old"
    assert read_journal(results / "old").header.imported is not None


def test_of_imports_alone_there_is_no_latest(tmp_path: Path) -> None:
    imported(tmp_path, HEAD + "eptest,a,1,1\n")
    with pytest.raises(ConfigError, match="no run was measured yet") as told:
        find_run(tmp_path / "results", "latest")
    assert "imported: old" in told.value.hint


def test_of_two_imports_nothing_is_said_to_have_changed_that_no_file_tells(tmp_path: Path) -> None:
    before = imported(tmp_path, HEAD + "eptest,a,1,1\neptest,a,2,2\n", name="before")
    content = HEAD.replace("us_per_op", "us_per_op,operations")
    after = imported(tmp_path, content + "eptest,a,1,2,1000\neptest,a,2,6,1000\n", name="after")
    (verdict,) = build_report(compare_runs(before, after)).verdicts
    told = f"{verdict.sentence} {' '.join(verdict.notes)}"
    assert "unknown" not in told.partition("What is known to have changed")[2]
    assert "one boot" not in told
    assert "operations a batch" not in told


HOSTILE = "<img src=x onerror=alert(1)>"
TWO = HEAD + "".join(
    f'eptest,"{name}",{n},{time}\n'
    for name, time in (("=cmd|'/c calc'!A1", 3.5), (HOSTILE, 40.0), ("metal", 7.25))
    for n in (1, 4)
)


def test_beside_a_run_nothing_is_compared_with_what_was_imported(tmp_path: Path) -> None:
    run = Run(make_records())
    both = beside(run, {"old": imported(tmp_path, TWO)})
    assert [c.pair for c in both.comparisons] == [c.pair for c in run.comparisons]
    report = build_report(both, workloads=KNOWN)
    target = report.target("metal (old)")
    assert (target.kind, target.role) == ("imported", "imported, not measured by labctl")
    assert any("imported, not measured by labctl" in note for note in report.notes)
    assert [bool(part.imported) for part in report.runs] == [False, True]
    answered = {a.target for s in report.sections for e in s.expectations for a in e.answers}
    assert not any("(old)" in name for name in answered)


def test_hostile_contents_are_text_in_every_form(tmp_path: Path) -> None:
    report = build_report(imported(tmp_path, TWO), workloads=KNOWN)
    page = render_page(report)
    assert HOSTILE not in page and "&lt;img src=x" in page
    assert HOSTILE in to_json(report)
    assert "\n=" not in render_csv(report) and ",=" not in render_csv(report)
    assert HOSTILE not in render_markdown(report)


def test_imported_numbers_give_no_verdict(tmp_path: Path) -> None:
    old = imported(tmp_path, TWO)
    new = imported(tmp_path, TWO.replace("7.25", "70"), name="new")
    for change in (compare_runs(old, new), compare_runs(Run(make_records()), new)):
        assert change.comparisons or change.pairs
        for found in change.comparisons:
            assert (found.level.call, found.scaling.call) == ("cannot tell", "cannot tell")
