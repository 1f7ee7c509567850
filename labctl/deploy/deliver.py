"""Putting a program that was made elsewhere onto a target: copy, prove, and only then use.

This does not go through Ansible: whether a copy may take its place is judged here, by what
it says of itself on the target, between copying it and moving it into place.
"""

from __future__ import annotations

import hashlib
import shlex

from labctl.deploy.binary import Binary
from labctl.errors import LabctlError, MeasurementError, UnavailableError
from labctl.targets.base import CommandResult, Target
from labctl.targets.cksum import posix_cksum
from labctl.workloads import Capabilities, Workload, parse_line

_PROVE = r"""
echo "$(cksum <"$program" 2>/dev/null)"
exec "$program" --capabilities
"""
_ADOPT = r"""
cd "$bin" && printf '%s\n' "$record" >".$name.build.new" && rm -f "$name.build" &&
mv -f ".$name.new" "$name" && mv -f ".$name.build.new" "$name.build"
"""
_UNSUPPORTED = 69
_SAID = {
    126: "the system cannot execute it",
    127: "the system cannot start it: its dynamic linker is not there",
}


def deliver(target: Target, binary: Binary, workload: Workload) -> None:
    """Put ``binary`` and its build record into the target's ``bin``, whole or not at all.

    Raises:
        UnavailableError: it cannot be written, arrived damaged, does not run there, or is
            of another workload or another version of it.
    """
    data = binary.path.read_bytes()
    name = binary.source.program
    folder = f"{target.workdir}/bin"
    part = f"{folder}/.{name}.new"
    target.put(binary.path, part, mode=0o755)
    try:
        result = target.run(_script(_PROVE, program=part), timeout=60.0)
        line, _, said = result.stdout.partition("\n")
        cksum = " ".join(line.split())
        if cksum and cksum != posix_cksum(data):
            raise UnavailableError(f"{name} arrived damaged", where=target.name)
        problem = _problem(result, said, workload)
        if problem:
            raise _refusal(target, binary, *problem)
        # A target without cksum cannot tell later that its program was changed.
        record = binary.record(sha256=hashlib.sha256(data).hexdigest(), cksum=cksum)
        script = _script(_ADOPT, bin=folder, name=name, record=record.rstrip("\n"))
        done = target.run(script, timeout=60.0)
        if not done.ok:
            raise UnavailableError(
                f"{folder}/{name} cannot be written",
                where=target.name,
                hint="look at the directory's owner and the free space",
                detail=done.stderr.strip(),
            )
    except LabctlError:
        target.run(f"rm -f {shlex.quote(part)}", timeout=60.0)
        raise


def _problem(result: CommandResult, said: str, workload: Workload) -> tuple[str, str] | None:
    """What is wrong with the answer to ``--capabilities``, and the evidence; None if nothing."""
    evidence = f"{result.stderr}\n{said}".strip()[-2000:]
    if result.status == _UNSUPPORTED:
        return "it says that this system lacks what it measures", evidence
    if not result.ok:
        why = _SAID.get(result.status, f"it ended with status {result.status}")
        return f"it does not run there: {why}", evidence
    try:
        told = parse_line(said.strip())
    except MeasurementError as error:
        return "it does not speak this labctl's batch protocol", error.detail
    if not isinstance(told, Capabilities):
        return "it does not speak this labctl's batch protocol", evidence
    if (told.workload, told.form) != (workload.name, workload.form):
        return f"it is {told.workload} ({told.form}), not {workload.name}", evidence
    wanted = {key: set(param.values) for key, param in workload.params.items() if param.values}
    odd = [key for key in {*wanted, *told.params} if key not in wanted or key not in told.params]
    odd += [k for k in wanted.keys() & told.params if not wanted[k].issuperset(told.params[k])]
    if odd:
        return f"it is of another version: its {', '.join(sorted(odd))} differs", evidence
    return None


def _refusal(target: Target, binary: Binary, problem: str, evidence: str) -> UnavailableError:
    given = binary.source.given
    return UnavailableError(
        f"{binary.source.program} ({binary.origin}) cannot be used: {problem}",
        where=target.name,
        hint=f"build it for that system from these sources (sh workloads/build.sh OUTDIR "
        f"{binary.source.name}), or remove {given}"
        if given
        else "name a directory of programs for it with `binaries:` in the lab file",
        detail=evidence,
    )


def _script(text: str, **variables: str) -> str:
    settings = "".join(f"{key}={shlex.quote(value)}\n" for key, value in variables.items())
    return settings + text
