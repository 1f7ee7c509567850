"""Verbs that make and unmake the lab: init, up, down, destroy, status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import Json, LabFile, State, Targets, Yes, app, confirm, state
from labctl.errors import ConfigError, LabctlError, PartialError, UnavailableError

if TYPE_CHECKING:
    from labctl.provision import UpResult


@app.command()
def init(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="[FILE]")] = Path("lab.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented lab file to start from.

    Example: `labctl init && labctl doctor && labctl up`
    """
    from labctl.lab.template import write_lab_file

    write_lab_file(path, force=force)
    out = state(context).output
    out.say(
        f"wrote {path}: this machine, and guests of Linux, FreeBSD 9 and NetBSD 6. "
        f"Next: labctl doctor, labctl up"
    )


@app.command()
def up(
    context: typer.Context,
    targets: Targets = None,
    file: LabFile = None,
    json: Json = False,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds for all guests to answer SSH.")
    ] = 180,
) -> None:
    """Bring up the lab, or just the targets named: build images, start guests, deploy.

    Doing it again does nothing. A target that cannot come up does not stop the others: it is
    told with its reason, and makes exit code 4.

    Example: `labctl up linux`
    """
    found = state(context)
    results = bring_up(found, found.select(targets), timeout=timeout)
    if json:
        found.output.json(targets=[result.as_dict() for result in results.values()])
    finish(found, {name: result.error for name, result in results.items()}, "came up")


def bring_up(found: State, names: list[str], *, timeout: float) -> dict[str, UpResult]:
    """Bring these targets up and show it; errors are in the results."""
    from labctl import provision

    with found.output.steps() as steps:

        def failed(name: str, error: LabctlError) -> None:
            steps.finish(
                name, f"failed: {error.message if error.where == name else error}", style="red"
            )

        results = provision.up(
            found.lab,
            names,
            found.catalogue,
            progress=steps.update,
            timeout=timeout,
            failed=failed,
        )
        for name, result in results.items():
            if result.error is None:
                steps.finish(name, result.summary)
    for used in dict.fromkeys(r.hypervisor for r in results.values() if r.hypervisor):
        found.output.say(f"hypervisor {used}")
    for notice in dict.fromkeys(r.notice for r in results.values() if r.notice):
        found.output.warn(notice)
    return results


@app.command()
def down(
    context: typer.Context,
    targets: Targets = None,
    file: LabFile = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for a guest.")] = 60,
) -> None:
    """Shut guests down in order; their disks stay. Other targets are left alone.

    Example: `labctl down`
    """
    from labctl import provision

    found = state(context)
    results = provision.down(found.lab, found.select(targets), timeout=timeout)
    report_each(found, results)


@app.command()
def destroy(
    context: typer.Context, targets: Targets = None, file: LabFile = None, yes: Yes = False
) -> None:
    """Remove guests with their disks and keys, and what is kept of simulated machines.

    Images, results and other targets stay.

    Example: `labctl destroy linux --yes`
    """
    from labctl import provision
    from labctl.machines import disposable_of

    found = state(context)
    names = disposable_of(found.lab, found.select(targets))
    if names:
        confirm(f"Remove {', '.join(names)} with their disks?", yes=yes)
    report_each(found, provision.destroy(found.lab, names))


@app.command()
def status(
    context: typer.Context, targets: Targets = None, file: LabFile = None, json: Json = False
) -> None:
    """Show each target: state, accelerator as QEMU reports it, address, what is deployed.

    Example: `labctl status --json`
    """
    from labctl import provision

    found = state(context)
    rows = provision.status(found.lab, found.select(targets), found.catalogue)
    if json:
        found.output.json(lab=found.lab.lab, targets=[row.as_dict() for row in rows])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "kind", "state", "accelerator", "address", "deployed"):
        table.add_column(heading)
    for row in rows:
        cells = (row.name, row.kind, row.state, row.accelerator, row.address, row.deployed)
        table.add_row(*(escape(cell) for cell in cells))
    found.output.table(table)
    for row in rows:
        if row.note:
            found.output.say(f"{row.name}: {row.note}", style="yellow")


def report_each(found: State, results: dict[str, str | LabctlError]) -> None:
    """One line a target of what was done; errors end in their exit code."""
    for name, result in results.items():
        if isinstance(result, str):
            found.output.say(f"{name}: {result}")
    errors = {n: r if isinstance(r, LabctlError) else None for n, r in results.items()}
    finish(found, errors, "was done")


def finish(found: State, errors: dict[str, LabctlError | None], what: str) -> None:
    """Word the errors of several targets and raise what the exit code is to be.

    Raises:
        ConfigError: every error is one of configuration.
        UnavailableError: nothing worked.
        PartialError: some of it worked.
    """
    bad = {name: error for name, error in errors.items() if error is not None}
    if not bad:
        return
    for name, error in bad.items():
        if error.where != name:  # a file and line, a URL: say whose
            error.where = f"{name}: {error.where}" if error.where else name
        found.output.error(error)
    summary = f"{len(bad)} of {len(errors)} failed: {', '.join(bad)}"
    if all(isinstance(error, ConfigError) for error in bad.values()):
        raise ConfigError(summary)
    if len(bad) == len(errors):
        raise UnavailableError(summary)
    raise PartialError(summary, hint=f"the others {what}; mend this and run it again")
