"""Results made by hand, as a CSV file: read, and checked row by row. docs/import.md has the format.

Whatever the file holds is text to be shown, a number above 0, or an error with its line; and all
errors of a file are told at once.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from labctl.errors import ConfigError
from labctl.sweep.records import Cell
from labctl.workloads import ParamValue, Workload

MOST_BYTES = 16 << 20
MOST_ROWS = 10_000
MOST_ERRORS = 20
FACTS = ("system", "os_release", "kernel", "environment", "year", "source")
"""Columns that say what a target is."""
TIMES: Mapping[str, Callable[[float], float]] = {
    "us_per_op": lambda value: value,
    "ns_per_op": lambda value: value / 1e3,
    "ops_per_s": lambda value: 1e6 / value,
}
"""Columns of the result, of which a file has one, and how each becomes microseconds."""
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
_PARAM = "param."
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9._+-]{1,40}", re.ASCII)
_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST = {"note": 500}  # characters of a field; of others 200
_DOCS = "docs/import.md describes the format"

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One result. ``operations`` is how many it is a mean over, 1 where that is not said;
    ``facts`` is what the row says of its target."""

    line: int
    cell: Cell
    us_per_op: float
    operations: int
    facts: dict[str, str]
    note: str


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
        reader = _Reader(dict(zip(header, fields, strict=True)), known, asked)
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
        if name in _COLUMNS or (name.startswith(_PARAM) and _NAME.fullmatch(name[len(_PARAM) :])):
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


class _Reader:
    """One row; ``wrong`` collects what is wrong with it. ``asked`` has the workload that a
    program of this file was asked as."""

    def __init__(
        self, fields: dict[str, str], known: Mapping[str, Workload], asked: dict[str, str]
    ) -> None:
        self.fields, self._known, self._asked = fields, known, asked
        self.wrong: list[str] = []

    def row(self, line: int, threads: int) -> Row | None:
        """The row, or None where something is wrong. ``threads`` is for one that does not say."""
        for name, text in self.fields.items():
            if problem := _problem(text, _LONGEST.get(name, 200)):
                self.wrong.append(f"{name}: {shown(text)} {problem}")
        if self.wrong:
            return None
        workload, program = self._workload()
        manifest = self._known.get(program)
        unit = self.fields.get("unit") or (manifest.unit if manifest else "operation")
        if manifest and unit != manifest.unit:
            self.wrong.append(f"unit: an operation of {program} is a {manifest.unit}")
        params = self._params(manifest)
        count = self._take("threads", lambda text: _count(text, 100_000) if text else threads)
        operations = self._take("operations", lambda text: _count(text, 10**15) if text else 1)
        time = self._time()
        target = self._target()
        if self.wrong or count is None or operations is None or time is None:
            return None
        cell = Cell(
            target=target,
            workload=workload,
            program=program,
            form=manifest.form if manifest else "program",
            unit=unit,
            params=params,
            threads=count,
        )
        facts = {name: self.fields[name] for name in FACTS if self.fields.get(name)}
        return Row(line, cell, time, operations, facts, self.fields.get("note", ""))

    def _take(self, name: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(self.fields.get(name, ""))
        except ValueError as error:
            self.wrong.append(f"{name}: {error}")
            return None

    def _workload(self) -> tuple[str, str]:
        """As what it was asked for, and what ran. Two programs that are each other's
        counterparts (kqtest, eptest) answer one question: that of the first in the file."""
        workload = self._take("workload", _name) or ""
        if self.fields.get("program"):
            return workload, self._take("program", _name) or ""
        manifest = self._known.get(workload)
        other = manifest.counterpart if manifest else ""
        asked = self._asked.setdefault(workload, self._asked.get(other, workload))
        return asked, workload

    def _params(self, manifest: Workload | None) -> dict[str, ParamValue]:
        given: dict[str, str] = {}
        pairs = [text.partition("=") for text in re.split(r"[ ;,]+", self.fields.get("params", ""))]
        pairs += [
            (name[len(_PARAM) :], "=", text)
            for name, text in self.fields.items()
            if name.startswith(_PARAM) and text
        ]
        if variant := self.fields.get("variant"):
            pairs.append((_variant_of(variant, manifest), "=", variant))
        for name, _, text in pairs:
            if not name and not text:
                continue
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(text):
                self.wrong.append(f"params: {shown(f'{name}={text}')} is no NAME=VALUE")
            elif given.setdefault(name, text) != text:
                self.wrong.append(f"params: {name} is given twice, with two values")
        return {name: _param(name, text, manifest) for name, text in given.items()}

    def _time(self) -> float | None:
        """Microseconds an operation."""
        column = next(name for name in self.fields if name in TIMES)
        value = self._take(column, _number)
        if value is None:
            return None
        time = TIMES[column](value)
        if not 1e-6 <= time <= 1e12:
            self.wrong.append(f"{column}: {time:g} us an operation cannot be")
            return None
        if self.fields.get("operations") and self.fields.get("seconds"):
            seconds = self._take("seconds", _number)
            operations = self._take("operations", _number)
            if seconds and operations and abs(seconds / operations * 1e6 / time - 1) > 0.01:
                self.wrong.append(
                    f"seconds / operations is {seconds / operations * 1e6:g} us, and {column} "
                    f"says {time:g} us"
                )
        return time

    def _target(self) -> str:
        """As it is called, or made of what it is."""
        parts = [self.fields.get(name, "") for name in ("system", "os_release", "kernel")]
        name = next((part for part in parts if part), "")
        parts = [name, self.fields.get("environment", ""), self.fields.get("year", "")]
        target = self.fields.get("target") or " ".join(part for part in parts if part and name)
        if not target:
            self.wrong.append("target: what was measured on? Give it, or a system")
        return target


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


def shown(text: str) -> str:
    """Text of a file in a message: quoted, short, and without what could steer a terminal."""
    return ascii(text if len(text) <= 60 else f"{text[:57]}...")


def _problem(text: str, most: int) -> str:
    """Why a field cannot be shown as it is; "" where it can."""
    if len(text) > most:
        return f"is longer than {most} characters"
    steering = next((c for c in text if not c.isprintable()), "")
    return f"holds the control character U+{ord(steering):04X}" if steering else ""


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{shown(text)} is no name of small letters, digits and _")
    return text


def _number(text: str) -> float:
    value = float(text) if len(text) < 100 and _NUMBER.fullmatch(text) else math.nan
    if not 0 < value < math.inf:
        comma = "; decimals take a point" if re.fullmatch(r"[\d.]+,\d+", text) else ""
        raise ValueError(f"{shown(text)} is no number above 0{comma}")
    return value


def _count(text: str, most: int) -> int:
    value = int(text) if re.fullmatch("[0-9]{1,18}", text) else 0
    if not 1 <= value <= most:
        raise ValueError(f"{shown(text)} is no whole number from 1 to {most}")
    return value


def _variant_of(value: str, manifest: Workload | None) -> str:
    """The one parameter of the workload that has such a value, or "variant"."""
    params = manifest.params.items() if manifest else ()
    having = [name for name, param in params if value in (*param.values, *param.aliases)]
    return having[0] if len(having) == 1 else "variant"


def _param(name: str, text: str, manifest: Workload | None) -> ParamValue:
    """A parameter's value as the workload has it; others are whole numbers or text."""
    if manifest and name in manifest.params:
        try:
            return manifest.params[name].parse(text)
        except ValueError:
            return text  # one's own variant of it
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) else text


def _spans(lines: Sequence[int]) -> str:
    """``16 to 23, 30``."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][1] == line - 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a} to {b}" if a != b else str(a) for a, b in spans)
