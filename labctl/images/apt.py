"""The host's own apt entries for a Debian suite, so that no mirror is named in labctl.

Only entries whose Release says Origin Debian and whose codename fits are used: a host's
third-party repositories have no place in a guest.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_FIELDS = ("ORIGIN", "CODENAME", "COMPONENT", "TRUSTED", "REPO_URI", "RELEASE")


def host_sources(suite: str) -> list[str]:
    """Lines for a sources.list: ``suite``, its updates and security, as this host has them.

    Empty when the host is no Debian of that suite (or has no apt lists): then
    mmdebstrap's own default is to be used.
    """
    try:
        found = subprocess.run(
            [
                "apt-get",
                "indextargets",
                "--format",
                "|".join(f"$({field})" for field in _FIELDS),
                "Created-By: Packages",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return select(suite, found.stdout.splitlines(), keyring=KEYRING if KEYRING.exists() else None)


def select(suite: str, targets: list[str], *, keyring: Path | None) -> list[str]:
    """The sources.list lines that ``targets`` (``ORIGIN|CODENAME|...`` each) amount to."""
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    signed = f"[signed-by={keyring}] " if keyring else ""
    lines: dict[str, str] = {}
    for target in targets:
        fields = target.split("|")
        if len(fields) != len(_FIELDS):
            continue
        origin, codename, component, trusted, uri, release = fields
        if origin == "Debian" and codename in wanted and component == "main" and trusted == "yes":
            lines.setdefault(codename, f"deb {signed}{uri} {release} main")
    return list(lines.values()) if suite in lines else []
