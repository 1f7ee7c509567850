"""The lab as it is understood: lab file, defaults, recipes and accelerator put together.

For people and for other tools (the Vagrantfile reads it). Nothing is started, built or asked
over a network; what a machine really has is ``observe``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labctl.errors import LabctlError
from labctl.guests.hardware import resolve
from labctl.guests.record import user_key
from labctl.hypervisor import accel
from labctl.hypervisor.uri import shown
from labctl.images.box import box_label, box_path, guest_options, provider_options
from labctl.images.catalogue import Hardware, Recipe
from labctl.images.export import export_key
from labctl.lab import Lab
from labctl.lab.model import LocalSpec, SimSpec, SSHSpec


def describe(lab: Lab, catalogue: Mapping[str, Recipe]) -> dict[str, Any]:
    """The lab for JSON output; docs/json.md says what the keys mean."""
    return {
        "lab": lab.lab,
        "path": str(lab.path.resolve()),
        "targets": [_target(lab, name, catalogue) for name in lab.targets],
        "pairs": [pair.model_dump() for pair in lab.pairs],
        "margin": lab.margin,
    }


def _target(lab: Lab, name: str, catalogue: Mapping[str, Recipe]) -> dict[str, Any]:
    spec = lab.targets[name]
    common = {"name": name, "kind": spec.kind, "machine": lab.machine_of(name)}
    if isinstance(spec, LocalSpec | SimSpec):
        return common
    if isinstance(spec, SSHSpec):
        identity = str(spec.identity) if spec.identity else None
        return common | {
            "ssh": {"host": spec.host, "port": spec.port, "user": spec.user, "identity": identity}
        }
    return common | _guest(lab, name, catalogue[spec.image])


def _guest(lab: Lab, name: str, recipe: Recipe) -> dict[str, Any]:
    spec, plan = lab.vm(name), resolve(lab, name, recipe)
    accelerator = _accelerator(spec.accel or "auto")
    cpu = plan.cpu(accelerator["chosen"])
    kernel = plan.kernel.text if plan.kernel else ""
    label = box_label(recipe, plan.settings, kernel)
    uri = shown(lab.hypervisors[spec.hypervisor].uri)
    return {
        "image": recipe.name,
        "system": recipe.system,
        "hypervisor": {"name": spec.hypervisor, "uri": uri},
        "accelerator": accelerator,
        "vcpus": plan.vcpus,
        "memory_mib": plan.memory_mib,
        "init": plan.init,
        "hardware": _hardware(plan.hardware, cpu),
        "tunables": dict(plan.settings.tunables),
        "sysctls": dict(plan.settings.sysctls),
        "cmdline": plan.settings.cmdline,
        "kernel": kernel,
        "ssh": {"user": recipe.ssh.user, "identity": str(user_key(lab))},
        "vagrant": {
            "box": f"labctl/{label}",
            "file": str(box_path(label)),
            "identity": str(export_key()),
            "export": _export_command(name, recipe, label),
            **guest_options(recipe),
            "libvirt": {
                "driver": "kvm" if accelerator["chosen"] == "kvm" else "qemu",
                **({} if uri in ("auto", "embed") else {"uri": uri}),
                "cpus": plan.vcpus,
                "memory": plan.memory_mib,
                **provider_options(plan.hardware, cpu=cpu),
            },
        },
    }


def _export_command(name: str, recipe: Recipe, label: str) -> str:
    """What makes the guest's box."""
    own = "" if label == recipe.name else f" --target {name}"
    return f"labctl image export {recipe.name} --format box{own}"


def _hardware(hardware: Hardware, cpu: str) -> dict[str, Any]:
    kept = ("machine", "disk_bus", "nic", "video", "smbios_product")
    return {"cpu": cpu, **hardware.model_dump(include=set(kept))}


def _accelerator(asked: str) -> dict[str, str]:
    try:
        choice = accel.choose(asked)
    except LabctlError as error:  # shown, not raised: nothing is started here
        return {"asked": asked, "chosen": asked, "reason": error.message}
    return {"asked": asked, "chosen": choice.accel, "reason": choice.reason}
