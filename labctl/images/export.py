"""Images for elsewhere: a raw or qcow2 disk, or a Vagrant box.

A guest is made of the image as ``up`` makes one, with a host key of its own, and its disk is
written out whole. It takes its address by DHCP, for its network is not known. What is
not here: writing to a device. That is left to a tool, and a person, that knows which.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from labctl.errors import ConfigError, UnavailableError
from labctl.images.box import BoxFiles, write_box
from labctl.images.builder import (
    GuestBoot,
    GuestIdentity,
    GuestSettings,
    Progress,
    get_builder,
    no_progress,
)
from labctl.images.catalogue import Hardware
from labctl.images.keys import ensure_keypair
from labctl.images.process import require, run
from labctl.images.store import Image
from labctl.paths import state_dir

Format = Literal["raw", "qcow2", "box"]
LOCK = "export.lock"
_HASH_CHUNK = 1 << 20
_PART = re.compile(r"\(([0-9.]+)/100%\)")  # of qemu-img -p


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        sha256: of each file; the first is the disk or box itself. An image that does not boot
            by itself has ``TARGET.kernel`` and ``TARGET.initrd`` beside its disk.
        host_key: type and base64 of the guest's public host key, as in known_hosts.
        cmdline: the kernel's command line; "" where the disk boots by itself.
    """

    image: str
    format: Format
    sha256: Mapping[Path, str]
    host_key: str
    authorized_key: str
    cmdline: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "image": self.image,
            "format": self.format,
            "files": [
                {"path": str(path), "bytes": path.stat().st_size, "sha256": digest}
                for path, digest in self.sha256.items()
            ],
            "host_key": self.host_key,
            "authorized_key": self.authorized_key,
            "cmdline": self.cmdline,
        }


def export_key() -> Path:
    """The private key that may log in to what is exported, if no other is named.

    One for this user, not for a lab: what is exported outlives a lab.
    """
    return state_dir() / "export" / "id_ecdsa"


def export(
    image: Image,
    target: Path,
    form: Format,
    *,
    authorized_key: str,
    hostname: str,
    settings: GuestSettings | None = None,
    hardware: Hardware | None = None,
    force: bool = False,
    progress: Progress = no_progress,
) -> Exported:
    """Write ``image``, as one guest of it, to ``target``.

    All is written beside ``target`` and renamed in the end; mode 0600, because the guest's
    private host key is in it.

    Args:
        authorized_key: public line of the key that may log in.
        settings: tunables and the like; its ``network`` is DHCP whatever it says.
        hardware: that the box's guests get; the recipe's unless given.
        force: replace files that are there.

    Raises:
        ConfigError: ``target`` is there already, or is no place for a file; a setting is
            not one that this system has.
        UnavailableError: a program is missing or failed, the disk is full.
    """
    apart = bool(image.kernel) and form != "box"
    beside = [target.with_name(f"{target.name}.{part}") for part in ("kernel", "initrd")]
    for path in [target, *(beside if apart else [])]:
        check_target(path, force=force)
    chosen = replace(settings or GuestSettings(), network="dhcp")
    with _beside(target) as work:
        progress("guest", None, "making its disk and host key")
        boot = _prepare(image, work / "guest", authorized_key, hostname, chosen)
        disk = work / "disk"
        _convert(boot.disk, disk, "raw" if form == "raw" else "qcow2", progress)
        made = {target: disk}
        if form == "box":
            made = {target: work / "box"}
            files = BoxFiles(disk, _virtual_bytes(disk), boot.kernel, boot.initrd, boot.cmdline)
            write_box(
                work / "box",
                files,
                image.recipe,
                hardware or image.recipe.hardware,
                progress=lambda part: progress("packing", part, ""),
            )
        elif boot.kernel and boot.initrd:
            for path, source in zip(beside, (boot.kernel, boot.initrd), strict=True):
                made[path] = work / path.name
                shutil.copyfile(source, made[path])
        digests = {path: _sha256(file, path.name, progress) for path, file in made.items()}
        for path, file in reversed(made.items()):  # the disk or box last
            file.chmod(0o600)
            _put(file, path, force=force)
    return Exported(
        image=image.name,
        format=form,
        sha256=digests,
        host_key=boot.host_key,
        authorized_key=authorized_key.strip(),
        cmdline=boot.cmdline,
    )


def check_target(path: Path, *, force: bool) -> None:
    """See that a file can be written there; ``force``: in place of another.

    Raises:
        ConfigError: it cannot.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ConfigError("its directory is not there", where=str(path)) from None
        return
    if stat.S_ISBLK(mode):
        raise ConfigError(
            "this is a block device; labctl writes none",
            where=str(path),
            hint=f"export to a file, look twice at `lsblk`, then as root: "
            f"dd if=FILE of={path} bs=4M conv=fsync (all that is on {path} is lost)",
        )
    if not stat.S_ISREG(mode):
        raise ConfigError("this is no regular file", where=str(path), hint="name a file")
    if not force:
        raise ConfigError("this file is there already", where=str(path), hint="--force replaces it")


def _put(file: Path, path: Path, *, force: bool) -> None:
    """Give a finished file its name; what another has put there meanwhile stays, unless forced."""
    if force:
        file.rename(path)
        return
    try:
        os.link(file, path)
    except FileExistsError:
        raise ConfigError(
            "this file was made meanwhile", where=str(path), hint="--force replaces it"
        ) from None
    except OSError:  # a file system without hard links
        check_target(path, force=False)
        file.rename(path)


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A private directory on the file system of ``target``, removed afterwards.

    It holds a private host key, so those that killed exports left here are removed too: the
    ones whose lock nobody holds.
    """
    try:
        for left in target.parent.glob(f".{glob.escape(target.name)}.*/{LOCK}"):
            with contextlib.suppress(Timeout), FileLock(left, timeout=0):
                shutil.rmtree(left.parent, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        lock = FileLock(work / LOCK, timeout=0)
        lock.acquire()
    except OSError as error:
        raise UnavailableError(
            f"nothing can be written here: {error.strerror}", where=str(target.parent)
        ) from None
    try:
        yield work
    except OSError as error:
        raise UnavailableError(
            f"the export failed: {error.strerror or error}", where=str(target)
        ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
        lock.release()


def _prepare(
    image: Image, directory: Path, authorized_key: str, hostname: str, settings: GuestSettings
) -> GuestBoot:
    directory.mkdir()
    host_key = directory / "ssh_host_ecdsa_key"
    identity = GuestIdentity(
        hostname=hostname,
        host_key=host_key,
        host_key_pub=ensure_keypair(host_key, hostname),
        authorized_key=authorized_key,
    )
    return get_builder(image.recipe.builder).prepare_guest(image, directory, identity, settings)


def _convert(overlay: Path, target: Path, form: str, progress: Progress) -> None:
    """The overlay and all that is below it, in one sparse file."""

    def tell(line: str) -> None:
        found = _PART.search(line)
        if found:
            progress("converting", float(found[1]) / 100, "")

    target.touch(mode=0o600)
    command = [require("qemu-img", "qemu-utils"), "convert", "-p", "-f", "qcow2", "-O", form]
    run([*command, overlay, target], on_line=tell)


def _virtual_bytes(disk: Path) -> int:
    shown = run([require("qemu-img", "qemu-utils"), "info", "--output=json", disk])
    size: int = json.loads(shown)["virtual-size"]
    return size


def _sha256(path: Path, name: str, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    size = path.stat().st_size or 1
    with path.open("rb") as file:
        while chunk := file.read(_HASH_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress("checksum", done / size, name)
    return digest.hexdigest()
