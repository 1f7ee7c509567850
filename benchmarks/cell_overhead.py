"""What a cell costs besides its own run, against one command over OpenSSH's ControlMaster.

Both are measured on one running guest, one after the other, many times over, so that
whatever disturbs this machine falls on both. A cell's overhead is the time the
controller saw from sending the command to the journalled end, less the program's own
(from its main() to its last line); it holds the shell's round trip, fork and exec, a
round trip for each batch's leave to go on, parsing, and the journal with its fsync.

    labctl up linux && python benchmarks/cell_overhead.py [-f lab.yaml] [TARGET]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from labctl import guests
from labctl.images.catalogue import load_catalogue
from labctl.lab import load_lab
from labctl.machines import make_target
from labctl.observe.facts import collect
from labctl.sweep.journal import Journal, create_run, now, read_journal
from labctl.sweep.plan import Design, TargetInfo, make_plan
from labctl.sweep.records import EndRecord, Header
from labctl.sweep.runner import Event, Runner
from labctl.workloads import load_workloads

GOAL = 0.25


def main() -> int:
    """Measure, print, and say by the exit code whether the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-f", "--file", type=Path, default=Path("demo/lab.yaml"))
    parser.add_argument("target", nargs="?", default="linux")
    parser.add_argument("--cells", type=int, default=40)
    options = parser.parse_args()
    catalogue = load_catalogue()
    lab = load_lab(options.file, images=catalogue)
    target = make_target(lab, options.target, catalogue)
    target.connect()
    plan = make_plan(
        workloads=["eptest"],
        targets=[TargetInfo(target.name, "linux", "local")],
        known=load_workloads(),
        threads=[1],
        params={},
        design=Design(rounds=options.cells, batches=3, min_batch_ms=20),
    )
    with tempfile.TemporaryDirectory() as scratch:
        header = Header(
            run="overhead", created=now(), labctl="", lab={}, targets={}, workloads=["eptest"],
            seed=0, rounds=options.cells, boots=1, batches=3, warmup=1, min_batch_ms=20,
            plan_digest="", executions=list(plan.executions),
        )  # fmt: skip
        directory = create_run(Path(scratch), header)
        ssh = [*guests.ssh_words(lab, options.target), "-S", f"{scratch}/master"]
        subprocess.run([*ssh, "-M", "-f", "-N", "-o", "ControlPersist=yes"], check=True)
        ssh_ms: list[float] = []

        def interleave(event: Event) -> None:
            if event.kind == "done":
                begun = time.monotonic()
                subprocess.run([*ssh, "true"], check=True)
                ssh_ms.append((time.monotonic() - begun) * 1e3)

        try:
            with Journal(directory) as journal:
                facts = lambda t: collect(t).model_dump(mode="json")  # noqa: E731
                Runner(
                    journal,
                    {target.name: target},
                    facts=facts,
                    reboot=lambda t: t.reboot(timeout=60),
                    on_event=interleave,
                ).run()
            ends = [r for r in read_journal(directory).records if isinstance(r, EndRecord)]
        finally:
            subprocess.run([*ssh, "-O", "exit"], check=False, capture_output=True)
            target.close()
    # The first cell opens the shell and calibrates: once a target and a run, not once a cell.
    cell_ms = np.array([(end.total_ns - end.program_ns) / 1e6 for end in ends[1:]])
    other_ms = np.array(ssh_ms[1:])
    ratio = np.median(cell_ms) / np.median(other_ms)
    rng = np.random.default_rng(1)
    picks = rng.integers(0, len(cell_ms), (2, 10_000, len(cell_ms)))
    ratios = np.median(cell_ms[picks[0]], axis=1) / np.median(other_ms[picks[1]], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    print(f"cell overhead        median {np.median(cell_ms):7.2f} ms  ({len(cell_ms)} cells)")
    print(f"ssh, ControlMaster   median {np.median(other_ms):7.2f} ms  (one `true` each)")
    print(f"ratio                       {ratio:7.3f}  [{low:.3f}, {high:.3f}], goal <= {GOAL}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
