"""The verb for cron, systemd and CI: a whole night in one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import (
    Json,
    LabFile,
    State,
    app,
    complete_workloads,
    given_path,
    state,
    was_given,
)
from labctl.cli.asked import Asked
from labctl.errors import ConfigError, LabctlError, MeasurementError, PartialError

if TYPE_CHECKING:
    from labctl import provision
    from labctl.lab import Lab
    from labctl.nightly.record import Night
    from labctl.session import Session
    from labctl.sweep.runner import Event


@app.command()
def nightly(
    context: typer.Context,
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD]...",
            autocompletion=complete_workloads,
            help="What is measured [default: the lab file's].",
        ),
    ] = None,
    file: LabFile = None,
    threads: Annotated[str | None, typer.Option(metavar="N,N,...", help="Thread counts.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE,...", help="A parameter's values."),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Targets [default: all of the lab].")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Processes a cell and boot [default: 4].")
    ] = None,
    boots: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Boots of each guest [default: 6].")
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Measured batches a process.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, max=1_000, help="Batches before them.")
    ] = None,
    min_batch_ms: Annotated[
        int | None, typer.Option(min=1, max=60_000, help="Least length of a batch.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the order [default: from the clock].")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=given_path, help="Where reports go [default: results/nightly]."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=86_400, help="Seconds a process may take.")
    ] = 120,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Measure nothing; the latest night becomes the baseline."),
    ] = False,
    json: Json = False,
) -> None:
    """Bring up the lab, measure it, compare it with its baseline, report; fail if it is slower.

    Slower is what lies beyond the margin, and does so again when just those cells are measured
    once more. The first night becomes the baseline. What is asked stands in the lab file under
    `nightly:`; options go before it. A night that was killed goes on when called again.

    Example: `labctl nightly kqtest --threads 1,4`
    """
    from labctl.nightly import asked as nightly_asked
    from labctl.nightly import kept
    from labctl.nightly.night import spend

    found = state(context)
    where = nightly_asked.directory_of(found.lab, directory)
    if accept:
        _refuse_with_accept(context)
        done = kept.accept(found.lab, where)
        for text in done.changes:
            found.output.say(text)
        if json:
            _print_json(found, done)
        return
    request = _asked(
        found.lab,
        Asked(
            workloads=workloads or None, threads=threads, param=param, targets=targets, seed=seed
        ),
        {"rounds": rounds, "boots": boots, "batches": batches, "warmup": warmup,
         "min_batch_ms": min_batch_ms},
    ).request(found)  # fmt: skip
    asked = nightly_asked.Asked(found.lab, found.catalogue, request, where, limit)
    done = spend(asked, _Told(found))
    if json:
        _print_json(found, done)
    else:
        _print(found, done, where)
    _gate(done, where)


def _asked(lab: Lab, given: Asked, design: dict[str, int | None]) -> Asked:
    """The options with the lab file's where they do not say otherwise."""
    if lab.nightly is None and not given.workloads:
        raise ConfigError(
            "which workload?",
            where=str(lab.path),
            hint="name one, or give the lab file the key nightly: {workloads: [kqtest]}",
        )
    from labctl.nightly.asked import NIGHTLY

    own = lab.nightly
    chosen: dict[str, int] = {"boots": NIGHTLY.boots, "rounds": NIGHTLY.rounds}
    chosen |= own.design.model_dump(exclude_none=True) if own else {}
    chosen |= {name: value for name, value in design.items() if value is not None}
    values = dict(given.__dict__)
    if own:
        values["workloads"] = given.workloads or list(own.workloads)
        values["threads"] = given.threads or _listed(own.threads)
        values["targets"] = given.targets or _listed(own.targets)
        params = [f"{name}={','.join(texts)}" for name, texts in own.params.items()]
        values["param"] = given.param or params
    return Asked(**{**values, **chosen})


def _listed(values: tuple[object, ...] | None) -> str | None:
    return None if values is None else ",".join(str(value) for value in values)


def _refuse_with_accept(context: typer.Context) -> None:
    for name in context.params:
        if name not in ("accept", "directory", "json", "file") and was_given(context, name):
            raise ConfigError(
                f"nothing is measured; {name.replace('_', '-')} says nothing",
                where="--accept",
                hint="leave it out",
            )


class _Told:
    """Shows how a night goes (labctl.nightly.asked.Watch)."""

    def __init__(self, found: State) -> None:
        self._found = found

    def say(self, text: str) -> None:
        self._found.output.say(text)

    def warn(self, text: str) -> None:
        self._found.output.warn(text)

    def up(self, names: list[str]) -> dict[str, LabctlError]:
        from labctl.cli.lab import bring_up

        results = bring_up(self._found, names, timeout=180)
        return {name: result.error for name, result in results.items() if result.error}

    def steps(self) -> contextlib.AbstractContextManager[provision.Progress]:
        return self._steps()

    @contextlib.contextmanager
    def _steps(self) -> Iterator[provision.Progress]:
        with self._found.output.steps() as steps:
            yield steps.update

    @contextlib.contextmanager
    def measuring(self, opened: Session) -> Iterator[Callable[[Event], None]]:
        from labctl.cli.progress import SweepDisplay

        with SweepDisplay(self._found.output, opened) as display:
            yield display.on_event


def _print_json(found: State, night: Night) -> None:
    found.output.json(**{
        name: value
        for name, value in night.model_dump(mode="json", by_alias=True).items()
        if name != "schema"
    })  # fmt: skip


def _print(found: State, night: Night, where: Path) -> None:
    from labctl.nightly.words import causes, notable

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "workload", "threads", "tonight / baseline", "again", "result"):
        table.add_column(heading, justify="right" if heading == "threads" else "left")
    for cell in night.cells:
        work = " ".join(filter(None, (cell.workload, cell.params)))
        threads = "" if cell.threads is None else str(cell.threads)
        ratios = str(cell.ratio or ""), str(cell.again or "")
        parts = (cell.target, work, threads, *ratios, cell.state)
        table.add_row(*(escape(part) for part in parts))
    found.output.table(table)
    for text in [*notable(night), *causes(night), *night.changes]:
        found.output.say(text)
    found.output.say(f"report: {where / night.night / 'report.html'}")


def _gate(night: Night, where: Path) -> None:
    """What a night comes to as an exit code."""
    from labctl.nightly.words import headline

    said, place = headline(night), str(where / night.night)
    kinds: dict[str, type[LabctlError]] = {
        "regressed": MeasurementError,
        "failed": MeasurementError,
        "partial": PartialError,
    }
    hints = {
        "regressed": "if it is meant to be so: labctl nightly --accept",
        "failed": f"labctl report {night.run} says what failed",
        "partial": "mend what is missing; the next night measures it",
    }
    if night.outcome in kinds:
        raise kinds[night.outcome](said, where=place, hint=hints[night.outcome])
