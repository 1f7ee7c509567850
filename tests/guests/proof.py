"""A builder for tests: its guest is the accelerator's proof, which boots in half a second.

It has no SSH server; it tells of itself on the console and obeys the power button. With
``build: {broken: true}`` its ingredients cannot be had, with ``{hung: true}`` it boots
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labctl.errors import UnavailableError
from labctl.hypervisor import proof
from labctl.images.builder import (
    Finding,
    GuestBoot,
    GuestIdentity,
    GuestSettings,
    ImageFiles,
    Progress,
    Source,
    Stage,
    StageContext,
)
from labctl.images.catalogue import Recipe
from labctl.images.guest import ensure_overlay, public_key
from labctl.images.store import Image


class ProofBuilder:
    """See ``labctl.images.builder.Builder``."""

    def check(self, recipe: Recipe) -> None:
        """Anything will do."""

    def fetch(self, recipe: Recipe, source: Source, progress: Progress) -> None:
        """Fails where the recipe says so."""
        if recipe.build.get("broken"):
            raise UnavailableError("nothing answers", where="http://archive.invalid/base.txz")

    def verify(self, recipe: Recipe, progress: Progress) -> list[Finding]:
        """Nothing is kept."""
        return []

    def downloaded_bytes(self, recipe: Recipe) -> int:
        """Nothing is kept."""
        return 0

    def stages(self, recipe: Recipe) -> Sequence[Stage]:
        """The disk."""

        def write(context: StageContext) -> None:
            disk = context.directory / "disk.raw"
            proof.write_disk(disk)
            if recipe.build.get("hung"):
                disk.write_bytes(bytes(proof.DISK_BYTES))

        return [Stage("disk", dict(recipe.build), write, needs_mib=1)]

    def assemble(self, recipe: Recipe, results: Mapping[str, Path]) -> ImageFiles:
        """The disk, with a note."""
        notes = {"set base": "sha256:1 (given by hand)", "slots": "{}"}
        return ImageFiles(disk=results["disk"] / "disk.raw", disk_format="raw", notes=notes)

    def prepare_guest(
        self, image: Image, directory: Path, identity: GuestIdentity, settings: GuestSettings
    ) -> GuestBoot:
        """An overlay."""
        return GuestBoot(
            disk=ensure_overlay(image, directory),
            kernel=None,
            initrd=None,
            cmdline="",
            host_key=public_key(identity.host_key_pub),
        )
