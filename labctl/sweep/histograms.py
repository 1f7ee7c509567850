"""The histograms of single operations that some workloads take, cell by cell.

A sample's ``latency.buckets`` are (lower bound in ns, count); a bucket reaches to the next
one's lower bound. Of a cell the counts of all batches that count are added.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.sweep.aggregate import counted
from labctl.sweep.journal import SAMPLE

if TYPE_CHECKING:
    import pandas as pd

CellKey = tuple[str, str, str, str, int]
"""Workload, target, program, parameters as text, thread count."""
Histogram = list[tuple[int, int]]
"""(lower bound in ns, operations), rising; empty buckets are left out."""
_KEYS = ["workload", "target", "program", "params", "threads"]


def read_histograms(path: Path, samples: pd.DataFrame) -> dict[CellKey, Histogram]:
    """Histograms of the cells that have any.

    Args:
        path: the journal.
        samples: its samples, as of ``aggregate.samples_frame``.
    """
    taken = samples["p50_ns"].notna()
    if not taken.any():
        return {}
    rows = counted(samples[taken], ["execution", "attempt", *_KEYS])
    cells = rows.drop_duplicates(["execution", "attempt"])
    workload, target, program, params = (cells[name].astype(str) for name in _KEYS[:4])
    keys = zip(workload, target, program, params, cells["threads"].tolist(), strict=True)
    attempts = zip(cells["execution"].tolist(), cells["attempt"].tolist(), strict=True)
    cell_of: dict[tuple[int, int], CellKey] = dict(zip(attempts, keys, strict=True))
    found: dict[CellKey, Counter[int]] = {}
    seen: set[tuple[int, int, int]] = set()
    with path.open("rb") as stream:
        for line in stream:
            if not line.startswith(SAMPLE) or b'"buckets":[[' not in line:
                continue
            if not line.endswith(b"\n"):
                break
            record = json.loads(line)
            attempt = (record["execution"], record["attempt"])
            batch = (*attempt, record["batch"])
            if record["warmup"] or attempt not in cell_of or batch in seen:
                continue
            seen.add(batch)
            counts = found.setdefault(cell_of[attempt], Counter())
            for lower, count in record["latency"]["buckets"]:
                counts[lower] += count
    return {key: sorted(counts.items()) for key, counts in found.items()}
