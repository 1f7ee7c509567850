"""Where things live: XDG directories, the project's data files.

- images (rebuilt when lost):      ``$XDG_CACHE_HOME/labctl``
- keys, guests, locks (state):     ``$XDG_STATE_HOME/labctl``
- user settings:                   ``$XDG_CONFIG_HOME/labctl``
- results:                         beside ``lab.yaml``, never here
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from labctl.errors import ConfigError, LabctlError, UnavailableError

_PACKAGE = Path(__file__).resolve().parent


def cache_dir() -> Path:
    """Directory for what can be built or fetched again; created on demand."""
    return _made(Path(platformdirs.user_cache_dir("labctl")))


def state_dir() -> Path:
    """Directory (mode 0700) for keys, guest disks and locks; created on demand."""
    return private_dir(Path(platformdirs.user_state_dir("labctl")))


def config_dir() -> Path:
    """Directory of the user's own settings; not created."""
    return Path(platformdirs.user_config_dir("labctl"))


def data_dir(name: str) -> Path:
    """The project's ``playbooks``, ``images`` or ``workloads`` directory:
    from the checkout where there is one, else from the installed wheel."""
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        if (base / name).is_dir() and (base != _PACKAGE.parent or is_checkout()):
            return base / name
    raise LabctlError(f"labctl's own data directory {name!r} is missing", hint="reinstall labctl")


def is_checkout() -> bool:
    """Whether this code runs from a source tree rather than an installed wheel."""
    return (_PACKAGE.parent / "pyproject.toml").is_file()


def private_dir(path: Path) -> Path:
    """Create ``path`` (and parents) if need be, readable by its owner alone."""
    return _made(path, 0o700)


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file whole or not at all: temporary sibling, fsync, rename. One that is replaced
    lets nobody read it who could not before.

    Raises:
        ConfigError: something that is no regular file is there (a device, a directory).
        OSError: the directory is missing or full, or may not be written to.
    """
    if path.exists() and not path.is_file():
        raise ConfigError("this is not a regular file", where=str(path), hint="name another")
    if path.exists():
        mode &= path.stat().st_mode
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_directory(path: Path, option: str = "") -> None:
    """See that files can be made in a directory, which may itself be yet to be made.

    Args:
        option: which one named it, for the error.

    Raises:
        ConfigError: something else is in its place, or it may not be written to.
    """
    shown = f"{option} {path}" if option else str(path)
    try:
        there = next(place for place in (path, *path.parents) if os.path.lexists(place))
        if not there.is_dir():
            raise ConfigError(
                "this is no directory" if there == path else f"{there} is no directory",
                where=shown,
                hint="name another, or move away what is there",
            )
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError:
        raise ConfigError(
            "no file can be made in this directory",
            where=shown,
            hint="name another, or make it writable for this user",
        ) from None


def _made(path: Path, mode: int = 0o777) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
    except OSError as error:
        raise UnavailableError(
            f"this directory cannot be made: {error.strerror}",
            where=str(path),
            hint="XDG_STATE_HOME and XDG_CACHE_HOME move labctl's directories",
        ) from None
    return path
