"""Which libvirt, and a connection to it for as long as a ``with`` lasts.

``auto`` takes the first that answers of qemu:///system, qemu:///session (not as
root) and the embedded driver, and keeps a record of what was tried; it stays with the
embedded driver while guests run under it. What to do with a connection is in ``domain``.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labctl.errors import UnavailableError
from labctl.hypervisor import embedded, libvirt_api, worker
from labctl.hypervisor.uri import scrubbed, shown

Progress = Callable[[str], None]

_PROBE_TIMEOUT = 10.0  # seconds that ``auto`` waits for one daemon


class Connection:
    """An open connection to a hypervisor.

    Attributes:
        uri: the URI that was opened (never "auto"); ``shown`` is what may be told of it.
        why: what was tried and why this one, a sentence.
        is_embedded: whether the driver runs in labctl's helper process.
    """

    def __init__(
        self, uri: str, why: str, raw: Any = None, helper: embedded.Helper | None = None
    ) -> None:
        self.uri = uri
        self.why = why
        self._raw = raw
        self._helper = helper

    @property
    def shown(self) -> str:
        """The URI without passwords and the names of key files."""
        return shown(self.uri)

    @property
    def is_embedded(self) -> bool:
        """Whether the driver runs in labctl's helper process."""
        return self._helper is not None

    def qemu_log(self, domain: str) -> Path | None:
        """Where QEMU's own messages about a domain go; None: not on this machine."""
        if self._helper is not None:
            return self._helper.log_dir / f"{domain}.log"
        if self.uri == "qemu:///system":
            return Path("/var/log/libvirt/qemu", f"{domain}.log")
        return None

    @property
    def raw(self) -> Any:
        """The libvirt.virConnect. Prefer ``call``, which works for every driver.

        Raises:
            UnavailableError: embedded: the virConnect is in another process.
        """
        if self._raw is None:
            raise UnavailableError(
                "the embedded driver's virConnect lives in a helper process",
                hint="use Connection.call(function, ...)",
            )
        return self._raw

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float = 60.0) -> Any:
        """Return ``function(virConnect, *arguments)``, run where the connection lives.

        For the embedded driver that is the helper process: ``function`` must be
        importable, arguments and result must pickle (so no virDomain), and no
        answer within ``timeout`` seconds is an error that ends the helper.

        Raises:
            UnavailableError: libvirt refused (with what it said), or is gone.
        """
        if self._helper is not None:
            return self._helper.call(function, arguments, timeout=timeout)
        return worker.run(function, self._raw, *arguments)


def _silent(_: str) -> None:
    pass


@contextlib.contextmanager
def connect(
    uri: str, *, timeout: float = 60.0, progress: Progress = _silent
) -> Iterator[Connection]:
    """Open ``uri`` ("auto" or any libvirt URI) and close it at the end.

    Open late, close early: under the embedded driver other labctl processes wait.

    Args:
        uri: "auto", "embed" (the embedded driver under the state directory) or a libvirt URI.
        timeout: seconds to wait for an answer, or for one's turn.
        progress: is told what is waited for.

    Raises:
        UnavailableError: no connection; ``detail`` lists what was tried.
    """
    if uri == "auto":
        with _auto(timeout, progress) as connection:
            yield connection
    elif uri == "embed":
        with embedded.helper(timeout, progress) as helper:
            yield Connection(helper.uri, "asked for in the lab file", helper=helper)
    else:
        raw = _open(uri, timeout)
        with contextlib.closing(raw):
            yield Connection(uri, "asked for in the lab file", raw)


@contextlib.contextmanager
def _auto(timeout: float, progress: Progress) -> Iterator[Connection]:
    tried: list[str] = []
    daemons = ["qemu:///system"] + (["qemu:///session"] if os.geteuid() != 0 else [])
    if embedded.has_guests():
        # A daemon started meanwhile knows nothing of them, and would start them twice.
        daemons = []
        tried.append("guests run under it already")
    for uri in daemons:
        try:
            raw = _open(uri, min(timeout, _PROBE_TIMEOUT))
        except UnavailableError as error:
            if libvirt_api.libvirt is None:
                raise
            tried.append(f"{uri}: {error.message}")
            continue
        with contextlib.closing(raw):
            why = f"{uri} answers" + ("; " + "; ".join(tried) if tried else "")
            yield Connection(uri, why, raw)
        return
    try:
        context = embedded.helper(timeout, progress)
        helper = context.__enter__()
    except UnavailableError as error:
        error.detail = "\n".join([*tried, f"embedded driver: {error.message}", error.detail])
        raise
    with contextlib.ExitStack() as stack:
        stack.push(context)
        why = "libvirt's embedded driver (" + "; ".join(tried) + ")"
        yield Connection(helper.uri, why, helper=helper)


def _open(uri: str, timeout: float) -> Any:
    """Open in a thread: a daemon that accepts and never answers must not hang labctl."""
    libvirt = libvirt_api.prepare()
    if "+ssh" in uri.partition("://")[0] and "no_tty" not in uri:
        uri += ("&" if "?" in uri else "?") + "no_tty=1"  # a password prompt would wait for ever
    outcome: list[Any] = []

    def attempt() -> None:
        try:
            outcome.append(libvirt.open(uri))
        except libvirt.libvirtError as error:
            told = libvirt_api.translated(error, "connect to libvirt", shown(uri))
            told.message = scrubbed(told.message, uri)
            outcome.append(told)

    thread = threading.Thread(target=attempt, name="open libvirt", daemon=True)
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise UnavailableError(
            f"libvirt does not answer within {timeout:.0f} s",
            where=shown(uri),
            hint="is the daemon stuck? systemctl restart libvirtd",
        )
    if isinstance(outcome[0], UnavailableError):
        raise outcome[0]
    raw = outcome[0]
    with contextlib.suppress(libvirt.libvirtError):  # not every driver has keep-alive
        raw.setKeepAlive(5, 3)
    return raw
