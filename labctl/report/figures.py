"""The figures of a report as pictures, for where no browser is: mail, pull requests.

One picture a panel: time an operation, growth, and A(N) of its pairs, side by side. The
same report gives the same bytes.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from labctl.report.model import ReportModel, Section, SeedSeries, Series
from labctl.report.pair_model import PairView
from labctl.report.palette import GREY, Look, looks, seed_look
from labctl.report.panels import Panel
from labctl.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_MARKERS = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "inverted_triangle": "v",
    "x": "x",
}  # fmt: skip
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dashed": "--",
    "dotted": ":",
    "dotdash": "-.",
    "dashdot": (0, (6, 2, 1, 2)),
}
_HEIGHT, _WIDTH = 3.6, 4.2  # inches, of one of the figures in a picture
_LABEL = 60  # characters of a title or of an entry of the legend


def draw(model: ReportModel, section: Section, panel: Panel, kind: str) -> bytes:
    """A panel as a picture.

    Args:
        kind: "svg" or "png" (150 dots an inch).
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Texts stand as they are: "$" begins no formula.
    settings: Any = {"svg.hashsalt": "labctl", "svg.fonttype": "none", "text.parse_math": False}
    growing = len({p.threads for one in panel.series for p in one.points}) > 1
    amplified = any(p.amplification for pair in panel.pairs for p in pair.points)
    settings["font.size"] = 8
    with mpl.rc_context(settings), warnings.catch_warnings():
        # A letter that the font lacks is shown as a box.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(_WIDTH * (1 + growing + amplified), _HEIGHT), layout="constrained")
        FigureCanvasAgg(figure)
        axes = list(figure.subplots(1, 1 + growing + amplified, squeeze=False)[0])
        drawing = _Drawing(model, section, panel)
        drawing.time(axes[0])
        if growing:
            drawing.growth(axes[1])
        if amplified:
            drawing.amplification(axes[-1])
        heading = ", ".join(filter(None, (section.workload, panel.name)))
        figure.suptitle(_shortened(heading), fontsize=10)
        drawing.legend(figure, len(axes))
        out = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=150, metadata=metadata)
    return out.getvalue()


class _Drawing:
    def __init__(self, model: ReportModel, section: Section, panel: Panel) -> None:
        self.model = model
        self.panel = panel
        self.seeds = [(i, seed) for i, seed in enumerate(section.seeds) if panel.shows(seed)]
        drawn = looks(section.series, [target.name for target in model.targets])
        known = {id(one): look for one, look in zip(section.series, drawn, strict=True)}
        self.each = [(one, known[id(one)]) for one in panel.series]
        self.functional = model.any_functional(panel.series)
        self.lines: dict[str, Line2D] = {}

    def time(self, axes: Axes) -> None:
        published: set[int] = set()
        for number, seed in self.seeds:
            label = _shortened(f"published: {seed.label}")
            self.lines[label] = _published(axes, seed, seed_look(number))
            published |= {p.threads for p in seed.points if p.threads is not None}
        for one, look in self.each:
            cloud = [(p.threads, x.us_per_op) for p in one.points for x in p.processes]
            axes.plot(*zip(*cloud, strict=True), ".", color=look.colour, ms=2, alpha=0.5)
            points = [(p.threads, p.time) for p in one.points]
            self.lines[self._label(one)] = _curve(axes, points, look)
        self._finish(axes, f"us per {self.panel.unit}", "time an operation", published)
        self._watermark(axes, self.functional)

    def growth(self, axes: Axes) -> None:
        axes.axhline(1.0, color=GREY, lw=0.8)
        for one, look in self.each:
            points = [(p.threads, p.growth) for p in one.points if p.growth]
            _curve(axes, points, look, start=one.base_threads)
        self._finish(axes, "T(N) / T(least N)", "growth")
        self._watermark(axes, self.functional)

    def amplification(self, axes: Axes) -> None:
        axes.axhline(1.0, color=GREY, lw=0.8)
        axes.axhspan(1 / (1 + self.model.margin), 1 + self.model.margin, color=GREY, alpha=0.2)
        for pair in self.panel.pairs:
            points = [
                (p.threads, p.amplification.as_family()) for p in pair.points if p.amplification
            ]
            _curve(axes, points, self._of(pair), start=pair.points[0].threads)
        self._finish(axes, "A(N)", f"amplification; grey: within ±{self.model.margin:.0%}")
        self._watermark(axes, any(pair.functional for pair in self.panel.pairs))

    def _of(self, pair: PairView) -> Look:
        """A pair is drawn as the side that is asked about."""
        side = (pair.one, pair.one_variant)
        return next(look for one, look in self.each if (one.target, one.variant) == side)

    def legend(self, figure: Figure, axes: int) -> None:
        """What is drawn, below so many axes, in two columns if they have room."""
        names = list(self.lines)
        # matplotlib leaves out what begins with "_": the names are set afterwards.
        legend = figure.legend(
            list(self.lines.values()),
            ["."] * len(names),
            loc="outside lower center",
            ncols=2 if max(map(len, names)) <= 31 * axes - 6 else 1,
            frameon=False,
            handlelength=3,
        )
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)

    def _label(self, one: Series) -> str:
        label = self.model.target(one.target).label
        label = _shortened(f"{label}; {one.program_label}" if one.program_label else label)
        spread = any(p.time.low is not None for p in one.points)
        alone = max(p.time.n_boots for p in one.points) == 1
        return f"{label} (one boot)" if spread and alone else label

    def _watermark(self, axes: Axes, functional: bool) -> None:
        if functional:
            axes.text(
                0.5, 0.5, "functional\n(emulated)", transform=axes.transAxes, ha="center",
                va="center", fontsize=20, color=GREY, alpha=0.2, rotation=25, zorder=0,
            )  # fmt: skip

    def _finish(
        self, axes: Axes, y_label: str, title: str, published: Collection[int] = ()
    ) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

        threads = {p.threads for one in self.panel.series for p in one.points}
        shown = _spaced(sorted(threads | set(published)))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(shown, [str(n) for n in shown])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        low, high = axes.get_ylim()
        if high / low < 5:
            ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
            axes.set_yticks([tick for tick in ticks if low <= tick <= high])
        else:
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.grid(visible=True, which="both", color=GREY, alpha=0.25, lw=0.5)
        axes.set_xlabel("threads (log)")
        axes.set_ylabel(f"{_shortened(y_label, 30)} (log)")
        axes.set_title(title, fontsize=9)


def _curve(
    axes: Axes,
    points: Sequence[tuple[int, Estimate]],
    look: Look,
    *,
    start: int | None = None,
) -> Line2D:
    """Estimates with their intervals as a band; from 1 at ``start``."""
    first = [] if start is None else [(start, 1.0, 1.0, 1.0)]
    rows = first + [
        (n, e.value, e.low or e.value, e.value if e.high is None else e.high) for n, e in points
    ]
    threads, values, lows, highs = zip(*rows, strict=True)
    style = {"color": look.colour, "ls": _DASHES[look.dash], "marker": _MARKERS[look.marker]}
    axes.fill_between(threads, lows, highs, color=look.colour, alpha=0.18, lw=0)
    return axes.plot(threads, values, ms=4, lw=1.5, **style)[0]


def _published(axes: Axes, seed: SeedSeries, look: Look) -> Line2D:
    """A curve, or a level where the source does not say how many threads there were."""
    stated = [(p.threads, p.us_per_op) for p in seed.points if p.threads is not None]
    style = {"color": GREY, "ls": _DASHES[look.dash], "lw": 1}
    if stated:
        return axes.plot(*zip(*stated, strict=True), **style)[0]
    return axes.axhline(seed.points[0].us_per_op, **style)


def _spaced(threads: Sequence[int]) -> list[int]:
    """Thread counts that leave each other's labels room on a log axis; the last is kept."""
    room = math.log(threads[-1] / threads[0]) / 14
    kept = [threads[-1]]
    for count in reversed(threads[:-1]):
        if math.log(kept[-1] / count) >= room:
            kept.append(count)
    return kept[::-1]


def _shortened(text: str, most: int = _LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
