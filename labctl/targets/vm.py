"""A guest on this host: SSH on a forwarded loopback port, with the host key planted in it.

Making, starting and waiting for the guest is not done here (``labctl.hypervisor``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labctl.targets import hostkeys
from labctl.targets.ssh import SSHTarget


class VMTarget(SSHTarget):
    """An SSHTarget whose host key is known beforehand: exactly one key is accepted."""

    kind = "vm"

    def __init__(
        self,
        name: str,
        port: int,
        *,
        host_key: str,
        identity: Path,
        workdir: str,
        machine: str = "local",
        host: str = "127.0.0.1",
        user: str = "root",
        connect_timeout: float = 20.0,
        reboot_command: str = "/sbin/shutdown -r now",
        can_reboot: bool = True,
    ) -> None:
        """
        Args:
            port: on ``host``, forwarded to the guest's SSH server.
            host_key: the planted public key, as one line of a .pub file.
            reboot_command: as the guest's image says.
        """
        super().__init__(
            name,
            host,
            port=port,
            user=user,
            identity=identity,
            workdir=workdir,
            machine=machine,
            can_reboot=can_reboot,
            connect_timeout=connect_timeout,
            reboot_command=reboot_command,
        )
        self.host_key = " ".join(host_key.split()[:2])
        self._pinned = hostkeys.pinned_key(host_key)
        self._patience = 1.0

    def ansible_vars(self) -> dict[str, Any]:
        """As SSHTarget; ``labctl_known_host`` is the line that the inventory's writer puts
        into a known_hosts file, which it names in place of the user's."""
        name = hostkeys.lookup_name(self.host, self.port)
        return super().ansible_vars() | {"labctl_known_host": f"{name} {self.host_key}"}

    def _known_keys(self) -> list[hostkeys.KnownKey]:
        return [self._pinned]

    def _key_check(self, keys: list[hostkeys.KnownKey]) -> hostkeys.KeyCheck:
        return hostkeys.KeyCheck(
            where=self.name, host=self.host, port=self.port, keys=keys, file=None
        )

    def _banner_timeout(self) -> float:
        # The hypervisor takes the connection before the guest is up, and repeats the guest's
        # SYN ever more slowly: a new attempt gets through sooner than an old one. A little
        # more patience each time, for a guest that is only slow.
        self._patience = min(self._patience + 1.0, self.connect_timeout)
        return self._patience
