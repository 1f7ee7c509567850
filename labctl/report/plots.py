"""The figures of a section: what each shows, and what is said beside it.

Colours of texts on the canvas come from the page's style sheet (report.js), so that
they follow a dark or light scheme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.report.canvas import Canvas, ends
from labctl.report.model import LatencyView, PairView, ReportModel, Section, Series
from labctl.report.palette import Look, looks, seed_look
from labctl.report.panels import Panel
from labctl.stats import Estimate

_MOST_DOTS = 4000  # single processes in one figure


@dataclass(frozen=True)
class Plot:
    """A figure and what stands above and below it."""

    title: str
    caption: str
    figure: Any


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
    if plots.latencies():
        made.append(plots.latency())
        made += plots.distributions()
    made.append(plots.timeline())
    return made


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
        canvas = Canvas(threads, f"us per {self.panel.unit}", seen)
        self._seeds(canvas)
        clouds = [
            [(p.threads, process.us_per_op) for p in one.points for process in p.processes]
            for one, _, _ in self.each
        ]
        every = math.ceil(sum(map(len, clouds)) / _MOST_DOTS)
        for (one, look, name), cloud in zip(self.each, clouds, strict=True):
            canvas.cloud(cloud[:: max(1, every)], look, name)
            points = [(point.threads, point.time) for point in one.points]
            canvas.estimates(points, look, name, self._label(one))
        caption = (
            f"Band: {self.model.level:.0%} interval of the geometric mean; small points: single "
            f"processes{f', one in {every}' if every > 1 else ''}, of every boot."
        )
        if alone := [one.target for one, _, _ in self.each if _one_boot(one)]:
            caption += f" One boot, so without the variation between boots: {', '.join(alone)}."
        if self.seeds:
            caption += " Grey, dashed: published numbers, of other machines."
        return Plot(f"Time per {self.panel.unit}", caption, canvas.finish())

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
        canvas = Canvas(self.threads, "T(N) / T(least N)", [1.0, *seen])
        canvas.level(1.0)
        for one, look, name in self.each:
            points = [(p.threads, p.growth or _unity(p.time)) for p in one.points]
            canvas.estimates(points, look, name, self._label(one))
        return Plot(
            "Growth",
            "Time an operation, relative to the least number of threads; at 1 nothing grows.",
            canvas.finish(),
        )

    def ratio(self) -> Plot:
        seen = ends([point.ratio for pair in self.panel.pairs for point in pair.points])
        canvas = Canvas(self.threads, "T of one / T of the other", [1.0, *seen])
        self._equivalence(canvas)
        for pair in self.panel.pairs:
            look, name = self._drawn_as(pair)
            points = [(point.threads, point.ratio) for point in pair.points]
            canvas.estimates(points, look, name, self._title(pair))
        caption = "Ratio of times an operation; at 1 both sides take equally long."
        return Plot("Ratio of the pairs", f"{caption} {self._margin()}", canvas.finish())

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
        canvas = Canvas(self.threads, "A(N)", [1.0, *seen])
        self._equivalence(canvas)
        for pair, points in known:
            look, name = self._drawn_as(pair)
            start = [(pair.points[0].threads, _unity(pair.points[0].ratio))] if points else []
            canvas.estimates([*start, *points], look, name, self._title(pair))
        caption = (
            "Growth of one side / growth of the other, with the interval that holds for all "
            "numbers of threads at once; above 1 one side grows more."
        )
        return [Plot("Amplification A(N)", f"{caption} {self._margin()}", canvas.finish())]

    def _equivalence(self, canvas: Canvas) -> None:
        """The line of equality and, around it, what counts as equal in practice."""
        canvas.level(1.0)
        canvas.band(1 / (1 + self.model.margin), 1 + self.model.margin)

    def _margin(self) -> str:
        caption = f"Grey: the margin of {self.model.margin:.0%}, within which sides count as equal."
        if functional := list(dict.fromkeys(p.one for p in self.panel.pairs if p.functional)):
            caption += f" Functional (times mean nothing): {', '.join(functional)}."
        return caption

    def _title(self, pair: PairView) -> str:
        return pair.title + (" (functional)" if pair.functional else "")

    def switches(self) -> list[Plot]:
        """None where nobody counted them."""
        seen = [point.vcsw_per_op for point in self.points if point.vcsw_per_op is not None]
        if not seen:
            return []
        canvas = Canvas(self.threads, "voluntary switches an operation", seen)
        for one, look, name in self.each:
            points = [(p.threads, p.vcsw_per_op) for p in one.points if p.vcsw_per_op is not None]
            canvas.curve(points, look, name, self._label(one))
        caption = (
            "Voluntary context switches an operation (getrusage): a herd that is woken for one "
            "message shows as a rise with the number of threads."
        )
        return [Plot("Context switches", caption, canvas.finish())]

    def latencies(self) -> list[LatencyView]:
        """All that was taken of single operations."""
        return [point.latency for point in self.points if point.latency]

    def latency(self) -> Plot:
        kinds: tuple[tuple[str, str, Callable[[LatencyView], float]], ...] = (
            ("median", "solid", lambda latency: latency.p50_us),
            ("99th percentile", "dashed", lambda latency: latency.p99_us),
            ("greatest", "dotted", lambda latency: latency.max_us),
        )
        seen = [us(latency) for latency in self.latencies() for _, _, us in kinds]
        canvas = Canvas(self.threads, f"us of one {self.panel.unit}", seen)
        for one, look, name in self.each:
            for what, dash, us in kinds:
                points = [(p.threads, us(p.latency)) for p in one.points if p.latency]
                label = f"{self._label(one)}: {what}"
                canvas.curve(points, replace(look, dash=dash), name, label)
        return Plot(
            "Latency",
            "Time of single operations. Solid: median, dashed: 99th percentile (both the median "
            "over batches), dotted: greatest of all.",
            canvas.finish(),
        )

    def distributions(self) -> list[Plot]:
        """How many operations take longer than a time, at the least and the greatest count."""
        counts = sorted({p.threads for p in self.points if p.histogram})
        return [self._distribution(n) for n in dict.fromkeys([*counts[:1], *counts[-1:]])]

    def _distribution(self, threads: int) -> Plot:
        found = [
            (one, look, name, survival(point.histogram))
            for one, look, name in self.each
            for point in one.points
            if point.threads == threads and point.histogram
        ]
        canvas = Canvas.of_times(f"us of one {self.panel.unit}", "share that takes longer", found)
        for one, look, name, points in found:
            canvas.steps(points, look, name, self._label(one))
        return Plot(
            f"Distribution of single operations at N = {threads}",
            "Share of all operations that take longer than a time: a line that reaches further "
            "right has the longer tail.",
            canvas.finish(),
        )

    def timeline(self) -> Plot:
        lines = [(one.timeline, look, name, self._label(one)) for one, look, name in self.each]
        canvas = Canvas.of_order("sample / mean of its cell", [line for line, *_ in lines])
        for line, look, name, label in lines:
            canvas.timeline(line, look, name, label)
        each = lines[0][0].each
        thinned = (
            f"Each point is {each} successive samples of a series, with their least and greatest."
            if each > 1
            else "Each point is a sample."
        )
        return Plot(
            "Samples in the order taken",
            f"{thinned} A slope is drift, a step a disturbance; both fall on all cells alike "
            "where the order is random.",
            canvas.finish(),
        )

    def _label(self, one: Series) -> str:
        label = self.model.target(one.target).label
        return f"{label}; {one.variant}" if one.variant else label

    def _drawn_as(self, pair: PairView) -> tuple[Look, str]:
        """A pair is drawn as the side that is asked about."""
        return next(
            (look, name)
            for one, look, name in self.each
            if (one.target, one.variant) == (pair.one, pair.one_variant)
        )


def survival(histogram: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """(time, share of operations in that bucket or a later one), from 1 down."""
    total = sum(count for _, count in histogram)
    left, found = total, []
    for time, count in histogram:
        found.append((time, left / total))
        left -= count
    return found


def _one_boot(one: Series) -> bool:
    return max(point.time.n_boots for point in one.points) == 1


def _unity(time: Estimate) -> Estimate:
    """The start of a curve of growth: 1 by definition, with no width."""
    return replace(time, value=1.0, low=1.0, high=1.0)
