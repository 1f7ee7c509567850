"""Facts of a machine: what has to stand beside a number for it to mean something.

One script, one command, on any target; what the facts mean for a measurement is
``labctl.observe.noise``'s to say. Every key and where it comes from: docs/observe.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
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
# follows from a key that is here, and what is only the moment's.
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
)
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
    a: Facts, b: Facts, *, keys: Collection[str] = CONFOUNDERS
) -> list[tuple[str, Any, Any]]:
    """What differs between two machines (or moments), as (key, value of a, value of b).

    A value that only one side told counts as a difference: it is not known to be equal.
    Mitigations are compared one by one, as ``mitigations.<vulnerability>``.
    """
    found = []
    for key in keys:
        found += [item for item in _pairs(key, a, b) if not _same(*item)]
    return found


def _pairs(key: str, a: Facts, b: Facts) -> Iterator[tuple[str, Any, Any]]:
    left, right = getattr(a, key, None), getattr(b, key, None)
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield f"{key}.{name}", left.get(name), right.get(name)
    else:
        yield key, left, right


def _same(key: str, left: Any, right: Any) -> bool:
    if key == "memory_kib" and left and right:
        return math.isclose(left, right, rel_tol=_MEMORY_TOLERANCE)
    if key.startswith("mitigations."):  # an older kernel does not list newer vulnerabilities,
        harmless = (None, "Not affected")  # and spends nothing on them
        return left == right or (left in harmless and right in harmless)
    if key in ("isolated", "nohz_full"):  # a kernel that cannot has no file
        return (left or "") == (right or "")
    return bool(left == right)
