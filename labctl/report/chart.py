"""A small chart of times against threads in characters, both axes logarithmic.

A series is a mark at each of its points and dots between them: braille, or ASCII where the
output has no such characters. Colour adds to the marks and says nothing that they do not.
No library does that: those for terminals tell series apart by colour alone, or keep their
figure in module state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_ROWS = 9  # odd: equal values stand in the middle
_WIDEST = 72
_LEAST_SPAN = 2.0  # of the values: noise shall not fill the chart
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille: row, column
_BRAILLE = 0x2800
_Cell = tuple[int, int]  # row from the top, column


@dataclass(frozen=True)
class Line:
    """A series: its name, its colour, and thread counts with values above 0."""

    label: str
    colour: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class _Characters:
    marks: str
    several: str  # marks at one place
    frame: str  # tick, side, corner, bottom, tick below
    fine: bool  # whether there is braille


_UNICODE = _Characters("●■▲◆○□△◇", "✱", "┤│└─┬", True)
_ASCII = _Characters("ox+#%&@$", "*", "+|+-+", False)


def chart(lines: Sequence[Line], width: int, *, ascii_only: bool = False) -> Iterator[Text]:
    """The chart and its legend, no row longer than ``width``."""
    drawn = _UNICODE if not ascii_only else _ASCII
    least, greatest = _range([value for line in lines for _, value in line.points])
    threads = sorted({n for line in lines for n, _ in line.points})
    labels = _value_labels(least, greatest)
    gutter = max(map(len, labels.values()))
    columns = max(8, min(width, _WIDEST) - gutter - 2)

    def place(n: int, value: float) -> _Cell:
        across = math.log(n / threads[0]) / (math.log(threads[-1] / threads[0]) or 1.0)
        down = math.log(greatest / value) / math.log(greatest / least)
        return round(down * (_ROWS - 1)), 1 + round(across * (columns - 4))

    cells: dict[_Cell, tuple[str, str]] = {}
    places = [[place(n, value) for n, value in line.points] for line in lines]
    for line, at in zip(lines, places, strict=True):
        cells |= {cell: (dot, line.colour) for cell, dot in _dots(at, drawn).items()}
    for number, (line, at) in enumerate(zip(lines, places, strict=True)):
        for cell in at:
            alone = not any(cell in other for other in places[:number] + places[number + 1 :])
            mark = drawn.marks[number % len(drawn.marks)]
            cells[cell] = (mark, line.colour) if alone else (drawn.several, "bold")
    for row in range(_ROWS):
        text = Text(labels.get(row, "").rjust(gutter) + " ")
        text.append(drawn.frame[0 if row in labels else 1])
        for column in range(columns):
            text.append(*cells.get((row, column), (" ", "")))
        text.rstrip()
        yield text
    counts = {place(n, least)[1]: str(n) for n in threads}
    bottom = [drawn.frame[4] if column in counts else drawn.frame[3] for column in range(columns)]
    yield Text(" " * (gutter + 1) + drawn.frame[2] + "".join(bottom))
    yield Text(" " * (gutter + 2) + _thread_labels(counts, columns))
    several = any(dot == drawn.several for dot, _ in cells.values())
    yield from _legend(lines, drawn, several, width)


def _range(values: Sequence[float]) -> tuple[float, float]:
    least, greatest = min(values), max(values)
    missing = max(1.0, _LEAST_SPAN / (greatest / least)) ** 0.5
    return least / missing, greatest * missing


def _value_labels(least: float, greatest: float) -> dict[int, str]:
    """Labels by row: round values, or the ends where there are too few."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(greatest)) + 1)
    round_ones = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    shown = [value for value in round_ones if least <= value <= greatest]
    if len(shown) < 2:
        return {0: f"{greatest:.3g}", _ROWS - 1: f"{least:.3g}"}
    labels: dict[int, str] = {}
    span = math.log(greatest / least)
    for value in sorted(shown, key=lambda value: (math.log10(value) % 1 > 1e-9, value)):
        row = round(math.log(greatest / value) / span * (_ROWS - 1))
        if not {row - 1, row, row + 1} & labels.keys():
            labels[row] = f"{value:g}"
    return labels


def _thread_labels(counts: Mapping[int, str], columns: int) -> str:
    """Thread counts below their ticks, those left out that have no room; the last is kept."""
    row, free = [" "] * (columns + 4), columns + 4
    for column, label in sorted(counts.items(), reverse=True):
        if column + len(label) < free:
            row[column : column + len(label)] = label
            free = column
    return "".join(row).rstrip()


def _dots(places: Sequence[_Cell], drawn: _Characters) -> dict[_Cell, str]:
    """Straight lines from each place to the next."""
    high, wide = (4, 2) if drawn.fine else (1, 1)
    bits: dict[_Cell, int] = {}
    for (row, column), (to_row, to_column) in pairwise(places):
        y, x = row * high + (high - 1) // 2, column * wide
        to_y, to_x = to_row * high + (high - 1) // 2, to_column * wide
        steps = max(abs(to_y - y), abs(to_x - x), 1)
        for step in range(steps + 1):
            at_y, at_x = y + (to_y - y) * step / steps, x + (to_x - x) * step / steps
            (cell_y, dot_y), (cell_x, dot_x) = divmod(round(at_y), high), divmod(round(at_x), wide)
            bits[cell_y, cell_x] = bits.get((cell_y, cell_x), 0) | _DOTS[dot_y][dot_x]
    return {cell: chr(_BRAILLE + found) if drawn.fine else "." for cell, found in bits.items()}


def _legend(lines: Sequence[Line], drawn: _Characters, several: bool, width: int) -> Iterator[Text]:
    """Marks and names, as many in a row as fit."""
    entries = [
        (drawn.marks[number % len(drawn.marks)], line.label, line.colour)
        for number, line in enumerate(lines)
    ]
    row = Text()
    for mark, label, colour in entries + [(drawn.several, "several", "bold")] * several:
        shown = label if cell_len(label) <= width - 2 else set_cell_size(label, width - 3) + "…"
        if row and row.cell_len + 3 + 2 + cell_len(shown) > width:
            yield row
            row = Text()
        row.append("   " if row else "").append(mark, colour).append(f" {shown}")
    yield row
