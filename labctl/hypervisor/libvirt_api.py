"""The libvirt binding made civil: import, event loop, errors.

Every other module of this package takes ``libvirt`` from here. This one opens
no connection: that is ``connection``.
"""

from __future__ import annotations

import threading
from typing import Any

from labctl.errors import UnavailableError

try:
    import libvirt
    import libvirt_qemu  # type: ignore[import-untyped,unused-ignore]
except ImportError as _error:  # the wheel is compiled against the system's libvirt
    libvirt = None
    libvirt_qemu = None
    _IMPORT_ERROR = str(_error)
else:
    _IMPORT_ERROR = ""

__all__ = ["is_missing", "libvirt", "libvirt_qemu", "prepare", "translated"]

INSTALL = (
    "apt-get install libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86"
)
BUILD = "apt-get install libvirt-dev pkg-config gcc python3-dev && pip install libvirt-python"

_lock = threading.Lock()
_ready = False

# (part of libvirt's message, what to do): the first that matches is the hint.
_HINTS = (
    (
        "Failed to parse user",
        "libvirt's QEMU driver wants that system user even where it is not used: "
        "apt-get install libvirt-daemon-system, or useradd --system --user-group libvirt-qemu",
    ),
    (
        "Failed to parse group",
        "that system group is missing: apt-get install libvirt-daemon-system",
    ),
    (
        "Permission denied",
        "join the group: usermod -aG libvirt $USER, then log in again; or use uri: qemu:///session",
    ),
    (
        "authentication",
        "join the group: usermod -aG libvirt $USER, then log in again; or use uri: qemu:///session",
    ),
    ("Failed to connect socket", "start it (systemctl start libvirtd), or use uri: auto"),
    ("Connection refused", "the socket is there, its daemon is not: systemctl start libvirtd"),
    ("no connection driver available", f"the driver is not installed: {INSTALL}"),
    ("Cannot find suitable emulator", f"QEMU is not installed: {INSTALL}"),
    ("does not support virt type 'kvm'", "no KVM on this host: set accel: tcg (or auto)"),
    ("KVM", "look at `labctl doctor`, or set accel: tcg (or auto)"),
)


def prepare() -> Any:
    """Register the event loop (a daemon thread runs it) and silence libvirt's
    own printing, once a process and before the first open.

    Returns:
        the ``libvirt`` module.

    Raises:
        UnavailableError: libvirt-python cannot be imported.
    """
    global _ready  # noqa: PLW0603 - the event loop is one a process, by libvirt's design
    if libvirt is None:
        raise UnavailableError(
            f"the libvirt binding cannot be imported: {_IMPORT_ERROR}", hint=f"{BUILD}; {INSTALL}"
        )
    with _lock:
        if not _ready:
            libvirt.registerErrorHandler(lambda *_: None, None)
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()
            _ready = True
    return libvirt


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def translated(error: Exception, doing: str, where: str = "") -> UnavailableError:
    """A libvirtError as the error that the user sees, with a hint where one is known."""
    text = " ".join(str(error).split())
    hint = next((hint for part, hint in _HINTS if part in text), "")
    return UnavailableError(f"cannot {doing}: {text}", where=where, hint=hint)


def is_missing(error: Any) -> bool:
    """Whether a libvirtError says "no such domain"."""
    return bool(error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)
