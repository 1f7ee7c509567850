"""Where the programs come from for a target that does not compile them itself.

In this order: the directory that the lab file names (``binaries:``), a target with the same
system, release and machine that has a compiler, zig on this machine. What was chosen goes
into the build record; what was tried in vain, into the error.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from labctl import paths
from labctl.deploy import cross, elf
from labctl.deploy.binary import Binary, record_beside
from labctl.deploy.job import Job
from labctl.deploy.sources import Source
from labctl.deploy.state import look
from labctl.deploy.turn import claim_target
from labctl.errors import InterruptedByUser, LabctlError, UnavailableError
from labctl.targets.preflight import COMPILERS, Platform, platform

_WAIT = 600.0  # seconds for a donor that another deployment holds
_PACKAGES = {
    "Linux": "apt-get install gcc libc6-dev, or dnf install gcc",
    "FreeBSD": "the set base.txz has one",
    "NetBSD": "the set comp.tgz (comp.tar.xz) has one",
}


def binaries_for(
    job: Job,
    donors: Sequence[Job],
    *,
    workloads_dir: Path,
    private_dir: Path,
    progress: Callable[[str], object],
    stop: threading.Event,
) -> Iterator[Binary]:
    """The programs that are to be brought to a target, those first that are sure.

    Args:
        donors: targets with a compiler, on which deployment has ended.
        private_dir: a directory for what is fetched from them.
        progress: told what is being done, in words.
        stop: ends it.

    Raises:
        InterruptedByUser: ``stop`` was set.
        UnavailableError: none could be had; ``detail`` lists what was tried.
    """
    for source in job.to_bring:
        if source.given:
            yield _given(source, job)
    if rest := [source for source in job.to_bring if not source.given]:
        yield from _made(rest, job, donors, workloads_dir, private_dir, progress, stop)


def _made(
    rest: Sequence[Source],
    job: Job,
    donors: Sequence[Job],
    workloads_dir: Path,
    private_dir: Path,
    progress: Callable[[str], object],
    stop: threading.Event,
) -> list[Binary]:
    """From another target, else by zig."""
    here = platform(job.target)
    tried = [f"a compiler there ({', '.join(COMPILERS)}): none"]
    for donor in donors:
        if not _alike(donor, here):
            continue
        try:
            progress(f"copying programs from {donor.target.name}")
            return _fetched(donor, rest, private_dir, stop)
        except InterruptedByUser:
            raise
        except LabctlError as error:
            tried.append(f"target {donor.target.name}: {error.message}")
    if len(tried) == 1:
        tried.append(f"another target of this deployment with {here} and a compiler: none")
    triple = cross.triple_for(here.system, here.release, here.machine)
    if triple is None:
        tried.append(f"zig on this machine: it makes programs for {cross.SERVES}, not for {here}")
    else:
        try:
            progress(f"cross-compiling for {triple} (the first time takes a minute)")
            return cross.compile_for(triple, rest, workloads_dir, stop=stop)
        except InterruptedByUser:
            raise
        except LabctlError as error:
            text = f"{error.message}; {error.hint}" if error.hint else error.message
            tried.append("\n".join(filter(None, (f"zig on this machine: {text}", error.detail))))
    raise _none(job, here, rest, tried)


def _given(source: Source, job: Job) -> Binary:
    """A program of the user's; refused here if it is plainly for another machine."""
    path = source.given
    assert path
    header = elf.read(path.read_bytes())
    here = platform(job.target)
    why = (
        elf.misfit(header, here.system.lower(), here.machine) if header else "it is no ELF program"
    )
    if header is None or why:
        raise UnavailableError(
            f"the program {path} cannot be for {here}: {why}",
            where=job.target.name,
            hint=f"put one for that system there, or remove it: `binaries` of {job.target.name} in "
            "the lab file names that directory",
        )
    made = {"link": "static" if header.static else "dynamic"} | record_beside(path)
    return Binary(source, path, f"given in {path.parent}", made)


def _fetched(
    donor: Job, sources: Sequence[Source], private_dir: Path, stop: threading.Event
) -> list[Binary]:
    """The programs that a target has compiled.

    Raises:
        UnavailableError: it has them not, or is busy measuring.
    """
    if donor.error:
        raise donor.error
    target = donor.target
    with _claimed(donor, stop):
        state = look(target)
        if missing := state.stale(sources):
            raise UnavailableError(f"it has no {', '.join(s.name for s in missing)}")
        folder = paths.private_dir(private_dir / "fetched" / target.name)
        found = []
        for source in sources:
            data = target.get(f"{target.workdir}/bin/{source.program}")
            paths.write_atomic(folder / source.program, data, mode=0o755)
            found.append(
                Binary(
                    source,
                    folder / source.program,
                    f"copied from target {target.name}",
                    state.programs[source.program],
                )
            )
        return found


@contextlib.contextmanager
def _claimed(donor: Job, stop: threading.Event) -> Iterator[None]:
    """Hold a donor, so that nothing is read from it beside a measurement."""
    if donor.lease:  # this deployment holds it
        yield
        return
    with claim_target(donor.target, timeout=_WAIT, waiting=lambda _: None, stop=stop):
        yield


def _alike(donor: Job, wanted: Platform) -> bool:
    """Whether a donor's programs are for that platform."""
    try:
        return donor.state.system == wanted.system and platform(donor.target) == wanted
    except LabctlError:
        return False


def _none(
    job: Job, here: Platform, sources: Sequence[Source], tried: Sequence[str]
) -> UnavailableError:
    programs = ", ".join(source.program for source in sources)
    install = _PACKAGES.get(here.system, "its package")
    return UnavailableError(
        f"there is no C compiler, and {programs} for {here} could not be had elsewhere",
        where=job.target.name,
        hint=f"install a compiler there ({install}), bring up a target with the same system and a "
        "compiler together with it, or build the programs on such a machine (sh "
        "workloads/build.sh OUTDIR NAME ...) and name OUTDIR with `binaries:` in the lab file",
        detail="tried:\n" + "\n".join(f"- {line}" for line in tried),
    )
