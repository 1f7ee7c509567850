"""Verbs that measure: deploy, sweep."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import (
    Json,
    LabFile,
    Targets,
    app,
    state,
    was_given,
)
from labctl.cli.asked import Asked, asks
from labctl.cli.lab import finish
from labctl.cli.output import seconds
from labctl.errors import ConfigError


@app.command()
def deploy(
    context: typer.Context,
    targets: Targets = None,
    file: LabFile = None,
    json: Json = False,
    force: Annotated[
        bool, typer.Option("--force", help="Copy and compile even if nothing changed.")
    ] = False,
) -> None:
    """Compile the workloads on the targets with their own compiler, by Ansible.

    Example: `labctl deploy linux --force`
    """
    from labctl import provision

    found = state(context)
    names = found.select(targets)
    with found.output.steps() as steps:
        results = provision.deploy(
            found.lab, names, found.catalogue, progress=steps.update, force=force
        )
        for name, result in results.items():
            if result.error is None:
                steps.finish(name, "compiled" if result.changed else "nothing changed")
    if json:
        found.output.json(
            targets=[
                {"name": n, "ok": r.error is None, "changed": r.changed, "builds": r.builds}
                for n, r in results.items()
            ]
        )
    finish(found, {name: result.error for name, result in results.items()}, "are deployed")


@app.command()
@asks
def sweep(
    context: typer.Context,
    asked: Asked,
    file: LabFile = None,
    limit: Annotated[
        int, typer.Option(min=1, max=86_400, help="Seconds a process may take.")
    ] = 120,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan alone.")] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run (or: latest).")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: failed cells too.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure workloads on all targets, in an order randomised anew in each round.

    kqtest runs each system's own form: kqueue on the BSDs, epoll (eptest) on Linux. It
    can be killed at any instant and resumed. A target that is not up is left out, said, and
    makes exit code 4; with --targets it is an error.

    Example: `labctl sweep kqtest --threads 1,2,4,8 --until 3%`
    """
    from labctl import session
    from labctl.cli.progress import SweepDisplay

    found = state(context)
    if resume is not None:
        _refuse_with_resume(context)
        opened = session.resume(found.lab, resume, found.catalogue, retry_failed=retry_failed)
    else:
        request = asked.request(found)
        if dry_run:
            _print_plan(context, session.preview(found.lab, request, found.catalogue), json)
            return
        with found.output.steps() as steps:
            opened = session.start(found.lab, request, found.catalogue, progress=steps.update)
    for text in opened.notices:
        found.output.warn(text)
    with SweepDisplay(found.output, opened) as display:
        outcome = opened.run(on_event=display.on_event, limit_s=limit)
    if json:
        found.output.json(
            run=opened.run_id, done=outcome.done, failed=outcome.failed, lost=sorted(outcome.lost)
        )
    session.conclude(opened, outcome)
    found.output.say(f"run {opened.run_id} is complete. Next: labctl report {opened.run_id}")


def _refuse_with_resume(context: typer.Context) -> None:
    """A resumed run has its plan: ConfigError if the command line says another."""
    free = {"resume", "retry_failed", "limit", "json", "file"}
    for name in context.params:
        if name not in free and was_given(context, name):
            raise ConfigError(
                f"a run that is resumed has its plan; {name.replace('_', '-')} cannot change it",
                where="--resume",
                hint="leave it out, or start a new sweep",
            )


def _print_plan(context: typer.Context, preview: object, json: bool) -> None:
    from labctl.session import Preview

    assert isinstance(preview, Preview)
    out = state(context).output
    plan = preview.plan
    if json:
        out.json(
            estimate_s=round(preview.estimate_s, 1),
            seed=plan.design.seed,
            digest=plan.digest,
            skipped=list(plan.skipped),
            executions=[execution.model_dump() for execution in plan.executions],
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("#", "boot", "round", "target", "program", "parameters", "threads"):
        table.add_column(heading)
    for execution in plan.executions:
        cell = execution.cell
        params = " ".join(f"{name}={value}" for name, value in cell.params.items())
        numbers = (str(execution.id), str(execution.boot + 1), str(execution.round + 1))
        table.add_row(*numbers, escape(cell.target), cell.program, params, str(cell.threads))
    out.table(table)
    for text in plan.skipped:
        out.warn(f"left out: {text}")
    out.say(
        f"{len(plan.executions)} processes, about {seconds(preview.estimate_s)}; "
        f"seed {plan.design.seed} makes this order again"
    )
