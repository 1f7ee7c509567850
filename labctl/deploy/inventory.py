"""The inventory for Ansible, written from the targets: no inventory of the user's is read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from labctl.paths import write_atomic
from labctl.targets.base import Target


def host_vars(target: Target, private_dir: Path, control_dir: Path) -> dict[str, Any]:
    """Variables of one host; ``playbooks/deploy.yml`` adds what is to be done there.

    Args:
        private_dir: where a pinned host key is written for ``ssh`` to read.
        control_dir: for the sockets of shared connections; its path must be short.
    """
    variables = target.ansible_vars()
    pinned = variables.pop("labctl_known_host", None)
    if variables.get("ansible_connection") != "ssh":
        return variables
    if pinned:
        file = private_dir / f"known_hosts.{target.name}"
        write_atomic(file, f"{pinned}\n", mode=0o600)
        # ssh takes the first value of an option, so this one counts.
        first = ["-o", f'UserKnownHostsFile="{file}"', "-o", "GlobalKnownHostsFile=/dev/null"]
        variables["ansible_ssh_common_args"] = (
            f"{shlex.join(first)} {variables['ansible_ssh_common_args']}"
        )
    control = ["-o", "ControlMaster=auto", "-o", "ControlPersist=30"]
    return variables | {
        "ansible_ssh_args": shlex.join(control),
        "ansible_control_path": f"{control_dir}/%%C",
        "ansible_ssh_transfer_method": "sftp",
        "ansible_ssh_use_tty": False,  # keeps stderr apart and lines as they are
        "ansible_ssh_retries": 0,
    }
