"""The report as one self-contained page: no request to anywhere, no script but ours.

Everything is inline. What came from a machine is escaped by the template; Bokeh's code and
the figures' data are compressed (a third of the size, in a mail), which no browser runs or
reads as it stands; and the page's own Content-Security-Policy admits the hashes of its
scripts, Bokeh's unpacked one among them, and nothing from a network.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from datetime import datetime
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.analysis.badges import LEGEND
from labctl.analysis.confounders import BARRED
from labctl.analysis.roles import FUNCTIONAL
from labctl.analysis.words import WIDE
from labctl.report import glance
from labctl.report.model import ReportModel
from labctl.report.palette import colour_of, looks, seed_look
from labctl.report.panels import panels
from labctl.report.plots import panel_plots, seed_name, series_name
from labctl.report.words import FILTERS

_COMPRESSION = 6  # the greatest, 9, takes half as long again for 0.3 % less


def write_page(model: ReportModel, path: Path) -> Path:
    """Write the page, whole or not at all; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths.write_atomic(path, render_page(model))
    return path


def render_page(model: ReportModel) -> str:
    """The page as HTML, half a megabyte of which is Bokeh's own code."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("labctl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS, moment=_moment)
    figures = _Figures()
    verdicts = _verdicts(model, figures)
    sections = [_section(model, index, figures) for index in range(len(model.sections))]
    script = _template("report.js") if figures.items else ""
    library = _bokeh() if figures.items else ""
    return environment.get_template("report.html.j2").render(
        report=model,
        question=_question(model),
        verdicts=verdicts,
        badges=_legend(model),
        sections=sections,
        colours={target.name: colour_of(i) for i, target in enumerate(model.targets)},
        functional=FUNCTIONAL,
        wide=WIDE,
        barred=BARRED,
        csp=_policy([library, script] if script else []),
        css=Markup(_template("report.css")),  # noqa: S704 - the project's own file
        script=Markup(script),  # noqa: S704 - our own
        packed={"bokeh": _packed(library), "figures": _packed(_text(figures.items))},
    )


def _moment(text: str) -> str:
    """When a run was made, to the minute; a text that is no time stands as it is."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{when.day} {when:%B %Y, %H:%M %Z}".strip()


def _question(model: ReportModel) -> str:
    """What the report answers."""
    subjects = {verdict.subject for verdict in model.verdicts}
    if model.compared:
        return "What changed?"
    if subjects == {"kernel"}:
        return "What does the kernel change?"
    if subjects:
        return "Is it the kernel, or is it the virtualization?"
    return "What was measured"


def _legend(model: ReportModel) -> dict[str, str]:
    """What the reasons mean that stand on the cards."""
    shown = [effect.badge for verdict in model.verdicts for effect in glance.effects(verdict)]
    return {text: told for text, told in LEGEND.items() if any(text in badge for badge in shown)}


class _Figures:
    """The figures of the page: their data, and the elements that they are put into."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def add(self, figure: Any) -> str:
        """Take a figure; the id of its element.

        As ``bokeh.embed.json_item`` does it, but for what that looks up in all models of a
        figure: mistakes in its making, which are the tests' business, and functions in Python
        that it calls, of which there are none.
        """
        from bokeh.document import Document

        element = f"figure-{len(self.items)}"
        document = Document(title="")
        document.add_root(figure)
        told = document.to_json(deferred=False)
        item = {"target_id": element, "root_id": figure.id, "doc": told}
        self.items.append(item)
        return element


def _verdicts(model: ReportModel, figures: _Figures) -> list[dict[str, Any]]:
    """What the template shows of each verdict; its figure is added to ``figures``."""
    found = []
    names = [target.name for target in model.targets]
    for number, section in enumerate(model.sections, 1):
        drawn = {
            (one.target, one.variant): look
            for one, look in zip(section.series, looks(section.series, names), strict=True)
        }
        for pair in section.pairs:
            look = drawn[pair.one, pair.one_variant]
            found.append(
                {
                    "view": pair.verdict,
                    "pair": pair,
                    "section": number,
                    "id": figures.add(glance.figure_of(model, pair.verdict, look)),
                    "effects": glance.effects(pair.verdict),
                    "base": pair.points[0].threads,
                }
            )
    return found


def _section(model: ReportModel, index: int, figures: _Figures) -> dict[str, Any]:
    """What the template shows of a section; its figures' data are added to ``figures``."""
    section = model.sections[index]
    drawn = looks(section.series, [target.name for target in model.targets])
    shown = []
    for panel in panels(section):
        plots = panel_plots(model, section, index, panel)
        each = [{"id": figures.add(plot.figure), "view": plot} for plot in plots]
        shown.append({"name": panel.name, "plots": each})
    return {
        "view": section,
        "number": index + 1,
        "panels": shown,
        "keys": [
            {"name": series_name(index, i), "series": one, "look": look}
            for i, (one, look) in enumerate(zip(section.series, drawn, strict=True))
        ],
        "seed_keys": [
            {"name": seed_name(index, i), "label": seed.label, "look": seed_look(i)}
            for i, seed in enumerate(section.seeds)
            if any(panel.shows(seed) for panel in panels(section))
        ],
    }


def _text(figures: list[dict[str, Any]]) -> str:
    """The figures' data as JSON."""
    return json.dumps(figures, separators=(",", ":"))


@lru_cache(maxsize=2)
def _packed(text: str) -> str:
    """Compressed, as base64; the same text gives the same."""
    return base64.b64encode(gzip.compress(text.encode(), _COMPRESSION, mtime=0)).decode()


@cache
def _bokeh() -> str:
    """Bokeh's own code, without what sets its log's level, which is itself logged."""
    from bokeh.resources import Resources

    scripts = Resources(mode="inline", components=["bokeh"]).js_raw
    return "\n".join(one for one in scripts if not one.startswith("Bokeh.set_log_level"))


def _template(name: str) -> str:
    return resources.files("labctl.report").joinpath("templates", name).read_text("utf-8")


def _policy(scripts: list[str]) -> str:
    """A Content-Security-Policy that lets these inline scripts run and nothing else."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    allowed = hashes or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )
