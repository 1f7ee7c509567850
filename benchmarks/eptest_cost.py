"""What the harness adds to an operation: eptest with one thread against a bare loop.

Both make the same system calls (``eptest_bare.c``). Each round starts the programs anew and
lets them do batches in turn, the order drawn at random each time, so that drift of the
machine falls on all alike. Printed, for wall and for processor time: the ratio of the
medians of ns/message, and the median of the ratios of neighbouring batches, in which drift
cancels; each with a 95 % interval from a bootstrap that resamples rounds, then turns within
them.

    python benchmarks/eptest_cost.py [--rounds 16] [--batches 30] [--ops 5000] [--json]

Status 0 if the neighbours' ratio of wall times is within the target (1.02), 1 if not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "workloads"
TARGET = 1.02
RESAMPLES = 5000

Samples = npt.NDArray[np.float64]  # shape (rounds, batches), ns a message


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


class Stepped:
    """A program that does a batch, tells of it, and waits for a line."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def go(self) -> tuple[float, float]:
        """Let it do one more batch; returns what ``read`` returns."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> tuple[float, float]:
        """Wall and processor time of the next batch that it tells of, ns."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                wall, cpu = line.split()
                return float(wall), float(cpu)
            record = json.loads(line)
            if record["type"] == "batch":
                return float(record["wall_ns"]), float(record["user_ns"] + record["sys_ns"])
        raise SystemExit(f"{self._process.args!r} ended early")

    def close(self) -> None:
        """One more line, then the end of its input."""
        self._process.communicate("\n", timeout=60)


def build(out: Path, cflags: str) -> None:
    """Both programs, linked the same way with the same flags."""
    subprocess.run(
        ["sh", str(WORKLOADS / "build.sh"), str(out), "eptest"],
        env={**os.environ, "CFLAGS": cflags, "LINK": "static"},
        check=True,
    )
    subprocess.run(
        [
            *(os.environ.get("CC", "cc"), *cflags.split(), "-std=c99", "-Wall", "-static"),
            *(str(HERE / "eptest_bare.c"), "-o", str(out / "eptest_bare"), "-lpthread"),
        ],
        check=True,
    )


def measure_round(out: Path, ops: int, batches: int, rng: random.Random) -> dict[str, Samples]:
    """One round: wall and processor ns a message, shape (2, batches), by program."""
    programs = {
        "eptest": Stepped(
            [
                *(str(out / "eptest"), "--threads", "1", "--step", "--warmup", "0"),
                *("--ops", str(ops), "--batches", str(batches + 1)),
            ]
        ),
        "bare": Stepped([str(out / "eptest_bare"), "thread", str(ops)]),
        "bare, no thread": Stepped([str(out / "eptest_bare"), "main", str(ops)]),
    }
    for name, program in programs.items():  # a first batch of each that does not count
        program.read() if name == "eptest" else program.go()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(batches):
        for name in rng.sample(list(programs), len(programs)):
            times[name].append(programs[name].go())
    for program in programs.values():
        program.close()
    return {name: np.array(values).T / ops for name, values in times.items()}


def of_medians(above: Samples, below: Samples) -> float:
    """Ratio of the medians."""
    return float(np.median(above) / np.median(below))


def of_neighbours(above: Samples, below: Samples) -> float:
    """Median of the ratios of batches of the same turn."""
    return float(np.median(above / below))


def estimate(
    ratio: Callable[[Samples, Samples], float], above: Samples, below: Samples, seed: int
) -> Ratio:
    """``ratio`` of two programs' samples, both (rounds, batches), resampled in pairs."""
    rng = np.random.default_rng(seed)
    rounds, batches = above.shape
    ratios = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        chosen = rng.integers(rounds, size=(rounds, 1))
        within = rng.integers(batches, size=(rounds, batches))
        ratios[i] = ratio(above[chosen, within], below[chosen, within])
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Ratio(ratio(above, below), float(low), float(high))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--batches", type=int, default=30, help="of each program in a round")
    parser.add_argument("--ops", type=int, default=5000, help="messages a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cflags", default="-O2")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """Measure, print, judge."""
    options = parse_arguments()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory), options.cflags)
        rounds = [
            measure_round(Path(directory), options.ops, options.batches, rng)
            for _ in range(options.rounds)
        ]
    results: dict[str, dict[str, object]] = {}
    for index, clock in enumerate(("wall", "cpu")):
        samples = {name: np.array([times[name][index] for times in rounds]) for name in rounds[0]}
        eptest, bare, alone = samples.values()
        results[clock] = {
            "ns_per_message": {name: float(np.median(v)) for name, v in samples.items()},
            "eptest / bare, medians": asdict(estimate(of_medians, eptest, bare, options.seed)),
            "eptest / bare, neighbours": asdict(
                estimate(of_neighbours, eptest, bare, options.seed)
            ),
            "bare / bare, no thread, neighbours": asdict(
                estimate(of_neighbours, bare, alone, options.seed)
            ),
        }
    if options.json:
        print(json.dumps({"target": TARGET, **results}))
    else:
        show(results)
    cost = results["wall"]["eptest / bare, neighbours"]
    assert isinstance(cost, dict)
    return 0 if cost["value"] <= TARGET else 1


def show(results: dict[str, dict[str, object]]) -> None:
    """The results as a small table."""
    for clock, result in results.items():
        medians = result["ns_per_message"]
        assert isinstance(medians, dict)
        print(f"{clock}: " + ", ".join(f"{k} {v:.0f} ns/message" for k, v in medians.items()))
        for name, values in result.items():
            if name != "ns_per_message":
                assert isinstance(values, dict)
                print(f"  {name:36} {Ratio(**values)}")
    print(f"target: eptest / bare at most {TARGET}")


if __name__ == "__main__":
    sys.exit(main())
