"""facts.sh run for real: on this machine under several shells, and its BSD branch
with stand-ins for the two programs that only a BSD has."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from labctl.observe.facts import Facts, collect, differences, parse, script
from labctl.targets import LocalTarget
from tests.bsd_root import FREEBSD, NETBSD, System, answers

SHELLS = [["dash", "-c"], ["bash", "-c"], ["bash", "--posix", "-c"], ["busybox", "sh", "-c"]]
# busybox prefers its own uname and date to those on PATH: no stand-ins for it.
SHELLS_OF_PATH = SHELLS[:-1]
# What may differ between two runs a moment apart.
MOMENTARY = {
    "clock_epoch_s", "uptime_s", "load1", "load5", "load15", "processes_running", "steal_ticks",
    "total_ticks", "interrupts", "cpu_mhz", "temperature_c", "throttle_count",
}  # fmt: skip


def run(shell: list[str], text: str, path: str | None = None) -> Facts:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    environment = {"PATH": path or os.environ["PATH"]}
    result = subprocess.run(
        [*shell, text], capture_output=True, env=environment, timeout=30, check=False
    )
    assert result.returncode == 0
    assert result.stderr == b""
    return parse(result.stdout.decode())


def first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().splitlines()[0]
    except (OSError, IndexError):
        return None


@pytest.fixture(scope="module")
def here() -> Facts:
    return run(["/bin/sh", "-c"], script())


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_shell_says_the_same(shell: list[str], here: Facts) -> None:
    mine = run(shell, script())
    assert mine.model_dump(exclude=MOMENTARY) == here.model_dump(exclude=MOMENTARY)
    assert mine.total_ticks is not None and here.total_ticks is not None
    assert mine.uptime_s is not None


def test_it_agrees_with_other_sources(here: Facts) -> None:
    assert here.system == platform.system().lower()
    assert here.kernel == platform.release()
    assert here.kernel_version == platform.version()
    assert here.arch == platform.machine()
    assert here.hostname == socket.gethostname()
    assert here.cpus_online == os.cpu_count()
    assert here.cpus_allowed == len(os.sched_getaffinity(0))
    assert here.memory_kib == psutil.virtual_memory().total // 1024
    assert here.page_kib == os.sysconf("SC_PAGE_SIZE") // 1024
    assert here.libc == " ".join(platform.libc_ver())
    assert here.os_release == platform.freedesktop_os_release()["PRETTY_NAME"]
    assert here.cmdline == (first_line("/proc/cmdline") or "").strip()
    assert here.boot_id == first_line("/proc/sys/kernel/random/boot_id")
    assert here.clocksource == first_line(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    )
    assert here.aslr == first_line("/proc/sys/kernel/randomize_va_space")
    assert here.governor == first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    assert here.mitigations == {each.name: each.read_text().strip() for each in folder.iterdir()}


def test_moments_lie_between_what_python_sees_before_and_after() -> None:
    clock, ticks = int(time.time()), _ticks()
    facts = run(["/bin/sh", "-c"], script(compiler=False))
    assert facts.clock_epoch_s is not None and clock <= facts.clock_epoch_s <= time.time()
    assert facts.total_ticks is not None and ticks <= facts.total_ticks <= _ticks()
    assert facts.steal_ticks is not None and 0 <= facts.steal_ticks <= facts.total_ticks


def _ticks() -> int:
    return sum(int(word) for word in (first_line("/proc/stat") or "").split()[1:9])


def test_the_compiler_is_asked_for_only_if_wanted(here: Facts) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    assert compiler is not None, "this test needs a C compiler"
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    assert here.compiler == said.stdout.splitlines()[0]
    target = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True)
    assert here.compiler_target == target.stdout.strip()
    assert run(["/bin/sh", "-c"], script(compiler=False)).compiler is None


def test_a_machine_whose_cpu_shows_the_hypervisor_flag_is_not_metal(here: Facts) -> None:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    if " hypervisor" not in cpuinfo:
        pytest.skip("this machine's CPU shows no hypervisor")
    assert here.is_guest is True
    assert here.hypervisor not in (None, "none")


def test_missing_and_broken_programs_do_not_make_it_fail(tmp_path: Path) -> None:
    for name in ("cc", "gcc", "clang", "getconf", "date"):
        _program(tmp_path, name, 'echo "$0: broken" >&2\nexit 127')
    facts = run(["/bin/sh", "-c"], script(), path=f"{tmp_path}:{os.environ['PATH']}")
    assert facts.compiler is None
    assert facts.clock_epoch_s is None
    assert facts.kernel == platform.release()


def test_a_compiler_of_many_lines_and_no_manners_stays_one_value(tmp_path: Path) -> None:
    _program(tmp_path, "cc", "printf 'cc = odd\\tone\\nhypervisor=none\\nTarget: x-y-z\\nmore\\n'")
    facts = run(["/bin/sh", "-c"], script(), path=f"{tmp_path}:{os.environ['PATH']}")
    assert facts.compiler == "cc = odd\N{REPLACEMENT CHARACTER}one"
    assert facts.compiler_target == "x-y-z"


def test_collect_over_a_target(tmp_path: Path) -> None:
    target = LocalTarget("metal", str(tmp_path))
    try:
        facts = collect(target)
        assert facts.boot_id == target.boot_id()
        assert facts.kernel == platform.release()
    finally:
        target.close()


def _program(folder: Path, name: str, body: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def bsd(folder: Path, system: System) -> str:
    """A PATH on which ``uname``, ``sysctl -n`` and ``kenv -q`` speak as a BSD does."""
    _program(folder, "uname", f"echo '{system.uname}'")
    _program(folder, "date", "echo 1405036500")
    _program(folder, "cc", "echo 'cc (GCC) 4.2.1 20070831 patched'")
    for name, option, known in (("sysctl", "-n", system.sysctls), ("kenv", "-q", system.kenv)):
        _program(folder, name, answers(name, option, known).removeprefix("#!/bin/sh\n"))
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("shell", SHELLS_OF_PATH, ids=" ".join)
def test_freebsd(shell: list[str], tmp_path: Path) -> None:
    facts = run(shell, script(), path=bsd(tmp_path, FREEBSD))
    assert (facts.system, facts.kernel, facts.arch) == ("freebsd", "9.3-RELEASE", "amd64")
    assert facts.os_release == "FreeBSD 9.3-RELEASE"
    assert facts.kernel_version == (
        "FreeBSD 9.3-RELEASE #0 r268512: Thu Jul 10 23:44:39 UTC 2014 |     "
        "root@snap.freebsd.org:/usr/obj/usr/src/sys/GENERIC"
    )
    assert facts.boot_id == "{ sec = 1405036479"  # as labctl.targets has it
    assert facts.uptime_s == 21
    assert (facts.cpus_online, facts.cpus_possible, facts.memory_kib) == (2, 64, 508428)
    assert facts.page_kib == 4
    assert facts.clocksource == "TSC-low"
    assert facts.clocksource_available == "TSC-low ACPI-safe HPET i8254 dummy"
    assert facts.tsc == "invariant, synchronous"
    assert facts.hz == 1000
    assert (facts.load1, facts.load5, facts.load15) == (0.15, 0.20, 0.25)
    assert (facts.steal_ticks, facts.total_ticks) == (None, 1035)
    assert (facts.scheduler, facts.container) == ("ULE", "none")
    assert facts.compiler == "cc (GCC) 4.2.1 20070831 patched"
    assert facts.vm_guest == "none"
    assert facts.smbios_product == "Standard PC (i440FX + PIIX, 1996)"
    assert facts.kernel_options == ["hw.use_xsave=0", "kern.hz=1000"]
    # Its own kern.vm_guest says "none" of a stock QEMU; the firmware knows better.
    assert facts.hypervisor == "qemu"


@pytest.mark.parametrize("shell", SHELLS_OF_PATH, ids=" ".join)
def test_netbsd(shell: list[str], tmp_path: Path) -> None:
    facts = run(shell, script(), path=bsd(tmp_path, NETBSD))
    assert (facts.system, facts.kernel, facts.arch) == ("netbsd", "6.1.5", "amd64")
    assert facts.boot_id == "1405036479"  # as labctl.targets has it
    assert facts.uptime_s == 21
    assert (facts.cpus_online, facts.cpus_possible, facts.memory_kib) == (2, 4, 508428)
    assert facts.clocksource_available == "TSC clockinterrupt hpet0 ACPI-Safe dummy"
    assert facts.hz == 100
    assert (facts.load1, facts.total_ticks) == (0.15, 1035)
    assert facts.smbios_product == "Standard PC (i440FX + PIIX, 1996)"
    assert facts.hypervisor == "qemu"


def test_a_bsd_that_only_says_none_of_itself_is_not_believed(tmp_path: Path) -> None:
    silent = System(FREEBSD.uname, FREEBSD.sysctls, {})
    facts = run(["/bin/sh", "-c"], script(), path=bsd(tmp_path, silent))
    assert facts.hypervisor is None
    assert facts.is_guest is None


def test_freebsd_that_knows_it_is_a_guest(tmp_path: Path) -> None:
    # As with the SMBIOS product "KVM": it ticks and takes its time otherwise, and says so.
    aware = System(
        FREEBSD.uname,
        {
            **FREEBSD.sysctls,
            "kern.vm_guest": "generic",
            "kern.timecounter.hardware": "HPET",
            "kern.clockrate": "{ hz = 100, tick = 10000, profhz = 8128, stathz = 127 }",
        },
        {**FREEBSD.kenv, "smbios.system.product": "KVM"},
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    facts = run(["/bin/sh", "-c"], script(), path=bsd(tmp_path / "a", aware))
    stock = run(["/bin/sh", "-c"], script(), path=bsd(tmp_path / "b", FREEBSD))
    assert facts.is_guest
    assert [key for key, _, _ in differences(facts, stock)] == [
        "clocksource",
        "hz",
        "vm_guest",
        "smbios_product",
    ]
