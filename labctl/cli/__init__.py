"""The command line: arguments in; tables, progress and exit codes out; no logic.

``labctl.cli.app`` has what all verbs share; each group of verbs is a module.
"""

from __future__ import annotations

import copy
import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labctl.errors import ConfigError, InterruptedByUser, LabctlError, UnavailableError

if TYPE_CHECKING:
    from labctl.cli.app import State


def main() -> None:
    """Entry point of the ``labctl`` command."""
    signal.signal(signal.SIGTERM, _end)
    gc.set_threshold(
        50_000, 20, 20
    )  # modules and records live to the end: look through them rarely
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before a verb began, while modules were read
        print("error: interrupted", file=sys.stderr)
        code = InterruptedByUser.exit_code
    gc.freeze()  # nor look through them once more at the end, which is a fifth of a second
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code."""
    import typer

    from labctl.cli import (  # noqa: F401  (they add their verbs)
        access,
        check,
        export,
        images,
        imports,
        lab,
        nightly,
        plan,
        reports,
        runs,
        show,
        sweeps,
    )
    from labctl.cli.app import OF_ALL_VERBS, State, app

    # Typer brings its own copy of click in newer versions; this is that one's base error.
    usage_error: type[Exception] = next(
        c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
    )
    state = State()
    command: Any = typer.main.get_command(app)
    _take_everywhere([p for p in command.params if p.name in OF_ALL_VERBS], command)
    try:
        result = command.main(
            arguments,
            prog_name="labctl",
            standalone_mode=False,
            obj=state,
            auto_envvar_prefix="LABCTL",
        )
        return result if isinstance(result, int) else 0
    except SystemExit as leaving:
        # Completion ends so; and so does Typer when a reader of stdout went away (with 1).
        return 0 if leaving.code == 1 else int(leaving.code or 0)
    except usage_error as error:
        error.show()  # type: ignore[attr-defined]
        return ConfigError.exit_code
    except (typer.Abort, KeyboardInterrupt):
        state.output.error(InterruptedByUser("interrupted"))
        return InterruptedByUser.exit_code
    except LabctlError as error:
        if state.output.traceback:
            traceback.print_exc()
        state.output.error(error)
        return error.exit_code
    except OSError as error:
        said = error.strerror or str(error)
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        hint = _REMEDIES.get(error.errno or 0, "")
        return _unexpected(state, UnavailableError(said, where=where, hint=hint))
    except Exception as error:
        text = f"this is a defect of labctl: {type(error).__name__}: {error}"
        return _unexpected(state, LabctlError(text, hint="labctl --traceback ... shows where"))


def _take_everywhere(options: Sequence[Any], group: Any) -> None:
    """Let options that stand before the verb stand behind it as well, in each of a group's
    verbs; there they are not in its help."""
    from labctl.cli.app import set_output

    for verb in group.commands.values():
        for option in options:
            twin = copy.copy(option)
            twin.callback, twin.expose_value, twin.hidden = set_output, False, True
            verb.params.append(twin)
        if hasattr(verb, "commands"):
            _take_everywhere(options, verb)


_ELSEWHERE = "XDG_CACHE_HOME and XDG_STATE_HOME move labctl's own directories"
_REMEDIES = {
    errno.ENOSPC: f"make room: `df -h` shows which file system is full; {_ELSEWHERE}",
    errno.EDQUOT: f"your quota is used up: make room; {_ELSEWHERE}",
    errno.EACCES: f"make it writable for this user; {_ELSEWHERE}",
    errno.EROFS: f"the file system is read-only; {_ELSEWHERE}",
    errno.EMFILE: "too many files are open: raise the limit (`ulimit -n`)",
}
"""What to do about an error of the operating system that no module expected."""


def _unexpected(state: State, error: LabctlError) -> int:
    """Word an error that nothing expected; called while it is handled."""
    if state.output.traceback:
        traceback.print_exc()
    state.output.error(error)
    return error.exit_code


def _end(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt  # so that what Ctrl-C cleans up, SIGTERM does as well
