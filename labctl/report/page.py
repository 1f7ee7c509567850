"""The report as one self-contained page: no request to anywhere, no script but ours.

Everything is inline. What came from a machine is escaped by the template; the figures'
data are JSON that the browser does not run; and the page's own Content-Security-Policy
admits the hashes of its scripts and nothing from a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.analysis.confounders import BARRED
from labctl.analysis.roles import FUNCTIONAL
from labctl.report.forest import effects, forest
from labctl.report.model import ReportModel
from labctl.report.palette import looks
from labctl.report.panels import panels
from labctl.report.plots import Plot, panel_plots, seed_name, series_name
from labctl.report.words import FILTERS


def write_page(model: ReportModel, path: Path) -> Path:
    """Write the page, whole or not at all; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    paths.write_atomic(path, render_page(model))
    return path


def render_page(model: ReportModel) -> str:
    """The page as HTML, about 1.3 MB of which are Bokeh's own code."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("labctl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    figures = _Figures()
    rows = effects(model)
    at_a_glance = forest(rows, model.margin)
    glance = None if at_a_glance is None else figures.add(at_a_glance)
    sections = [_section(model, index, figures) for index in range(len(model.sections))]
    scripts = [*_bokeh_scripts(), _template("report.js")] if figures.items else []
    return environment.get_template("report.html.j2").render(
        report=model,
        sections=sections,
        glance=glance,
        effects=rows,
        functional=FUNCTIONAL,
        barred=BARRED,
        csp=_policy(scripts),
        css=Markup(_template("report.css")),  # noqa: S704 - the project's own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - Bokeh's and our own
        data=Markup(_inert_json(figures.items)),  # noqa: S704 - no "<" is left in it
    )


class _Figures:
    """The figures of the page: their data, and the elements that they are put into."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def add(self, figure: Any) -> str:
        """Take a figure; the id of its element."""
        from bokeh.embed import json_item

        element = f"figure-{len(self.items)}"
        self.items.append({**json_item(figure), "target_id": element})
        return element

    def plot(self, plot: Plot) -> dict[str, str]:
        """What the template shows of a figure."""
        return {"id": self.add(plot.figure), "title": plot.title, "caption": plot.caption}


def _section(model: ReportModel, index: int, figures: _Figures) -> dict[str, Any]:
    """What the template shows of a section; its figures' data are added to ``figures``."""
    section = model.sections[index]
    drawn = looks(section.series, [target.name for target in model.targets])
    return {
        "view": section,
        "panels": [
            {
                "name": panel.name,
                "functional": model.any_functional(panel.series),
                "plots": [figures.plot(p) for p in panel_plots(model, section, index, panel)],
            }
            for panel in panels(section)
        ],
        "keys": [
            {"name": series_name(index, i), "series": one, "look": look}
            for i, (one, look) in enumerate(zip(section.series, drawn, strict=True))
        ],
        "seed_keys": [
            {"name": seed_name(index, i), "label": seed.label}
            for i, seed in enumerate(section.seeds)
        ],
    }


def _inert_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _bokeh_scripts() -> tuple[str, ...]:
    from bokeh.resources import Resources

    scripts = Resources(mode="inline", components=["bokeh"]).js_raw
    # Setting a level is itself logged; report.js does it without a word.
    return tuple(script for script in scripts if not script.startswith("Bokeh.set_log_level"))


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
