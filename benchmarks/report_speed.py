"""How long a whole ``labctl report`` of a long run takes, and how much memory.

Runs of simulated machines (docs/examples/sim.yaml) are made in a temporary directory by ``labctl
sweep``: 100,000 and 1,000,000 measured batches, 30 a process; and 100,000 again with 3 a process,
whose 33,000 processes make more work than their batches. Each is reported three times by a
process of its own, which reads the journal, makes the statistics, the page, ``samples.parquet``
and the tables. The median of each is printed: seconds by the clock and of the CPU, which another
load on the machine lengthens less; and the peak of the memory.

Python's byte code is kept beside the runs, as it is kept where labctl is installed.

    python benchmarks/report_speed.py
    python benchmarks/report_speed.py --keep DIR   # make the runs there, or measure those there
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent / "docs" / "examples" / "sim.yaml"
THREADS = (1, 2, 4, 8, 16)
CELLS = 3 * len(THREADS)
RUNS = ((100_000, 30, 3.0), (100_000, 3, 3.0), (1_000_000, 30, 10.0))
"""Measured batches, of which so many a process; and the most seconds that a report may take."""
REPEATS = 3
MOST_MIB = 2048


@dataclass(frozen=True)
class Cost:
    """Of one process: by the clock, of the CPU, and the peak of its memory."""

    seconds: float
    cpu_seconds: float
    mib: float


def labctl(directory: Path, *arguments: str) -> Cost:
    """Run one command line in a lab's directory, with state of its own."""
    state = str(directory / "state")
    environment = os.environ | {
        "XDG_STATE_HOME": state,
        "XDG_CACHE_HOME": state,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
    }
    command = [sys.executable, "-m", "labctl", *arguments]
    with (directory / "output").open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{(directory / 'output').read_text()[-2000:]}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def made(directory: Path, samples: int, batches: int) -> Path:
    """A lab in ``directory`` with a run of at least so many measured batches."""
    if not (directory / "results").is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(LAB, directory / "lab.yaml")
        rounds = -(-samples // (CELLS * batches))
        design = f"--rounds {rounds} --batches {batches} --warmup 1 --min-batch-ms 1 --seed 1"
        labctl(
            directory, "sweep", "kqtest", "--threads", ",".join(map(str, THREADS)), *design.split()
        )
    return directory


def main() -> int:
    """Measure, print, and say by the exit code whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the runs are, or go")
    keep: Path | None = parser.parse_args().keep
    met = True
    with tempfile.TemporaryDirectory() as temporary:
        for samples, batches, most_s in RUNS:
            place = (keep or Path(temporary)) / f"{samples}-{batches}"
            lab = made(place, samples, batches)
            costs = [labctl(lab, "report") for _ in range(REPEATS)]
            seconds, cpu, mib = (
                sorted(getattr(cost, name) for cost in costs)[REPEATS // 2]
                for name in ("seconds", "cpu_seconds", "mib")
            )
            print(
                f"{samples:,} samples, {batches} a process: {seconds:.1f} s by the clock, "
                f"{cpu:.1f} s of the CPU, {mib:.0f} MiB (goal: {most_s:.0f} s, {MOST_MIB} MiB)",
                flush=True,
            )
            met &= seconds < most_s and mib < MOST_MIB
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
