"""Results made by hand, as a CSV file: read, and checked row by row. docs/import.md has the format.

Whatever the file holds is text to be shown, a number above 0, or an error with its line; and all
errors of a file are told at once.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labctl.errors import ConfigError
from labctl.sweep.handmade_row import FACTS, NAME, PARAM, TIMES, Row, RowReader, shown
from labctl.workloads import Workload

MOST_BYTES = 16 << 20
MOST_ROWS = 10_000
MOST_ERRORS = 20
_COLUMNS: tuple[str, ...] = (
    "workload",
    "program",
    "target",
    "threads",
    "variant",
    "params",
    "unit",
    "note",
)
_COLUMNS += ("operations", "seconds", *FACTS, *TIMES)
_DOCS = "docs/import.md describes the format"


@dataclass(frozen=True)
class Table:
    """A file as read. ``left_out`` says which rows are not in ``rows``, and why; ``unknown`` are
    workloads that labctl does not have."""

    path: Path
    sha256: str
    rows: list[Row]
    left_out: list[str]
    unknown: list[str]


@dataclass
class _Errors:
    """What is wrong with a file, line by line."""

    path: Path
    found: list[str] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        self.found.append(f"{self.path}:{line}: {text}")
        if len(self.found) > MOST_ERRORS:
            self.stop()

    def stop(self) -> None:
        """Raise if there are any."""
        if not self.found:
            return
        more = len(self.found) > MOST_ERRORS
        count = f"more than {MOST_ERRORS}" if more else str(len(self.found))
        raise ConfigError(
            f"{count} error{'s' if more or len(self.found) > 1 else ''}, nothing was imported",
            where=str(self.path),
            detail="\n".join(self.found[:MOST_ERRORS]),
            hint=f"mend the file; {_DOCS}",
        )


def read_table(path: Path, known: Mapping[str, Workload], *, threads: int | None = None) -> Table:
    """Read a file of results.

    Args:
        known: manifests by name: units, forms and parameters of labctl's own workloads.
        threads: of rows that do not say; without it they are left out.

    Raises:
        ConfigError: the file cannot be read, or is wrong: all its errors with their lines.
    """
    data = _read(path)
    errors = _Errors(path)
    lines = _records(_text(data, path), errors)
    if not lines:
        raise ConfigError("the file is empty", where=str(path), hint=_DOCS)
    number, header = lines[0]
    _check_header(header, number, errors)
    errors.stop()
    rows: list[Row] = []
    silent: list[int] = []
    asked: dict[str, str] = {}
    for number, fields in lines[1:]:
        if len(fields) != len(header):
            comma = "; is a number written with a comma?" if len(fields) > len(header) else ""
            errors.add(number, f"{len(fields)} fields where the header has {len(header)}{comma}")
            continue
        reader = RowReader(dict(zip(header, fields, strict=True)), known, asked)
        row = reader.row(number, threads or 1)
        for text in reader.wrong:
            errors.add(number, text)
        if threads is None and not reader.fields.get("threads"):
            silent.append(number)
        elif row is not None:
            rows.append(row)
    _check_together(rows, errors)
    errors.stop()
    if not rows:
        raise ConfigError(
            "no row says its number of threads" if silent else "there is no row but the header",
            where=str(path),
            hint=f"--threads N says it for all; {_DOCS}" if silent else _DOCS,
        )
    left_out = (
        [f"{path.name}, rows without a number of threads: {_spans(silent)}"] if silent else []
    )
    unknown = sorted({row.cell.program for row in rows} - set(known))
    return Table(path, hashlib.sha256(data).hexdigest(), rows, left_out, unknown)


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError("this is no regular file", where=str(path), hint="name a CSV file")
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"the file is larger than {MOST_BYTES >> 20} MiB",
            where=str(path),
            hint="one row a cell is wanted, not every sample",
        )
    return data


def _text(data: bytes, path: Path) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError("this is UTF-16", where=str(path), hint="save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "this is not UTF-8", where=f"{path}:{line}", hint="save the file as UTF-8"
        ) from None


def _records(text: str, errors: _Errors) -> list[tuple[int, list[str]]]:
    """All records that are not blank, each with the line that it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[tuple[int, list[str]]] = []
    begin = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                found.append((begin, [field.strip() for field in fields]))
            begin = reader.line_num + 1
            if len(found) > MOST_ROWS + 1:
                raise ConfigError(
                    f"there are more than {MOST_ROWS:,} rows",
                    where=f"{errors.path}:{begin - 1}",
                    hint="one row a cell is wanted, not every sample",
                )
    except csv.Error as error:
        errors.add(begin, f"this is not CSV: {error}")
        errors.stop()
    return found


def _check_header(header: Sequence[str], line: int, errors: _Errors) -> None:
    if len(header) == 1 and (mark := re.search("[;\t|]", header[0])):
        name = {";": "semicolons", "\t": "tabs", "|": "bars"}[mark[0]]
        errors.add(
            line, f"fields are separated by {name}: save it with commas, decimals with points"
        )
        return
    for name in header:
        if name in _COLUMNS or (name.startswith(PARAM) and NAME.fullmatch(name[len(PARAM) :])):
            continue
        near = difflib.get_close_matches(name, _COLUMNS, n=1)
        mean = (
            f"did you mean {near[0]}?"
            if near
            else "`note` is for remarks, param.NAME for a parameter"
        )
        errors.add(line, f"there is no column {shown(name)}; {mean}")
    for name in sorted({name for name in header if header.count(name) > 1}):
        errors.add(line, f"the column {shown(name)} is there twice")
    if "workload" not in header:
        errors.add(line, "the column workload is missing")
    times = [name for name in TIMES if name in header]
    if len(times) != 1:
        there = f"there are {' and '.join(times)}" if times else "there is none"
        errors.add(line, f"one of the columns {', '.join(TIMES)} is wanted; {there}")


def _check_together(rows: Sequence[Row], errors: _Errors) -> None:
    """No cell twice, and no target that is two."""
    cells: dict[str, int] = {}
    targets: dict[str, Row] = {}
    for row in rows:
        first = cells.setdefault(row.cell.key, row.line)
        if first != row.line:
            errors.add(
                row.line,
                f"the same cell as line {first}; keep one, or give them two targets or parameters",
            )
        other = targets.setdefault(row.cell.target, row)
        for name in FACTS:
            texts = [shown(facts.get(name, "")) for facts in (row.facts, other.facts)]
            if texts[0] != texts[1]:
                errors.add(
                    row.line,
                    f"{name}: {shown(row.cell.target)} has {texts[0]} here and {texts[1]} in line "
                    f"{other.line}; two machines want two targets",
                )


def _spans(lines: Sequence[int]) -> str:
    """``16 to 23, 30``."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][1] == line - 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a} to {b}" if a != b else str(a) for a, b in spans)
