"""The verb that looks before ``up`` does: doctor."""

from __future__ import annotations

from collections import Counter
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
    from labctl.checkup import examine

    found = state(context)
    quick = found.output.err.is_terminal  # checks are many and short: not a line each in a log
    with found.output.steps() as steps:
        progress = steps.update if quick else lambda *_, **__: None
        checks = examine(lambda: found.lab, found.catalogue, progress=progress, fresh=fresh)
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
    counts = Counter(check.status for check in checks)
    summary = ", ".join(f"{counts[s]} {s}" for s in ("ok", "warn", "unknown", "fail") if counts[s])
    kvm = next(check for check in checks if check.name == "kvm")
    how = "KVM" if kvm.status == "ok" else "TCG: shapes mean something, times do not"
    found.output.say(f"{len(checks)} checks: {summary}. Guests here run under {how}.")
    failed = [check for check in checks if check.status == "fail"]
    if failed:
        raise UnavailableError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(c.name for c in failed)}",
            hint="each line above says what to do",
        )
