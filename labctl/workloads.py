"""Workloads: their manifests, and the batch protocol by which they speak.

A workload is a folder under ``workloads/`` with C sources and a ``workload.yaml``;
adding one takes no Python. docs/workloads.md describes the protocol; this module
checks every manifest and every line a program prints where it comes in.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from labctl import paths
from labctl.errors import ConfigError, MeasurementError
from labctl.findings import findings

ParamValue = str | int


class Param(BaseModel):
    """One parameter of a workload: enumerated (``values``) or an integer (``minimum``)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    help: str
    default: ParamValue
    values: tuple[str, ...] = ()
    aliases: dict[str, str] = {}
    minimum: int | None = None
    maximum: int | None = None
    unit: str = ""

    def parse(self, text: str) -> ParamValue:
        """``text`` as a value of this parameter, aliases resolved.

        Raises:
            ValueError: not one of the values, or out of range; the message says which are.
        """
        if self.values:
            value = self.aliases.get(text, text)
            if value not in self.values:
                raise ValueError(f"{text!r} is not one of {', '.join(self.values)}")
            return value
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if self.minimum is not None and number < self.minimum:
            raise ValueError(f"{number} is below the least value {self.minimum}")
        if self.maximum is not None and number > self.maximum:
            raise ValueError(f"{number} is above the greatest value {self.maximum}")
        return number


class Workload(BaseModel):
    """A workload's manifest. ``directory`` is where it was read from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str
    question: str
    description: str = ""
    unit: str
    form: str
    systems: tuple[str, ...]
    counterpart: str = ""
    program: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    sources: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    fixed_token: bool = False
    threads: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = (1, 2, 4, 8, 16)
    params: dict[str, Param] = {}
    directory: Path = Path()


def load_workloads(directory: Path | None = None) -> dict[str, Workload]:
    """All workloads of ``directory`` (default: the project's own), by name.

    Raises:
        ConfigError: a manifest is not valid; names the file and the key.
    """
    base = directory or paths.data_dir("workloads")
    found = {}
    for manifest in sorted(base.glob("*/workload.yaml")):
        try:
            raw: Any = yaml.safe_load(manifest.read_text())
            workload = Workload.model_validate({**raw, "directory": manifest.parent})
        except (ValidationError, yaml.YAMLError, TypeError) as error:
            raise ConfigError(
                "this workload's manifest is not valid",
                where=str(manifest),
                detail=findings(error) if isinstance(error, ValidationError) else str(error),
                hint="docs/workloads.md lists the keys",
            ) from error
        found[workload.name] = workload
    return found


def find_workload(name: str, known: dict[str, Workload]) -> Workload:
    """The workload called ``name``; ConfigError names the nearest if there is none."""
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known workloads: {', '.join(known)}"
    raise ConfigError(f"there is no workload {name!r}", hint=hint)


def form_for(workload: Workload, system: str, known: dict[str, Workload]) -> Workload | None:
    """What a sweep of ``workload`` runs on ``system``: itself, its counterpart, or nothing."""
    if system in workload.systems:
        return workload
    other = known.get(workload.counterpart)
    return other if other and system in other.systems else None


# -- the batch protocol, version 1 ------------------------------------------------


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Capabilities(_Line):
    """What a build supports: its enumerated parameters' values."""

    type: Literal["capabilities"]
    protocol: Literal[1]
    workload: str
    form: str
    params: dict[str, list[str]] = {}


class Start(_Line):
    """What the program understood of its arguments."""

    type: Literal["start"]
    protocol: Literal[1]
    workload: str
    form: str
    threads: int
    params: dict[str, ParamValue]
    ops: int
    batches: int
    warmup: int
    unit: str
    clock: str
    clock_res_ns: int
    clock_read_ns: int | None = None


class Calibration(_Line):
    """One step of doubling; the last one's ``ops`` is used."""

    type: Literal["calibration"]
    ops: int
    wall_ns: int


class Latency(_Line):
    """Time of single operations; ``buckets`` are (lower bound in ns, count)."""

    p50_ns: int
    p99_ns: int
    max_ns: int
    buckets: list[tuple[int, int]] = []


class Batch(_Line):
    """One measured batch: the raw form of a sample."""

    type: Literal["batch", "warmup"]
    index: int
    ops: int = Field(gt=0)
    wall_ns: int = Field(gt=0)
    user_ns: int
    sys_ns: int
    vcsw: int
    ivcsw: int
    min_thread_ops: int
    max_thread_ops: int
    latency: Latency | None = None


class End(_Line):
    """The program did all that it was asked; ``wall_ns`` is from main() on."""

    type: Literal["end"]
    batches: int
    wall_ns: int


ProtocolLine = Annotated[
    Capabilities | Start | Calibration | Batch | End, Field(discriminator="type")
]
_ADAPTER: TypeAdapter[Capabilities | Start | Calibration | Batch | End] = TypeAdapter(ProtocolLine)


def parse_line(line: str) -> Capabilities | Start | Calibration | Batch | End:
    """One line of a workload's output as a typed record.

    Raises:
        MeasurementError: it is not a line of the protocol.
    """
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError as error:
        raise MeasurementError(
            "the workload printed a line that is not of the batch protocol",
            detail=f"{line[:400]}\n{findings(error)}",
            hint="deploy again with `labctl deploy --force`",
        ) from error
