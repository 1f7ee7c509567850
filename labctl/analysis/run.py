"""A run opened for analysis: samples, cells, pairs, effects and verdicts.

Everything is derived from the journal, when it is first asked for, and the report is made
of the same; so a number in a notebook is the number in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labctl.analysis.curves import Curve, common_params, curves_of, matching, own_params
from labctl.analysis.expectations import Answer, evaluate, load
from labctl.analysis.pairs import Pair, declared, discover
from labctl.analysis.sentences import verdict_notes, verdict_sentence
from labctl.analysis.sides import Side, sides_of
from labctl.analysis.verdicts import Comparison, compare
from labctl.errors import ConfigError
from labctl.stats import Estimate, Family, pair_effects
from labctl.stats.judge import MARGIN
from labctl.sweep import aggregate
from labctl.sweep.histograms import CellKey, Histogram, read_histograms
from labctl.sweep.journal import JOURNAL
from labctl.sweep.records import FactsRecord, Header, Record, of_kind
from labctl.workloads import ParamValue, Workload

if TYPE_CHECKING:
    import pandas as pd


def open_run(path: Path | str) -> Run:
    """Open a recorded run.

    Args:
        path: a run's directory (``results/<run>``) or its journal.

    Raises:
        ConfigError: there is no journal, a line of it is not a record, or the first no header.
        MeasurementError: its samples do not fit its own plan.
    """
    journal = Path(path)
    if journal.is_dir():
        journal /= JOURNAL
    if not journal.is_file():
        raise ConfigError(
            "there is no run here",
            where=str(journal),
            hint="a run is a directory under results/; `labctl runs` lists them",
        )
    view, samples = aggregate.read_run(journal)
    return Run([view.header, *view.records], samples, path=journal)


class Run:
    """One run. What is derived is made when first asked for, and kept.

    Attributes:
        header: what was planned: design, seed, lab, targets.
        records: the journal's records but the samples, in its order.
        samples: one row a measured batch, warm-up and interrupted ones too. Columns and units:
            ``labctl.sweep.aggregate.samples_frame``; the time is ``us_per_op``, microseconds an
            operation. What counts is ``samples[samples.complete & ~samples.warmup]``.
        path: the journal, or None where the run was made from records.
    """

    def __init__(
        self,
        records: Iterable[Record],
        samples: pd.DataFrame | None = None,
        *,
        path: Path | None = None,
        pairs: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """
        Args:
            records: a whole journal, or all of it but the samples, where ``samples`` are given.
            pairs: as in a lab file; default: the lab's own and those that are found.

        Raises:
            ConfigError, MeasurementError: as ``open_run``.
        """
        told = list(records)
        self.records, self.samples = aggregate.split(told) if samples is None else (told, samples)
        self.header: Header = aggregate.header_of(self.records)
        self.path = path
        self._pairs = pairs

    def __repr__(self) -> str:
        return f"<Run {self.header.run}>"

    # -- what the frames are made of -----------------------------------------------------

    @property
    def margin(self) -> float:
        """Margin of practical equivalence, 0.1 for 10 %: the lab file's."""
        margin = self.header.lab.get("margin")
        return float(margin) if isinstance(margin, int | float) and margin > 0 else MARGIN

    @property
    def parts(self) -> dict[str, Run]:
        """The runs that this one is made of, by their labels: itself alone."""
        return {"": self}

    @property
    def unmatched(self) -> list[str]:
        """What has no counterpart to be compared with, as sentences."""
        return []

    @cached_property
    def told(self) -> list[FactsRecord]:
        """What the targets told of themselves, in the order of the journal."""
        return of_kind(self.records, FactsRecord)

    @cached_property
    def sides(self) -> dict[str, Side]:
        """The targets that the plan measures, by name, with what their facts establish."""
        return sides_of(self.header, self.records)

    @cached_property
    def pairs(self) -> list[Pair]:
        """The pairs that are declared, then those that were found by their facts."""
        if self._pairs is not None:
            return declared(self._pairs, self.sides)
        known = declared(self.header.lab.get("pairs"), self.sides)
        return known + discover(self.sides.values(), known)

    @cached_property
    def curves(self) -> list[Curve]:
        """What each target ran, over the thread counts (labctl.analysis.curves)."""
        return curves_of(self.samples, self.header)

    @cached_property
    def histograms(self) -> dict[CellKey, Histogram]:
        """Times of single operations, where a workload takes them: operations by the lower
        bound of their bucket in ns, by (workload, target, program, params, threads)."""
        return {} if self.path is None else read_histograms(self.path, self.samples)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Each pair in each workload and variant, with effects, confounders and verdict."""
        found = (
            compare(
                pair,
                (self.sides[pair.one], self.sides[pair.other]),
                curves,
                margin=self.margin,
                seed=abs(self.header.seed),
            )
            for workload in dict.fromkeys(curve.workload for curve in self.curves)
            for pair in self.pairs
            for curves in matching(self.curves_of(workload), pair.one, pair.other)
        )
        return [comparison for comparison in found if comparison is not None]

    def curves_of(self, workload: str) -> list[Curve]:
        """The curves of one workload as it was asked for."""
        return [curve for curve in self.curves if curve.workload == workload]

    def common_params(self, workload: str) -> dict[str, ParamValue]:
        """The parameters that all curves of a workload share."""
        return common_params(self.curves_of(workload))

    def label(self, comparison: Comparison) -> str:
        """Workload, and the parameters by which its variants differ: "kqtest, rearm=level"."""
        curve = comparison.one_curve
        own = own_params(curve, self.curves_of(curve.workload))
        return f"{curve.workload}, {own}" if own else curve.workload

    def answers(self, workload: str, known: Mapping[str, Workload]) -> list[Answer]:
        """What each target says to what is expected of the programs that it ran.

        Args:
            workload: as it was asked for.
            known: manifests by name; a program without one is expected nothing of.
        """
        found: list[Answer] = []
        for curve in self.curves_of(workload):
            if curve.program in known and not self.sides[curve.target].role.imported:
                found += evaluate(
                    load(known[curve.program]),
                    curve.target,
                    self.sides[curve.target].facts,
                    curve.params,
                    curve.growth,
                    base=curve.base,
                    ratios=partial(self._against, curve),
                )
        return found

    def _against(self, curve: Curve, params: Mapping[str, ParamValue]) -> Family | None:
        """Times of a curve against those of its target's variant with ``params``."""
        for other in self.curves_of(curve.workload):
            same = (other.target, other.program) == (curve.target, curve.program)
            if same and other.params == params and set(other.cells) & set(curve.cells):
                seed = abs(self.header.seed)
                return pair_effects(curve.cells, other.cells, same_machine=True, seed=seed).level
        return None

    # -- frames --------------------------------------------------------------------------

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row a cell (target, workload, program, parameters, thread count).

        Columns: those of ``labctl.sweep.aggregate.cells_frame``, and
            time, time_low, time_high: geometric mean with its 95 % interval, microseconds.
            growth, growth_low, growth_high: T(N) / T(least N) of the same curve; NaN at it.
        An interval that the data do not allow is NaN.
        """
        import pandas as pd

        rows = []
        for curve in self.curves:
            for threads, row in curve.summary.items():
                time = curve.times[threads]
                grown = None if threads == curve.base else curve.growth.at(threads)
                rows.append({**row, **_ends("time", time), **_ends("growth", grown)})
        return pd.DataFrame(rows)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """One row an effect: a pair, a workload and variant, a quantity, a thread count.

        Columns:
            one, other, subject: the pair; effects are of ``one`` against ``other``.
            workload, params: what was measured; the parameters of ``one``.
            quantity: "level" T_one / T_other, "amplification" of growth, "growth_one" and
                "growth_other" T(N) / T(base); all are ratios, without unit.
            threads: N.
            value, low, high: with its own 95 % interval.
            family_low, family_high: the 95 % interval that holds for all N at once.
            n_boots, n_processes, n_batches: of the side that has fewer.
            method, warnings: how it was made, and what is to be said against it.
        An interval that the data do not allow is NaN.
        """
        import pandas as pd

        rows = [
            {**_names(c), "quantity": quantity, "threads": threads, **_estimate(estimate)}
            for c in self.comparisons
            for quantity, family in _families(c)
            for threads, estimate in zip(family.threads, family.estimates, strict=True)
        ]
        columns = [*_PAIR, "quantity", "threads", *_ESTIMATE]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row a verdict: a pair in a workload and variant.

        Columns:
            one, other, subject, workload, params: as in ``effects``.
            level: the verdict at the least thread count: "kernel", "virtualization", "both",
                "neither" or "cannot tell"; scaling: that on growth. Of a change from one run to
                another: "slower", "faster", "mixed", "unchanged" or "cannot tell" at all thread
                counts; "grows more", "grows less", "unchanged" or "cannot tell".
            level_reason, scaling_reason: why it cannot be told; "" where it can.
            margin: of practical equivalence, as a share.
            functional, simulated: a side was emulated; drawn from a model.
            found: why the pair was found; "" where it is declared.
            barred: why nothing can be said, "" where something can.
            sentence, notes: the verdict in words, and what is to be known beside it.
        """
        import pandas as pd

        rows = [
            {
                **_names(c),
                "level": c.level.call,
                "level_reason": c.level.reason,
                "scaling": c.scaling.call,
                "scaling_reason": c.scaling.reason,
                "margin": c.margin,
                "functional": c.functional,
                "simulated": c.simulated,
                "found": c.pair.found,
                "barred": "; ".join(c.barred),
                "sentence": verdict_sentence(c, self.label(c)),
                "notes": " ".join(verdict_notes(c)),
            }
            for c in self.comparisons
        ]
        return pd.DataFrame(rows, columns=[*_PAIR, *_VERDICT])

    @cached_property
    def stops(self) -> pd.DataFrame:
        """One row a cell of an adaptive sweep (``--until``) that was measured no further.

        Columns: ``labctl.sweep.aggregate.stops_frame``: the cell, reason, half_width (a share
        of the cell's mean), goal, counts. Empty where the sweep had a fixed design.
        """
        return aggregate.stops_frame(self.records)

    @cached_property
    def facts(self) -> pd.DataFrame:
        """One row a fact of a target at a moment.

        Columns: target, boot, boot_id, moment ("start" or "end" of the boot), time, key, value
        (as text). What each key means: docs/observe.md.
        """
        return aggregate.facts_frame(self.told)


_PAIR = ["one", "other", "subject", "workload", "params"]
_ESTIMATE = ["value", "low", "high", "family_low", "family_high"]
_ESTIMATE += ["n_boots", "n_processes", "n_batches", "method", "warnings"]
_VERDICT = ["level", "level_reason", "scaling", "scaling_reason", "margin", "functional"]
_VERDICT += ["simulated", "found", "barred", "sentence", "notes"]


def _names(c: Comparison) -> dict[str, str]:
    curve = c.one_curve
    texts = (c.pair.one, c.pair.other, c.pair.subject, curve.workload, curve.params_text)
    return dict(zip(_PAIR, texts, strict=True))


def _families(c: Comparison) -> list[tuple[str, Family]]:
    effects = c.effects
    return [
        ("level", effects.level),
        ("amplification", effects.amplification),
        ("growth_one", effects.growth_one),
        ("growth_other", effects.growth_other),
    ]


def _estimate(estimate: Estimate) -> dict[str, Any]:
    found = {name: getattr(estimate, name) for name in _ESTIMATE}
    return found | {"warnings": "; ".join(estimate.warnings)}


def _ends(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
