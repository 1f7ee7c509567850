"""The plan of a sweep: a pure function of what is asked, what the targets are, and a seed.

Within each round all cells of a machine are shuffled anew (threads, parameters and
targets together), so that drift over time falls on all of them alike instead of on one
thread count or one side of a pair (Abedi and Brecht, ICPE 2017). Nothing here touches
a machine: a plan can be printed, priced and compared.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labctl.errors import ConfigError
from labctl.sweep.records import Cell, Execution
from labctl.workloads import ParamValue, Workload, find_workload, form_for


@dataclass(frozen=True)
class Design:
    """How often everything is repeated. ``boots`` x ``rounds`` processes a cell, each with
    ``warmup`` + ``batches`` batches of at least ``min_batch_ms`` milliseconds. With 10
    rounds an amplification of 1.2 is too often not found (docs/method.md, power)."""

    rounds: int = 12
    boots: int = 1
    batches: int = 3
    warmup: int = 1
    min_batch_ms: int = 100
    seed: int = 0


@dataclass(frozen=True)
class TargetInfo:
    """What a plan needs to know of a target. ``capabilities`` (program -> parameter ->
    values that this build supports) is empty where the programs were not asked yet."""

    name: str
    system: str
    machine: str
    capabilities: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """All executions in the order of each machine, and what was left out and why."""

    design: Design
    executions: tuple[Execution, ...]
    skipped: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Hash of what is to be executed; two plans with one digest are the same."""
        text = json.dumps([e.model_dump() for e in self.executions], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_plan(
    *,
    workloads: Sequence[str],
    targets: Sequence[TargetInfo],
    known: Mapping[str, Workload],
    threads: Sequence[int] | None,
    params: Mapping[str, Sequence[str]],
    design: Design,
    only: Collection[str] | None = None,
) -> Plan:
    """Lay out a sweep.

    Args:
        workloads: names as asked for; a target of another system runs the counterpart.
        threads: thread counts, or None for each manifest's own.
        params: parameter -> values, as written on the command line.
        only: keys of cells; what else the arguments above ask for is left out.

    Raises:
        ConfigError: an unknown workload, parameter or value; nothing at all to run.
    """
    asked = check_words(workloads, params, known)
    cells: dict[str, Cell] = {}
    machine_of = {target.name: target.machine for target in targets}
    skipped: list[str] = []
    for target, workload in itertools.product(targets, asked):
        runs = form_for(workload, target.system, dict(known))
        if runs is None:
            skipped.append(f"{target.name}: {workload.name} has no form for {target.system}")
            continue
        grid, missing = _grid(runs, params, target)
        skipped += [f"{target.name}: {text}" for text in missing]
        for values, count in itertools.product(grid, threads or runs.threads):
            cell = Cell(
                target=target.name,
                workload=workload.name,
                program=runs.program,
                form=runs.form,
                unit=runs.unit,
                params=values,
                threads=count,
            )
            if only is None or cell.key in only:
                cells.setdefault(cell.key, cell)
    if not cells:
        raise ConfigError(
            "there is nothing to run",
            detail="\n".join(skipped),
            hint="name other workloads, parameters or targets",
        )
    executions = _order(list(cells.values()), machine_of, design)
    return Plan(design, tuple(executions), tuple(dict.fromkeys(skipped)))


def _order(
    cells: Sequence[Cell], machine_of: Mapping[str, str], design: Design
) -> Iterable[Execution]:
    count = 0
    for machine in sorted({machine_of[cell.target] for cell in cells}):
        own = [cell for cell in cells if machine_of[cell.target] == machine]
        places = itertools.product(range(design.boots), range(design.rounds))
        for execution in shuffled(own, machine, design.seed, places, first_id=count):
            count += 1
            yield execution


def shuffled(
    cells: Iterable[Cell],
    machine: str,
    seed: int,
    places: Iterable[tuple[int, int]],
    *,
    first_id: int,
) -> Iterator[Execution]:
    """All cells of a machine once in each of ``places`` (boot, round), in an order that is
    drawn anew for each and depends on nothing but these and the seed."""
    numbers = itertools.count(first_id)
    own = sorted(cells, key=lambda cell: cell.key)
    for boot, round_ in places:
        order = list(own)
        # Not cryptography: a seeded, reproducible order is the point.
        random.Random(f"{seed}/{machine}/{boot}/{round_}").shuffle(order)  # noqa: S311
        for cell in order:
            yield Execution(id=next(numbers), boot=boot, round=round_, cell=cell)


def _grid(
    workload: Workload, params: Mapping[str, Sequence[str]], target: TargetInfo
) -> tuple[list[dict[str, ParamValue]], list[str]]:
    """Every combination of parameter values that this target can run, and what it can't."""
    missing: list[str] = []
    axes: list[list[tuple[str, ParamValue]]] = []
    supported = target.capabilities.get(workload.program, {})
    for name, param in workload.params.items():
        axis: dict[ParamValue, None] = {}
        for text in params.get(name, (str(param.default),)):
            try:
                value = param.parse(text)
            except ValueError:
                missing.append(f"{workload.program} has no {name}={text}")
                continue
            if name in supported and value not in supported[name]:
                missing.append(f"{workload.program} has no {name}={value} on this system")
                continue
            axis[value] = None
        axes.append([(name, value) for value in axis])
    return [dict(combination) for combination in itertools.product(*axes)], missing


def check_words(
    workloads: Sequence[str],
    params: Mapping[str, Sequence[str]],
    known: Mapping[str, Workload],
) -> list[Workload]:
    """The workloads of these names; each parameter and value must mean something to at least
    one of their forms.

    Raises:
        ConfigError: an unknown workload, parameter or value.
    """
    asked = [find_workload(name, dict(known)) for name in dict.fromkeys(workloads)]
    forms = list(asked) + [known[w.counterpart] for w in asked if w.counterpart in known]
    for name, values in params.items():
        having = [form.params[name] for form in forms if name in form.params]
        if not having:
            all_names = sorted({n for form in forms for n in form.params})
            raise ConfigError(
                f"no workload of this sweep has a parameter {name!r}",
                where="--param",
                hint=f"there are: {', '.join(all_names) or 'none'}",
            )
        for text in values:
            reasons = []
            for param in having:
                try:
                    param.parse(text)
                    break
                except ValueError as error:
                    reasons.append(str(error))
            else:
                raise ConfigError(f"{name}: {reasons[0]}", where="--param")
    return asked
