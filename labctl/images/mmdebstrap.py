"""Running mmdebstrap: as whom, from which sources, and how far it is.

It needs neither an installer nor a mount: as root it works as such, as an ordinary user in
a user namespace, else under fakeroot and fakechroot.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from labctl.errors import UnavailableError
from labctl.images.apt import host_sources
from labctl.images.process import require, run

_STEP = re.compile(r"^(Get:\d+|Unpacking|Setting up) (.*)")
_TOTAL = re.compile(r"(\d+) newly installed")


def run_mmdebstrap(
    suite: str,
    target: Path,
    *,
    arguments: Sequence[str],
    scratch: Path,
    progress: Callable[[float | None, str], None],
    packages_guess: int = 1,
    mode: str | None = None,
) -> None:
    """Make the tar archive ``target`` with the system that ``arguments`` describe.

    Args:
        packages_guess: about how many packages it will install, for ``progress``.
        mode: mmdebstrap's, where nothing has to run in the new system; else ``choose_mode``.

    Raises:
        UnavailableError: mmdebstrap or a way to run it is missing, or it failed.
    """
    program = require("mmdebstrap", "mmdebstrap")
    mode = mode or choose_mode()
    meter = _Meter(packages_guess, progress)
    run(
        [program, "--verbose", f"--mode={mode}", *arguments, suite, target, *host_sources(suite)],
        on_line=meter.line,
        # Other users, as which the namespace's processes act, may not enter the cache.
        env={"TMPDIR": str(scratch)} if mode == "root" else None,
    )


def choose_mode() -> str:
    """How mmdebstrap can run here: root, unshare or fakechroot.

    Raises:
        UnavailableError: in no way.
    """
    if os.geteuid() == 0:
        return "root"
    if _has_user_namespace():
        return "unshare"
    if shutil.which("fakeroot") and shutil.which("fakechroot"):
        return "fakechroot"
    raise UnavailableError(
        "an image cannot be built by this user: there are no user namespaces with subordinate "
        "ids, and fakeroot and fakechroot are missing",
        hint="apt-get install uidmap (best), or fakeroot fakechroot; or build as root",
    )


def _has_user_namespace() -> bool:
    if not (shutil.which("newuidmap") and shutil.which("unshare")):
        return False
    names = {getpass.getuser(), str(os.getuid())}
    try:
        lines = Path("/etc/subuid").read_text().splitlines()
    except OSError:
        return False
    if not any(line.split(":")[0] in names for line in lines):
        return False
    probe = ["unshare", "--user", "--map-root-user", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


class _Meter:
    """Guesses how far mmdebstrap is: each package is fetched, unpacked and set up."""

    def __init__(self, guess: int, progress: Callable[[float | None, str], None]) -> None:
        self._guess = guess
        self._known = 0
        self._steps = 0
        self._progress = progress

    def line(self, text: str) -> None:
        total, step = _TOTAL.search(text), _STEP.match(text)
        if total:
            self._known += int(total[1])
        if step:
            self._steps += 1
            expected = 3 * max(self._guess, self._known)
            self._progress(min(0.98, self._steps / expected), text[:70])
        elif text.startswith("I: "):
            self._progress(None, text[3:])
