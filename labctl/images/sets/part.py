"""A download that is not whole yet: ``FILE.part``, and beside it what it is a part of.

The pair says whether the rest may be asked for: it is the same URL, and the server has named
a version (ETag or Last-Modified) that it can compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labctl import paths

_NUMBER = r"\d{1,18}"
_TEXT = re.compile(r"[ -~]{1,256}")


@dataclass(frozen=True)
class Range:
    """What a Content-Range header says; None for what it does not."""

    start: int | None
    total: int | None

    @classmethod
    def parse(cls, text: str) -> Range:
        """Of ``bytes 5-9/10`` or ``bytes */10``."""
        pattern = rf"bytes (?:({_NUMBER})-{_NUMBER}|\*)/({_NUMBER}|\*)"
        match = re.fullmatch(pattern, text.strip(), re.ASCII)
        if not match:
            return cls(None, None)
        start, total = match[1], match[2]
        return cls(int(start) if start else None, None if total == "*" else int(total))


def validator(headers: Mapping[str, str]) -> str:
    """What names the version of an answer, in a form that If-Range takes; "" if nothing does.
    A weak ETag does not: such versions may differ in their bytes. Nor does what cannot be sent
    back as it came."""
    etag = headers.get("etag", "")
    if _TEXT.fullmatch(etag) and not etag.startswith("W/"):
        return etag
    return _sound(headers.get("last-modified", ""))


def length(text: str) -> int | None:
    """Of a Content-Length header; None where it says nothing of use."""
    return int(text) if re.fullmatch(_NUMBER, text, re.ASCII) else None


def _sound(text: str) -> str:
    return text if _TEXT.fullmatch(text) else ""


class Part:
    """The part of ``url`` that is here."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self._url = url
        self._meta = _description(path)

    @property
    def size(self) -> int:
        """Bytes that are here."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def version(self) -> str:
        """The validator of the version that this is a part of; "" when the rest cannot be
        asked for."""
        try:
            known = json.loads(self._meta.read_text())
            return _sound(str(known["version"])) if known["url"] == self._url else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def begin(self, version: str) -> None:
        """Forget what is here; what follows is of ``version``."""
        self.discard()
        if version:
            paths.write_atomic(
                self._meta, json.dumps({"url": self._url, "version": version}) + "\n"
            )

    def discard(self) -> None:
        """Remove all of it."""
        discard(self.path)


def discard(path: Path) -> None:
    """Remove a part, and what says what it is a part of."""
    # In this order: a part without its description is never resumed.
    _description(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _description(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
