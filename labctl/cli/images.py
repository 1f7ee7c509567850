"""Verbs about guest images: image ls, image build, image verify, image rm."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from labctl.cli.app import Json, State, Yes, app, confirm, state
from labctl.cli.output import size
from labctl.errors import ConfigError, MeasurementError, UnavailableError

image_app = typer.Typer(no_args_is_help=True, help="List, build, check, export, remove images.")
app.add_typer(image_app, name="image")


def complete_images(incomplete: str) -> list[str]:
    """Image names for shell completion."""
    return [name for name in State().catalogue if name.startswith(incomplete)]


Image = Annotated[
    str, typer.Argument(metavar="IMAGE", autocompletion=complete_images, help="Its name.")
]


@image_app.command("ls")
def list_images(context: typer.Context, json: Json = False) -> None:
    """List the images of the catalogue, which are built, and the kernels that were fetched.

    Example: `labctl image ls`
    """
    from labctl.images.kernels import KernelStore
    from labctl.images.store import ImageStore

    found = state(context)
    rows, kernels = ImageStore().list(), KernelStore().list()
    if json:
        found.output.json(
            images=[row.as_dict() for row in rows],
            kernels=[kernel.as_dict() for kernel in kernels],
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("image", "state", "size", "downloaded", "built", "summary"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row.name,
            row.state,
            size(row.size_bytes) if row.size_bytes else "-",
            size(row.downloaded_bytes) if row.downloaded_bytes else "-",
            row.built[:16] or "-",
            row.summary,
        )
    found.output.table(table)
    if not kernels:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("kernel", "release", "size", "key"):
        table.add_column(heading, no_wrap=heading == "key")
    for kernel in kernels:
        table.add_row(kernel.spec, kernel.release, size(kernel.size_bytes), kernel.key)
    found.output.table(table)


@image_app.command()
def build(
    context: typer.Context,
    image: Image,
    sets: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL",
            help="A directory that holds the release's sets: yours, or downloaded by hand.",
        ),
    ] = "",
    mirror: Annotated[
        str,
        typer.Option(metavar="URL", help="A mirror of the release's archive, the same files."),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Build it anew.")] = False,
) -> None:
    """Build an image; it is cached by what goes into it, and an interrupted build resumes.

    The BSDs are made of a release's sets. They are downloaded and checked, or taken from
    --sets; what they were is recorded in the image and in every run.

    Example: `labctl image build freebsd-9.3 --sets ~/sets/freebsd-9.3`
    """
    from labctl.images.builder import Source
    from labctl.images.catalogue import find_recipe
    from labctl.images.store import ImageStore

    if sets and mirror:
        raise ConfigError("--sets and --mirror exclude each other", hint="give one of them")

    found = state(context)
    store = ImageStore()
    recipe = find_recipe(image)
    if force:
        refuse_if_used(image)
        store.remove(image)
    with found.output.steps() as steps:
        built = store.build(
            recipe,
            source=Source(sets=sets, mirror=mirror),
            progress=lambda stage, part, text: steps.update(image, stage, part, text),
        )
        steps.finish(image, f"built, {size(built.size_bytes)}")
    for name, note in built.notes.items():
        if name.startswith("set "):
            found.output.say(f"{name}: {note}")
    found.output.data(str(built.directory))


@image_app.command()
def verify(context: typer.Context, image: Image, json: Json = False) -> None:
    """Read an image and what it was made of again, and compare them with their checksums.

    Exits with 1 when something differs, with 3 when nothing is there.

    Example: `labctl image verify freebsd-9.3`
    """
    from labctl.images.catalogue import find_recipe
    from labctl.images.store import ImageStore

    found = state(context)
    recipe = find_recipe(image)
    with found.output.steps() as steps:
        findings = ImageStore().verify(
            recipe, progress=lambda stage, part, text: steps.update(image, stage, part, text)
        )
        steps.finish(image, f"{len(findings)} files read")
    if json:
        found.output.json(findings=[asdict(finding) for finding in findings])
    else:
        for finding in findings:
            found.output.data(f"{'ok ' if finding.ok else 'BAD'} {finding.name}: {finding.text}")
    wrong = [finding for finding in findings if not finding.ok]
    if wrong:
        again = f"labctl image build {image} --force"
        sets = any(finding.name.startswith("set ") for finding in wrong)
        raise MeasurementError(
            f"{len(wrong)} of {len(findings)} are not what they should be",
            where=image,
            detail="\n".join(f"{finding.name}: {finding.text}" for finding in wrong),
            hint=f"remove the sets' files that are named, then {again}" if sets else again,
        )
    if not findings:
        raise UnavailableError(
            "nothing is kept of this image, so nothing was compared",
            where=image,
            hint=f"labctl image build {image}",
        )


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
    """Remove a built image, or a kernel by what was asked for or its key.

    Guests that run on an image must be destroyed first. A kernel is fetched anew when a guest
    that has it is next started.

    Example: `labctl image rm debian-12`, `labctl image rm debian/bullseye`
    """
    from labctl.images.catalogue import find_recipe
    from labctl.images.kernels import KernelStore
    from labctl.images.store import ImageStore

    found = state(context)
    if any(image in (kernel.spec, kernel.key) for kernel in KernelStore().list()):
        confirm(f"Remove the kernel {image}?", yes=yes)
        KernelStore().remove(image)
        found.output.say(f"{image}: removed")
        return
    find_recipe(image)
    refuse_if_used(image)
    confirm(f"Remove the built image {image}?", yes=yes)
    removed = ImageStore().remove(image)
    found.output.say(f"{image}: removed" if removed else f"{image}: was not built")
