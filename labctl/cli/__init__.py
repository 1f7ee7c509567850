"""The command line: arguments in; tables, progress and exit codes out; no logic.

``labctl.cli.app`` has what all verbs share; each group of verbs is a module.
"""

from __future__ import annotations

import os
import sys
import traceback

from labctl.errors import ConfigError, InterruptedByUser, LabctlError


def main() -> None:
    """Entry point of the ``labctl`` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    import typer

    from labctl.cli import access, check, images, lab, sweeps  # noqa: F401  (they add their verbs)
    from labctl.cli.app import State, app

    # Typer brings its own copy of click in newer versions; this is that one's base error.
    usage_error: type[Exception] = next(
        c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
    )
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
    except SystemExit as leaving:  # completion ends so
        return int(leaving.code or 0)
    except usage_error as error:
        error.show()  # type: ignore[attr-defined]
        return ConfigError.exit_code
    except (typer.Abort, KeyboardInterrupt):
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
