"""Doctor's checks put together for a lab; the checks themselves are ``doctor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labctl import doctor, guests
from labctl.errors import LabctlError
from labctl.images.catalogue import Recipe
from labctl.lab import Lab, SSHSpec
from labctl.machines import make_target, vms_of
from labctl.observe.probes import Check
from labctl.provision import Progress


def examine(
    read_lab: Callable[[], Lab],
    catalogue: Mapping[str, Recipe],
    *,
    progress: Progress,
    fresh: bool,
) -> list[Check]:
    """Doctor's checks for a lab; without a valid lab file, those of this machine alone."""
    try:
        lab = read_lab()
    except LabctlError:
        lab = None
    progress("libvirt", "asking for guests")
    names = list(lab.targets) if lab else []
    here = [name for name in vms_of(lab, names) if lab.machine_of(name) == "local"] if lab else []
    wanted = (
        [doctor.Guest(n, lab.vm(n).vcpus or 1, lab.vm(n).memory or 0) for n in here] if lab else []
    )
    reachable = [n for n in names if lab and isinstance(lab.targets[n], SSHSpec)]

    def describe_lab() -> str:
        found = read_lab()
        for name in vms_of(found, list(found.targets)):
            guests.resolve(found, name, catalogue[found.vm(name).image])
        return f"{found.path}: lab {found.lab}, targets {', '.join(found.targets)}"

    return doctor.run_checks(
        uris={name: h.uri for name, h in lab.hypervisors.items()} if lab else {"local": "auto"},
        guests=wanted,
        targets=[make_target(lab, name, catalogue) for name in reachable] if lab else [],
        ports=guests.ports_of(lab, here) if lab else {},
        load_lab=describe_lab,
        fresh=fresh,
        progress=progress,
    )
