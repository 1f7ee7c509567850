"""A libvirt URI as it may be shown: without passwords and the names of key files."""

from __future__ import annotations

import re

# What says how a connection is made and gives nothing away; what else a URI has stays out.
_OPEN = {"root", "mode", "name", "no_sanity", "no_tty", "no_verify", "proxy", "socket", "sshauth"}
_PASSWORD = re.compile(r"(?<=//)([^/:@]*):[^/]*@")


def shown(uri: str) -> str:
    """``uri`` less what is nobody else's.

    >>> shown("qemu+ssh://me:pass@far.example/system?no_tty=1&keyfile=/home/me/key")
    'qemu+ssh://me@far.example/system?no_tty=1'
    """
    base, _, query = uri.partition("?")
    kept = [part for part in re.split("[&;]", query) if part.partition("=")[0] in _OPEN]
    return _PASSWORD.sub(r"\1@", base) + ("?" + "&".join(kept) if kept else "")


def scrubbed(text: str, uri: str) -> str:
    """A message about a connection without what ``shown`` leaves out of its URI."""
    base, _, query = uri.partition("?")
    secrets = [password[0].partition(":")[2][:-1] for password in _PASSWORD.finditer(base)]
    for part in re.split("[&;]", query):
        name, _, value = part.partition("=")
        secrets += [] if name in _OPEN else [value]
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "...")
    return text
