"""Several runs read as one: before and after, or old numbers beside new ones.

Nothing is measured or estimated otherwise than of one run. Targets carry the label of the
run that they come from, so that every form of a report shows which is which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from labctl.analysis.curves import Curve
from labctl.analysis.pairs import Pair
from labctl.analysis.run import Run
from labctl.analysis.sides import Side
from labctl.errors import ConfigError
from labctl.sweep.histograms import CellKey, Histogram
from labctl.sweep.records import FactsRecord

if TYPE_CHECKING:
    import pandas as pd

BASELINE, NEW = "baseline", "new"
_DIGITS = 12  # of a digest that is shown


def compare_runs(baseline: Run, new: Run) -> Run:
    """What changed from one run to another, for every target, workload and thread count that
    both have.

    Pairs have the subject "change": the new run's target against the baseline's of the same
    name. The two runs took no turns, so their intervals are combined by Welch, and two boots
    that differ by themselves are not told from a change (a note says so).

    Raises:
        ConfigError: they have no target in common.
    """
    if not set(baseline.sides) & set(new.sides):
        raise ConfigError(
            f"the runs have no target in common: {', '.join(baseline.sides)} in the first, "
            f"{', '.join(new.sides)} in the second",
            where=f"{baseline.header.run}, {new.header.run}",
            hint="targets are compared by their names in the lab file",
        )
    return _Change(baseline, new)


def beside(run: Run, others: Mapping[str, Run]) -> Run:
    """A run with others beside it in the same tables and figures; only its own pairs are
    compared. ``others`` are labelled by their keys."""
    return _Group({"": run, **others})


def changes(runs: Mapping[str, Run], of: Sequence[tuple[str, str, str]]) -> Run:
    """Any number of runs, and what changed from some to others.

    Args:
        runs: by their labels; margin and seed are the first's.
        of: target, label of the new run, label of the old one; both have the target.
    """
    return _Changes(runs, of)


class _Group(Run):
    """The targets of all runs; those of a run labelled "" keep their names."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = dict(runs)
        first = next(iter(self._runs.values()))
        self.header, self.path, self.records = first.header, None, []
        self.samples = _stacked(
            [
                run.samples.assign(
                    target=run.samples["target"].cat.rename_categories(self._names(label))
                )
                for label, run in self._runs.items()
            ]
        )

    def __repr__(self) -> str:
        return f"<Runs {', '.join(run.header.run for run in self._runs.values())}>"

    @property
    def parts(self) -> dict[str, Run]:
        """The runs, by their labels."""
        return self._runs

    def _names(self, label: str) -> dict[str, str]:
        return {name: labelled(name, label) for name in self._runs[label].sides}

    @cached_property
    def told(self) -> list[FactsRecord]:
        """What the targets of all runs told, under their names here."""
        return [
            record.model_copy(update={"target": labelled(record.target, label)})
            for label, run in self._runs.items()
            for record in run.told
        ]

    @cached_property
    def sides(self) -> dict[str, Side]:
        """All targets by their names here. What the runs recorded of themselves (labctl's
        version, a simulated machine's model) is among their facts."""
        return {
            labelled(name, label): replace(
                side,
                name=labelled(name, label),
                facts={**side.facts, **_recorded(run, name)},
            )
            for label, run in self._runs.items()
            for name, side in run.sides.items()
        }

    @cached_property
    def pairs(self) -> list[Pair]:
        """Those of the run that keeps its names."""
        return self._runs[""].pairs

    @cached_property
    def histograms(self) -> dict[CellKey, Histogram]:
        """Those of all runs, under their targets' names here."""
        return {
            (key[0], labelled(key[1], label), *key[2:]): histogram
            for label, run in self._runs.items()
            for key, histogram in run.histograms.items()
        }

    @cached_property
    def curves(self) -> list[Curve]:
        """The curves of all runs, workload by workload."""
        found = [
            replace(
                curve,
                target=labelled(curve.target, label),
                summary={
                    n: {**row, "target": labelled(curve.target, label)}
                    for n, row in curve.summary.items()
                },
            )
            for label, run in self._runs.items()
            for curve in run.curves
        ]
        order = list(dict.fromkeys(curve.workload for curve in found))
        return sorted(found, key=lambda curve: order.index(curve.workload))

    @cached_property
    def stops(self) -> pd.DataFrame:
        """Those of all runs."""
        import pandas as pd

        frames = [
            run.stops.assign(target=run.stops["target"].map(self._names(label)))
            for label, run in self._runs.items()
        ]
        whole = [frame for frame in frames if not frame.empty]
        return pd.concat(whole, ignore_index=True) if whole else frames[0]


class _Changes(_Group):
    """Runs, some of whose targets are compared with those of others."""

    def __init__(self, runs: Mapping[str, Run], of: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(runs)
        self._of = list(of)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Those that were asked for."""
        return [
            Pair(labelled(name, new), labelled(name, old), "change") for name, new, old in self._of
        ]


class _Change(_Changes):
    """Two runs, the second against the first, in each target that both have."""

    def __init__(self, baseline: Run, new: Run) -> None:
        both = [(name, NEW, BASELINE) for name in new.sides if name in baseline.sides]
        super().__init__({BASELINE: baseline, NEW: new}, both)

    @property
    def margin(self) -> float:
        """The new run's."""
        return self._runs[NEW].margin

    @property
    def unmatched(self) -> list[str]:
        """What one run alone has."""
        cells = {
            label: {
                (curve.target, curve.program, curve.params_text, n)
                for curve in run.curves
                for n in curve.cells
            }
            for label, run in self._runs.items()
        }
        found = []
        for label, other in ((BASELINE, NEW), (NEW, BASELINE)):
            counts: dict[str, list[str]] = {}
            for target, program, params, n in sorted(cells[label] - cells[other]):
                where = f"{target}, {program}{f' {params}' if params else ''}"
                counts.setdefault(where, []).append(str(n))
            found += [
                f"in the {label} run alone: {where} at N = {', '.join(numbers)}"
                for where, numbers in counts.items()
            ]
        return found


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One below the other; names stay categoricals, which are small and quick to group by."""
    import pandas as pd

    known: dict[str, pd.CategoricalDtype] = {}
    for name in dict.fromkeys(name for frame in frames for name in frame.columns):
        columns = [frame[name] for frame in frames if name in frame]  # runs have their own params
        if all(isinstance(column.dtype, pd.CategoricalDtype) for column in columns):
            texts = dict.fromkeys(text for column in columns for text in column.cat.categories)
            known[name] = pd.CategoricalDtype(list(texts))
    same = [
        frame.astype({name: known[name] for name in frame if name in known}) for frame in frames
    ]
    return pd.concat(same, ignore_index=True)


def _recorded(run: Run, name: str) -> dict[str, str]:
    model = run.header.targets.get(name, {}).get("model")
    return {"labctl": run.header.labctl} | ({"model": str(model)[:_DIGITS]} if model else {})


def labelled(name: str, label: str) -> str:
    """A target's name with the run that it comes from."""
    return f"{name} ({label})" if label else name
