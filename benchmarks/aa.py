"""A/A: one target measured against itself, and how often labctl calls it different from itself.

One sweep has the same machine under two names, interleaved by the real planner, runner and
journal. It is cut into groups of consecutive rounds, each as many as the default design has;
each group is a comparison of its own, analysed and judged as any run is (the pair is declared
as one of kernels, so that any difference would be called the kernel's). Whatever verdict says
"kernel" is false. Counted besides: intervals that exclude 1, which 95 % intervals do in one
case of twenty.

    python benchmarks/aa.py                                  # this machine
    python benchmarks/aa.py --guest linux -f demo/lab.yaml   # a guest that is up, over SSH
    python benchmarks/aa.py --keep DIR                       # ... and keep what was measured
    python benchmarks/aa.py --from DIR                       # count again what was kept

Status 0 if at most 5 % of the comparisons had a false verdict. The table goes to
docs/method.md, between <!-- aa --> and <!-- /aa -->; each kind of target has a row of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from scipy import stats

from labctl import guests, session
from labctl.analysis import Comparison, Run
from labctl.errors import LabctlError
from labctl.images.catalogue import load_catalogue
from labctl.lab import Lab, VMSpec, load_lab
from labctl.stats import Estimate
from labctl.sweep.journal import read_journal
from labctl.sweep.plan import Design
from labctl.sweep.records import Begin, EndRecord, Failure, Header, Record, Sample
from labctl.sweep.runner import Event
from labctl.targets import hostkeys

METHOD = Path(__file__).resolve().parent.parent / "docs" / "method.md"
GOAL = 0.05
ONE, OTHER = "first", "other"  # of one length: the length of a path moves a stack
HEADING = (
    "| one target, twice | workload, threads; design | comparisons | "
    "false verdicts: level, scaling | cannot tell | interval of the ratio without 1 | "
    "a simultaneous interval of A(N) without 1 |\n"
    "|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True)
class Tally:
    """What was counted over all comparisons."""

    comparisons: int
    false: int
    false_level: int
    false_scaling: int
    undecided: int
    level_excludes: int
    family_excludes: int

    @classmethod
    def of(cls, found: Sequence[Comparison]) -> Tally:
        """Count over comparisons of a target with itself."""
        level = [c.level.call == "kernel" for c in found]
        scaling = [c.scaling.call == "kernel" for c in found]
        return cls(
            comparisons=len(found),
            false=sum(a or b for a, b in zip(level, scaling, strict=True)),
            false_level=sum(level),
            false_scaling=sum(scaling),
            undecided=sum("cannot tell" in (c.level.call, c.scaling.call) for c in found),
            level_excludes=sum(
                _excludes(e.low, e.high)
                for e in (c.effects.level.at(c.effects.base) for c in found)
            ),
            family_excludes=sum(any(map(_family_excludes, _amplified(c))) for c in found),
        )

    def row(self, target: str, what: str) -> str:
        """A row of the table; shares with a 95 % interval (Clopper and Pearson)."""
        cells = [
            target,
            what,
            str(self.comparisons),
            f"{self._share(self.false)}: {self.false_level}, {self.false_scaling}",
            str(self.undecided),
            self._share(self.level_excludes),
            self._share(self.family_excludes),
        ]
        return f"| {' | '.join(cells)} |\n"

    def _share(self, count: int) -> str:
        exact = stats.binomtest(count, self.comparisons).proportion_ci(method="exact")
        return f"{count} ({count / self.comparisons:.1%} [{exact.low:.1%}, {exact.high:.1%}])"


def _excludes(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and not low <= 1 <= high


def _family_excludes(estimate: Estimate) -> bool:
    return _excludes(estimate.family_low, estimate.family_high)


def _amplified(comparison: Comparison) -> tuple[Estimate, ...]:
    return comparison.effects.amplification.estimates


def groups(header: Header, records: Sequence[Record], rounds: int) -> Iterator[list[Record]]:
    """A run cut into runs of ``rounds`` consecutive rounds each."""
    for first in range(0, header.rounds - rounds + 1, rounds):
        mine = [e for e in header.executions if first <= e.round < first + rounds]
        ids = {execution.id for execution in mine}
        yield [
            header.model_copy(update={"executions": mine, "rounds": rounds}),
            *(
                record
                for record in records
                if not isinstance(record, Begin | Sample | EndRecord | Failure)
                or record.execution in ids
            ),
        ]


def twice(directory: Path, lab: Lab | None, guest: str) -> Lab:
    """A lab in ``directory`` that has one machine under two names: this one, or a guest of
    ``lab`` that is up, reached over SSH by both."""
    catalogue, names = load_catalogue(), (ONE, OTHER)
    targets: dict[str, dict[str, object]]
    if lab is None:
        targets = {name: {"kind": "local", "workdir": f"{directory}/{name}"} for name in names}
    else:
        spec = lab.vm(guest)
        target = guests.make_target(lab, guest, catalogue[spec.image])
        known = directory / "known_hosts"
        known.write_text(f"{hostkeys.lookup_name(target.host, target.port)} {target.host_key}\n")
        keys: dict[str, object] = {
            "kind": "ssh",
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "identity": str(target.identity),
            "known_hosts": str(known),
            "machine": "local",
        }
        targets = {name: {**keys, "workdir": f"{target.workdir}-{name}"} for name in names}
    raw = {"lab": "aa", "targets": targets, "pairs": [{"kernel": ONE, "against": OTHER}]}
    path = directory / "lab.yaml"
    path.write_text(yaml.safe_dump(raw))
    return load_lab(path, images=catalogue)


def measure(lab: Lab, options: argparse.Namespace) -> tuple[Header, list[Record]]:
    """The sweep; returns its journal."""
    rounds = options.comparisons * options.rounds
    request = session.Request(
        workloads=[options.workload],
        targets=[ONE, OTHER],
        threads=[int(text) for text in options.threads.split(",")],
        params={},
        design=Design(rounds=rounds, min_batch_ms=options.min_batch_ms, seed=options.seed),
        named=True,
    )
    opened = session.start(lab, request, load_catalogue(), progress=lambda *_: None)
    planned, done = opened.pending, 0

    def count(event: Event) -> None:
        nonlocal done
        done += event.kind == "done"
        if event.kind == "done" and done % 100 == 0:
            print(f"{done} of {planned} processes", file=sys.stderr)

    print(f"{planned} processes, about {opened.estimate_s / 60:.0f} min", file=sys.stderr)
    session.conclude(opened, opened.run(on_event=count, limit_s=120))
    return read(opened.journal.path)


def read(journal: Path) -> tuple[Header, list[Record]]:
    """Header and records of a journal."""
    view = read_journal(journal)
    return view.header, view.records


def write_row(path: Path, target: str, row: str) -> None:
    """Put the row of ``target`` into the table between the marks, in place of its old one."""
    text = path.read_text() if path.exists() else ""
    if "<!-- aa -->" not in text:
        text = f"{text.rstrip()}\n\n<!-- aa -->\n<!-- /aa -->\n".lstrip()
    before, rest = text.split("<!-- aa -->", 1)
    table, after = rest.split("<!-- /aa -->", 1)
    old = [line for line in table.splitlines(keepends=True) if line.startswith("| ")]
    kept = [line for line in old[1:] if not re.match(rf"\| {re.escape(target)} \|", line)]
    path.write_text(f"{before}<!-- aa -->\n{HEADING}{''.join(kept)}{row}<!-- /aa -->{after}")


def obtain(
    parser: argparse.ArgumentParser, options: argparse.Namespace
) -> tuple[Header, list[Record]]:
    """The journal: measured now, or kept from before."""
    if options.source:
        (journal,) = options.source.glob("results/*/journal.jsonl")
        return read(journal)
    lab = load_lab(options.file, images=load_catalogue()) if options.guest else None
    if lab is not None and not isinstance(lab.targets.get(options.guest), VMSpec):
        parser.error(f"{options.file} has no guest {options.guest!r}")
    with contextlib.ExitStack() as stack:
        directory = options.keep
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="labctl-aa-")
            directory = Path(stack.enter_context(temporary))
        directory.mkdir(parents=True, exist_ok=True)
        return measure(twice(directory.resolve(), lab, options.guest), options)


def main() -> int:
    """Measure, count, write the row, and say by the exit code whether the goal is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--guest", default="", metavar="NAME", help="a guest that is up")
    parser.add_argument("-f", "--file", type=Path, default=Path("demo/lab.yaml"))
    parser.add_argument("--workload", default="eptest")
    parser.add_argument("--threads", default="1,2,4", help="1,2,4 by default")
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=Design().rounds, help="of each comparison")
    parser.add_argument("--min-batch-ms", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--keep", type=Path, metavar="DIR", help="where the run stays")
    kept.add_argument("--from", type=Path, metavar="DIR", dest="source", help="a run that was kept")
    parser.add_argument("--output", type=Path, default=METHOD)
    options = parser.parse_args()
    try:
        header, records = obtain(parser, options)
    except LabctlError as error:
        print(f"error: {error.message}\n{error.detail}", file=sys.stderr)
        return 3
    found = [c for part in groups(header, records, options.rounds) for c in Run(part).comparisons]
    tally = Tally.of(found)
    target = f"a guest against itself ({options.guest})" if options.guest else "host against itself"
    row = tally.row(target, f"{options.workload}, {options.threads}; {options.rounds} rounds")
    write_row(options.output, target, row)
    print(HEADING + row, end="")
    return 0 if tally.false <= GOAL * tally.comparisons else 1


if __name__ == "__main__":
    sys.exit(main())
