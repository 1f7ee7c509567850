"""The verb lab: the lab file as labctl understands it."""

from __future__ import annotations

from typing import Any

import typer
from rich.table import Table

from labctl.cli.app import Json, LabFile, app, state


@app.command("lab")
def show_lab(context: typer.Context, file: LabFile = None, json: Json = False) -> None:
    """Show the lab as it is understood: every target with its hardware, nothing started.

    Example: `labctl lab --json`
    """
    from labctl.overview import describe

    found = state(context)
    described = describe(found.lab, found.catalogue)
    if json:
        found.output.json(**described)
        return
    found.output.say(f"lab {described['lab']}, {described['path']}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (
        "target",
        "kind",
        "image, kernel",
        "vCPUs",
        "memory",
        "accelerator",
        "hardware",
    ):
        table.add_column(heading)
    for target in described["targets"]:
        table.add_row(*_row(target))
    found.output.table(table)


def _row(target: dict[str, Any]) -> tuple[str, ...]:
    if target["kind"] != "vm":
        ssh = target.get("ssh")
        where = f"{ssh['user']}@{ssh['host']}:{ssh['port']}" if ssh else "this machine"
        return (target["name"], target["kind"], "-", "-", "-", "-", where)
    hardware = target["hardware"]
    parts = [hardware[key] for key in ("machine", "cpu", "disk_bus", "nic")]
    return (
        target["name"],
        "vm",
        f"{target['image']}, {target['kernel']}" if target["kernel"] else target["image"],
        str(target["vcpus"]),
        f"{target['memory_mib']} MiB",
        target["accelerator"]["chosen"],
        ", ".join(parts),
    )
