"""The kinds of target, imported when asked for: a lab without SSH loads no Paramiko.

Adding a kind takes one class in a module here, one line in ``KINDS`` and one model
in ``labctl.lab.model``. This module makes no targets: each class has its own needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.targets.local import LocalTarget
    from labctl.targets.posix import PosixTarget
    from labctl.targets.preflight import check, check_all
    from labctl.targets.sim import SimTarget
    from labctl.targets.ssh import SSHTarget
    from labctl.targets.vm import VMTarget

__all__ = [
    "KINDS",
    "LocalTarget",
    "SSHTarget",
    "SimTarget",
    "VMTarget",
    "check",
    "check_all",
    "target_class",
]

KINDS = {
    "local": "labctl.targets.local:LocalTarget",
    "ssh": "labctl.targets.ssh:SSHTarget",
    "vm": "labctl.targets.vm:VMTarget",
    "sim": "labctl.targets.sim:SimTarget",
}
_FUNCTIONS = ("labctl.targets.preflight:check", "labctl.targets.preflight:check_all")


def target_class(kind: str) -> type[PosixTarget]:
    """The class that implements targets of ``kind``.

    >>> target_class("local").__name__
    'LocalTarget'

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in KINDS:
        raise ConfigError(f"there is no kind of target {kind!r}", hint=f"known: {', '.join(KINDS)}")
    found: type[PosixTarget] = _load(KINDS[kind])
    return found


def __getattr__(name: str) -> Any:
    for path in (*KINDS.values(), *_FUNCTIONS):
        if path.endswith(f":{name}"):
            return _load(path)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
