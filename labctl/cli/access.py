"""Verbs that get a person onto a target: ssh, console."""

from __future__ import annotations

import shlex
import subprocess
from typing import Annotated

import typer

from labctl.cli.app import LabFile, app, complete_targets, state
from labctl.errors import UnavailableError

Target = Annotated[
    str, typer.Argument(metavar="TARGET", autocompletion=complete_targets, help="A target.")
]


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def ssh(
    context: typer.Context,
    target: Target,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="What to run there.")
    ] = None,
    file: LabFile = None,
) -> None:
    """Open a shell on a target, or run a command there; its exit code is passed on.

    One word is a shell command, several are a program and its arguments, as they are.

    Example: `labctl ssh linux uname -a` or `labctl ssh linux 'dmesg | tail'`
    """
    from labctl import access

    found = state(context)
    (name,) = found.select([target])
    given = command or []
    words = access.login_command(found.lab, name, given[given[:1] == ["--"] :])
    found.output.detail(shlex.join(words))
    raise typer.Exit(subprocess.run(words, check=False).returncode)


@app.command()
def console(
    context: typer.Context,
    target: Target,
    file: LabFile = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Go on as it grows.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many lines.")] = 60,
) -> None:
    """Show the end of a guest's serial console.

    Example: `labctl console linux --follow`
    """
    from labctl import access
    from labctl.hypervisor.console import tail

    found = state(context)
    (name,) = found.select([target])
    log = access.console_log(found.lab, name)
    if not log.is_file():
        raise UnavailableError(
            f"{name} has no serial console yet",
            where=str(log),
            hint=f"labctl up {name}",
        )
    if follow:
        raise typer.Exit(subprocess.call(["tail", "-n", str(lines), "-F", str(log)]))
    found.output.data(tail(log, lines=lines))
