"""The command line: arguments in; tables, progress and exit codes out; no logic.

``labctl.cli.app`` has what all verbs share; each group of verbs is a module.
"""

from __future__ import annotations

import os
import sys
import traceback

import click

from labctl.errors import InterruptedByUser, LabctlError


def main() -> None:
    """Entry point of the ``labctl`` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    import typer

    from labctl.cli import access, check, images, lab, sweeps  # noqa: F401  (they add their verbs)
    from labctl.cli.app import State, app

    state = State()
    command = typer.main.get_command(app)
    try:
        result = command.main(
            arguments,
            prog_name="labctl",
            standalone_mode=False,
            obj=state,
            auto_envvar_prefix="LABCTL",
        )
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        state.output.error(InterruptedByUser("interrupted"))
        return InterruptedByUser.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LabctlError as error:
        if state.output.traceback:
            traceback.print_exc()
        state.output.error(error)
        return error.exit_code
