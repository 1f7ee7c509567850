"""The numbers of the published measurements that this lab repeats ("seeds").

They are other people's, from other machines and years: shown beside a run's own
numbers, labelled with where they come from, and never compared by a statistic (one
run a cell, no spread). ``seed-results.csv`` holds them as they were printed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

# A question was put to several programs: kqtest on the BSDs, eptest on Linux.
_ASKED_AS = {"eptest": ("kqtest", "eptest"), "kqtest": ("kqtest", "eptest")}


@dataclass(frozen=True)
class SeedPoint:
    """One published number. ``threads`` is None where the source does not say."""

    source: str
    year: int
    workload: str
    variant: str
    system: str
    environment: str
    threads: int | None
    operations: int
    seconds: float
    us_per_op: float


@cache
def load_seeds() -> tuple[SeedPoint, ...]:
    """All published numbers, in the order of the file."""
    text = resources.files(__name__).joinpath("seed-results.csv").read_text(encoding="utf-8")
    return tuple(
        SeedPoint(
            source=row["source"],
            year=int(row["year"]),
            workload=row["workload"],
            variant=row["variant"],
            system=row["system"],
            environment=row["environment"],
            threads=int(row["threads"]) if row["threads"] else None,
            operations=int(row["operations"]),
            seconds=float(row["seconds"]),
            us_per_op=float(row["us_per_op"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def seeds_for(workload: str) -> tuple[SeedPoint, ...]:
    """The published numbers that answer the same question as ``workload``; may be none."""
    programs = _ASKED_AS.get(workload, (workload,))
    return tuple(point for point in load_seeds() if point.workload in programs)
