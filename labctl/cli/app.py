"""The application object, the options all verbs share, and what a verb works with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labctl.cli.output import Output
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.images.catalogue import Recipe
    from labctl.lab import Lab

app = typer.Typer(
    name="labctl",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Is it the kernel, or is it the virtualization?

    labctl brings up guests and machines, measures contention micro-benchmarks on all of
    them, and says how large the difference is, with intervals.

    Exit codes: 0 done, 1 a measurement failed or regressed, 2 usage or configuration, 3 lab
    unavailable, 4 partly done (can be resumed), 130 interrupted.
    """,
)


@dataclass
class State:
    """What one invocation works with; the lab file is read when a verb first needs it."""

    output: Output = field(default_factory=Output)
    file: Path | None = None

    @cached_property
    def catalogue(self) -> dict[str, Recipe]:
        """All image recipes, by name."""
        from labctl.images.catalogue import load_catalogue

        return load_catalogue()

    @cached_property
    def lab(self) -> Lab:
        """The lab that the lab file declares."""
        from labctl.lab import load_lab, locate

        return load_lab(locate(self.file), images=self.catalogue)

    def select(self, names: Sequence[str] | None) -> list[str]:
        """The targets that a verb is about: those named, or all.

        Raises:
            ConfigError: a name that the lab file does not declare.
        """
        if not names:
            return list(self.lab.targets)
        for name in names:
            if name not in self.lab.targets:
                raise ConfigError(
                    f"there is no target {name!r} in the lab",
                    where=str(self.lab.path),
                    hint=f"it declares: {', '.join(self.lab.targets)}",
                )
        return list(dict.fromkeys(names))


def state(context: typer.Context) -> State:
    """The State of an invocation."""
    found = context.find_object(State)
    assert found is not None
    return found


def complete_targets(incomplete: str) -> list[str]:
    """Target names for shell completion; silent when there is no valid lab file."""
    try:
        return [name for name in State().lab.targets if name.startswith(incomplete)]
    except Exception:
        return []


def was_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line, rather than in the environment or nowhere."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_path(text: str) -> Path:
    """A path that is written to, as an option's value."""
    if text.strip() in ("", "-"):
        raise typer.BadParameter(f"{text!r} names no file; name one")
    return Path(text)


def _use_file(context: typer.Context, value: Path | None) -> Path | None:
    found = context.find_object(State)
    if found is not None and value is not None:
        found.file = value
    return value


LabFile = Annotated[
    Path | None,
    typer.Option(
        "-f",
        "--file",
        metavar="FILE",
        callback=_use_file,
        allow_from_autoenv=False,  # LABCTL_CONFIG is its variable
        help="Lab file [default: $LABCTL_CONFIG or lab.yaml].",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TARGET]...",
        help="Targets [default: all of the lab].",
        autocompletion=complete_targets,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def complete_workloads(incomplete: str) -> list[str]:
    """Workload names for shell completion."""
    from labctl.workloads import load_workloads

    return [name for name in load_workloads() if name.startswith(incomplete)]


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless ``yes``.

    Raises:
        ConfigError: there is nobody to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} Nobody is there to answer", hint="--yes answers yes")
    typer.confirm(question, abort=True, err=True)


def split_list(text: str | None, what: str) -> list[str] | None:
    """``"a,b"`` -> ["a", "b"]; ConfigError names the option when a part is empty."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ConfigError(f"an empty value in {text!r}", where=what, hint="write it like a,b,c")
    return parts


def _version(value: bool) -> None:
    if value:
        from labctl.version import full_version

        print(f"labctl {full_version()}")
        raise typer.Exit


OF_ALL_VERBS = ("quiet", "verbose", "traceback")
"""Options that may stand before the verb or behind it."""


def set_output(context: typer.Context, option: Any, value: bool) -> None:
    """Take one of ``OF_ALL_VERBS`` that stands behind the verb."""
    if value:
        setattr(state(context).output, option.name, True)


@app.callback()
def common(
    context: typer.Context,
    file: LabFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show a traceback with an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of labctl itself."""
    found = state(context)
    found.output.quiet = quiet
    found.output.verbose = verbose
    found.output.traceback = traceback
    if file is not None:
        found.file = file
