"""`report` and `compare`: a run, or two, in every form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labctl import collector
from labctl.cli.app import Json, LabFile, app, given_path, state, was_given
from labctl.errors import ConfigError
from labctl.report.forms import Figures, Forms

if TYPE_CHECKING:
    from labctl.report.model import ReportModel

Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", parser=given_path, help="Page [default: in the run's directory]."),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=given_path,
        help="Markdown, its figures beside it: for mail, pull requests.",
    ),
]
FiguresAs = Annotated[
    Figures, typer.Option("--figures", help="Format of the figures beside the Markdown.")
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", parser=given_path, help="One row a cell, for other programs."
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


@app.command()
def report(
    context: typer.Context,
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run [default: latest].")
    ] = "latest",
    beside: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Show this run's targets beside it; may be repeated."),
    ] = None,
    file: LabFile = None,
    json: Json = False,
    html: Html = None,
    markdown: Markdown = None,
    figures: FiguresAs = Figures.svg,
    csv: Csv = None,
    open_page: Open = False,
) -> None:
    """Verdicts, tables and the page of a run; with options as Markdown, CSV or JSON.

    Example: `labctl report latest --open`
    """
    from labctl import analysis
    from labctl.report import build_report
    from labctl.sweep.aggregate import write_parquet
    from labctl.sweep.runs import find_run
    from labctl.workloads import load_workloads

    results = state(context).lab.results_dir
    directory = find_run(results, run)
    others = {path.name: path for path in (find_run(results, name) for name in beside or [])}
    if directory.name in others:
        raise ConfigError(
            "a run cannot stand beside itself",
            where=f"--beside {directory.name}",
            hint="labctl runs lists all of them",
        )
    name = f"report-beside-{'-'.join(others)[:150]}.html" if others else "report.html"
    forms = Forms(html or directory / name, markdown, figures, csv)
    _check(context, forms)
    with collector.paused():
        opened = analysis.open_run(directory)
        with ThreadPoolExecutor(1) as pool:  # Arrow writes while the statistics are made
            parquet = pool.submit(write_parquet, directory, opened.samples)
            if others:
                beside_it = {name: analysis.open_run(path) for name, path in others.items()}
                opened = analysis.beside(opened, beside_it)
            model = build_report(opened, workloads=load_workloads())
            parquet.result()
        _show(context, model, forms, json, open_page)


@app.command()
def compare(
    context: typer.Context,
    baseline: Annotated[str, typer.Argument(metavar="RUN", help="The run before the change.")],
    new: Annotated[
        str, typer.Argument(metavar="[RUN]", help="The run after it [default: latest].")
    ] = "latest",
    file: LabFile = None,
    json: Json = False,
    html: Html = None,
    markdown: Markdown = None,
    figures: FiguresAs = Figures.svg,
    csv: Csv = None,
    open_page: Open = False,
) -> None:
    """What changed from one run to another: each target against itself, cell by cell.

    Example: `labctl compare 20261130-210000-kqtest latest`
    """
    from labctl import analysis
    from labctl.report import build_report
    from labctl.sweep.runs import find_run
    from labctl.workloads import load_workloads

    results = state(context).lab.results_dir
    directories = [find_run(results, name) for name in (baseline, new)]
    if directories[0] == directories[1]:
        raise ConfigError(
            "a run cannot be compared with itself",
            where=directories[0].name,
            hint="labctl runs lists all of them",
        )
    page = directories[1] / f"compare-{directories[0].name}.html"
    forms = Forms(html or page, markdown, figures, csv)
    _check(context, forms)
    with collector.paused():
        before, after = (analysis.open_run(path) for path in directories)
        if before.header == after.header:
            raise ConfigError(
                f"these are two copies of one run, {before.header.run}",
                where=", ".join(path.name for path in directories),
                hint="labctl runs lists all of them",
            )
        change = analysis.compare_runs(before, after)
        _show(context, build_report(change, workloads=load_workloads()), forms, json, open_page)


def _check(context: typer.Context, forms: Forms) -> None:
    """The options of forms, before anything is computed."""
    if forms.markdown is None and was_given(context, "figures"):
        raise ConfigError(
            "figures stand beside a Markdown file", where="--figures", hint="add --markdown FILE"
        )
    forms.check()


def _show(
    context: typer.Context, model: ReportModel, forms: Forms, json: bool, open_page: bool
) -> None:
    from labctl.report import to_json
    from labctl.report.terminal import print_report

    output = state(context).output
    written = forms.write(model)
    if json:
        print(to_json(model))
    else:
        print_report(model, output.out)
    for what, path in written.items():
        output.say(f"{what}: {path}")
    if open_page and (trouble := _browse(forms.html)):
        output.warn(f"{trouble}; the page is {forms.html}")


def _browse(page: Path) -> str:
    """Show a page in the user's web browser, without waiting for it.

    Returns:
        Why it cannot be shown, as a clause; "" if a browser was asked.
    """
    import os
    import subprocess
    import sys
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return "there is no web browser here, or no display for one"
    # What is found without a display are browsers for text, which would take our terminal.
    if type(browser) is webbrowser.GenericBrowser and not os.environ.get("BROWSER"):
        return f"the only web browser here is {browser.name}, for text alone"
    subprocess.Popen(
        [sys.executable, "-m", "webbrowser", page.resolve().as_uri()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return ""
