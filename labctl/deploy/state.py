"""What is on a target already: its system, its compiler, the programs and their records.

One command that changes nothing, through ``Target.run``; Ansible is not asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labctl import paths
from labctl.deploy.sources import Source, sources_for, with_given
from labctl.errors import UnavailableError
from labctl.targets.base import Target
from labctl.targets.preflight import COMPILERS

BUILD_KEYS = ("compiler", "flags", "link", "source_sha", "origin", "sha256")
COMPILED_HERE = "compiled here"
"""The origin of a program that the target's own compiler made."""

# Builtins where they will do: a fork costs an emulated guest tens of milliseconds. One
# cksum takes the place of the subshell, for all programs; its lines hold no "=".
_LOOK = r"""
if [ -r /proc/sys/kernel/ostype ]; then read -r system </proc/sys/kernel/ostype
else system=$(uname -s)
fi
echo "system=$system"
for name in COMPILERS; do
  if command -v "$name" >/dev/null 2>&1; then echo "cc=$name"; break; fi
done
cd BIN 2>/dev/null || exit 0
set --
for file in *.build; do
  program=${file%.build}
  [ -x "$program" ] && [ -f "$file" ] || continue
  echo "program=$program"
  while IFS= read -r line; do echo "$line"; done <"$file"
  set -- "$@" "$program"
done
[ $# -eq 0 ] || exec cksum "$@" 2>/dev/null
"""


@dataclass(frozen=True)
class Deployed:
    """A target's state: ``system`` as ``uname -s`` says, ``compiler`` ("" if there is none),
    and the keys of each program's build record, by program. ``sums`` are the programs'
    present "CRC SIZE" by ``cksum``; empty where the target lacks that, None where not asked."""

    system: str
    compiler: str
    programs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sums: Mapping[str, str] | None = field(default_factory=dict)

    def stale(self, sources: Sequence[Source]) -> list[Source]:
        """Those of ``sources`` whose program there was not made from just these sources (or
        is not the one given), or was changed since."""
        return [s for s in sources if not self._is_current(s)]

    def _is_current(self, source: Source) -> bool:
        record = self.programs.get(source.program, {})
        same = self.sums is None or record.get("cksum", "") == self.sums.get(source.program, "")
        return record.get("source_sha") == source.sha and same

    def builds(self, sources: Sequence[Source]) -> dict[str, dict[str, str]]:
        """The build records of ``sources``, by workload; what is not there is left out."""
        return {
            s.name: {key: self.programs[s.program].get(key, "") for key in BUILD_KEYS}
            for s in sources
            if s.program in self.programs
        }


def look(target: Target, *, sums: bool = True) -> Deployed:
    """See what is on ``target``; without ``sums`` its build records are trusted.

    Raises:
        UnavailableError: it cannot be reached.
    """
    script = _LOOK if sums else _LOOK[: _LOOK.rindex("[ $# -eq 0 ]")]
    script = script.replace("COMPILERS", " ".join(COMPILERS))
    script = script.replace("BIN", shlex.quote(f"{target.workdir}/bin"))
    result = target.run(script, timeout=60.0)
    facts: dict[str, str] = {}
    programs: dict[str, dict[str, str]] = {}
    found: dict[str, str] = {}
    current = facts
    for line in result.stdout.splitlines():
        key, sign, value = line.partition("=")
        if key == "program" and sign:
            current = programs.setdefault(value, {})
        elif sign:
            current[key] = value
        elif len(words := line.split()) == 3:
            found[words[2]] = f"{words[0]} {words[1]}"
    if not facts.get("system"):
        raise UnavailableError(
            "it does not say what system it is", where=target.name, detail=result.stderr.strip()
        )
    return Deployed(facts["system"], facts.get("cc", ""), programs, found if sums else None)


def is_current(
    target: Target,
    workloads: Sequence[str],
    *,
    workloads_dir: Path | None = None,
    binaries: Path | None = None,
    sums: bool = True,
) -> bool:
    """Whether the target has all of ``workloads`` that its system can run, made from the
    present sources. Costs about a round trip.

    Args:
        workloads_dir: the sources; default: the project's own.
        binaries: the target's directory of programs made elsewhere, if it has one.
        sums: see by a checksum that no program was changed since; some tenths of a second
            in an emulated guest.

    Raises:
        UnavailableError: the target cannot be reached.
        ConfigError: ``binaries`` cannot be read.
    """
    found = look(target, sums=sums)
    return not found.stale(_wanted(found, workloads, workloads_dir, binaries))


def summary(
    target: Target,
    workloads: Sequence[str],
    *,
    workloads_dir: Path | None = None,
    binaries: Path | None = None,
) -> str:
    """``is_current`` in words, with where the programs come from if not compiled there:
    ``current (copied from target freebsd)``. Raises as ``is_current``."""
    found = look(target)
    wanted = _wanted(found, workloads, workloads_dir, binaries)
    if found.stale(wanted):
        return "not current"
    told = (found.programs[source.program].get("origin", "") for source in wanted)
    origins = dict.fromkeys(origin for origin in told if origin not in ("", COMPILED_HERE))
    return f"current ({', '.join(origins)})" if origins else "current"


def _wanted(
    found: Deployed, workloads: Sequence[str], workloads_dir: Path | None, binaries: Path | None
) -> list[Source]:
    directory = workloads_dir or paths.data_dir("workloads")
    return with_given(sources_for(directory, workloads, found.system), binaries)
