"""From a run to the ReportModel: what is shown of each target and pair. What is to be kept
in mind is ``notes``; nothing is computed here that ``labctl.analysis`` has."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labctl.analysis.badges import level_badge, scaling_badge
from labctl.analysis.differences import topic_of
from labctl.analysis.expectations import Answer
from labctl.analysis.remedies import instead, opening
from labctl.analysis.run import Run, open_run
from labctl.analysis.sentences import (
    comparison_warnings,
    headline,
    level_told,
    scaling_told,
    verdict_notes,
    verdict_sentence,
)
from labctl.analysis.setting import setting
from labctl.analysis.sides import Side
from labctl.analysis.verdicts import Comparison
from labctl.analysis.words import plain
from labctl.report.commands import ran_with, reproduce
from labctl.report.facts import collect_facts, facts_table
from labctl.report.labfile import lab_file
from labctl.report.model import (
    AnswerView,
    DesignView,
    ExpectationView,
    FailureView,
    ReportModel,
    RunView,
    Section,
    SeedSeries,
    SeedSeriesPoint,
    StopView,
    TargetView,
)
from labctl.report.notes import notes_of
from labctl.report.pair_model import ConfounderView, EffectPoint, PairView, Told, VerdictView
from labctl.report.series import series_of, variant_of
from labctl.report.work import oversubscribed, parameters
from labctl.seeds import seeds_for
from labctl.stats import Estimate, Family
from labctl.sweep import aggregate
from labctl.sweep.records import Failure, Header, Note, Record
from labctl.workloads import Workload

LEVEL = 0.95


def build_report(
    source: Path | Iterable[Record] | Run,
    pairs: Sequence[Mapping[str, str]] | None = None,
    *,
    workloads: Mapping[str, Workload] | None = None,
) -> ReportModel:
    """The report of one run; the same for the same journal, whenever it is made.

    Args:
        source: a run's directory, its journal, the journal's records, or an opened run.
        pairs: as in a lab file; default: those of the journal's lab, and those found.
        workloads: manifests by name: what a growth means, and what is expected of it.

    Raises:
        ConfigError: the journal cannot be read.
        MeasurementError: it has no header, or does not fit its own plan.
    """
    if isinstance(source, Path):
        run = open_run(source)
    else:
        run = source if isinstance(source, Run) else Run(source, pairs=pairs)
    facts = collect_facts(run.told)
    sections = [
        _section(run, workload, workloads or {})
        for workload in dict.fromkeys(curve.workload for curve in run.curves)
    ]
    parts = [_run(label, part) for label, part in run.parts.items()]
    compared = all(label for label in run.parts)
    return ReportModel(
        title=" → ".join(part.run for part in parts) if compared else parts[0].run,
        compared=compared,
        runs=parts,
        level=LEVEL,
        margin=run.margin,
        targets=[_target(side) for side in run.sides.values()],
        sections=sections,
        facts=facts_table(list(run.sides), facts, _counted(sections)),
        notes=notes_of(run, facts, sections, workloads or {}),
    )


def _counted(sections: Sequence[Section]) -> set[str]:
    """The facts that differ between the two sides of any pair."""
    pairs = [pair for section in sections for pair in section.pairs]
    return {row.key.partition(".")[0] for pair in pairs for row in pair.confounders}


def _run(label: str, run: Run) -> RunView:
    return RunView(
        run=plain(run.header.run),
        label=plain(label),
        created=plain(run.header.created),
        labctl=plain(run.header.labctl),
        journal_sha256=None if run.path is None else _sha256(run.path),
        design=_design(run),
        imported=plain(_imported(run.header)),
        commands=reproduce(run.header),
        lab_file=lab_file(run.header),
        ran_with=[plain(text) for text in ran_with(run.sides.values())],
    )


def _imported(header: Header) -> str:
    told = header.imported
    return f"imported from {told.file}, sha256 {told.sha256}, {told.rows} rows" if told else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _target(side: Side) -> TargetView:
    return TargetView(
        name=plain(side.name),
        kind=plain(side.kind),
        role=plain(side.role.text),
        guest=side.role.guest,
        functional=side.role.functional,
        simulated=side.role.simulated,
        note=side.role.note,
        run=plain(side.run),
    )


def _section(run: Run, workload: str, known: Mapping[str, Workload]) -> Section:
    curves = run.curves_of(workload)
    manifest = known.get(workload)
    common = aggregate.params_text(run.common_params(workload))
    return Section(
        workload=plain(workload),
        unit=plain(curves[0].unit),
        question=plain(manifest.question if manifest else ""),
        description=plain(manifest.description if manifest else ""),
        parameters=parameters(run, workload, known),
        oversubscribed=oversubscribed(run, workload),
        common_params=plain(common),
        threads=sorted({threads for curve in curves for threads in curve.cells}),
        series=series_of(run, workload, known),
        pairs=[
            _pair(run, comparison)
            for comparison in run.comparisons
            if comparison.one_curve.workload == workload
        ],
        expectations=_expectations(run.answers(workload, known)),
        seeds=_seeds(workload),
    )


def _pair(run: Run, c: Comparison) -> PairView:
    effects = c.effects
    curves = run.curves_of(c.one_curve.workload)

    def above(family: Family) -> dict[int, Estimate]:
        return dict(zip(family.threads, family.estimates, strict=True))

    amplified, ours, theirs = (
        above(family)
        for family in (effects.amplification, effects.growth_one, effects.growth_other)
    )
    return PairView(
        one=plain(c.pair.one),
        other=plain(c.pair.other),
        subject=c.pair.subject,
        found=plain(c.pair.found),
        one_variant=variant_of(c.one_curve, curves).text,
        other_variant=variant_of(c.other_curve, curves).text,
        functional=c.functional,
        verdict=_verdict(run, c),
        points=[
            EffectPoint(
                threads=threads,
                ratio=ratio,
                amplification=amplified.get(threads),
                growth_one=ours.get(threads),
                growth_other=theirs.get(threads),
            )
            for threads, ratio in above(effects.level).items()
        ],
        warnings=[plain(text) for text in comparison_warnings(c)],
        confounders=[
            ConfounderView(
                key=plain(found.key),
                one=plain(found.one),
                other=plain(found.other),
                bars=found.bars,
                why=plain(found.why),
                topic=plain(topic_of(found.key)),
            )
            for found in c.confounders
        ],
    )


def _verdict(run: Run, c: Comparison) -> VerdictView:
    return VerdictView(
        workload=plain(c.one_curve.workload),
        params=plain(c.one_curve.params_text),
        one=plain(c.pair.one),
        other=plain(c.pair.other),
        subject=c.pair.subject,
        level=c.level.call,
        level_reason=plain(c.level.reason),
        level_badge=plain(level_badge(c)),
        level_told=_told(level_told(c)),
        scaling=c.scaling.call,
        scaling_reason=plain(c.scaling.reason),
        scaling_badge=plain(scaling_badge(c)),
        scaling_told=_told(scaling_told(c)) if c.effects.amplification.threads else None,
        margin=c.margin,
        functional=c.functional,
        simulated=c.simulated,
        headline=headline(c),
        opening=opening(c),
        sentence=verdict_sentence(c, run.label(c)),
        instead=instead(c, run.header.lab),
        setting=setting(c),
        notes=verdict_notes(c),
    )


def _told(told: tuple[int, Estimate]) -> Told:
    threads, estimate = told
    return Told(
        threads=threads,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n_processes=estimate.n_processes,
    )


def _expectations(answers: Sequence[Answer]) -> list[ExpectationView]:
    """One a row of the workload's expectations and variant, with all targets' answers."""
    groups: dict[tuple[object, ...], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.expectation, answer.params), []).append(answer)
    return [
        ExpectationView(
            name=group[0].expectation,
            params=plain(aggregate.params_text(dict(group[0].params))),
            expected=plain(group[0].expected),
            mechanism=plain(group[0].mechanism),
            source=plain(group[0].source),
            answers=[
                AnswerView(
                    target=plain(answer.target),
                    verdict=answer.verdict,
                    sentence=plain(answer.sentence),
                )
                for answer in group
            ],
        )
        for group in groups.values()
    ]


def _stops(run: Run) -> list[StopView]:
    """Why each cell of an adaptive sweep was measured no further."""
    return [
        StopView(
            target=plain(row["target"]),
            workload=plain(row["workload"]),
            params=plain(row["params"]),
            threads=row["threads"],
            reason=row["reason"],
            half_width=None if math.isnan(row["half_width"]) else row["half_width"],
            boots=row["boots"],
            processes=row["processes"],
            batches=row["batches"],
            phase=row["phase"],
        )
        for row in run.stops.to_dict("records")
    ]


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


def _design(run: Run) -> DesignView:
    header, records = run.header, run.records
    summary = aggregate.attempts_summary(records, run.samples)
    failures = [record for record in records if isinstance(record, Failure)]
    executions = aggregate.executions_of(records) if failures else []
    cells = {execution.id: execution.cell.key for execution in executions}
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
        goal_half_width=header.until.half_width if header.until else None,
        stops=_stops(run),
        skipped=[plain(text) for text in header.skipped],
        failures=[
            FailureView(
                cell=plain(cells.get(record.execution, f"execution {record.execution}")),
                attempt=record.attempt,
                status=record.status,
                message=plain(record.message),
                detail="\n".join(plain(line) for line in record.detail.splitlines()),
            )
            for record in failures
        ],
        journal_notes=[
            plain(f"{r.time} {r.target}: {r.message}" if r.target else f"{r.time} {r.message}")
            for r in records
            if isinstance(r, Note)
        ],
    )
