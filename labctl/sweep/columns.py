"""A journal's samples as columns, read without an object for each line.

Nearly all lines of a long journal are samples. They are found and parsed a block of the file at a
time, by NumPy and Arrow; every other line is a typed record, as ``journal.iterate`` gives it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labctl.errors import ConfigError
from labctl.sweep.journal import SAMPLE, iterate, parse
from labctl.sweep.records import Record

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa

    Ints = npt.NDArray[np.int64]

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
OPTIONAL = ("user_ns", "sys_ns", "vcsw", "ivcsw", "min_thread_ops", "max_thread_ops")
"""Those that an imported sample has not: a column in which one is missing is "float64"."""
LATENCIES = ("p50_ns", "p99_ns", "max_ns")
_BLOCK = 1 << 25  # bytes read at a time


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
    before, rest = 0, b""
    try:
        with path.open("rb") as stream:
            while data := stream.read(_BLOCK):
                data = rest + data
                end = data.rfind(b"\n") + 1
                data, rest = data[:end], data[end:]
                starts, ends, taken = _lines(data)
                others = np.flatnonzero(~taken)
                places = zip(
                    (others + before + 1).tolist(),
                    starts[others].tolist(),
                    ends[others].tolist(),
                    strict=True,
                )
                events += [(line, parse(data[a:b], path, line)) for line, a, b in places]
                if taken.any():
                    first, last = _runs(taken)
                    parts = [data[starts[a] : ends[b]] for a, b in zip(first, last, strict=True)]
                    lines = np.flatnonzero(taken) + before + 1
                    tables.append(_table(b"".join(parts), path).assign(line=lines))
                before += starts.size
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if not tables:
        tables.append(_table(b"", path).assign(line=pd.Series(dtype="int64")))
    return events, pd.concat(tables, ignore_index=True)


def _lines(data: bytes) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Where the whole lines of ``data`` start and end, and which of them are samples."""
    block = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(block == ord("\n")) + 1
    starts = np.concatenate(([0], ends[:-1])) if ends.size else ends
    mark = np.frombuffer(SAMPLE, np.uint8)
    heads = np.minimum(starts[:, None] + np.arange(mark.size), block.size - 1)
    return starts, ends, (block[heads] == mark).all(axis=1)


def _runs(taken: npt.NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """First and last place of each run of true values."""
    edges = np.diff(taken.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist()


def _table(block: bytes, path: Path) -> pd.DataFrame:
    """The lines of samples as columns."""
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
            table = json.read_json(io.BytesIO(block), parse_options=options)
            if any(table.column(name).null_count for name in COLUMNS if name not in OPTIONAL):
                raise pa.ArrowInvalid("a field is missing")
        except pa.ArrowInvalid as error:
            for _ in iterate(path):  # names the line
                pass
            raise ConfigError(
                "the samples cannot be read as a table", where=str(path), detail=str(error)
            ) from None
    frame = pd.DataFrame({n: table.column(n).to_numpy() for n in COLUMNS if n != "time"})
    frame["time"] = _times(table.column("time"))
    latencies = table.column("latency").combine_chunks().flatten()
    for name, values in zip(LATENCIES, latencies, strict=True):
        frame[name] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return frame


def _times(texts: pa.ChunkedArray) -> pd.Series[Any]:
    import pyarrow as pa

    try:  # as ``journal.now`` writes them
        found: pd.Series[Any] = texts.cast(pa.timestamp("us", "UTC")).to_pandas()
    except pa.ArrowInvalid:
        return moments(texts.to_pandas())
    return found


def moments(texts: pd.Series[Any]) -> pd.Series[Any]:
    """Texts as times in UTC, to the microsecond; NaT where one says no time."""
    import pandas as pd

    found = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
    return found.astype("datetime64[us, UTC]")
