"""The verb image export: an image for a disk, another hypervisor, or Vagrant."""

from __future__ import annotations

import enum
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labctl.cli.app import Json, State, state
from labctl.cli.images import Image, image_app
from labctl.cli.output import Output, size
from labctl.errors import ConfigError

if TYPE_CHECKING:
    from labctl.guests.hardware import GuestPlan
    from labctl.images.catalogue import Recipe
    from labctl.images.export import Exported

_PUBLIC_KEY = re.compile(r"^(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( .*)?$")
_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$")


class Form(enum.StrEnum):
    """Formats of an export."""

    raw = "raw"
    qcow2 = "qcow2"
    box = "box"


@image_app.command()
def export(
    context: typer.Context,
    image: Image,
    form: Annotated[Form, typer.Option("--format", help="raw, qcow2 or (for Vagrant) box.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file [default: ./IMAGE.FORMAT; a box where Vagrant looks]."
        ),
    ] = None,
    authorized_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.pub", help="Public key that may log in [default: one of labctl's own]."
        ),
    ] = None,
    hostname: Annotated[str, typer.Option(help="Its host name [default: the image's].")] = "",
    target: Annotated[
        str,
        typer.Option(help="With the settings that this target of the lab file has."),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Write an image, built if need be, as a disk for elsewhere or as a Vagrant box.

    It gets a host key of its own and takes its address by DHCP.

    Example: `labctl image export netbsd-6.1.5 --format raw`
    """
    from labctl.guests import kernels
    from labctl.images import export as exporting
    from labctl.images.box import box_label, box_path, plain_settings
    from labctl.images.catalogue import find_recipe
    from labctl.images.keys import ensure_keypair
    from labctl.images.store import ImageStore

    found = state(context)
    recipe = find_recipe(image)
    name = hostname or image.replace(".", "-").replace("_", "-")
    if not _NAME.match(name):
        raise ConfigError(f"{name!r} is no host name", hint="letters, digits and hyphens")
    settings, hardware, plan = plain_settings(recipe), recipe.hardware, None
    if target:
        plan = _plan(found, target, recipe)
        settings, hardware = plan.settings, plan.hardware
    label = box_label(recipe, settings, plan.kernel.text if plan and plan.kernel else "")
    if form is Form.box and output is None:
        box_path(label).parent.mkdir(parents=True, exist_ok=True)
    path = output or (box_path(label) if form is Form.box else Path(f"{label}.{form}"))
    exporting.check_target(path, force=force)  # before an image is built for it
    key = authorized_key or exporting.export_key()
    public = _public_key(key) if authorized_key else ensure_keypair(key, "labctl export")
    with found.output.steps() as steps:

        def progress(stage: str, part: float | None, text: str) -> None:
            steps.update(image, stage, part, text)

        if plan and plan.kernel:
            kernel = kernels.get(found.lab, target, recipe, plan, progress)
            settings = replace(settings, kernel=kernel)
        done = exporting.export(
            ImageStore().build(recipe, progress=progress),
            path,
            form.value,
            authorized_key=public,
            hostname=name,
            settings=settings,
            hardware=hardware,
            force=force,
            progress=progress,
        )
        steps.finish(image, f"exported, {size(path.stat().st_blocks * 512)}")
    if json:
        found.output.json(**done.as_dict(), identity=None if authorized_key else str(key))
        return
    for file, digest in done.sha256.items():
        found.output.data(f"{digest}  {file}")
    _explain(found.output, done, path, key)


def _plan(found: State, target: str, recipe: Recipe) -> GuestPlan:
    """What a target of the lab file is made of.

    Raises:
        ConfigError: it is not of this image.
    """
    from labctl.guests.hardware import resolve
    from labctl.lab import VMSpec

    found.select([target])
    spec = found.lab.targets[target]
    image = spec.image if isinstance(spec, VMSpec) else "no image"
    if image != recipe.name:
        raise ConfigError(f"the target {target} has {image}, not {recipe.name}", where="--target")
    return resolve(found.lab, target, recipe)


def _public_key(path: Path) -> str:
    """The public line in a file.

    Raises:
        ConfigError: it holds none, or more than one.
    """
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"this key cannot be read: {error}", where=str(path)) from None
    if not _PUBLIC_KEY.match(text):
        raise ConfigError(
            "this is not one public key", where=str(path), hint="name the .pub file of a key pair"
        )
    return text


def _explain(output: Output, done: Exported, target: Path, key: Path) -> None:
    """What the user has to know to use it."""
    output.say(f"may log in: {key}")
    if done.format == "box":
        output.say("every guest of this box has the same host key; then: vagrant up")
        return
    output.say(f"for known_hosts: ADDRESS {done.host_key}")
    if done.cmdline:
        output.say(
            f"it has no boot loader: boot {target.name}.kernel with {target.name}.initrd and "
            f"the command line: {done.cmdline}"
        )
    elif done.format == "raw":
        output.say("docs/export.md says how it gets on a disk, and what is lost there")
