"""`import`: results made by hand, to stand beside measured ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.app import Json, LabFile, app, state


@app.command("import")
def import_(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Results, one row a cell.")],
    name: Annotated[
        str | None, typer.Option(metavar="RUN", help="Name of the run [default: of the file].")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, metavar="N", help="Threads of rows that do not say."),
    ] = None,
    file: LabFile = None,
    json: Json = False,
) -> None:
    """Take results made by hand as a run, marked as imported: one number a cell, no interval.

    `labctl report --beside RUN` shows them beside measured ones; docs/import.md has the format.

    Example: `labctl import old-numbers.csv --name laptop-2012`
    """
    from labctl.sweep.handmade import read_table
    from labctl.sweep.imports import import_run, run_name
    from labctl.version import full_version
    from labctl.workloads import load_workloads

    found = state(context)
    run = run_name(table, name)
    read = read_table(table, load_workloads(), threads=threads)
    directory = import_run(found.lab.results_dir, read, name=run, labctl=full_version())
    targets = list(dict.fromkeys(row.cell.target for row in read.rows))
    for text in read.left_out:
        found.output.warn(f"left out: {text}; --threads N says it")
    for workload in read.unknown:
        found.output.warn(f"labctl has no workload {workload}: it stands by itself")
    if json:
        found.output.json(
            run=run,
            cells=len(read.rows),
            targets=targets,
            left_out=read.left_out,
            directory=str(directory),
        )
    found.output.say(
        f"run {run}: {len(read.rows)} cells of {len(targets)} targets, imported. "
        f"Next: labctl report --beside {run}"
    )
