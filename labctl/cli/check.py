"""The verb that looks before ``up`` does: doctor."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import Json, LabFile, app, state
from labctl.errors import UnavailableError

_STYLE = {"ok": "green", "warn": "yellow", "unknown": "yellow", "fail": "bold red"}


@app.command()
def doctor(
    context: typer.Context,
    file: LabFile = None,
    json: Json = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Prove the accelerator again, ignore what is known.")
    ] = False,
) -> None:
    """Check this machine and the lab before `up`: KVM, libvirt, tools, disk, noise, targets.

    Works without a lab file too. Example: `labctl doctor`
    """
    from labctl.provision import examine

    found = state(context)
    with found.output.steps() as steps:
        checks = examine(lambda: found.lab, found.catalogue, progress=steps.update, fresh=fresh)
    if json:
        found.output.json(checks=[check.model_dump() for check in checks])
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        group = ""
        for check in checks:
            if check.group != group:
                group = check.group
                table.add_row(f"[bold]{escape(group)}[/bold]", "", "")
            style = _STYLE[check.status]
            text = escape(check.finding)
            if check.remedy and check.status != "ok":
                text += f"\n[dim]-> {escape(check.remedy)}[/dim]"
            table.add_row(f"[{style}]{check.status}[/{style}]", escape(check.name), text)
        found.output.table(table)
    failed = [check for check in checks if check.status == "fail"]
    if failed:
        raise UnavailableError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(c.name for c in failed)}",
            hint="each line above says what to do",
        )
