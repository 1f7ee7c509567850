"""Put a file on a machine that has no Python, copying only what changed.

    labctl_put: {src: on the controller, dest: on the target, force: false}

``changed`` tells whether it was copied. A file counts as unchanged if the SHA-256 written
beside it (``dest.sha256``) is that of ``src`` and, where the target has ``cksum`` (POSIX
has), the bytes on its disk still have the right sum.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase

from labctl.targets.cksum import posix_cksum


class ActionModule(ActionBase):
    """The action; there is no module of this name, nothing runs on the target but sh."""

    _requires_connection = True
    TRANSFERS_FILES = False  # no temporary directory on the target is wanted
    _VALID_ARGS = frozenset(("src", "dest", "force"))

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Compare, copy if need be, verify, and only then move into place."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        dest = str(self._task.args["dest"])
        force = str(self._task.args.get("force", False)).lower() in ("true", "yes", "1")
        source = Path(self._source(str(self._task.args["src"])))
        data = source.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        # Few commands: over SSH to an emulated guest each costs a tenth of a second.
        if self._is_there(dest, data, digest) and not force:
            return result | {"changed": False, "dest": dest}
        part, stamp, total = f"{dest}.part", f"{dest}.sha256", posix_cksum(data)
        self._transfer(source, part, data)
        self._shell(
            f'[ "$(cksum < {_q(part)} || echo {total})" = "{total}" ] && rm -f {_q(stamp)} '
            f"&& mv -f {_q(part)} {_q(dest)} && echo {digest} > {_q(stamp)}",
            f"{dest} arrived damaged: {len(data)} bytes were sent",
        )
        return result | {"changed": True, "dest": dest, "size": len(data)}

    def _source(self, src: str) -> str:
        return src if src.startswith("/") else str(Path(self._loader.get_basedir()) / src)

    def _is_there(self, dest: str, data: bytes, digest: str) -> bool:
        """Look, and make the directory; ``ls`` answers where there is no ``cksum``."""
        folder = dest.rpartition("/")[0] or "/"
        command = (
            f"mkdir -p {_q(folder)} && cat {_q(dest + '.sha256')}; "
            f"cksum < {_q(dest)} || ls {_q(dest)}"
        )
        outcome = self._low_level_execute_command(command, sudoable=False)
        lines = str(outcome["stdout"]).splitlines()
        return digest in lines and (posix_cksum(data) in lines or dest in lines)

    def _transfer(self, source: Path, part: str, data: bytes) -> None:
        """By the connection's own way, or through ``cat`` where that is missing (no SFTP)."""
        try:
            self._connection.put_file(str(source), part)
        except AnsibleError:  # a missing SFTP server looks like a failed connection
            command = f"/bin/sh -c {_q(f'cat > {_q(part)}')}"
            status, _, stderr = self._connection.exec_command(command, in_data=data, sudoable=False)
            if status:
                raise AnsibleActionFail(_reason(stderr, f"{part} cannot be written")) from None

    def _shell(self, command: str, otherwise: str) -> None:
        outcome = self._low_level_execute_command(command, sudoable=False)
        if outcome["rc"] != 0:
            raise AnsibleActionFail(_reason(outcome["stderr"], otherwise))


def _q(word: str) -> str:
    return shlex.quote(word)


def _reason(stderr: Any, otherwise: str) -> str:
    text: str = to_text(stderr).strip()
    return text or otherwise
