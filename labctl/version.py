"""Which labctl this is, to the commit where it runs from a checkout."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from labctl import __version__

_TIMEOUT_S = 10


@cache
def full_version() -> str:
    """``0.1.0``; of a checkout ``0.1.0+g1a2b3c4d5e``, with ``.dirty`` where a file was changed.

    Without git, or where git refuses (somebody else's checkout), it is the bare version.
    """
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():  # an installed wheel, or an archive of the sources
        return __version__
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=10", "--exclude=*"]
    command += ["--dirty=.dirty"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__}+g{done.stdout.strip()}"
