"""What a sweep is asked to measure, and its plan from the lab file alone."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labctl.images.catalogue import Recipe
from labctl.lab import Lab, LocalSpec, SimSpec, SSHSpec, VMSpec
from labctl.machines import make_target
from labctl.sweep.plan import Design, Plan, TargetInfo, check_words, make_plan
from labctl.sweep.price import Prices, longest, prices_by_machine
from labctl.sweep.records import CalibrationRecord, Goal
from labctl.targets.base import Target
from labctl.workloads import Workload, load_workloads

REBOOT_S = {"vm": 15.0, "ssh": 120.0, "sim": 0.0}
"""What a reboot takes by kind of target, until a run tells."""


@dataclass(frozen=True)
class Request:
    """What a sweep is asked to measure.

    Attributes:
        threads: None for each manifest's own.
        until: for an adaptive sweep, whose first phase ``design`` is; else None.
        named: whether the targets were asked for by name. Then all of them must be there;
            else ("all of the lab") those that are not up are left out, and it is said.
        only: keys of cells, where not all of the above are wanted.
        run: the run's name; "" for one of the time and the workloads.
        operations: what an earlier run calibrated, by cell key: batches of these cells have
            as many operations here, since what is measured depends on that.
    """

    workloads: Sequence[str]
    targets: Sequence[str]
    threads: Sequence[int] | None
    params: Mapping[str, Sequence[str]]
    design: Design
    until: Goal | None = None
    named: bool = False
    only: frozenset[str] | None = None
    run: str = ""
    operations: Mapping[str, CalibrationRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class Preview:
    """A plan before anything was contacted, and its expected duration."""

    plan: Plan
    estimate_s: float
    machines: Mapping[str, str]
    """Target -> physical machine."""


def new_seed() -> int:
    """A seed from the clock; recorded with the run."""
    return int(time.time())


def preview(lab: Lab, request: Request, catalogue: Mapping[str, Recipe]) -> Preview:
    """The plan of a request from the lab file alone; only an ``ssh`` target is contacted,
    since nothing else says what system it runs.

    Raises:
        ConfigError: as ``make_plan``.
        UnavailableError: an ``ssh`` target does not answer.
    """
    infos = []
    for name in request.targets:
        spec = lab.targets[name]
        if isinstance(spec, VMSpec):
            system: str = catalogue[spec.image].system
        elif isinstance(spec, SimSpec):
            system = str(spec.facts.get("system", "Linux")).lower()
        elif isinstance(spec, LocalSpec):
            system = platform.system().lower()
        else:
            target = make_target(lab, name, catalogue)
            target.connect()
            system = system_of(target)
            target.close()
        infos.append(TargetInfo(name, system, lab.machine_of(name)))
    plan = plan_of(request, infos, load_workloads())
    machines = {info.name: info.machine for info in infos}
    prices = Prices(reboot_seconds(lab, machines))
    by_machine = prices_by_machine(plan.executions, machines, plan.design, prices)
    return Preview(plan, longest(by_machine), machines)


def check(lab: Lab, request: Request, catalogue: Mapping[str, Recipe]) -> None:
    """See that a request makes sense before a machine is touched: all of it where the lab file
    says what the targets run, else its words.

    Raises:
        ConfigError: as ``make_plan``.
    """
    if any(isinstance(lab.targets[name], SSHSpec) for name in request.targets):
        check_words(request.workloads, request.params, load_workloads())
    else:
        preview(lab, request, catalogue)


def system_of(target: Target) -> str:
    """The system that a target runs, as it says itself: linux, freebsd, netbsd."""
    return target.run("uname -s").stdout.strip().lower()


def plan_of(request: Request, infos: Sequence[TargetInfo], known: Mapping[str, Workload]) -> Plan:
    """The plan of a request for targets that are known; errors as ``make_plan``."""
    return make_plan(
        workloads=request.workloads,
        targets=infos,
        known=known,
        threads=request.threads,
        params=request.params,
        design=request.design,
        only=request.only,
    )


def one_boot_notices(lab: Lab, design: Design, names: Sequence[str]) -> dict[str, str]:
    """Of the targets that are measured in one boot although several are asked for: why."""
    if design.boots == 1:
        return {}
    allowed = reboot_seconds(lab, names)
    found = {}
    for name in names:
        if name not in allowed:
            local = isinstance(lab.targets[name], LocalSpec)
            why = "labctl runs on it" if local else "`reboot: true` in the lab file would allow it"
            found[name] = f"not rebooted ({why}): all of it is measured in one boot"
    return found


def reboot_seconds(lab: Lab, names: Iterable[str]) -> dict[str, float]:
    """Targets that may be rebooted, and the seconds that it takes them as a rule."""
    found = {}
    for name in names:
        spec = lab.targets[name]
        allowed = isinstance(spec, VMSpec) or getattr(spec, "reboot", False)
        if allowed:
            found[name] = REBOOT_S[spec.kind]
    return found
