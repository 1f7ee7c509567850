"""The lab as it is understood: lab file, defaults, recipes and accelerator put together.

For people and for other tools (the Vagrantfile reads it). Nothing is started, built or asked
over a network; what a machine really has is ``observe``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labctl.errors import LabctlError
from labctl.guests.record import user_key
from labctl.hypervisor import accel
from labctl.images.box import box_name, box_path, guest_options, provider_options
from labctl.images.catalogue import Hardware, Recipe
from labctl.images.export import export_key
from labctl.lab import Lab
from labctl.lab.model import LocalSpec, SSHSpec


def describe(lab: Lab, catalogue: Mapping[str, Recipe]) -> dict[str, Any]:
    """The lab for JSON output; docs/json.md says what the keys mean."""
    return {
        "lab": lab.lab,
        "path": str(lab.path.resolve()),
        "targets": [_target(lab, name, catalogue) for name in lab.targets],
        "pairs": [pair.model_dump() for pair in lab.pairs],
    }


def _target(lab: Lab, name: str, catalogue: Mapping[str, Recipe]) -> dict[str, Any]:
    spec = lab.targets[name]
    common = {"name": name, "kind": spec.kind, "machine": lab.machine_of(name)}
    if isinstance(spec, LocalSpec):
        return common
    if isinstance(spec, SSHSpec):
        identity = str(spec.identity) if spec.identity else None
        return common | {
            "ssh": {"host": spec.host, "port": spec.port, "user": spec.user, "identity": identity}
        }
    return common | _guest(lab, name, catalogue[spec.image])


def _guest(lab: Lab, name: str, recipe: Recipe) -> dict[str, Any]:
    spec, hardware = lab.vm(name), recipe.hardware
    accelerator = _accelerator(spec.accel or "auto")
    cpu = hardware.cpu.kvm if accelerator["chosen"] == "kvm" else hardware.cpu.tcg
    vcpus = min(spec.vcpus or 1, hardware.max_vcpus)
    memory_mib = spec.memory or hardware.memory_mib
    uri = lab.hypervisors[spec.hypervisor].uri
    return {
        "image": recipe.name,
        "system": recipe.system,
        "hypervisor": {"name": spec.hypervisor, "uri": uri},
        "accelerator": accelerator,
        "vcpus": vcpus,
        "memory_mib": memory_mib,
        "init": recipe.init(spec.init),
        "hardware": _hardware(hardware, cpu),
        "tunables": dict(recipe.tunables),
        "sysctls": dict(recipe.sysctls),
        "ssh": {"user": recipe.ssh.user, "identity": str(user_key(lab))},
        "vagrant": {
            "box": box_name(recipe.name),
            "file": str(box_path(recipe.name)),
            "identity": str(export_key()),
            **guest_options(recipe),
            "libvirt": {
                "driver": "kvm" if accelerator["chosen"] == "kvm" else "qemu",
                **({} if uri in ("auto", "embed") else {"uri": uri}),
                "cpus": vcpus,
                "memory": memory_mib,
                **provider_options(hardware, cpu=cpu),
            },
        },
    }


def _hardware(hardware: Hardware, cpu: str) -> dict[str, Any]:
    kept = ("machine", "disk_bus", "nic", "video", "smbios_product")
    return {"cpu": cpu, **hardware.model_dump(include=set(kept))}


def _accelerator(asked: str) -> dict[str, str]:
    try:
        choice = accel.choose(asked)
    except LabctlError as error:  # shown, not raised: nothing is started here
        return {"asked": asked, "chosen": asked, "reason": error.message}
    return {"asked": asked, "chosen": choice.accel, "reason": choice.reason}
