"""Facts of a machine: what has to stand beside a number for it to mean something.

One script, one command, on any target; what the facts mean for a measurement is
``labctl.observe.noise``'s to say. Every key and where it comes from: docs/observe.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict

from labctl.errors import UnavailableError
from labctl.observe.parse import facts_values
from labctl.targets.base import Target


class Facts(BaseModel):
    """What one machine was like at one moment. None: the machine did not say.

    Values without a field of their own are kept too (``model_extra``), as text.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    # identity
    system: str
    kernel: str | None = None
    kernel_version: str | None = None
    os_release: str | None = None
    arch: str | None = None
    hostname: str | None = None
    cmdline: str | None = None
    kernel_options: list[str] | None = None
    boot_id: str | None = None
    # CPU and memory
    cpu_model: str | None = None
    cpu_microcode: str | None = None
    cpu_mhz: float | None = None
    cpu_flags: list[str] | None = None
    cpu_flags_digest: str | None = None
    cpus_online: int | None = None
    cpus_possible: int | None = None
    cpus_allowed: int | None = None
    cpu_quota: float | None = None
    sockets: int | None = None
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    memory_kib: int | None = None
    page_kib: int | None = None
    # virtualization
    hypervisor: str | None = None
    vm_guest: str | None = None
    smbios_product: str | None = None
    container: str | None = None
    evidence: dict[str, str] = {}
    kvm: dict[str, str] = {}
    # clocks and settings
    clocksource: str | None = None
    clocksource_available: str | None = None
    tsc: str | None = None
    hz: int | None = None
    mitigations: dict[str, str] = {}
    smt: str | None = None
    governor: str | None = None
    turbo: str | None = None
    aslr: str | None = None
    thp: str | None = None
    isolated: str | None = None
    nohz_full: str | None = None
    preemption: str | None = None
    scheduler: str | None = None
    cpuidle_driver: str | None = None
    cpuidle_governor: str | None = None
    irqbalance: str | None = None
    # tools
    compiler: str | None = None
    compiler_target: str | None = None
    libc: str | None = None
    # the moment
    clock_epoch_s: int | None = None
    uptime_s: float | None = None
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    processes_running: int | None = None
    steal_ticks: int | None = None
    total_ticks: int | None = None
    throttle_count: int | None = None
    tainted: int | None = None
    temperature_c: float | None = None
    power: str | None = None
    interrupts: dict[str, int] = {}

    @property
    def is_guest(self) -> bool | None:
        """Whether it runs under a hypervisor; None where that cannot be told."""
        return None if self.hypervisor is None else self.hypervisor != "none"


# What differs between two sides besides the thing compared and may explain an effect.
# Not here: ``hypervisor``, the thing compared (ask ``is_guest`` of a baseline), what
# follows from a key that is here, and what is only the moment's. Some are not of the
# machine's own telling, but of its hypervisor's or of the build records; a run has them.
CONFOUNDERS: tuple[str, ...] = (
    "system",
    "kernel",
    "kernel_version",
    "kernel_options",
    "os_release",
    "arch",
    "cpu_model",
    "cpu_microcode",
    "cpu_flags_digest",
    "cpus_online",
    "cpus_allowed",
    "cpu_quota",
    "threads_per_core",
    "numa_nodes",
    "memory_kib",
    "page_kib",
    "container",
    "clocksource",
    "hz",
    "mitigations",
    "smt",
    "governor",
    "turbo",
    "aslr",
    "thp",
    "isolated",
    "nohz_full",
    "preemption",
    "scheduler",
    "cpuidle_driver",
    "cpuidle_governor",
    "compiler",
    "compiler_target",
    "libc",
    "vm_guest",
    "smbios_product",
    "kernel_digest",
    "accelerator",
    "cpu_model_virtual",
    "machine_type",
    "disk_bus",
    "nic",
    "video",
    "asked_sysctls",
    "program_build",
)
# Unknown on one side is no difference here: metal has no virtual hardware, Linux no such
# setting, and a program that one side lacks is compared with nothing.
_IF_BOTH_TELL = (
    "vm_guest",
    "smbios_product",
    "kernel_digest",
    "accelerator",
    "cpu_model_virtual",
    "machine_type",
    "disk_bus",
    "nic",
    "video",
    "asked_sysctls",
    "program_build",
)
# To be named even where neither side told them.
_ESSENTIAL = ("kernel", "cpu_model", "cpus_online", "clocksource")
# A guest of 1 GiB never shows all of it; two machines of one size differ by less.
_MEMORY_TOLERANCE = 0.05


def collect(target: Target, *, compiler: bool = True, timeout: float = 60.0) -> Facts:
    """Ask a target for its facts, by one command.

    Args:
        target: a connected target.
        compiler: also ask for the C compiler (two more processes on the target).
        timeout: seconds.

    Raises:
        UnavailableError: the target is not reachable, did not answer in time, or what
            it answered is not facts.
    """
    result = target.run(script(compiler=compiler), timeout=timeout)
    try:
        return parse(result.stdout)
    except UnavailableError as error:
        raise UnavailableError(
            error.message,
            where=target.name,
            hint=error.hint,
            detail=f"exit status {result.status}\n{result.stderr[-2000:]}\n{error.detail}",
        ) from None


def parse(text: str) -> Facts:
    """Facts from the output of the script.

    Raises:
        UnavailableError: the output is incomplete.
    """
    return Facts.model_validate(facts_values(text))


@cache
def script(*, compiler: bool = True) -> str:
    """The POSIX sh script that prints the facts, without its comments and indentation."""
    text = resources.files(__package__).joinpath("facts.sh").read_text(encoding="utf-8")
    stripped = (line.strip(" ") for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith("#")]
    return "\n".join([f"compiler_wanted={'yes' if compiler else 'no'}", *lines]) + "\n"


def differences(
    a: Facts | Mapping[str, Any],
    b: Facts | Mapping[str, Any],
    *,
    keys: Collection[str] = CONFOUNDERS,
) -> list[tuple[str, Any, Any]]:
    """What differs between two machines (or moments), as (key, value of a, value of b).

    A value that only one side told counts as a difference: it is not known to be equal. Of
    kernel, CPU model, CPUs and clock that holds even where neither told it. Values with
    names (mitigations) are compared one by one, as ``mitigations.<name>``.

    Args:
        a, b: facts, or what a run recorded of them with the keys of its own.
    """
    left, right = (x.model_dump() if isinstance(x, Facts) else x for x in (a, b))
    pairs = (pair for key in keys for pair in _pairs(key, left.get(key), right.get(key)))
    return [pair for pair in pairs if not _same(*pair)]


def _pairs(key: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, Mapping) and isinstance(right, Mapping) and left and right:
        for name in sorted({str(name) for name in (*left, *right)}):
            yield f"{key}.{name}", left.get(name), right.get(name)
    else:
        yield key, left, right


def _same(key: str, left: Any, right: Any) -> bool:
    if key.partition(".")[0] in _IF_BOTH_TELL:
        return left is None or right is None or bool(left == right)
    unknown = [value for value in (left, right) if value in (None, "", [], {})]
    if key.startswith("mitigations."):  # an older kernel does not list newer vulnerabilities,
        harmless = (None, "", "Not affected")  # and spends nothing on them
        return left == right or (left in harmless and right in harmless)
    if len(unknown) == 2:
        return key not in _ESSENTIAL
    if unknown:
        return False
    if key == "memory_kib" and isinstance(left, int) and isinstance(right, int):
        return math.isclose(left, right, rel_tol=_MEMORY_TOLERANCE)
    return bool(left == right)
