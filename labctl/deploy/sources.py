"""The workloads' sources: which a system runs, their hashes, and one archive of them all.

Pure but for reading the tree: equal files give equal hashes and an equal archive, on any
machine, whatever their times, owners and modes.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labctl.errors import ConfigError
from labctl.workloads import find_workload, load_workloads

_LEFT_OUT = {"__pycache__", ".git", ".ruff_cache", "expectations.yaml"}
_LEFT_OUT_SUFFIXES = {".o", ".pyc", ".swp", ".md"}


@dataclass(frozen=True)
class Source:
    """A workload that a target is to have.

    Attributes:
        name, program: of the workload, and of the program it becomes.
        sha: hash (hex) of all that the program is made from: its folder, the harness and the
            build script; for a ``given`` program "given-" and the hash of the program itself.
        given: the program, made elsewhere by the user, that is to be taken as it is.
    """

    name: str
    program: str
    sha: str
    given: Path | None = None


def sources_for(directory: Path, names: Sequence[str], system: str) -> list[Source]:
    """Those of the workloads ``names`` that run on ``system`` (as ``uname -s`` says).

    Raises:
        ConfigError: there is no such workload, or a manifest is not valid.
    """
    known = load_workloads(directory)
    workloads = [find_workload(name, known) for name in names]
    common = _digest(directory, _common_files(directory))
    found = []
    for workload in workloads:
        if system.lower() in workload.systems:
            own = _digest(directory, list(_files(workload.directory)))
            sha = hashlib.sha256(f"{common} {own}".encode()).hexdigest()
            found.append(Source(workload.name, workload.program, sha))
    return found


def with_given(sources: Sequence[Source], directory: Path | None) -> list[Source]:
    """``sources``, those of which ``directory`` has the program as given: it may be called
    as the program or as the workload, and lie in ``bin/``.

    Raises:
        ConfigError: ``directory`` is none, or a program cannot be read.
    """
    if directory is None:
        return list(sources)
    if not directory.is_dir():
        raise ConfigError(
            "this is not a directory",
            where=str(directory),
            hint="look at `binaries` in the lab file",
        )
    return [_given(source, directory) for source in sources]


def _given(source: Source, directory: Path) -> Source:
    places = (source.program, source.name, f"bin/{source.program}")
    for path in (directory / place for place in places):
        if path.is_file():
            try:
                with path.open("rb") as stream:
                    digest = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                raise ConfigError(
                    f"this program cannot be read: {error.strerror}", where=str(path)
                ) from None
            return replace(source, sha=f"given-{digest}", given=path)
    return source


def archive(directory: Path) -> bytes:
    """The whole tree as one ustar archive, the same bytes for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in _files(directory):
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(directory).as_posix())
            entry.size = len(data)
            entry.mode = 0o755 if path.suffix == ".sh" else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _common_files(directory: Path) -> list[Path]:
    """What every program is made from: the harness, and what lies at the top (build.sh)."""
    return [
        *_files(directory / "harness"),
        *(p for p in _files(directory) if p.parent == directory),
    ]


def _files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        left_out = _LEFT_OUT.intersection(relative.parts) or path.suffix in _LEFT_OUT_SUFFIXES
        if path.is_file() and not left_out:
            yield path


def _digest(base: Path, files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(base).as_posix()} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()
