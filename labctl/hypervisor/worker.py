"""The helper process that holds libvirt's embedded driver.

The embedded driver lives as long as its process: ``virConnectClose`` neither
drops its lock on the root directory nor its QEMU monitors, and a process can
open but one root, once. So labctl opens it in this short-lived child, whose end
frees the root for the next labctl. Guests outlive it: libvirt daemonizes QEMU.

It is not a server: one parent, one socket, one call at a time. It ends when the
parent closes the socket, or dies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

from labctl.errors import LabctlError
from labctl.hypervisor import libvirt_api


def run(function: Callable[..., Any], raw: Any, *arguments: Any) -> Any:
    """Call ``function(raw, *arguments)``; a libvirtError leaves as UnavailableError."""
    try:
        return function(raw, *arguments)
    except libvirt_api.libvirt.libvirtError as error:
        what = function.__name__.strip("_").replace("_", " ")
        raise libvirt_api.translated(error, what) from None


def serve(pipe: Pipe, uri: str) -> None:
    """Open ``uri``, then answer (function, arguments) with (True, result) or
    (False, error) until the other end closes. The first answer is the opening's."""
    try:
        libvirt = libvirt_api.prepare()
        raw = libvirt.open(uri)
    except LabctlError as error:
        pipe.send((False, error))
        return
    except Exception as error:
        pipe.send((False, libvirt_api.translated(error, "open the embedded driver", uri)))
        return
    pipe.send((True, None))
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_answer(function, raw, arguments))


def _answer(function: Callable[..., Any], raw: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, run(function, raw, *arguments)
    except LabctlError as error:
        return False, error
    except Exception as error:
        return False, LabctlError(f"internal error in {function.__name__}: {error!r}")


if __name__ == "__main__":
    serve(Pipe(int(sys.argv[1])), sys.argv[2])
    os._exit(0)  # do not wait for libvirt's threads; its files are locked by process
