"""A kernel package of a Debian suite: found by apt, checked by apt's signatures, unpacked.

Nothing is installed and no script of the package runs.
"""

from __future__ import annotations

import shlex
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ConfigError, UnavailableError
from labctl.images.mmdebstrap import run_mmdebstrap
from labctl.images.process import require, run

# Runs outside the new system, with apt configured for it; $1 is its root directory. A metapackage
# such as linux-image-cloud-amd64 names the real one in its dependencies. $want is nothing, an
# ABI (6.1.0-18), a release (6.1.0-18-cloud-amd64) or a package's version (6.1.76-1). What cannot
# be found leaves a list of what there is.
_FETCH = """
set -eu
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
mkdir "$1/labctl-kernel"
cd "$1/labctl-kernel"
meta={package} want={version}
# By its exact name: apt takes what it does not know for a pattern.
known() {{ apt-cache show --no-all-versions "$1" 2>/dev/null | grep -qx "Package: $1"; }}
named() {{
    apt-cache show --no-all-versions "$1" 2>/dev/null |
        sed -nE 's/^Depends: (linux-image-[^ ,]+).*/\\1/p'
}}
if [ -z "$want" ]; then
    real=$(named "$meta")
    real=${{real:-$meta}}
elif known "linux-image-$want-${{meta#linux-image-}}"; then
    real=linux-image-$want-${{meta#linux-image-}}
elif known "linux-image-$want"; then
    real=linux-image-$want
else
    real=$(named "$meta=$want")
fi
if [ -n "$real" ]; then
    apt-get download "$real"
else
    apt-cache madison "$meta" | while read -r _ _ version _; do
        real=$(named "$meta=$version")
        echo "${{real#linux-image-}} (package version $version)"
    done >known
fi
"""


@dataclass(frozen=True)
class Unpacked:
    """What a kernel package holds.

    Attributes:
        vmlinuz: the kernel image.
        modules: its ``lib/modules/<release>``.
        release: as ``uname -r`` gives it.
        package: name and version of the package.
    """

    vmlinuz: Path
    modules: Path
    release: str
    package: str


def fetch(
    suite: str,
    package: str,
    version: str,
    *,
    scratch: Path,
    progress: Callable[[float | None, str], None],
    also: str = "",
) -> tuple[Unpacked, Path]:
    """Fetch a kernel package and unpack it below ``scratch``.

    Args:
        suite: Debian's codename.
        package: kernel package or metapackage.
        version: an ABI, a release or a package's version; "" for the newest.
        also: another package, to be unpacked into the archive that is returned.

    Returns:
        The kernel, and the tar archive that mmdebstrap left.

    Raises:
        ConfigError: the suite has no such version; says which it has.
        UnavailableError: the suite cannot be reached, or its signature is wrong.
    """
    archive = scratch / "fetched.tar"
    hook = _FETCH.format(package=shlex.quote(package), version=shlex.quote(version))
    try:
        run_mmdebstrap(
            suite,
            archive,
            arguments=[
                "--variant=extract",
                *([f"--include={also}"] if also else []),
                "--skip=output/dev",
                f"--extract-hook={hook}",
            ],
            scratch=scratch,
            progress=progress,
            mode="chrootless",  # packages are only unpacked
        )
    except UnavailableError as error:
        if "does not have a Release file" in error.detail:
            error.message = f"Debian's suite {suite} is not served where packages come from here"
            error.hint = "name a suite that is; for others give the kernel itself: image, modules"
        raise
    deb, known = scratch / "kernel.deb", ""
    with tarfile.open(archive) as fetched:
        for member in fetched:
            content = fetched.extractfile(member) if member.isfile() else None
            if content and member.name.endswith(".deb"):
                deb.write_bytes(content.read())
            elif content and member.name.endswith("labctl-kernel/known"):
                known = content.read().decode()
    if not deb.exists():
        raise ConfigError(
            f"{suite} has no kernel {version}",
            hint=f"known there: {', '.join(known.split(chr(10))).strip(', ') or 'none'}",
        )
    return _unpack(deb, scratch / "kernel"), archive


def _unpack(deb: Path, unpacked: Path) -> Unpacked:
    program = require("dpkg-deb", "dpkg")
    run([program, "-x", deb, unpacked])
    kernels = list(unpacked.glob("boot/vmlinuz-*"))
    trees = [*unpacked.glob("lib/modules/*"), *unpacked.glob("usr/lib/modules/*")]
    if len(kernels) != 1 or len(trees) != 1:
        raise UnavailableError(
            "the kernel package holds no kernel with modules",
            hint="let the recipe name a linux-image package, or its metapackage",
        )
    fields = run([program, "-W", "--showformat", "${Package} ${Version}", deb])
    return Unpacked(kernels[0], trees[0], trees[0].name, fields.strip())
