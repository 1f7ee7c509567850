"""What every builder's ``prepare_guest`` shares: the guest's own disk over the image's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from labctl.errors import UnavailableError
from labctl.images.process import require, run
from labctl.images.store import Image

DISK = "disk.qcow2"


def ensure_overlay(image: Image, directory: Path, forget: Sequence[Path] = ()) -> Path:
    """The qcow2 overlay in ``directory`` backed by ``image``.

    Created when missing, unreadable, or made over another image (the recipe has changed):
    blocks written over one base mean nothing over another. The files in ``forget``, which
    tell what was written on the disk, are removed with the disk before.

    Raises:
        UnavailableError: qemu-img is missing or failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    disk = directory / DISK
    base = image.disk.resolve()
    qemu_img = require("qemu-img", "qemu-utils")
    if disk.exists() and _backing(qemu_img, disk) == str(base):
        return disk
    fresh = directory / f".{DISK}.new"
    fresh.unlink(missing_ok=True)
    run([qemu_img, "create", "-q", "-f", "qcow2", "-F", image.disk_format, "-b", base, fresh])
    fresh.chmod(0o600)
    for path in forget:
        path.unlink(missing_ok=True)
    fresh.rename(disk)
    return disk


def public_key(line: str) -> str:
    """Type and base64 of a public key line, without its comment."""
    fields = line.split()
    if len(fields) < 2:
        raise UnavailableError("this is no public key line", detail=line)
    return " ".join(fields[:2])


def _backing(qemu_img: str, disk: Path) -> str | None:
    # -U: somebody may have the disk open; only its header is read.
    shown = subprocess.run(
        [qemu_img, "info", "-U", "--output=json", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode:
        return None
    backing: str | None = json.loads(shown.stdout).get("full-backing-filename")
    return backing
