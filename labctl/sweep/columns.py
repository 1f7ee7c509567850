"""A journal's samples as columns, read without an object for each line.

Nearly all lines of a long journal are samples. They are parsed by Arrow, a block at a time; every
other line is a typed record, as ``journal.iterate`` gives it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.errors import ConfigError
from labctl.sweep.journal import SAMPLE, iterate, parse
from labctl.sweep.records import Record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "execution": "int64",
    "attempt": "int64",
    "batch": "int64",
    "warmup": "bool",
    "ops": "int64",
    "wall_ns": "int64",
    "user_ns": "int64",
    "sys_ns": "int64",
    "vcsw": "int64",
    "ivcsw": "int64",
    "min_thread_ops": "int64",
    "max_thread_ops": "int64",
    "time": "str",
}
"""Fields of a sample, and their kinds."""
LATENCIES = ("p50_ns", "p99_ns", "max_ns")
_BLOCK = 100_000  # lines


def read_columns(path: Path) -> tuple[list[tuple[int, Record]], pd.DataFrame]:
    """All other records of a journal, each with its line; and its samples: a column for each of
    COLUMNS and LATENCIES (NaN where not taken), and ``line``.

    A torn last line is passed over.

    Raises:
        ConfigError: as ``journal.iterate``.
    """
    import pandas as pd

    events: list[tuple[int, Record]] = []
    tables: list[pd.DataFrame] = []
    block: list[bytes] = []
    lines: list[int] = []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    break
                if not line.startswith(SAMPLE):
                    events.append((number, parse(line, path, number)))
                    continue
                block.append(line)
                lines.append(number)
                if len(block) == _BLOCK:
                    tables.append(_table(block, lines, path))
                    block, lines = [], []
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if block or not tables:
        tables.append(_table(block, lines, path))
    return events, pd.concat(tables, ignore_index=True)


def _table(block: list[bytes], lines: list[int], path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import json

    kinds: dict[str, Any] = {"int64": pa.int64(), "bool": pa.bool_(), "str": pa.string()}
    latency = pa.struct([(name, pa.int64()) for name in LATENCIES])
    schema = pa.schema([*((n, kinds[k]) for n, k in COLUMNS.items()), ("latency", latency)])
    if not block:
        table = schema.empty_table()
    else:
        options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        try:
            table = json.read_json(io.BytesIO(b"".join(block)), parse_options=options)
            if any(table.column(name).null_count for name in COLUMNS):
                raise pa.ArrowInvalid("a field is missing")
        except pa.ArrowInvalid as error:
            for _ in iterate(path):  # names the line
                pass
            raise ConfigError(
                "the samples cannot be read as a table", where=str(path), detail=str(error)
            ) from None
    frame = pd.DataFrame({n: table.column(n).to_numpy() for n in COLUMNS if n != "time"})
    frame["time"] = table.column("time").to_pandas().astype("str")
    latencies = table.column("latency").combine_chunks().flatten()
    for name, values in zip(LATENCIES, latencies, strict=True):
        frame[name] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return frame.assign(line=pd.Series(lines, dtype="int64"))
