"""Verbs about guest images: image ls, image build, image rm."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from labctl.cli.app import Json, State, Yes, app, confirm, state
from labctl.cli.output import size
from labctl.errors import ConfigError

image_app = typer.Typer(no_args_is_help=True, help="List, build and remove guest images.")
app.add_typer(image_app, name="image")


def complete_images(incomplete: str) -> list[str]:
    """Image names for shell completion."""
    return [name for name in State().catalogue if name.startswith(incomplete)]


Image = Annotated[
    str, typer.Argument(metavar="IMAGE", autocompletion=complete_images, help="Its name.")
]


@image_app.command("ls")
def list_images(context: typer.Context, json: Json = False) -> None:
    """List the images of the catalogue, and which are built.

    Example: `labctl image ls`
    """
    from labctl.images.store import ImageStore

    found = state(context)
    rows = ImageStore().list()
    if json:
        found.output.json(images=[row.as_dict() for row in rows])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("image", "system", "state", "size", "built", "summary"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.name,
            row.system,
            row.state,
            size(row.size_bytes) if row.size_bytes else "-",
            row.built[:16] or "-",
            row.summary,
        )
    found.output.table(table)


@image_app.command()
def build(
    context: typer.Context,
    image: Image,
    force: Annotated[bool, typer.Option("--force", help="Build it anew.")] = False,
) -> None:
    """Build an image; it is cached by what goes into it, and an interrupted build resumes.

    Example: `labctl image build debian-12`
    """
    from labctl.images.catalogue import find_recipe
    from labctl.images.store import ImageStore

    found = state(context)
    store = ImageStore()
    recipe = find_recipe(image)
    if force:
        refuse_if_used(image)
        store.remove(image)
    with found.output.steps() as steps:
        built = store.build(
            recipe, progress=lambda stage, part, text: steps.update(image, stage, part, text)
        )
        steps.finish(image, f"built, {size(built.size_bytes)}")
    found.output.data(str(built.directory))


def refuse_if_used(image: str) -> None:
    """ConfigError when guests stand on the image: they would lose their disks."""
    from labctl.guests import using

    guests = using(image)
    if guests:
        raise ConfigError(
            f"guests run on the image {image}: {', '.join(guests)}",
            hint="labctl destroy them first, each in its lab's directory",
        )


@image_app.command("rm")
def remove(context: typer.Context, image: Image, yes: Yes = False) -> None:
    """Remove a built image; guests that run on it must be destroyed first.

    Example: `labctl image rm debian-12`
    """
    from labctl.images.catalogue import find_recipe
    from labctl.images.store import ImageStore

    found = state(context)
    find_recipe(image)
    refuse_if_used(image)
    confirm(f"Remove the built image {image}?", yes=yes)
    removed = ImageStore().remove(image)
    found.output.say(f"{image}: removed" if removed else f"{image}: was not built")
