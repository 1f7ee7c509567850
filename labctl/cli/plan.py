"""The verb that tells what a sweep would take and reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from labctl.cli.app import Json, LabFile, app, state
from labctl.cli.asked import Asked, asks
from labctl.cli.output import Output, seconds

if TYPE_CHECKING:
    from labctl.forecast import CellForecast, Forecast


@app.command()
@asks
def plan(
    context: typer.Context,
    asked: Asked,
    run: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="Run that tells of noise and costs."),
    ] = None,
    file: LabFile = None,
    json: Json = False,
) -> None:
    """Say how long a sweep should take, and how narrow its intervals should become.

    It takes the options of sweep and measures nothing. Noise and costs are those of an earlier
    run [default: the one with most of these cells, of these the latest].

    Example: `labctl plan kqtest --until 3%`
    """
    from labctl.forecast import forecast

    found = state(context)
    told = forecast(found.lab, asked.request(found), found.catalogue, run=run)
    if json:
        found.output.json(**_document(told))
        return
    _print(told, found.output)


def _document(told: Forecast) -> dict[str, object]:
    return {
        "estimate_s": round(told.seconds, 1),
        "based_on": told.run or None,
        "machines": [
            {
                "machine": name,
                "processes": price.processes,
                "reboots": price.reboots,
                "reboot_s": round(price.reboot_s, 1),
                "estimate_s": round(price.seconds, 1),
            }
            for name, price in told.machines.items()
        ],
        "cells": [
            {
                **one.cell.model_dump(),
                "boots": one.boots,
                "processes": one.processes,
                "batches": one.batches,
                "half_width": None if one.half_width is None else round(one.half_width, 5),
            }
            for one in told.cells
        ],
        "notices": list(told.notices),
    }


def _print(told: Forecast, output: Output) -> None:
    """A line for the cells that differ in the thread count alone, and one for each machine."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("target", "program", "threads", "boots", "processes", "batches", "expected ±"):
        right = heading in ("boots", "processes", "batches", "expected ±")
        table.add_column(
            heading, justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    for cells in _grouped(told.cells):
        cell = cells[0].cell
        params = " ".join(f"{name}={value}" for name, value in cell.params.items())
        table.add_row(
            escape(cell.target),
            f"{cell.program} {params}".strip(),
            ",".join(str(one.cell.threads) for one in cells),
            _span([one.boots for one in cells]),
            _span([one.processes for one in cells]),
            _span([one.batches for one in cells]),
            _widths(cells),
        )
    output.table(table)
    for text in told.notices:
        output.warn(text)
    for name, price in told.machines.items():
        reboots = f", {price.reboots} reboots ({seconds(price.reboot_s)})" if price.reboots else ""
        output.data(
            f"machine {name}: {price.processes} processes{reboots}, about {seconds(price.seconds)}"
        )
    basis = f"after {told.run}" if told.run else "by rule of thumb"
    output.data(f"in all about {seconds(told.seconds)} ({basis})")


def _grouped(cells: Sequence[CellForecast]) -> list[list[CellForecast]]:
    groups: dict[str, list[CellForecast]] = {}
    for one in cells:
        key = one.cell.model_copy(update={"threads": 0}).key
        groups.setdefault(key, []).append(one)
    return [sorted(group, key=lambda one: one.cell.threads) for group in groups.values()]


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _widths(cells: Sequence[CellForecast]) -> str:
    known = [one.half_width for one in cells if one.half_width is not None]
    if not known:
        return "not known"
    low, high = f"{min(known):.1%}", f"{max(known):.1%}"
    text = low if low == high else f"{low} to {high}"
    return text if len(known) == len(cells) else f"{text}, or not known"
