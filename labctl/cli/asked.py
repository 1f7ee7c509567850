"""What a sweep is asked to measure, as options: declared once, for ``sweep`` and ``plan``."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from labctl.cli.app import State, complete_workloads, split_list
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.request import Request
    from labctl.sweep.records import Goal

_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class Asked:
    """The options; each field is one, with its default."""

    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD]...",
            autocompletion=complete_workloads,
            help="kqtest, eptest, mmapsem, urandom",
        ),
    ] = None
    threads: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Thread counts [default: manifest's].")
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE,...", help="A parameter's values."),
    ] = None
    targets: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Targets [default: all of the lab].")
    ] = None
    rounds: Annotated[int, typer.Option(min=1, max=10_000, help="Processes a cell and boot.")] = 12
    boots: Annotated[int, typer.Option(min=1, max=1_000, help="Boots of each guest.")] = 1
    batches: Annotated[int, typer.Option(min=1, max=10_000, help="Measured batches a process.")] = 3
    warmup: Annotated[int, typer.Option(min=0, max=1_000, help="Batches before them.")] = 1
    min_batch_ms: Annotated[
        int, typer.Option(min=1, max=60_000, help="Least length of a batch.")
    ] = 100
    until: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Go on until each cell's interval is ± this."),
    ] = None
    at_most: Annotated[
        float | None,
        typer.Option(
            min=1, max=1_000, help="With --until: times the batches of its start [default: 10]."
        ),
    ] = None
    max_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --until: measuring on a machine, like 30m."),
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the order [default: from the clock].")
    ] = None

    def request(self, found: State) -> Request:
        """What these options ask for.

        Raises:
            ConfigError: a value that makes no sense.
        """
        from labctl.request import Request, new_seed
        from labctl.sweep.plan import Design

        chosen = found.select(split_list(self.targets, "--targets"))
        if not self.workloads:
            raise ConfigError("which workload?", hint="for example: labctl sweep kqtest")
        return Request(
            workloads=self.workloads,
            targets=chosen,
            named=self.targets is not None,
            threads=_threads(self.threads),
            params=_params(self.param or []),
            until=self._goal(),
            design=Design(
                rounds=self.rounds,
                boots=self.boots,
                batches=self.batches,
                warmup=self.warmup,
                min_batch_ms=self.min_batch_ms,
                seed=new_seed() if self.seed is None else self.seed,
            ),
        )

    def _goal(self) -> Goal | None:
        from labctl.sweep.records import Goal

        if self.until is None:
            for name, value in (("--at-most", self.at_most), ("--max-time", self.max_time)):
                if value is not None:
                    raise ConfigError(
                        "it limits an adaptive sweep", where=name, hint="give --until too, like 3%"
                    )
            return None
        return Goal(
            half_width=_percent(self.until),
            at_most=10.0 if self.at_most is None else self.at_most,
            max_seconds=None if self.max_time is None else _duration(self.max_time),
        )


def asks(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of ``Asked`` in place of its parameter ``asked``."""
    hints = get_type_hints(Asked, include_extras=True)
    for name, hint in hints.items():  # one environment for all verbs that take them
        (info,) = hint.__metadata__
        if isinstance(info, OptionInfo):
            info.envvar = f"LABCTL_SWEEP_{name.upper()}"
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=field.default, annotation=hints[name])
        for name, field in Asked.__dataclass_fields__.items()
    ]
    own = [
        parameter.replace(kind=kind)
        for name, parameter in inspect.signature(verb, eval_str=True).parameters.items()
        if name != "asked"
    ]

    @functools.wraps(verb)
    def taking(**values: Any) -> None:
        asked = Asked(**{option.name: values.pop(option.name) for option in options})
        verb(asked=asked, **values)

    parameters = [own[0], *options, *own[1:]]
    taking.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    taking.__annotations__ = {p.name: p.annotation for p in parameters}
    return taking


def _threads(text: str | None) -> list[int] | None:
    parts = split_list(text, "--threads")
    if parts is None:
        return None
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,4}", part) or not 1 <= int(part) <= 1024:
            raise ConfigError(
                f"{part!r} is not a thread count",
                where="--threads",
                hint="whole numbers from 1 to 1024, like 1,2,4,8",
            )
    return list(dict.fromkeys(int(part) for part in parts))


def _params(texts: list[str]) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or not name:
            raise ConfigError(
                f"{text!r} is not NAME=VALUE,...", where="--param", hint="like rearm=oneshot,level"
            )
        params.setdefault(name.strip(), []).extend(split_list(values, "--param") or [])
    return params


def _percent(text: str) -> float:
    """``"3%"`` -> 0.03. A bare number could mean either, and is refused."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    share = float(match[1]) / 100 if match else 0.0
    if not 0.0001 <= share <= 1:
        raise ConfigError(
            f"{text!r} is not a half-width", where="--until", hint="from 0.01% to 100%, like 3%"
        )
    return share


def _duration(text: str) -> float:
    """``"30m"`` -> 1800 seconds."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", text)
    value = float(match[1]) * _UNITS_S.get(match[2], 0) if match else 0.0
    if not 1 <= value <= 365 * 86_400:
        raise ConfigError(
            f"{text!r} is not a duration", where="--max-time", hint="like 90s, 30m or 2h"
        )
    return value
