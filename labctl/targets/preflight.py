"""What is checked of a target before any work: an unwritable directory is found at the
start, not after hours. Only looks, and creates the work directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from labctl.errors import LabctlError, UnavailableError
from labctl.targets.base import Target

FREE_MIB = 50
"""What sources, binaries and a run's files need, with room to spare."""

COMPILERS = ("cc", "gcc", "clang")
"""Looked for in this order, here and on deployment."""

_SCRIPT = r"""
echo "system=$(uname -s)"
probe=$workdir/.probe.$$
mkdir -p "$workdir" && echo test >"$probe" || { echo writable=no; exit 0; }
echo writable=yes
chmod 700 "$probe" && printf '#!/bin/sh\nexit 0\n' >"$probe" && "$probe" || echo executable=no
rm -f "$probe"
echo "free_kib=$(df -Pk "$workdir" | awk 'NR == 2 { print $4 }')"
for name in COMPILERS; do
  if command -v "$name" >/dev/null 2>&1; then echo "compiler=$name"; break; fi
done
command -v tar >/dev/null 2>&1 && echo tar=yes
"""


def check(target: Target, *, free_mib: int = FREE_MIB) -> None:
    """See that labctl can work on a target; connects if need be.

    Raises:
        UnavailableError: the work directory cannot be made, written or executed from, has
            less than ``free_mib`` MiB free; or there is a C compiler, but no tar to unpack
            sources with. No compiler at all is for ``labctl.deploy`` to deal with.
    """
    script = f"workdir={shlex.quote(target.workdir)}\n"
    script += _SCRIPT.replace("COMPILERS", " ".join(COMPILERS))
    result = target.run(script, timeout=60.0)
    facts = dict(re.findall(r"^(\w+)=(.*)$", result.stdout, re.MULTILINE))
    problem = _problem(target, facts, free_mib)
    if problem:
        problem.detail = result.stderr.strip()
        raise problem


@dataclass(frozen=True)
class Platform:
    """What programs depend on: ``uname`` -s, -r and -m."""

    system: str
    release: str
    machine: str

    def __str__(self) -> str:
        return f"{self.system} {self.release} {self.machine}"


def platform(target: Target) -> Platform:
    """Ask a target what it is.

    Raises:
        UnavailableError: it is not reachable, or does not say.
    """
    result = target.run("uname -srm", timeout=60.0)
    words = result.stdout.split()
    if len(words) != 3:
        raise UnavailableError(
            "it does not say what system it is", where=target.name, detail=result.stderr.strip()
        )
    return Platform(*words)


def check_all(
    targets: Mapping[str, Target], *, free_mib: int = FREE_MIB
) -> dict[str, LabctlError | None]:
    """``check`` every target, side by side; the error of each, or None."""

    def look(target: Target) -> LabctlError | None:
        try:
            check(target, free_mib=free_mib)
        except LabctlError as error:
            return error
        return None

    with ThreadPoolExecutor(max(1, len(targets))) as pool:
        return dict(zip(targets, pool.map(look, targets.values()), strict=True))


def _problem(target: Target, facts: Mapping[str, str], free_mib: int) -> UnavailableError | None:
    folder, where = target.workdir, target.name
    if facts.get("writable") != "yes":
        return UnavailableError(
            f"the work directory {folder} cannot be written",
            where=where,
            hint="name another with `workdir:` in the lab file, or make it writable for the user",
        )
    if facts.get("executable") == "no":
        return UnavailableError(
            f"programs cannot be run in {folder}",
            where=where,
            hint="the file system is mounted noexec: name another with `workdir:`",
        )
    free_kib = facts.get("free_kib", "")
    if free_kib.isdigit() and int(free_kib) < free_mib * 1024:
        return UnavailableError(
            f"only {int(free_kib) // 1024} MiB are free in {folder}, {free_mib} are needed",
            where=where,
            hint="free some, or name another place with `workdir:`",
        )
    if "compiler" in facts and "tar" not in facts:
        return UnavailableError("there is no tar", where=where, hint="install tar there")
    return None
