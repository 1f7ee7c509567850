"""The report as Markdown with pictures beside it: for mail and pull requests.

GitHub's flavour. What came from a machine is text in it: characters that mean something
to Markdown or HTML are escaped, and control characters were made visible in the model.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labctl import paths
from labctl.analysis import words
from labctl.analysis.confounders import BARRED
from labctl.analysis.roles import FUNCTIONAL
from labctl.report.figures import draw
from labctl.report.forms import Figures
from labctl.report.model import ReportModel
from labctl.report.panels import panels
from labctl.report.words import FILTERS

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!&@])")


def write_markdown(model: ReportModel, path: Path, figures: Figures = Figures.svg) -> Path:
    """Write the text to ``path`` and its pictures beside it (``<stem>-<n>-<workload>.svg``),
    each whole or not at all, the text last; returns ``path``."""
    drawn = _pictures(model, path.stem, figures)
    for name, content in drawn.items():
        paths.write_atomic(path.with_name(name), content)
    paths.write_atomic(path, _text(model, list(drawn)))
    return path


def render_markdown(model: ReportModel) -> str:
    """The text alone, without pictures."""
    return _text(model, [])


def _pictures(model: ReportModel, stem: str, figures: Figures) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for section in model.sections:
        for panel in panels(section):
            word = re.sub(r"[^a-z0-9]+", "-", f"{section.workload} {panel.name}".lower()).strip("-")
            name = f"{stem}-{len(found) + 1}-{word[:60]}.{figures}"
            found[name] = draw(model, section, panel, figures)
    return found


def _text(model: ReportModel, pictures: list[str]) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - Markdown: escaped by the template's own filter
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(
        FILTERS,
        t=escaped,
        code=code,
    )
    template = resources.files("labctl.report").joinpath("templates", "report.md.j2")
    named = map(quote, pictures)
    shown: list[dict[str, Any]] = [
        {
            "view": section,
            "panels": [{"panel": panel, "picture": next(named, "")} for panel in panels(section)],
        }
        for section in model.sections
    ]
    return environment.from_string(template.read_text("utf-8")).render(
        report=model,
        sections=shown,
        functional=FUNCTIONAL,
        wide=words.WIDE,
        barred=BARRED,
    )


def escaped(text: object) -> str:
    """``text`` so that Markdown shows it as it is, on one line and within a table's cell.

    >>> escaped("a|b <c> =1")
    'a\\\\|b \\\\<c\\\\> =1'
    """
    line = _SPECIAL.sub(r"\\\1", " ".join(words.plain(str(text)).split()))
    return line.replace("://", ":\\//").replace("www.", "www\\.")  # else GitHub makes links


def code(text: object) -> str:
    """``text`` as a code span that it cannot end.

    >>> code("a`b")
    '`` a`b ``'
    """
    line = words.plain(str(text)).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    if not longest:
        return f"`{line}`"
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}"
