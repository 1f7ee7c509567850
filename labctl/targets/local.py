"""The machine that labctl itself runs on: subprocesses, no SSH server needed."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from labctl.errors import UnavailableError
from labctl.targets.channel import ByteChannel, PipeChannel
from labctl.targets.posix import PosixTarget


class LocalTarget(PosixTarget):
    """This machine. It is never rebooted: that would end labctl as well."""

    kind = "local"

    def __init__(self, name: str, workdir: str, machine: str = "local") -> None:
        """``workdir``: absolute path that labctl may use."""
        super().__init__(name, workdir=workdir, machine=machine)

    def kill_group(self, pgid: int) -> bool:
        """Kill a process group; says whether it was there."""
        try:
            os.killpg(pgid, signal.SIGKILL)
        except OSError:
            return False
        return True

    def ansible_vars(self) -> dict[str, Any]:
        """Ansible's own local connection."""
        return {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}

    def _open_channel(self, timeout: float) -> ByteChannel:
        try:
            return PipeChannel(["/bin/sh"], env={**os.environ, "LC_ALL": "C"})
        except OSError as error:
            raise UnavailableError("/bin/sh cannot be started", detail=str(error)) from error
