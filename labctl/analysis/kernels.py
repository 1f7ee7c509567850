"""Which kernel a machine runs, as far as its own words tell: whose, and of which release.

``uname -r`` of a distributor's kernel names its ABI and not the stable release that it is
made from, while mechanisms change within stable series. So a version is a range: what the
machine says, and what it leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Numbers = tuple[int, ...]
Holds = Literal["yes", "no", "open"]

OPERATORS = (">=", "<=", "<", ">")
_CONDITION = re.compile(r"(>=|<=|<|>)\s*([0-9]+(?:\.[0-9]+)*)")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_DEBIAN = re.compile(r"\bDebian ([0-9]+(?:\.[0-9]+)+)")
# Marks of those who build kernels, in `uname -r` or `uname -v`; the first that is found
# decides. "exact": whether the release tells the stable release that it is made from.
_VENDORS: tuple[tuple[str, str, bool], ...] = (
    ("ubuntu", r"Ubuntu", False),
    ("redhat", r"\.el[0-9]", False),
    ("suse", r"-default\b", False),
    ("fedora", r"\.fc[0-9]", True),
    ("amazon", r"\.amzn", True),
)
UPSTREAM = "upstream"
_NAMES = {
    **{"freebsd": "FreeBSD", "netbsd": "NetBSD", "openbsd": "OpenBSD", "dragonfly": "DragonFly"},
    **{"redhat": "Red Hat", "suse": "SUSE"},
}
VENDORS = ("debian", *(name for name, _, _ in _VENDORS), UPSTREAM)


@dataclass(frozen=True)
class Kernel:
    """A kernel's own account of itself.

    Attributes:
        system: "linux", "freebsd", "netbsd" ...
        vendor: who built it ("debian", "ubuntu" ...), or "upstream" where nothing in its
            name says that a distributor did. The BSDs are their own vendors: "".
        version: the release, such as (5, 10, 237).
        exact: False where the last part is not told: (5, 15) is some 5.15.
    """

    system: str
    vendor: str
    version: Numbers
    exact: bool = True

    def __str__(self) -> str:
        text = ".".join(str(part) for part in self.version) + ("" if self.exact else ".x")
        whose = f" of {_name(self.vendor)}" if self.vendor not in ("", UPSTREAM) else ""
        return f"{_name(self.system)} {text}{whose}"


def _name(word: str) -> str:
    return _NAMES.get(word, word.capitalize())


def kernel_of(facts: Mapping[str, Any]) -> Kernel | None:
    """The kernel from a machine's facts (``system``, ``kernel``: uname -r, ``kernel_version``:
    uname -v); None where they name no version."""
    system, release = str(facts.get("system") or ""), str(facts.get("kernel") or "")
    built = str(facts.get("kernel_version") or "")
    found = _RELEASE.match(release)
    if not system or not found:
        return None
    if system != "linux":
        return Kernel(system, "", _numbers(found[0]))
    debian = _DEBIAN.search(built)
    if debian:  # its release says 5.10.0-35, its version "Debian 5.10.237-1"
        return Kernel(system, "debian", _numbers(debian[1]))
    for vendor, mark, exact in _VENDORS:
        if re.search(mark, release) or re.search(mark, built):
            version = _numbers(found[0])
            return Kernel(system, vendor, version if exact else version[:2], exact)
    return Kernel(system, UPSTREAM, _numbers(found[0]))


def parse_range(text: str) -> tuple[tuple[str, Numbers], ...]:
    """``">=5.11 <5.15.44"`` -> its conditions, all of which have to hold.

    Raises:
        ValueError: it is no such text; the message says what one looks like.
    """
    conditions = tuple((m[1], _numbers(m[2])) for m in _CONDITION.finditer(text))
    if not conditions or _CONDITION.sub("", text).strip():
        raise ValueError(f"{text!r} is not a range of versions; write one like '>=5.11 <5.15.44'")
    return conditions


def within(kernel: Kernel, ranges: Sequence[str]) -> Holds:
    """Whether a kernel's version lies in any of ``ranges`` (none: it does); "open" where its
    account of itself is too coarse to tell."""
    if not ranges:
        return "yes"
    lowest = kernel.version
    highest = lowest if kernel.exact else (*lowest, 10**9)
    answers = {_in_any(lowest, ranges), _in_any(highest, ranges)}
    bounds = {_trimmed(bound) for text in ranges for _, bound in parse_range(text)}
    if len(answers) == 2 or any(lowest < bound < highest for bound in bounds):
        return "open"
    return "yes" if answers == {True} else "no"


def _in_any(version: Numbers, ranges: Sequence[str]) -> bool:
    return any(
        all(_compare(version, operator, bound) for operator, bound in parse_range(text))
        for text in ranges
    )


def _compare(version: Numbers, operator: str, bound: Numbers) -> bool:
    left, right = _trimmed(version), _trimmed(bound)
    if operator == ">=":
        return left >= right
    if operator == "<=":
        return left <= right
    return left < right if operator == "<" else left > right


def _trimmed(version: Numbers) -> Numbers:
    """6.8.0 is 6.8."""
    while len(version) > 1 and version[-1] == 0:
        version = version[:-1]
    return version


def _numbers(text: str) -> Numbers:
    return tuple(int(part) for part in text.split("."))
