"""Putting what a benchmark prints into a document, between two marks."""

from __future__ import annotations

from pathlib import Path

from labctl.paths import write_atomic


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- /name -->``."""
    marks = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, mark, rest = path.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not mark or not end:
        raise SystemExit(f"{path} lacks {' ... '.join(marks)}")
    write_atomic(path, f"{before}{mark}\n{text.strip()}\n{end}{after}")
