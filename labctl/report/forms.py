"""The forms of a report that are files: page, Markdown with its figures, CSV."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from labctl import paths
from labctl.errors import ConfigError
from labctl.report.model import ReportModel


class Figures(StrEnum):
    """What the figures beside a Markdown file are."""

    svg = "svg"
    png = "png"


@dataclass(frozen=True)
class Forms:
    """Which forms are written, and where to; None is not at all."""

    html: Path
    markdown: Path | None = None
    figures: Figures = Figures.svg
    csv: Path | None = None

    def check(self) -> None:
        """See that all can be written, before anything is computed.

        Raises:
            ConfigError: a directory is missing or may not be written to, a name is no regular
                file's, or labctl did not write the file that would be replaced.
        """
        named: dict[Path, str] = {}
        for option, path in (
            ("--html", self.html),
            ("--markdown", self.markdown),
            ("--csv", self.csv),
        ):
            if path is None:
                continue
            _writable(path, option)
            if path.resolve() in named:
                raise ConfigError(
                    f"{named[path.resolve()]} and {option} name the same file", where=str(path)
                )
            named[path.resolve()] = option
        if self.markdown is not None:
            self._check_figures(self.markdown, named)

    def _check_figures(self, markdown: Path, named: Mapping[Path, str]) -> None:
        """The names that figures beside a Markdown file may have: <stem>-<n>-<words>."""
        pattern = re.compile(rf"{re.escape(markdown.stem)}-[0-9]+-.*\.{self.figures}")
        for path, option in named.items():
            if path.parent == markdown.resolve().parent and pattern.fullmatch(path.name):
                raise ConfigError(
                    "this is the name of a figure beside the Markdown file",
                    where=f"{option} {path}",
                    hint="name another",
                )
        for path in markdown.parent.iterdir():
            if pattern.fullmatch(path.name):
                _check_own(path, "--markdown", _FIGURES[self.figures])

    def write(self, model: ReportModel) -> dict[str, Path]:
        """Write them, each whole or not at all; paths by what they are.

        Raises:
            ConfigError: as ``check``.
            OSError: the disk is full.
        """
        from labctl.report.page import write_page

        written = {"page": write_page(model, self.html)}
        if self.markdown is not None:
            from labctl.report.markdown import write_markdown

            written["markdown"] = write_markdown(model, self.markdown, self.figures)
        if self.csv is not None:
            from labctl.report.table import write_csv

            written["csv"] = write_csv(model, self.csv)
        return written


_MARKS = {
    "--html": b"<title>labctl report: ",
    "--markdown": b"\n## Verdicts\n",
    "--csv": b"workload,program,params,target,run,role,",
}
"""What the beginning of each form has, and hardly any other file."""
_FIGURES = {Figures.svg: b"<svg", Figures.png: b"\x89PNG\r\n"}
_BEGINNING = 1 << 16


def _writable(path: Path, option: str) -> None:
    shown = str(path).encode("utf-8", "backslashreplace").decode()
    if shown != str(path):
        raise ConfigError("this name is not UTF-8", where=f"{option} {shown}", hint="name another")
    if path.exists() and not path.is_file():
        raise ConfigError(
            "this is not a regular file", where=f"{option} {path}", hint="name a file"
        )
    if not os.path.lexists(path.parent):
        raise ConfigError(
            "there is no such directory", where=f"{option} {path.parent}", hint="make it"
        )
    paths.check_directory(path.parent, option)
    _check_own(path, option, _MARKS[option])


def _check_own(path: Path, option: str, mark: bytes) -> None:
    """A lab file, a journal, a table that was imported: nothing but a report is replaced by one."""
    try:
        with path.open("rb") as stream:
            beginning = stream.read(_BEGINNING)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"there is a file that cannot be read: {error.strerror}",
            where=f"{option} {path}",
            hint="name another",
        ) from None
    if beginning and mark not in beginning:
        raise ConfigError(
            "there is a file that is no such report, and it is not replaced",
            where=f"{option} {path}",
            hint="name another, or remove it",
        )
