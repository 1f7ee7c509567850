"""One row of results made by hand: its fields as numbers, names and parameters (docs/import.md).

What is wrong with a row is collected, so that all errors of a file can be told at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from labctl.sweep.records import Cell
from labctl.workloads import ParamValue, Workload

FACTS = ("system", "os_release", "kernel", "environment", "year", "source")
"""Columns that say what a target is."""
TIMES: Mapping[str, Callable[[float], float]] = {
    "us_per_op": lambda value: value,
    "ns_per_op": lambda value: value / 1e3,
    "ops_per_s": lambda value: 1e6 / value,
}
"""Columns of the result, of which a file has one, and how each becomes microseconds."""
PARAM = "param."
"""What the name of a parameter's column begins with."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9._+-]{1,40}", re.ASCII)
_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONGEST = {"note": 500}  # characters of a field; of others 200

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


class RowReader:
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
            (name[len(PARAM) :], "=", text)
            for name, text in self.fields.items()
            if name.startswith(PARAM) and text
        ]
        if variant := self.fields.get("variant"):
            pairs.append((_variant_of(variant, manifest), "=", variant))
        for name, _, text in pairs:
            if not name and not text:
                continue
            if not NAME.fullmatch(name) or not _VALUE.fullmatch(text):
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
    if not NAME.fullmatch(text):
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
