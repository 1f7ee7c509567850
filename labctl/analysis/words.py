"""Text and numbers as they are shown. Whatever a machine sent is hostile until shown here."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from labctl.stats import Estimate

_MOST_MARKS = 3  # on one letter; more reach into the lines above


def plain(text: str) -> str:
    """``text`` without what could steer a terminal or a reader: control, escape and
    direction characters become visible, as do marks piled on one letter; newlines a space.

    >>> plain("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb c'
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for c in text.encode("utf-8", "replace").decode():
        marks = marks + 1 if unicodedata.category(c) in ("Mn", "Me") else 0
        if c in "\n\t":
            shown.append(" ")
        elif c.isprintable() and marks <= _MOST_MARKS:
            shown.append(c)
        else:
            shown.append(c.encode("unicode_escape").decode())
    return "".join(shown)


def fact_text(value: Any) -> str:
    """A fact's value as one line of text; unknown (None, an empty text) is "", and a list or
    mapping that is known to be empty "none"."""
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple) and not value:
        return "none"
    if isinstance(value, Mapping):
        names: dict[str, list[str]] = {}  # by value: several names often have the same
        for key, item in sorted(value.items()):
            names.setdefault(fact_text(item), []).append(plain(str(key)))
        return "; ".join(f"{', '.join(keys)}: {text}" for text, keys in names.items())
    if isinstance(value, list | tuple):
        return ", ".join(fact_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return plain(str(value)).strip()


def number(value: float) -> str:
    """Three significant digits, never in powers of ten unless far from 1.

    >>> [number(x) for x in (0.02134, 3.2149, 12.345, 123.4, 45678.0, 1.5e9)]
    ['0.0213', '3.21', '12.3', '123', '45678', '1.50e+09']
    """
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:#.3g}"
    return text.rstrip(".")


def thread_count(count: int) -> str:
    """``1 thread``, ``4 threads``."""
    return f"{count} thread" if count == 1 else f"{count} threads"


def listed(texts: Sequence[str]) -> str:
    """``a, b and c``, of one text or more."""
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


WIDE = 0.5
"""Half an interval's width as a share of its value, above which its ends are shown instead."""
FEWEST_PROCESSES = 3
"""Below this an interval may look sure by chance: the count of processes stands beside it."""


def spread(estimate: Estimate) -> str:
    """Half the interval's width in per cent of the value: ``±4%``, or its ends, ``[0.46, 9.1]``,
    where that is more than 50 % and ± would hide how skewed it is; ``±4% n=2`` where few
    processes stand behind it; "" where there is no interval."""
    return f"{_half_width(estimate)} {_few(estimate)}".strip()


def _half_width(estimate: Estimate) -> str:
    half = estimate.half_width
    if half is None:
        return ""
    if half < 0.005:
        return "±<1%" if half > 0 else "±0%"
    if half > WIDE:
        return f"[{number(estimate.low or 0)}, {number(estimate.high or 0)}]"
    return f"±{half:.0%}"


def _few(estimate: Estimate) -> str:
    few = 0 < estimate.n_processes < FEWEST_PROCESSES
    return f"n={estimate.n_processes}" if few else ""


def with_spread(estimate: Estimate) -> str:
    """``3.21 ±4%``."""
    return f"{number(estimate.value)} {spread(estimate)}".strip()


def interval(estimate: Estimate) -> str:
    """``1.42 to 1.61``, with ``(n=2)`` where few processes stand behind it; "none" where the
    data allow none."""
    return _ends(estimate, estimate.low, estimate.high)


def family_interval(estimate: Estimate) -> str:
    """As ``interval``, of the interval that holds for all thread counts at once."""
    return _ends(estimate, estimate.family_low, estimate.family_high)


def _ends(estimate: Estimate, low: float | None, high: float | None) -> str:
    text = "none" if low is None or high is None else f"{number(low)} to {number(high)}"
    few = _few(estimate)
    return f"{text} ({few})" if few else text
