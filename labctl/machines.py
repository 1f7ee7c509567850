"""From the lab file to Target objects, and which of the declared targets are what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labctl import guests
from labctl.errors import ConfigError
from labctl.images.catalogue import Recipe
from labctl.lab import Lab, LocalSpec, SimSpec, SSHSpec, VMSpec
from labctl.paths import private_dir
from labctl.targets import LocalTarget, SSHTarget
from labctl.targets.base import Target

if TYPE_CHECKING:
    from labctl.targets.sim import SimTarget


def vms_of(lab: Lab, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that are guests of this lab."""
    return [name for name in names if isinstance(lab.targets[name], VMSpec)]


def disposable_of(lab: Lab, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that ``destroy`` removes: guests, and what is simulated."""
    return [name for name in names if isinstance(lab.targets[name], VMSpec | SimSpec)]


def make_target(lab: Lab, name: str, catalogue: Mapping[str, Recipe]) -> Target:
    """The Target that the lab file declares as ``name``, not yet connected.

    Raises:
        UnavailableError: it is a guest that was never brought up.
    """
    spec = lab.targets[name]
    if isinstance(spec, VMSpec):
        return guests.make_target(lab, name, catalogue[spec.image])
    if isinstance(spec, SSHSpec):
        return SSHTarget(
            name=name,
            host=spec.host,
            port=spec.port,
            user=spec.user,
            identity=spec.identity,
            known_hosts=spec.known_hosts,
            workdir=spec.workdir,
            machine=lab.machine_of(name),
            can_reboot=spec.reboot,
            legacy_algorithms=spec.legacy_ssh,
        )
    if isinstance(spec, SimSpec):
        return simulated_target(lab, name, spec)
    return LocalTarget(name=name, workdir=_local_workdir(lab, spec), machine=lab.machine_of(name))


def simulated_target(lab: Lab, name: str, spec: SimSpec) -> SimTarget:
    """A target of kind ``sim``; ``make_target`` makes it among the others.

    Raises:
        ConfigError: its facts make no sense.
    """
    from labctl.targets.sim import SimTarget, simulated_facts

    try:
        facts = simulated_facts(spec.facts, guest=spec.guest)
    except ConfigError as error:
        error.where = lab.place("targets", name, "facts", error.where)
        raise
    return SimTarget(
        name,
        home=private_dir(lab.state_dir / "simulated" / spec.machine),
        times=spec.times,
        machine=lab.machine_of(name),
        seed=spec.seed,
        can_reboot=spec.reboot,
        facts=facts,
    )


def binaries_of(lab: Lab, name: str) -> Path | None:
    """The directory of programs made elsewhere for a target; relative to the lab file."""
    spec = lab.targets[name]
    given = None if isinstance(spec, SimSpec) else spec.binaries
    return lab.path.resolve().parent / given if given else None


def simulates(lab: Lab, name: str) -> bool:
    """Whether a target only simulates its programs: nothing is compiled there."""
    return isinstance(lab.targets[name], SimSpec)


def _local_workdir(lab: Lab, spec: LocalSpec) -> str:
    return spec.workdir or str(lab.state_dir / "local")
