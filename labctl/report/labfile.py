"""The lab file of a run, as its journal has it: what whoever repeats the run begins with.

It is the file as labctl read it, with defaults filled in and without comments. Names of key
files and passwords within a URI stay out: they are of no use to anybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from labctl.analysis.words import plain
from labctl.hypervisor.uri import shown
from labctl.sweep.records import Header

_PRIVATE = ("identity", "known_hosts")


def lab_file(header: Header) -> str:
    """The lab file as YAML that labctl reads; "" where the journal has none (an import)."""
    targets = header.lab.get("targets")
    if not isinstance(targets, Mapping) or not targets:
        return ""
    left_out = [
        f"# left out: {key} of {name}"
        for name, spec in targets.items()
        if isinstance(spec, Mapping)
        for key in _PRIVATE
        if spec.get(key) is not None
    ]
    text = yaml.safe_dump(
        _written(header.lab), sort_keys=False, allow_unicode=True, default_flow_style=None, width=88
    )
    return "\n".join(plain(line) for line in [*left_out, *text.rstrip("\n").split("\n")])


def _written(value: Any, key: str = "") -> Any:
    """A value in the lab file's notation, without what says nothing."""
    if isinstance(value, Mapping):
        items = {k: _written(v, str(k)) for k, v in value.items() if k not in _PRIVATE}
        law = "law" in value  # of a simulated growth, which takes its own parameters alone
        return {k: v for k, v in items.items() if not (_says_nothing(k, v) or (law and v == 0))}
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    if key == "memory" and isinstance(value, int):
        return f"{value}MiB"
    if key == "margin" and isinstance(value, float):
        return f"{value * 100:.6g}%"
    if key == "uri":
        return shown(value) if isinstance(value, str) else value
    return value


def _says_nothing(key: str, value: Any) -> bool:
    """An empty text means something of ``smbios_product`` alone."""
    return value in (None, {}, []) or (value == "" and key != "smbios_product")
