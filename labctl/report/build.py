"""From a journal to the ReportModel: who is compared with whom, and what is to be noted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.observe.facts import Facts as ObservedFacts
from labctl.observe.noise import noise_checks
from labctl.report.commands import reproduce
from labctl.report.facts import (
    Facts,
    changed_facts,
    collect_facts,
    confounders,
    facts_table,
    first_facts,
)
from labctl.analysis.roles import FUNCTIONAL, label_target
from labctl.report.model import (
    Confounder,
    DesignView,
    FailureView,
    PairView,
    RatioPoint,
    ReportModel,
    Section,
    SeedSeries,
    SeedSeriesPoint,
    Series,
    TargetView,
)
from labctl.report.series import Cells
from labctl.analysis.words import plain
from labctl.seeds import seeds_for
from labctl.stats import ratio
from labctl.sweep import aggregate
from labctl.sweep.journal import JOURNAL, iterate
from labctl.sweep.records import FactsRecord, Failure, Header, Note, Record

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
TOLD_ELSEWHERE = ("guest",)
"""Noise checks whose finding stands in a target's label."""


def build_report(
    source: Path | Iterable[Record],
    pairs: Sequence[Mapping[str, str]] | None = None,
    *,
    questions: Mapping[str, str] | None = None,
) -> ReportModel:
    """The report of one run; the same for the same journal, whenever it is made.

    Args:
        source: a run's directory, its journal, or the journal's records.
        pairs: ``{"guest": name, "metal": name}`` each; default: those of the journal's lab.
        questions: workload -> the sentence of its manifest that says what growth means.

    Raises:
        ConfigError: the journal cannot be read.
        MeasurementError: it has no header, or does not fit its own plan.
    """
    digest = None
    if isinstance(source, Path):
        path = source / JOURNAL if source.is_dir() else source
        records: list[Record] = list(iterate(path))
        digest = _sha256(path)
    else:
        records = list(source)
    header = aggregate.header_of(records)
    samples = aggregate.samples_frame(records)
    told = [record for record in records if isinstance(record, FactsRecord)]
    facts = collect_facts(told)
    targets = _targets(header, facts)
    run = _Run(Cells(samples, header, LEVEL), targets, first_facts(told))
    wanted = _pairs(header.lab.get("pairs") if pairs is None else pairs)
    sections = [
        _section(run, workload, wanted, (questions or {}).get(workload, ""))
        for workload in run.cells.workloads
    ]
    return ReportModel(
        run=plain(header.run),
        created=plain(header.created),
        labctl=plain(header.labctl),
        journal_sha256=digest,
        level=LEVEL,
        targets=list(targets.values()),
        sections=sections,
        facts=facts_table(list(targets), facts),
        design=_design(header, records),
        notes=_notes(header, samples, targets, facts, sections, _noise(told)),
        commands=reproduce(header),
    )


@dataclass(frozen=True)
class _Run:
    """What the parts of the report are made of; targets and their first facts by the
    journal's names."""

    cells: Cells
    targets: Mapping[str, TargetView]
    facts: Mapping[str, Mapping[str, Any]]

    def named(self, shown: str) -> tuple[str, TargetView]:
        """Name in the journal, and view, of the target that is shown as ``shown``."""
        return next(item for item in self.targets.items() if item[1].name == shown)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _targets(header: Header, facts: Mapping[str, Facts]) -> dict[str, TargetView]:
    """All targets of the plan, in the header's order, then any that only the plan names."""
    names = [*header.targets, *(execution.cell.target for execution in header.executions)]
    used = {execution.cell.target for execution in header.executions}
    views = {}
    for name in dict.fromkeys(names):
        if name in used:
            kind = str(header.targets.get(name, {}).get("kind", ""))
            views[name] = label_target(plain(name), plain(kind), facts.get(name, {}))
    return views


def _pairs(raw: Any) -> list[tuple[str, str]]:
    """The pairs as (guest, metal); what is not a pair is passed over."""
    if not isinstance(raw, Sequence):
        return []
    found = [
        (str(pair["guest"]), str(pair["metal"]))
        for pair in raw
        if isinstance(pair, Mapping) and "guest" in pair and "metal" in pair
    ]
    return list(dict.fromkeys(found))


def _section(run: _Run, workload: str, pairs: Sequence[tuple[str, str]], question: str) -> Section:
    all_series = run.cells.series(workload)
    return Section(
        workload=plain(workload),
        unit=plain(run.cells.unit(workload)),
        question=plain(question),
        common_params=run.cells.common_params(workload),
        threads=sorted({point.threads for one in all_series for point in one.points}),
        series=all_series,
        pairs=[
            _pair(run, workload, one, other)
            for guest, metal in pairs
            for one, other in _matching(all_series, guest, metal)
        ],
        seeds=_seeds(workload),
    )


def _matching(
    all_series: Sequence[Series], guest: str, metal: str
) -> Iterable[tuple[Series, Series]]:
    """Series of both sides with the same parameters; where each side has but one variant,
    those two, whatever their parameters (their difference is then named)."""
    guests = [one for one in all_series if one.target == plain(guest)]
    metals = [one for one in all_series if one.target == plain(metal)]
    same = [(one, other) for one in guests for other in metals if one.params == other.params]
    if not same and len(guests) == len(metals) == 1:
        return [(guests[0], metals[0])]
    return same


def _pair(run: _Run, workload: str, one: Series, other: Series) -> PairView:
    guest, guest_view = run.named(one.target)
    metal, metal_view = run.named(other.target)
    there = {point.threads for point in other.points}
    differ = confounders(run.facts.get(guest, {}), run.facts.get(metal, {}))
    if metal_view.role != "bare metal":
        differ.insert(0, Confounder(key="baseline", guest=guest_view.role, metal=metal_view.role))
    if one.program != other.program:
        differ.append(
            Confounder(key="program", guest=plain(one.program), metal=plain(other.program))
        )
    if one.params != other.params:
        texts = [aggregate.params_text(side.params) or "none" for side in (one, other)]
        differ.append(Confounder(key="parameters", guest=plain(texts[0]), metal=plain(texts[1])))
    return PairView(
        guest=one.target,
        metal=other.target,
        guest_variant=one.variant,
        metal_variant=other.variant,
        functional=guest_view.functional or metal_view.functional,
        points=[
            RatioPoint(
                threads=point.threads,
                ratio=ratio(
                    run.cells.resampled(workload, guest, one, point.threads),
                    run.cells.resampled(workload, metal, other, point.threads),
                    level=LEVEL,
                ),
            )
            for point in one.points
            if point.threads in there
        ],
        confounders=differ,
    )


def _seeds(workload: str) -> list[SeedSeries]:
    groups: dict[tuple[str, int, str, str, str, str], list[SeedSeriesPoint]] = {}
    for seed in seeds_for(workload):
        key = (seed.source, seed.year, seed.workload, seed.variant, seed.system, seed.environment)
        point = SeedSeriesPoint(threads=seed.threads, us_per_op=seed.us_per_op)
        groups.setdefault(key, []).append(point)
    return [
        SeedSeries(
            label=" ".join(
                part for part in (f"{year}", system, variant, f"({environment})") if part
            ),
            source=source,
            year=year,
            workload=program,
            variant=variant,
            system=system,
            environment=environment,
            points=points,
        )
        for (source, year, program, variant, system, environment), points in groups.items()
    ]


def _design(header: Header, records: Sequence[Record]) -> DesignView:
    summary = aggregate.attempts_summary(records)
    cells = {execution.id: execution.cell.key for execution in header.executions}
    return DesignView(
        seed=header.seed,
        rounds=header.rounds,
        boots=header.boots,
        batches=header.batches,
        warmup=header.warmup,
        min_batch_ms=header.min_batch_ms,
        plan_digest=plain(header.plan_digest),
        planned=summary["planned"],
        completed=summary["completed"],
        unfinished_attempts=summary["unfinished"],
        uncounted_samples=summary["uncounted"],
        skipped=[plain(text) for text in header.skipped],
        failures=[
            FailureView(
                cell=plain(cells.get(record.execution, f"execution {record.execution}")),
                attempt=record.attempt,
                status=record.status,
                message=plain(record.message),
                detail="\n".join(plain(line) for line in record.detail.splitlines()),
            )
            for record in records
            if isinstance(record, Failure)
        ],
        journal_notes=[
            plain(f"{r.time} {r.target}: {r.message}" if r.target else f"{r.time} {r.message}")
            for r in records
            if isinstance(r, Note)
        ],
    )


def _notes(
    header: Header,
    samples: pd.DataFrame,
    targets: Mapping[str, TargetView],
    facts: Mapping[str, Facts],
    sections: Sequence[Section],
    noise: Sequence[str],
) -> list[str]:
    """Everything a reader must know before believing a number, the weightiest first."""
    notes = [f"{t.name}: {t.role}; {FUNCTIONAL}" for t in targets.values() if t.functional]
    notes += [f"{t.name}: {t.role}; {t.note}" for t in targets.values() if t.note]
    notes += _missing(header, samples)
    notes += _fewer_boots(header, samples, targets)
    notes += _warnings(sections)
    notes += noise
    return notes + changed_facts(facts)


def _noise(told: Sequence[FactsRecord]) -> list[str]:
    """What disturbed a machine while it was measured, each kind once a target."""
    spans: dict[tuple[str, int], dict[str, FactsRecord]] = {}
    for record in told:
        spans.setdefault((record.target, record.boot), {})[record.moment] = record
    found: dict[tuple[str, str], str] = {}
    for (target, _), moments in spans.items():
        seen = {moment: ObservedFacts.model_validate(r.facts) for moment, r in moments.items()}
        start, end = seen.get("start"), seen.get("end")
        for check in noise_checks(start or seen["end"], start, end):
            if check.status == "warn" and check.name not in TOLD_ELSEWHERE:
                text = f"{target}: {check.name} {check.value}: {check.why}"
                found.setdefault((target, check.name), plain(text))
    return list(found.values())


def _missing(header: Header, samples: pd.DataFrame) -> list[str]:
    done = samples.loc[samples["complete"], "execution"].nunique()
    missing = len(header.executions) - done
    if not missing:
        return []
    return [f"{missing} of {len(header.executions)} planned processes have no complete result"]


def _fewer_boots(
    header: Header, samples: pd.DataFrame, targets: Mapping[str, TargetView]
) -> list[str]:
    """A planned boot is only one if the machine's boot identity changed."""
    rows = aggregate.counted(samples)
    found = aggregate.boot_labels(rows).groupby(rows["target"]).nunique()
    return [
        f"{targets[str(name)].name}: {header.boots} boots planned, measured in {number}"
        for name, number in found.items()
        if number < header.boots
    ]


def _warnings(sections: Sequence[Section]) -> list[str]:
    """The estimates' own warnings, each once, with the targets that it concerns."""
    found: dict[str, dict[str, None]] = {}
    for section in sections:
        for one in section.series:
            for point in one.points:
                for warning in point.time.warnings:
                    found.setdefault(warning, {})[one.target] = None
    return [f"{warning} ({', '.join(names)})" for warning, names in found.items()]
