"""What a reader must know before believing a number, as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from labctl.analysis.confounders import CLOCK_READS
from labctl.analysis.pairs import halves
from labctl.analysis.roles import FUNCTIONAL, IMPORTED
from labctl.analysis.run import Run
from labctl.analysis.words import plain, thread_count
from labctl.observe.facts import Facts as ObservedFacts
from labctl.observe.noise import noise_checks
from labctl.report.facts import Facts, changed_facts
from labctl.report.model import Section
from labctl.stats.estimate import ONE_BOOT
from labctl.stats.steady import State
from labctl.sweep import aggregate
from labctl.sweep.records import FactsRecord
from labctl.workloads import Workload

FEW_SWITCHES = 0.05
"""Voluntary context switches an operation below which hardly any did."""
UNSTEADY: tuple[State, ...] = ("warm-up", "slow-down", "no steady state")
TOLD_ELSEWHERE = ("guest",)
"""Noise checks whose finding stands in a target's label."""


def notes_of(
    run: Run,
    facts: Mapping[str, Facts],
    sections: Sequence[Section],
    workloads: Mapping[str, Workload],
) -> list[str]:
    """Everything to be kept in mind, the weightiest first; ``workloads`` by name, as far as
    they are known."""
    roles = {plain(name): side.role for name, side in run.sides.items()}
    notes = [
        f"{name}: {role.text}; {FUNCTIONAL}" for name, role in roles.items() if role.functional
    ]
    own = {name: role for name, role in roles.items() if role.note and not role.imported}
    notes += [f"{name}: {role.text}; {role.note}" for name, role in own.items()]
    imported = [name for name, role in roles.items() if role.imported]
    if imported:
        notes.append(f"imported, not measured by labctl: {'; '.join(imported)}: {IMPORTED}")
    notes += run.unmatched
    for label, part in run.parts.items():
        notes += [f"{label} run: {text}" if label else text for text in _of_run(part)]
    notes += _clock(run)
    notes += _alone(run, workloads)
    notes += _warnings(run)
    notes += [text for section in sections for text in _quality(section)]
    notes += _noise([record for record in run.told if plain(record.target) not in imported])
    return [plain(note) for note in notes] + changed_facts(facts)


def _noise(told: Sequence[FactsRecord]) -> list[str]:
    """What disturbed a machine while it was measured, each kind once a target."""
    spans: dict[tuple[str, int], dict[str, FactsRecord]] = {}
    for record in told:
        moments = spans.setdefault((record.target, record.boot), {})
        if record.moment == "end" or "start" not in moments:  # of all phases in this boot
            moments[record.moment] = record
    found: dict[tuple[str, str], str] = {}
    for (target, _), moments in spans.items():
        try:
            seen = {moment: ObservedFacts.model_validate(r.facts) for moment, r in moments.items()}
        except ValidationError:  # somebody else's, or damaged: the tables show them as they are
            continue
        start, end = seen.get("start"), seen.get("end")
        for check in noise_checks(start or seen["end"], start, end):
            if check.status == "warn" and check.name not in TOLD_ELSEWHERE:
                text = f"{target}: {check.name} {check.value}: {check.why}"
                found.setdefault((target, check.name), text)
    return list(found.values())


def _of_run(run: Run) -> list[str]:
    half = [
        f"{pair.one} / {pair.other}: {lost} was not measured, so the pair has no verdict"
        for pair, lost in halves(run.header.lab.get("pairs"), run.sides)
    ]
    return _missing(run) + half + _fewer_boots(run)


def _missing(run: Run) -> list[str]:
    planned = len(aggregate.executions_of(run.records))
    done = run.samples.loc[run.samples["complete"], "execution"].nunique()
    if done == planned:
        return []
    return [f"{planned - done} of {planned} planned processes have no complete result"]


def _fewer_boots(run: Run) -> list[str]:
    """A planned boot is only one if the machine's boot identity changed."""
    rows = aggregate.counted(run.samples, ["target", "boot", "boot_id"]).drop_duplicates()
    found = aggregate.boot_labels(rows).groupby(rows["target"], observed=True).nunique()
    return [
        f"{name}: {run.header.boots} boots planned, measured in {number}"
        for name, number in found.items()
        if number < run.header.boots
    ]


def _clock(run: Run) -> list[str]:
    """What of a time is the clock's, where single operations are timed."""
    shares: dict[tuple[str, str, int, float], float] = {}
    for curve in run.curves:
        read_ns = run.sides[curve.target].clock_reads.get(curve.program)
        if read_ns is not None:
            share = CLOCK_READS * read_ns / (1000 * curve.times[curve.base].value)
            key = curve.target, curve.workload, curve.base, read_ns
            shares[key] = max(share, shares.get(key, 0.0))
    return [
        f"{target}, {workload}: an operation holds two readings of the clock, of {ns:.0f} ns each: "
        f"up to {share:.1%} of its time at {thread_count(base)}"
        for (target, workload, base, ns), share in shares.items()
    ]


def _alone(run: Run, workloads: Mapping[str, Workload]) -> list[str]:
    """Where a fixed number of tokens is to go from thread to thread, and hardly ever does."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for curve in run.curves:
        manifest = workloads.get(curve.program)
        simulated = run.sides[curve.target].role.simulated
        if manifest and manifest.fixed_token and not simulated:
            few = {
                threads
                for threads, row in curve.summary.items()
                if threads > 1 and row["vcsw_per_op"] < FEW_SWITCHES  # NaN, not taken, is not
            }
            found.setdefault((curve.target, curve.workload, curve.unit), set()).update(few)
    return [
        f"{target}, {workload}, N = {', '.join(map(str, sorted(few)))}: for fewer than one {unit} "
        f"in {1 / FEW_SWITCHES:.0f} a thread had to wait; as a rule the one that wrote a {unit} "
        "read the next itself, and what handing over costs was hardly measured"
        for (target, workload, unit), few in found.items()
        if few
    ]


def _warnings(run: Run) -> list[str]:
    """The estimates' own warnings, each once, with the targets that it concerns. That a side
    of a pair had one boot is said beside its verdict."""
    compared = {name for c in run.comparisons for name in (c.pair.one, c.pair.other)}
    found: dict[str, dict[str, None]] = {}
    for curve in run.curves:
        for time in curve.times.values():
            for warning in time.warnings:
                if warning != ONE_BOOT or curve.target not in compared:
                    found.setdefault(warning, {})[curve.target] = None
    return [f"{warning} ({', '.join(names)})" for warning, names in found.items()]


def _quality(section: Section) -> list[str]:
    """Outliers, drift and warm-up of a workload's samples, a line a series and kind."""
    notes = []
    for one in section.series:
        name = f"{one.target}, {section.workload}{f' {one.variant}' if one.variant else ''}"
        outliers = sum(point.quality.outliers for point in one.points)
        if outliers:
            samples = sum(process.batches for p in one.points for process in p.processes)
            notes.append(f"{name}: {outliers} of {samples} samples are outliers; they are counted")
        for state in UNSTEADY:
            at = [str(p.threads) for p in one.points if p.quality.rounds == state]
            if at:
                notes.append(f"{name}: {state} over the rounds at N = {', '.join(at)}")
            processes = sum(p.quality.processes.get(state, 0) for p in one.points)
            if processes:
                whole = sum(len(p.processes) for p in one.points)
                notes.append(f"{name}: {state} within {processes} of {whole} processes")
    return notes
