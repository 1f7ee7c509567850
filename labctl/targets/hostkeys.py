"""Host keys: what is known of a host, and the decision on the key that it shows.

Known keys come from OpenSSH's own look-up (``ssh-keygen -F``), so hashed names,
``[host]:port`` entries, patterns and ``@revoked`` marks mean what they mean to ``ssh``.
A key is never learnt here: an unknown or changed one is an error that says what to check.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

from labctl.errors import ConfigError
from labctl.targets.posix import HostKeyError

DEFAULT_FILES = (
    Path("~/.ssh/known_hosts").expanduser(),
    Path("~/.ssh/known_hosts2").expanduser(),
    Path("/etc/ssh/ssh_known_hosts"),
)


@dataclass(frozen=True)
class KnownKey:
    """One key on record for a host. ``marker`` is "" or "@revoked"; ``source`` says where."""

    kind: str
    blob: bytes
    source: str
    marker: str = ""


def lookup_name(host: str, port: int) -> str:
    """The name under which known_hosts files keep a host.

    >>> lookup_name("box", 22), lookup_name("box", 2222)
    ('box', '[box]:2222')
    """
    return host if port == 22 else f"[{host}]:{port}"


def known_keys(host: str, port: int, files: Sequence[Path]) -> list[KnownKey]:
    """All keys that ``files`` hold for ``host``; files that do not exist hold none.

    Raises:
        ConfigError: a file cannot be read, or ssh-keygen is not installed.
    """
    keys = []
    for file in files:
        if not file.exists():
            continue
        argv = ["ssh-keygen", "-F", lookup_name(host, port), "-f", str(file)]
        try:
            file.open("rb").close()
            found = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
        except FileNotFoundError as error:
            raise ConfigError(
                "ssh-keygen is not installed", hint="install the OpenSSH client"
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(file)) from error
        keys += [key for line in found.stdout.splitlines() if (key := _parse(line, str(file)))]
    return keys


def pinned_key(line: str) -> KnownKey:
    """The key of a public key line (``ecdsa-sha2-nistp256 AAAA... comment``).

    Raises:
        ConfigError: it is not such a line.
    """
    key = _parse(f"host {line.strip()}", "the lab's own state")
    if key is None:
        raise ConfigError(f"this is not a public key: {line[:60]!r}")
    return key


class KeyCheck(paramiko.MissingHostKeyPolicy):
    """The decision on a host key. Paramiko itself is given no known keys, so every
    connection comes through here."""

    def __init__(
        self, *, where: str, host: str, port: int, keys: Sequence[KnownKey], file: Path | None
    ) -> None:
        """``file``: where a user would record a checked key; None if keys are pinned."""
        self._where, self._host, self._port = where, host, port
        self._keys, self._file = keys, file

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Accept ``key`` by returning, or raise HostKeyError."""
        blob = key.asbytes()
        same = [known for known in self._keys if known.blob == blob]
        shown = f"{key.get_name()} {fingerprint(blob)}"
        if any(known.marker == "@revoked" for known in same):
            raise HostKeyError(
                f"the host key {shown} is marked as revoked in {same[0].source}", where=self._where
            )
        if any(not known.marker for known in same):
            return
        trusted = [known for known in self._keys if not known.marker]
        if trusted:
            raise self._changed(shown, trusted)
        raise self._unknown(shown)

    def _unknown(self, shown: str) -> HostKeyError:
        name = lookup_name(self._host, self._port)
        file = shlex.quote(str(self._file))
        return HostKeyError(
            f"the host key of {name} is not known: {shown}; it is not in {self._file}",
            where=self._where,
            hint="compare the fingerprint with the machine's own (ssh-keygen -lf "
            "/etc/ssh/ssh_host_*_key.pub there); if it is the same: "
            f"ssh-keyscan -p {self._port} {shlex.quote(self._host)} >> {file}",
        )

    def _changed(self, shown: str, trusted: Sequence[KnownKey]) -> HostKeyError:
        name = lookup_name(self._host, self._port)
        on_record = "\n".join(f"{k.kind} {fingerprint(k.blob)} in {k.source}" for k in trusted)
        if self._file is None:
            hint = "another machine answers on this port, or the guest was rebuilt by hand"
        else:
            hint = (
                "somebody may be listening in, or the machine was installed anew. Ask; then: "
                f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(trusted[0].source)}; "
                f"ssh-keyscan -p {self._port} {shlex.quote(self._host)} "
                f">> {shlex.quote(str(self._file))}"
            )
        return HostKeyError(
            f"the host key of {name} HAS CHANGED: it now shows {shown}",
            where=self._where,
            hint=hint,
            detail=f"on record:\n{on_record}",
        )


def fingerprint(blob: bytes) -> str:
    """A key's fingerprint as ``ssh-keygen -l`` prints it (SHA256:...)."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def prefer_known(transport: paramiko.Transport, keys: Sequence[KnownKey]) -> None:
    """Ask the server for a key of a kind on record: else it may show one that is not."""
    known = {key.kind for key in keys}
    if "ssh-rsa" in known:  # the key format's name; signatures are SHA-2
        known |= {"rsa-sha2-512", "rsa-sha2-256"}
    options = transport.get_security_options()
    kinds = list(options.key_types)
    options.key_types = sorted(kinds, key=lambda kind: (kind not in known, kinds.index(kind)))


def _parse(line: str, source: str) -> KnownKey | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3:
        return None
    try:
        return KnownKey(words[1], base64.b64decode(words[2], validate=True), source, marker)
    except ValueError:
        return None
