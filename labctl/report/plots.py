"""The figures of a section: what each shows, and what is said beside it.

Colours of texts on the canvas come from the page's style sheet (report.js), so that
they follow a dark or light scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labctl.analysis.words import family_interval, interval, number, thread_count
from labctl.report.canvas import Canvas, ends
from labctl.report.model import Point, ReportModel, Section, Series, TargetView
from labctl.report.pair_model import EffectPoint, PairView
from labctl.report.palette import Look, looks, pair_look, seed_look
from labctl.report.panels import Panel
from labctl.report.values import (
    TENTHS,
    by_threads,
    not_shown,
    quantile,
    survival,
    switches_cell,
    tenths,
)
from labctl.stats import Estimate

_MOST_DOTS = 3000  # single processes in one figure
_QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)


@dataclass(frozen=True)
class Plot:
    """A figure and what stands around it.

    ``summary`` says in words what is drawn, ``head`` and ``rows`` are its values as a table;
    ``keys`` are the curves where these are not the section's series; ``wide`` takes a row.
    """

    title: str
    caption: str
    figure: Any
    summary: str
    head: list[str]
    rows: list[list[str]]
    keys: list[tuple[Look, str]] = field(default_factory=list)
    wide: bool = False


def series_name(section: int, number_: int) -> str:
    """Name of a series' renderers, unique on the page."""
    return f"series-{section}-{number_}"


def seed_name(section: int, number_: int) -> str:
    """Name of a published series' renderers."""
    return f"seed-{section}-{number_}"


def panel_plots(model: ReportModel, section: Section, index: int, panel: Panel) -> list[Plot]:
    """All figures of a panel of the section that is number ``index`` on the page."""
    plots = _Plots(model, section, index, panel)
    made = [plots.time()]
    if len(plots.threads) > 1:
        made.append(plots.growth())
    if panel.pairs:
        made.append(plots.ratio())
        made += plots.amplification()
    made += plots.switches()
    if any(point.latency for point in plots.points):
        made.append(plots.latency())
        made += plots.distributions()
    made += plots.timeline()
    return made


def watermark(targets: Sequence[TargetView]) -> str:
    """What must stand across a figure of these targets; "" where nothing must."""
    marks = {
        "functional (emulated)": [one.name for one in targets if one.functional],
        "simulated": [one.name for one in targets if one.simulated],
    }
    texts = []
    for mark, names in marks.items():
        told = ", ".join(names)
        whose = f"{told}: " if len(names) < len(targets) and len(told) <= 20 else ""
        texts += [f"{whose}{mark}"] * bool(names)
    return "; ".join(texts)


class _Plots:
    def __init__(self, model: ReportModel, section: Section, index: int, panel: Panel) -> None:
        self.model = model
        self.index = index
        self.panel = panel
        drawn = looks(section.series, [target.name for target in model.targets])
        mine = {id(one) for one in panel.series}
        self.each = [
            (one, look, series_name(index, i))
            for i, (one, look) in enumerate(zip(section.series, drawn, strict=True))
            if id(one) in mine
        ]
        self.seeds = [(i, seed) for i, seed in enumerate(section.seeds) if panel.shows(seed)]
        self.points = [point for one in panel.series for point in one.points]
        self.threads = sorted({point.threads for point in self.points})

    def time(self) -> Plot:
        seen = [process.us_per_op for point in self.points for process in point.processes]
        seen += [point.us_per_op for _, seed in self.seeds for point in seed.points]
        published = [p.threads for _, s in self.seeds for p in s.points if p.threads]
        threads = sorted({*self.threads, *published})
        canvas = Canvas.of_threads(threads, f"us per {self.panel.unit}", seen, height=420)
        self._seeds(canvas)
        every = math.ceil(sum(len(point.processes) for point in self.points) / _MOST_DOTS)
        for one, look, name in self.each:
            cloud = [(p.threads, process.us_per_op) for p in one.points for process in p.processes]
            canvas.cloud(cloud[:: max(1, every)], look, name)
            canvas.estimates([(p.threads, p.time) for p in one.points], look, name, self.label(one))
            if boots := _boots(one):
                canvas.boots(boots, look, name, self.label(one))
        caption = f"Band: {self.model.level:.0%} interval of the geometric mean. "
        if any(_n_boots(one) > 1 for one, *_ in self.each):
            caption += "Hollow: each boot. "
        caption += f"Dots: {'single processes' if every <= 1 else f'one process in {every}'}."
        if imported := [one.target for one, *_ in self.each if self._imported(one)]:
            caption += f" Imported, one number a cell and no interval: {', '.join(imported)}."
        if self.seeds:
            caption += " Grey: published numbers, of other machines and years."
        return self._by_threads(
            f"Time per {self.panel.unit}", caption, canvas,
            lambda p: (number(p.time.value), f"{interval(p.time)}"), wide=True,
        )  # fmt: skip

    def _seeds(self, canvas: Canvas) -> None:
        for number_, seed in self.seeds:
            look, name = seed_look(number_), seed_name(self.index, number_)
            label = f"published: {seed.label}"
            stated = [(p.threads, p.us_per_op) for p in seed.points if p.threads is not None]
            if stated:
                canvas.curve(stated, look, name, label)
            else:
                canvas.across(seed.points[0].us_per_op, look, name, label)

    def growth(self) -> Plot:
        seen = ends([point.growth for point in self.points if point.growth])
        canvas = Canvas.of_threads(self.threads, "T(N) / T(least N)", [1.0, *seen])
        canvas.level(1.0)
        for one, look, name in self.each:
            points = [(p.threads, p.growth or _unity(p.time)) for p in one.points]
            canvas.estimates(points, look, name, self.label(one))
        return self._by_threads(
            "Growth",
            "Time an operation, relative to the least number of threads; at 1 nothing grows.",
            canvas,
            lambda p: (number(p.growth.value), interval(p.growth)) if p.growth else ("1", ""),
        )

    def ratio(self) -> Plot:
        seen = ends([point.ratio for pair in self.panel.pairs for point in pair.points])
        canvas = Canvas.of_threads(self.threads, "T of one / T of the other", [1.0, *seen])
        self._equivalence(canvas)
        for pair in self.panel.pairs:
            look, name = self._drawn_as(pair)
            points = [(point.threads, point.ratio) for point in pair.points]
            canvas.estimates(points, look, name, self._title(pair))
        return self._by_pairs(
            "Ratio",
            "Times an operation, one side / the other; at 1 both take equally long.",
            canvas,
            lambda p: (number(p.ratio.value), interval(p.ratio)),
        )

    def amplification(self) -> list[Plot]:
        """A(N) with the interval that holds for all N at once; none without growth."""
        known = [
            (
                pair,
                [(p.threads, p.amplification.as_family()) for p in pair.points if p.amplification],
            )
            for pair in self.panel.pairs
        ]
        seen = ends([estimate for _, points in known for _, estimate in points])
        if not seen:
            return []
        canvas = Canvas.of_threads(self.threads, "A(N)", [1.0, *seen])
        self._equivalence(canvas)
        for pair, points in known:
            look, name = self._drawn_as(pair)
            start = [(pair.points[0].threads, _unity(pair.points[0].ratio))] if points else []
            canvas.estimates([*start, *points], look, name, self._title(pair))
        return [
            self._by_pairs(
                "Amplification A(N)",
                "Growth of one side / growth of the other, with the interval that holds for all "
                "numbers of threads at once; above 1 the one grows more.",
                canvas,
                lambda p: (
                    (number(p.amplification.value), family_interval(p.amplification))
                    if p.amplification
                    else ("1", "")
                ),
            )
        ]

    def switches(self) -> list[Plot]:
        """None where nobody counted them."""
        seen = [point.vcsw_per_op for point in self.points if point.vcsw_per_op is not None]
        if not seen:
            return []
        canvas = Canvas.of_threads(self.threads, "voluntary switches an operation", seen)
        for one, look, name in self.each:
            points = [(p.threads, p.vcsw_per_op) for p in one.points if p.vcsw_per_op is not None]
            canvas.curve(points, look, name, self.label(one))
        caption = (
            "Voluntary context switches an operation (getrusage): a herd that is woken for one "
            "message shows as a rise with the number of threads. In the table also involuntary "
            "ones."
        )
        return [self._by_threads("Context switches", caption, canvas, switches_cell)]

    def latency(self) -> Plot:
        kinds: tuple[tuple[str, str, Callable[[Any], float]], ...] = (
            ("median", "solid", lambda latency: latency.p50_us),
            ("99th percentile", "dashed", lambda latency: latency.p99_us),
            ("greatest", "dotted", lambda latency: latency.max_us),
        )
        taken = [point.latency for point in self.points if point.latency]
        seen = [us(latency) for latency in taken for _, _, us in kinds]
        canvas = Canvas.of_threads(self.threads, f"us of one {self.panel.unit}", seen)
        for one, look, name in self.each:
            for what, dash, us in kinds:
                points = [(p.threads, us(p.latency)) for p in one.points if p.latency]
                canvas.curve(points, replace(look, dash=dash), name, f"{self.label(one)}: {what}")
        return self._by_threads(
            "Latency",
            "Time of single operations. Solid: median, dashed: 99th percentile (both the median "
            "over batches), dotted: greatest of all.",
            canvas,
            lambda p: (
                (
                    f"median {number(p.latency.p50_us)}",
                    f"99 %: {number(p.latency.p99_us)}, greatest {number(p.latency.max_us)}",
                )
                if p.latency
                else ("–", "")
            ),
        )

    def distributions(self) -> list[Plot]:
        """How many operations take longer than a time, at the least and the greatest count."""
        counts = sorted({p.threads for p in self.points if p.histogram})
        if not counts:
            return []
        drawn = {counts[-1]: "dashed", counts[0]: "solid"}
        found = [
            (
                f"{self.label(one)}, {thread_count(p.threads)}",
                replace(look, dash=drawn[p.threads]),
                name,
                survival(p.histogram),
            )
            for one, look, name in self.each
            for p in one.points
            if p.histogram and p.threads in drawn
        ]
        canvas = Canvas.of_times(f"us of one {self.panel.unit}", "share that takes longer", found)
        rows = []
        for label, look, name, points in found:
            canvas.steps(points, look, name, label, [1 - share for share in _QUANTILES])
            rows.append([label, *(quantile(points, share) for share in _QUANTILES)])
        lines = f"Solid: {thread_count(counts[0])}"
        lines += f", dashed: {thread_count(counts[-1])}. " if len(drawn) > 1 else ". "
        plot = self._plot(
            "Distribution of single operations",
            f"{lines}Share of all operations that take longer than a time: a line that reaches "
            "further right has the longer tail. Markers: half, 10 %, 1 % and so on.",
            canvas,
            [f"{row[0]}: half within {row[1]} us, 99 % within {row[3]} us" for row in rows],
            ["us, at most", *(f"{share * 100:g} %" for share in _QUANTILES)],
            rows,
        )
        return [plot]

    def timeline(self) -> list[Plot]:
        """Of what was measured; none where all is imported, in whatever order."""
        each_series = [item for item in self.each if not self._imported(item[0])]
        if not each_series:
            return []
        lines = [one.timeline for one, *_ in each_series]
        canvas = Canvas.of_order("sample / mean of its cell", lines)
        canvas.level(1.0)
        for one, look, name in each_series:
            canvas.timeline(one.timeline, look, name)
        each = lines[0].each
        shown = (
            f"Each point is the mean of {each} successive samples of a series, the line through "
            "it reaches from the least to the greatest of them."
            if each > 1
            else "Each point is a sample: all that count are here."
        )
        last = max(max(line.order) for line in lines)
        rows = [[self.short(one), *tenths(one.timeline, last)] for one, *_ in each_series]
        plot = self._plot(
            "Samples in the order taken",
            f"{shown}{not_shown(self.model)} A slope is drift, a step a disturbance; in a random "
            "order both fall on all cells alike.",
            canvas,
            [f"{row[0]}: first tenth {row[1]}, last tenth {row[-1]}" for row in rows],
            ["mean, by tenths of the run", *(str(part + 1) for part in range(TENTHS))],
            rows,
            wide=True,
        )
        return [plot]

    # -- what stands around them ------------------------------------------------------------

    def _by_threads(
        self,
        title: str,
        caption: str,
        canvas: Canvas,
        cell: Callable[[Point], tuple[str, str]],
        *,
        wide: bool = False,
    ) -> Plot:
        """A figure of the series, with a table of (value, what stands beside it)."""
        each = [(self.short(one), one.points) for one, *_ in self.each]
        rows, texts = by_threads(each, self.threads, cell)
        return self._plot(title, caption, canvas, texts, self._head(), rows, wide=wide)

    def _by_pairs(
        self,
        title: str,
        caption: str,
        canvas: Canvas,
        cell: Callable[[EffectPoint], tuple[str, str]],
    ) -> Plot:
        """As ``_by_threads``, of the pairs."""
        each = [(self._title(pair), pair.points) for pair in self.panel.pairs]
        rows, texts = by_threads(each, self.threads, cell)
        margin = f" Grey: the margin of {self.model.margin:.0%}, within which sides count as equal."
        keys = [(self._drawn_as(pair)[0], self._title(pair)) for pair in self.panel.pairs]
        return self._plot(title, caption + margin, canvas, texts, self._head(), rows, keys=keys)

    def _plot(
        self,
        title: str,
        caption: str,
        canvas: Canvas,
        texts: Sequence[str],
        head: list[str],
        rows: list[list[str]],
        **options: Any,
    ) -> Plot:
        targets = [self.model.target(one.target) for one, *_ in self.each]
        if mark := watermark(list(dict.fromkeys(targets))):
            canvas.watermark(mark)
        summary = f"{title}. {'. '.join(texts)}."
        return Plot(title, caption, canvas.finish(), summary, head, rows, **options)

    def _head(self) -> list[str]:
        return ["threads", *(str(n) for n in self.threads)]

    def _equivalence(self, canvas: Canvas) -> None:
        """The line of equality and, around it, what counts as equal in practice."""
        canvas.level(1.0)
        canvas.band(1 / (1 + self.model.margin), 1 + self.model.margin)

    def _title(self, pair: PairView) -> str:
        return pair.title + (" (functional)" if pair.functional else "")

    def _imported(self, one: Series) -> bool:
        return self.model.target(one.target).kind == "imported"

    def label(self, one: Series) -> str:
        """Target, role and variant of a series."""
        label = self.model.target(one.target).label
        return f"{label}; {one.variant}" if one.variant else label

    def short(self, one: Series) -> str:
        """Target, and what else tells a series from the others of the figure; the role of a
        target stands in the legend."""
        alike = [other for other, *_ in self.each if other.target == one.target]
        return f"{one.target}; {one.variant}" if len(alike) > 1 else one.target

    def _drawn_as(self, pair: PairView) -> tuple[Look, str]:
        """A pair is drawn as the side that is asked about, the second such pair dashed."""
        look, name = next(
            (look, name)
            for one, look, name in self.each
            if (one.target, one.variant) == (pair.one, pair.one_variant)
        )
        alike = [p for p in self.panel.pairs if p.one == pair.one]
        return pair_look(look, alike.index(pair)), name


def _boots(one: Series) -> list[tuple[int, float, str]]:
    """Each boot's mean, where there are several."""
    return [
        (p.threads, boot.us_per_op, f"boot {i} of {len(p.boots)} ({boot.processes} processes)")
        for p in one.points
        if len(p.boots) > 1
        for i, boot in enumerate(p.boots, 1)
    ]


def _n_boots(one: Series) -> int:
    return max(point.time.n_boots for point in one.points)


def _unity(time: Estimate) -> Estimate:
    """The start of a curve of growth: 1 by definition, with no width."""
    return replace(time, value=1.0, low=1.0, high=1.0)
