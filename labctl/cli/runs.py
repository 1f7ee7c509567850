"""The verbs of runs that are there: list them, remove those that nobody needs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import Json, LabFile, Yes, app, confirm, state
from labctl.cli.output import size
from labctl.errors import ConfigError

MOST_DAYS = 36_500

runs_app = typer.Typer(rich_markup_mode="markdown")
app.add_typer(runs_app, name="runs")


@runs_app.callback(invoke_without_command=True)
def runs(context: typer.Context, file: LabFile = None, json: Json = False) -> None:
    """List the runs of this lab: when, what, how much of it is done.

    Example: `labctl runs --json`
    """
    from labctl.analysis.words import plain
    from labctl.sweep.runs import list_runs

    if context.invoked_subcommand is not None:
        return
    found = state(context)
    rows = list_runs(found.lab.results_dir)
    if json:
        found.output.json(runs=[row.as_dict() for row in rows])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("run", "workloads", "targets", "done", "failed", "size"):
        numeric = heading in ("done", "failed", "size")
        table.add_column(
            heading,
            justify="right" if numeric else "left",
            no_wrap=numeric or heading == "run",
            overflow="fold",
        )
    for row in rows:
        if row.damage:
            found.output.warn(plain(f"{row.run}: {row.damage}"))
            continue
        table.add_row(
            escape(plain(row.run)),
            escape(", ".join(row.workloads)),
            escape(", ".join(row.targets)),
            "imported" if row.imported else f"{row.done}/{row.planned}",
            str(row.failed),
            size(row.size_bytes),
        )
    found.output.table(table)
    if not rows:
        found.output.say("no runs yet: labctl sweep kqtest")


@runs_app.command()
def prune(
    context: typer.Context,
    keep: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="So many of the latest stay.")
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(min=0, max=MOST_DAYS, metavar="DAYS", help="Only older ones go."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go.")] = False,
    yes: Yes = False,
    file: LabFile = None,
    json: Json = False,
) -> None:
    """Remove old runs. What the baseline of `labctl nightly` refers to stays, and so do the
    latest night's runs and whatever is being measured.

    Example: `labctl runs prune --keep 20 --older-than 30`
    """
    from datetime import UTC, datetime, timedelta

    from labctl.nightly.kept import kept_runs
    from labctl.sweep.prune import choose, is_written, remove, sweep_up
    from labctl.sweep.runs import list_runs

    if keep is None and older_than is None:
        raise ConfigError(
            "which runs are to go?", hint="--keep N, --older-than DAYS, or both of them"
        )
    found = state(context)
    results = found.lab.results_dir
    rows = list_runs(results)
    needed = kept_runs(found.lab, [row.run for row in rows])
    needed |= {
        row.run: "it is being measured"
        for row in rows
        if not row.damage and is_written(results / row.run)
    }
    age = None if older_than is None else timedelta(days=older_than)
    choice = choose(rows, needed, keep=keep, older_than=age, now=datetime.now(UTC))
    for run, why in choice.stay.items():
        if run in needed:
            found.output.say(f"{run} stays: {needed[run]}")
        else:
            found.output.detail(f"{run} stays: {why}")
    removed = []
    if choice.remove and not dry_run:
        names = ", ".join(row.run for row in choice.remove)
        total = size(sum(row.size_bytes for row in choice.remove))
        confirm(f"Remove {names} ({total})?", yes=yes)
        sweep_up(results)
        removed = [row for row in choice.remove if remove(results, row.run)]
    shown = choice.remove if dry_run else removed
    freed = sum(row.size_bytes for row in shown)
    if json:
        found.output.json(removed=[row.run for row in shown], freed_bytes=freed, dry_run=dry_run)
        return
    for row in shown:
        found.output.say(f"{'would remove' if dry_run else 'removed'} {row.run}")
    what = "would free" if dry_run else "freed"
    found.output.say(f"{len(shown)} of {len(rows)} runs: {what} {size(freed)}")
