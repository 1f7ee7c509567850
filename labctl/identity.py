"""What a target is while a run measures it: recorded, and compared when the run goes on."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any

from labctl import provision
from labctl.errors import ConfigError
from labctl.lab import Lab
from labctl.observe.facts import collect
from labctl.sweep.plan import TargetInfo
from labctl.targets import SimTarget
from labctl.targets.base import Target

# What of a guest's record must not change within a run.
_VIRTUAL = (
    "image",
    "image_key",
    "kernel_spec",
    "kernel_package",
    "kernel_key",
    "kernel_digest",
    "accelerator",
    "vcpus",
    "memory_mib",
    "cpu_model_virtual",
    "machine_type",
    "disk_bus",
    "nic",
    "video",
    "asked_smbios_product",
    "asked_cmdline",
    "asked_tunables",
    "asked_sysctls",
)


def facts_of(lab: Lab, target: Target) -> dict[str, Any]:
    """Facts of a target as the journal keeps them: its own, what its hypervisor says, and how
    and where its programs were made."""
    builds = builds_on(target)
    programs = {
        "program_origin": {name: build.get("origin", "") for name, build in builds.items()},
        "program_build": {
            name: "; ".join(build.get(key, "") for key in ("compiler", "flags", "link"))
            for name, build in builds.items()
        },
    }
    hardware = provision.describe(lab, target.name)
    if isinstance(target, SimTarget):
        return target.facts() | programs
    return collect(target).model_dump(mode="json") | hardware | programs


def identity_of(lab: Lab, target: Target, info: TargetInfo) -> dict[str, Any]:
    """What must not change within a run: machine, system, kernel, programs, virtual hardware."""
    kernel = target.run("uname -r").stdout.strip()
    hardware = provision.describe(lab, target.name)
    model = {"model": target.model_digest} if isinstance(target, SimTarget) else {}
    return (
        {
            "kind": target.kind,
            "machine": target.machine,
            "system": info.system,
            "kernel": kernel,
            "builds": builds_on(target),
        }
        | model
        | {key: hardware[key] for key in _VIRTUAL if key in hardware}
    )


def check_same(
    name: str, before: dict[str, Any], after: dict[str, Any], programs: Collection[str]
) -> None:
    """See that a target is what it was, as far as ``programs`` are concerned.

    Raises:
        ConfigError: it is not; names what has changed.
    """
    was, now_is = (_identity(values, programs) for values in (before, after))
    changed = [key for key in was if was[key] != now_is.get(key)]
    if changed:
        detail = "\n".join(f"{key}: {was[key]} -> {now_is.get(key)}" for key in changed)
        raise ConfigError(
            f"{name} is not what this run began with: {', '.join(changed)} changed",
            detail=detail,
            hint="bring it back to what it was, or start a new sweep",
        )


def _identity(values: dict[str, Any], programs: Collection[str]) -> dict[str, Any]:
    """Flat, and without what changes when the same sources are compiled again."""
    flat = {key: value for key, value in values.items() if key != "builds"}
    for program in programs:
        for key, value in values["builds"].get(program, {}).items():
            if key in ("compiler", "flags", "link", "source_sha"):
                flat[f"{program} {key}"] = value
    return flat


def builds_on(target: Target) -> dict[str, dict[str, str]]:
    """What lies beside each binary on a target: compiler, flags, link, source hash."""
    found: dict[str, dict[str, str]] = {}
    directory = shlex.quote(f"{target.workdir}/bin")
    script = f'cd {directory} && for f in *.build; do echo "name=$f"; cat "$f"; done'
    current: dict[str, str] = {}
    for line in target.run(script).stdout.splitlines():
        key, sign, value = line.partition("=")
        if key == "name":
            current = found.setdefault(value.removesuffix(".build"), {})
        elif sign:
            current[key] = value
    return found
