"""Options of OpenSSH's ``ssh`` for a target: for Ansible, and for machines too old for Paramiko.

The user's ~/.ssh/config is left out (``-F /dev/null``): a target is what lab.yaml says,
to Paramiko and to ``ssh`` alike. Keys of the agent and the default files still count
where no ``identity`` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# What current clients have switched off and OpenSSH 4 and 5 still need. For one target
# at a time, when its lab file says `legacy_ssh: true`.
_LEGACY = (
    "HostKeyAlgorithms=+ssh-rsa",
    "PubkeyAcceptedAlgorithms=+ssh-rsa",
    "KexAlgorithms=+diffie-hellman-group14-sha1,diffie-hellman-group-exchange-sha1",
    "MACs=+hmac-sha1",
    "Ciphers=+aes128-cbc",
)


def options(
    *,
    identity: Path | None,
    known_hosts: Sequence[Path],
    connect_timeout: float,
    legacy: bool = False,
) -> list[str]:
    """Arguments for ``ssh`` before the host: strict host keys, no prompts, keepalive.

    ``connect_timeout`` is in seconds.
    """
    files = " ".join(f'"{path}"' for path in known_hosts)
    settings = [
        f"UserKnownHostsFile={files}",
        "GlobalKnownHostsFile=/etc/ssh/ssh_known_hosts",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "BatchMode=yes",
        "LogLevel=ERROR",
        f"ConnectTimeout={max(1, round(connect_timeout))}",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
    ]
    if identity:
        settings += [f"IdentityFile={identity}", "IdentitiesOnly=yes"]
    if legacy:
        settings += _LEGACY
    return ["-F", "/dev/null", *(word for setting in settings for word in ("-o", setting))]
