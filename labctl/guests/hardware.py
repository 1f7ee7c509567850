"""What a guest is made of: its image's recipe, overlaid with what the lab file says.

Pure: nothing is built, asked or started. What cannot be is refused here, at the place in
the lab file, before an image is built for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from labctl.errors import ConfigError
from labctl.images.builder import GuestSettings
from labctl.images.catalogue import Hardware, Recipe
from labctl.images.kernels import KernelChoice
from labctl.lab import Lab, VMSpec


@dataclass(frozen=True)
class _System:
    """What guests of one system can be given.

    Attributes:
        keys: those of ``tunables``, ``sysctls``, ``cmdline`` and ``kernel`` that it takes.
        own_devices: whether its image finds root and network on other devices than the
            recipe's.
        least_mib: memory below which it was not seen to boot.
    """

    keys: frozenset[str]
    own_devices: bool
    least_mib: int


# A system that is not here is left to its builder, which refuses what it does not have.
_SYSTEMS = {
    # Its initramfs has the drivers of the recipe's devices only.
    "linux": _System(frozenset({"cmdline", "kernel"}), own_devices=False, least_mib=128),
    "freebsd": _System(frozenset({"tunables", "sysctls"}), own_devices=True, least_mib=256),
    "netbsd": _System(frozenset({"sysctls"}), own_devices=True, least_mib=128),
}
_INSTEAD = {
    "tunables": "its kernel is set by `cmdline` (Linux) or `sysctls`",
    "sysctls": "use `cmdline`, such as `cmdline: sysctl.kernel.randomize_va_space=0`",
    "cmdline": "it boots by a boot loader of its own: use `tunables` (FreeBSD) or `sysctls`",
    "kernel": "its kernel is of its release: name another image, or remove the key",
}
_LIBVIRTS_WORDS = {"host-passthrough": "host", "maximum": "max"}


@dataclass(frozen=True)
class GuestPlan:
    """One guest as it is to be.

    Attributes:
        hardware: the recipe's, with the lab file's choices in it.
        settings: for the builder's ``prepare_guest``.
        init: the init it runs, "" where the system has only its own.
        kernel: what it boots instead of the image's own kernel, or None.
    """

    hardware: Hardware
    settings: GuestSettings
    init: str
    vcpus: int
    memory_mib: int
    kernel: KernelChoice | None = None

    def cpu(self, accel: str) -> str:
        """The CPU model under an accelerator, as ``DomainSpec.cpu`` has it."""
        models = self.hardware.cpu
        model = models.kvm if accel == "kvm" else models.tcg
        return _LIBVIRTS_WORDS.get(model, model)

    @property
    def needs_kvm(self) -> bool:
        """Whether its CPU is the host's, which only KVM can pass on."""
        return self.cpu("tcg") == "host"


def resolve(lab: Lab, name: str, recipe: Recipe) -> GuestPlan:
    """What the guest ``name`` is made of.

    Raises:
        ConfigError: the lab file asks for what this image or QEMU does not have; ``where``
            is file and line.
    """
    own, spec = lab.targets[name], lab.vm(name)
    assert isinstance(own, VMSpec)
    hardware = _hardware(lab, name, own, recipe)
    vcpus, memory_mib = spec.vcpus or 1, spec.memory or hardware.memory_mib
    if vcpus > hardware.max_vcpus:
        raise ConfigError(
            f"{recipe.name} takes at most {hardware.max_vcpus} vCPUs, not {vcpus}",
            where=_place(lab, name, own, "vcpus"),
            hint="lower `vcpus`",
        )
    system = _SYSTEMS.get(recipe.system)
    if system is not None and memory_mib < system.least_mib:
        raise ConfigError(
            f"{recipe.name} does not boot with {memory_mib} MiB",
            where=_place(lab, name, own, "memory"),
            hint=f"give it {system.least_mib}MiB or more",
        )
    for key in ("tunables", "sysctls", "cmdline", "kernel"):
        if system is not None and getattr(own, key) and key not in system.keys:
            raise ConfigError(
                f"{recipe.name} takes no `{key}`",
                where=lab.place("targets", name, key),
                hint=_INSTEAD[key],
            )
    init = _init(lab, name, own, recipe)
    settings = GuestSettings(
        init=init or None,
        cmdline=own.cmdline,
        tunables={**recipe.tunables, **own.tunables},
        sysctls={**recipe.sysctls, **own.sysctls},
        nic=hardware.nic,
        disk_bus=hardware.disk_bus,
    )
    return GuestPlan(hardware, settings, init, vcpus, memory_mib, _kernel(lab, own))


def _kernel(lab: Lab, own: VMSpec) -> KernelChoice | None:
    asked = own.kernel
    if asked is None:
        return None
    return KernelChoice(
        text=str(asked),
        suite=asked.suite,
        version=asked.version,
        image=lab.beside(asked.image) if asked.image else None,
        modules=lab.beside(asked.modules) if asked.modules else None,
    )


def _hardware(lab: Lab, name: str, own: VMSpec, recipe: Recipe) -> Hardware:
    given = own.hardware.model_dump(exclude_none=True)
    at = ("targets", name, "hardware")
    system = _SYSTEMS.get(recipe.system)
    for key in ("disk_bus", "nic"):
        recipes = getattr(recipe.hardware, key)
        if system and not system.own_devices and given.get(key, recipes) != recipes:
            raise ConfigError(
                f"{recipe.name} has drivers for {recipes} only",
                where=lab.place(*at, key),
                hint=f"remove `{key}`",
            )
    if "cpu" in given:
        given["cpu"] = {"kvm": given["cpu"], "tcg": given["cpu"]}
    hardware = Hardware.model_validate(recipe.hardware.model_dump() | given)
    if hardware.disk_bus == "ide" and hardware.machine.startswith("q35"):
        key = "disk_bus" if "disk_bus" in given else "machine"
        raise ConfigError(
            "the machine q35 has no IDE bus",
            where=lab.place(*at, key),
            hint="machine pc, or disk_bus sata",
        )
    return hardware


def _init(lab: Lab, name: str, own: VMSpec, recipe: Recipe) -> str:
    """A system without a choice ignores the lab's default, not what the target itself says."""
    try:
        if own.init and not recipe.inits:
            raise ConfigError(
                f"{recipe.name} has its own init only", hint="remove `init` from the target"
            )
        return recipe.init(lab.vm(name).init)
    except ConfigError as error:
        error.where = _place(lab, name, own, "init")
        raise


def _place(lab: Lab, name: str, own: VMSpec, key: str) -> str:
    """Where ``key`` stands: at the target, or among the defaults."""
    return lab.place("targets", name, key) if getattr(own, key) else lab.place("defaults", key)
