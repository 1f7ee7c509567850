"""A real builder of tiny images, for what the store promises whatever the builder.

Run as a program (ROOT NAME) it builds its image, and waits for ever in the second stage
when the file ``stall`` is beside ROOT.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from labctl.errors import UnavailableError
from labctl.images import builder as builders
from labctl.images.builder import GuestBoot, ImageFiles, Stage
from labctl.images.catalogue import Recipe
from labctl.images.store import ImageStore

builders.BUILDERS["tiny"] = f"{__name__}:TinyBuilder"
ran: list[str] = []


class TinyBuilder:
    """Two stages that write a few bytes; ``build.fail`` makes the second one fail."""

    def check(self, recipe):
        pass

    def fetch(self, recipe, source, progress):
        pass

    def verify(self, recipe, progress):
        return []

    def downloaded_bytes(self, recipe):
        return 0

    def stages(self, recipe):
        text = recipe.build.get("text", "")

        def first(context):
            ran.append("first")
            (context.directory / "base").write_text(text)

        def second(context):
            ran.append("second")
            (context.directory / "disk").write_text("half")
            context.progress(0.5, "half")
            while recipe.build.get("stall") and Path(recipe.build["stall"]).exists():
                time.sleep(0.02)
            if recipe.build.get("fail") and Path(recipe.build["fail"]).exists():
                raise UnavailableError("failed as asked")
            (context.directory / "disk").write_text(
                (context.results["first"] / "base").read_text() + recipe.build.get("more", "")
            )

        return [
            Stage("first", {"text": text}, first),
            Stage(
                "second",
                {"more": recipe.build.get("more", "")},
                second,
                ("first",),
                recipe.build.get("needs", 1),
            ),
        ]

    def assemble(self, recipe, results):
        return ImageFiles(disk=results["second"] / "disk", disk_format="raw")

    def prepare_guest(self, image, directory, identity, settings):
        return GuestBoot(image.disk, None, None, "", identity.host_key_pub)


def tiny_recipe(**build: object) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "tiny",
            "summary": "a tiny image",
            "system": "netbsd",
            "builder": "tiny",
            "disk_mib": 64,
            "hardware": {
                "machine": "pc",
                "cpu": {"kvm": "host-passthrough", "tcg": "qemu64"},
                "disk_bus": "ide",
                "nic": "e1000",
                "max_vcpus": 1,
                "memory_mib": 64,
            },
            "build": build,
        }
    )


if __name__ == "__main__":
    root = Path(sys.argv[1])
    ImageStore(root).build(
        tiny_recipe(text="t", stall=str(root.parent / "stall")),
        progress=lambda *report: print(*report, flush=True),
    )
