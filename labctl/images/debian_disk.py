"""From a root file system in a tar archive to an ext4 disk, without a mount and without root."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from labctl.images.builder import StageContext
from labctl.images.process import require, run

# $1 root.tar  $2 files.tar  $3 tree  $4 disk  $5 packages  $6 size  $7 mke2fs  $8... to remove
# One process, because under fakeroot the owners live only as long as it does. Tables are
# written whole at once: a kernel thread that fills them in later would disturb measurements.
_SCRIPT = """
root=$1 files=$2 tree=$3 disk=$4 packages=$5 size=$6 mke2fs=$7
shift 7
mkdir "$tree"
tar --numeric-owner -xpf "$root" -C "$tree"
(cd "$tree"; for pattern; do rm -rf ./$pattern; done)
tar --numeric-owner -xpf "$files" -C "$tree"
dpkg-query --admindir="$tree/var/lib/dpkg" -W -f '${Package} ${Version}\\n' >"$packages"
"$mke2fs" -q -F -t ext4 -L labctl -m 0 -E lazy_itable_init=0,lazy_journal_init=0 \
    -d "$tree" "$disk" "$size"
"""


def make_disk(
    context: StageContext,
    *,
    root: Path,
    guest_files: Path,
    links: Mapping[str, str],
    remove: Sequence[str],
    size_mib: int,
) -> None:
    """Make ``disk.ext4`` (raw, sparse) and ``packages`` in the stage's directory.

    Args:
        root: tar archive of the root file system.
        guest_files: directory whose files are laid over it.
        links: symbolic links laid over it, relative path to target.
        remove: relative paths (shell patterns) deleted from ``root``.

    Raises:
        UnavailableError: a program is missing or failed.
    """
    files = context.scratch / "files.tar"
    files.write_bytes(overlay_tar(guest_files, links))
    wrapper = [] if os.geteuid() == 0 else [require("fakeroot", "fakeroot"), "--"]
    context.progress(None, "writing the file system")
    run(
        [
            *wrapper,
            *("sh", "-euc", _SCRIPT, "sh"),
            *(root, files, context.scratch / "tree"),
            *(context.directory / "disk.ext4", context.directory / "packages"),
            *(f"{size_mib}M", require("mke2fs", "e2fsprogs"), *remove),
        ]
    )
    (context.directory / "disk.ext4").chmod(0o444)  # guests' overlays depend on every byte


def overlay_tar(guest_files: Path, links: Mapping[str, str]) -> bytes:
    """A tar archive of the guest files, owned by root.

    What lies in a ``bin`` or ``sbin`` directory becomes executable, whatever its mode here
    (an installed wheel does not keep modes).
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        mountpoint = tarfile.TarInfo("dev")
        mountpoint.type, mountpoint.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(mountpoint)
        for path in sorted(p for p in guest_files.rglob("*") if p.is_file()):
            member = tarfile.TarInfo(str(path.relative_to(guest_files)))
            data = path.read_bytes()
            member.size = len(data)
            member.mode = 0o755 if path.parent.name in ("bin", "sbin") else 0o644
            archive.addfile(member, io.BytesIO(data))
        for name, target in sorted(links.items()):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return buffer.getvalue()
