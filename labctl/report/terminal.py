"""The report as tables for a terminal, from 80 columns on.

All text goes in as rich ``Text``, never as markup, and came into the model through
``words.plain``: what a machine calls itself can neither style nor steer the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labctl.analysis.confounders import BARRED
from labctl.analysis.roles import FUNCTIONAL
from labctl.analysis.words import WIDE, family_interval, interval, number, with_spread
from labctl.report.chart import Line, chart
from labctl.report.model import Point, ReportModel, RunView, Section, SeedSeries, Series
from labctl.report.pair_model import EffectPoint, PairView
from labctl.report.palette import looks
from labctl.report.panels import panels
from labctl.report.words import exclusions, law, narrower

_LABEL_WIDTH = 24
_NARROW, _NARROW_LABEL_WIDTH = 64, 16  # below so many columns, for the numbers' sake
_FEWEST_THREADS = 3  # for a chart
_MOST_CHARTS = 2
_CELL_WIDTH = 11  # "12.3 ±123%" and a space


def print_report(model: ReportModel, console: Console) -> None:
    """Print the report to ``console``, within its width."""
    utf = console.encoding.lower().startswith("utf")
    for part in render(model, console.width, ascii_only=not utf):
        console.print(part)


def render(model: ReportModel, width: int, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """The parts of the report, each fitting ``width`` columns; ``ascii_only`` charts where
    the output has no other characters."""
    for run in model.runs:
        yield _line(f"{'run' if run.label in ('', run.run) else run.label} {run.run}", "bold")
        yield _line(_design(run), "dim")
    yield from _verdicts(model)
    for section in model.sections:
        yield from _section(model, section, width, ascii_only)
    if not model.sections:
        yield _line("no complete result yet", "yellow")
    yield from _notes(model)


def _verdicts(model: ReportModel) -> Iterator[RenderableType]:
    """What a reader came for, before any table."""
    if not model.sections:
        return
    yield _line("\nverdicts", "bold cyan")
    for verdict in model.verdicts:
        told = "cannot tell" not in (verdict.level, verdict.scaling)
        text = Text(f"{verdict.opening}\n".lstrip(), style="bold yellow")
        text.append(verdict.sentence, style="" if told else "not bold yellow")
        text.append("".join(f"\n{one}" for one in verdict.instead), style="not bold default")
        notes = " ".join((verdict.setting, *verdict.notes))
        text.append(f"\n{notes}" if verdict.instead else f" {notes}", style="not bold dim")
        yield _item(text)
    if not model.verdicts:
        yield _line(model.no_pairs, "dim")


def _section(
    model: ReportModel, section: Section, width: int, ascii_only: bool
) -> Iterator[RenderableType]:
    title = f"\n{section.workload}: time per {section.unit}, us of wall time, by threads"
    yield _line(title, "bold cyan")
    if section.common_params:
        yield _line(f"all with {section.common_params}", "dim")
    full, short = partial(_full_heading, model), partial(_heading, model)
    yield from _by_threads(section, width, full, lambda p: with_spread(p.time))
    mean = "geometric mean"
    if section.any_interval:
        mean += f"; ± is half the width of its {model.level:.0%} interval"
    if section.any_wide:
        mean += f", in brackets are its ends where that is more than {WIDE:.0%}"
    yield _line(mean, "dim italic")
    if section.oversubscribed:
        text = f"oversubscribed, more threads than CPUs: {'; '.join(section.oversubscribed)}"
        yield _line(text, "yellow")
    yield from _charts(model, section, width, ascii_only)
    if len(section.threads) > 1:
        yield _line("\ngrowth: T(N) / T(least number of threads)", "bold cyan")
        yield from _by_threads(
            section, width, short, lambda p: with_spread(p.growth) if p.growth else "1"
        )
    yield from _laws(section)
    if any(p.vcsw_per_op is not None for one in section.series for p in one.points):
        yield _line("\nvoluntary context switches an operation", "bold cyan")
        yield from _by_threads(section, width, short, _switches)
    if any(p.latency for one in section.series for p in one.points):
        yield _line("\nlatency of single operations, us: median/99th percentile", "bold cyan")
        yield from _by_threads(section, width, short, _latency)
    for number_, pair in enumerate(section.pairs, 1):
        yield from _pair(model, pair)
        yield from _warnings(pair)
        following = section.pairs[number_ : number_ + 1]
        if not following or following[0].confounders != pair.confounders:
            yield from _confounders(pair)
    yield from _expectations(section)
    if section.seeds:
        yield from _seeds(section, width)


def _charts(model: ReportModel, section: Section, width: int, ascii_only: bool) -> Iterator[Text]:
    """Times against threads, where there are enough of them to see a shape: a chart a panel,
    the first few."""
    names = [target.name for target in model.targets]
    drawn = zip(section.series, looks(section.series, names), strict=True)
    colours = {id(one): look.colour for one, look in drawn}
    shown = [panel for panel in panels(section) if _counts(panel.series) >= _FEWEST_THREADS]
    for panel in shown[:_MOST_CHARTS]:
        of = f", {panel.name}" if panel.name else ""
        yield _line(f"\nus per {panel.unit}{of}, against threads; both axes are logarithmic", "dim")
        lines = [
            Line(
                f"{model.target(one.target).label} {one.program_label}".rstrip(),
                colours[id(one)],
                [(point.threads, point.time.value) for point in one.points],
            )
            for one in panel.series
        ]
        yield from chart(lines, width, ascii_only=ascii_only)
    if len(shown) > _MOST_CHARTS:
        yield _line(f"charts of {len(shown) - _MOST_CHARTS} more are on the page", "dim italic")


def _counts(series: Iterable[Series]) -> int:
    """How many numbers of threads there are."""
    return len({point.threads for one in series for point in one.points})


def _laws(section: Section) -> Iterator[RenderableType]:
    """The Universal Scalability Law of each series, or why it is refused; equal ones once."""
    found: dict[str, list[str]] = {}
    for one in section.series:
        found.setdefault(law(one.scalability), []).append(f"{one.target} {one.own_params}".strip())
    if len(section.threads) > 1:
        yield from (
            _line(f"scalability law, {', '.join(names)}: {text}", "dim italic")
            for text, names in found.items()
        )


def _latency(point: Point) -> str:
    if point.latency is None:
        return "-"
    return f"{number(point.latency.p50_us)}/{number(point.latency.p99_us)}"


_Row = tuple[Text, dict[int, str]]


def _by_threads(
    section: Section,
    width: int,
    heading: Callable[[Series], Text],
    show: Callable[[Point], str],
) -> Iterator[Table]:
    """A row a series, a column a number of threads; in several tables if they do not fit.
    Where targets have several variants, each target is a heading with its variants below."""
    rows: list[_Row] = []
    last = Text()
    for one in section.series:
        cells = {point.threads: show(point) for point in one.points}
        label = heading(one)
        if one.own_params:
            if label != last:
                rows.append((label, {}))
            last, label = label, Text(f"  {one.own_params}")
        rows.append((label, cells))
    yield from _grid(rows, section.threads, width)


def _grid(rows: Sequence[_Row], threads: Sequence[int], width: int) -> Iterator[Table]:
    cell = max([_CELL_WIDTH, *(len(text) + 1 for _, cells in rows for text in cells.values())])
    label_width = _LABEL_WIDTH if width >= _NARROW else _NARROW_LABEL_WIDTH
    fitting = max(1, (width - label_width) // cell)
    each = math.ceil(len(threads) / math.ceil(len(threads) / fitting))
    for start in range(0, len(threads), each):
        table = _table()
        table.add_column("", width=label_width - 1, overflow="fold")
        shown = threads[start : start + each]
        for count in shown:
            table.add_column(str(count), justify="right", width=cell - 1, no_wrap=True)
        for label, cells in rows:
            table.add_row(label, *(Text(cells.get(n, "-") if cells else "") for n in shown))
        yield table


def _heading(model: ReportModel, one: Series) -> Text:
    """Name of the target, with the word that times of an emulator must carry."""
    text = Text(one.target, style="bold")
    if model.target(one.target).functional:
        text.append(" functional", style="not bold yellow")
    return text


def _full_heading(model: ReportModel, one: Series) -> Text:
    """Name, role and program of the target, a line each."""
    target = model.target(one.target)
    text = Text(one.target, style="bold")
    role = f"{target.role}, functional" if target.functional else target.role
    text.append(f"\n{role}", style="not bold yellow" if target.functional else "not bold dim")
    if one.program_label:
        text.append(f"\n{one.program_label}", style="not bold")
    return text


def _pair(model: ReportModel, pair: PairView) -> Iterator[RenderableType]:
    one, other = model.target(pair.one), model.target(pair.other)
    yield _line(f"\nratio {pair.title}", "bold cyan")
    yield _line(f"{one.label} / {other.label}", "dim")
    if pair.functional:
        yield _line(FUNCTIONAL, "yellow")
    table = _table()
    growing = any(point.amplification for point in pair.points)
    changed = pair.subject == "change"  # its verdict rests on all thread counts
    headings = ["threads", "ratio", f"{model.level:.0%} interval"]
    headings += ["for all N"] if changed else []
    headings += ["A(N)", "for all N", "growth"] if growing else []
    for heading in headings:
        table.add_column(heading, justify="right")
    if pair.functional:
        table.add_column("")
    for point in pair.points:
        cells = [str(point.threads), number(point.ratio.value), interval(point.ratio)]
        cells += [family_interval(point.ratio)] if changed else []
        cells += _amplified(point) if growing else []
        cells += ["functional"] if pair.functional else []
        table.add_row(*(Text(cell) for cell in cells))
    yield table
    if growing:
        yield _line(
            "A(N): growth of one side / growth of the other, with the interval that holds for "
            f"all N at once; growth: {pair.one} | {pair.other}",
            "dim italic",
        )
    if text := narrower(pair):
        yield _line(text, "dim italic")


def _amplified(point: EffectPoint) -> list[str]:
    """A(N), its simultaneous interval, and both sides' growth."""
    if point.amplification is None or point.growth_one is None or point.growth_other is None:
        return ["1", "", "1 | 1"]
    grown = f"{number(point.growth_one.value)} | {number(point.growth_other.value)}"
    return [number(point.amplification.value), family_interval(point.amplification), grown]


def _warnings(pair: PairView) -> Iterator[RenderableType]:
    yield from (_item(Text(text, style="dim")) for text in pair.warnings)


def _confounders(pair: PairView) -> Iterator[RenderableType]:
    if pair.confounders:
        yield _line(f"what else differs, {pair.one} | {pair.other}: {pair.differing}", "dim")
        for thing in pair.differences:
            text = Text(thing.name)
            text.append(f" ({BARRED[thing.bars]})" if BARRED[thing.bars] else "", style="yellow")
            for label, one, other in thing.values:
                text.append(f"\n{label}" if label else "").append(f": {one} | {other}")
            yield _item(text)


def _expectations(section: Section) -> Iterator[RenderableType]:
    """What was expected of the kernels, and what the targets say to it."""
    if section.expectations:
        yield _line(f"\nexpected of {section.workload} on these kernels", "bold cyan")
    for expected in section.expectations:
        text = Text(f"{expected.name}{f' ({expected.params})' * bool(expected.params)}: ")
        text.append(f"{expected.expected}. ")
        text.append(f"{expected.mechanism} ({expected.source})", style="dim")
        yield text
        for answer in expected.answers:
            style = "yellow" if answer.verdict == "contradicts" else ""
            yield _item(Text(f"{answer.target}: {answer.verdict}. {answer.sentence}", style=style))


def _seeds(section: Section, width: int) -> Iterator[RenderableType]:
    """Published numbers, apart from ours and labelled with year, system, environment."""
    yield _line("\npublished (other machines, one run a cell): us, by threads", "bold cyan")
    stated = [seed for seed in section.seeds if any(p.threads for p in seed.points)]
    threads = sorted({p.threads for s in stated for p in s.points if p.threads is not None})
    rows = [
        (
            _seed_label(seed),
            {p.threads: number(p.us_per_op) for p in seed.points if p.threads is not None},
        )
        for seed in stated
    ]
    if rows:
        yield from _grid(rows, threads, width)
    rest = [seed for seed in section.seeds if seed not in stated]
    if rest:
        table = _table()
        table.add_column("", overflow="fold")
        table.add_column("us, threads not stated", justify="right")
        for seed in rest:
            table.add_row(Text(seed.label), Text(number(seed.points[0].us_per_op)))
        yield table


def _switches(point: Point) -> str:
    return "–" if point.vcsw_per_op is None else number(point.vcsw_per_op)


def _seed_label(seed: SeedSeries) -> Text:
    text = Text(f"{seed.year} {seed.system}")
    detail = " ".join(part for part in (seed.environment, seed.workload, seed.variant) if part)
    return text.append(f"\n{detail}", style="dim")


def _design(run: RunView) -> str:
    if run.imported:
        return f"{run.created}; {run.imported}"
    design = run.design
    return (
        f"{run.created}; {design.completed} of {design.planned} processes complete "
        f"(boots: {design.boots}, rounds: {design.rounds}, batches: {design.batches}), "
        f"order drawn from seed {design.seed}"
    )


def _notes(model: ReportModel) -> Iterator[RenderableType]:
    lines = list(model.notes)
    for run in model.runs:
        of_run = f"{run.label} run: " if run.label else ""
        lines += [f"{of_run}{text}" for text in exclusions(run.design)]
    if lines:
        yield _line("\nto be kept in mind", "bold cyan")
        yield from (_item(line) for line in lines)
    for run in model.runs:
        if run.journal_sha256:
            yield _line(f"\njournal of {run.run}, sha256 {run.journal_sha256}", "dim")


def _table() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,  # the box's own divider is the gap
        header_style="bold",
    )


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style)


def _item(text: str | Text) -> Padding:
    table = Table.grid(padding=(0, 1, 0, 0))
    shown = text if isinstance(text, Text) else Text(text)
    shown.overflow = "fold"
    table.add_row(Text("-"), shown)
    return Padding(table, (0, 0, 0, 1))


def plain_lines(parts: Iterable[RenderableType], width: int) -> str:
    """The parts as text without colours, for a file or a pipe."""
    console = Console(width=width, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()
