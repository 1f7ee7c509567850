"""What the values in ``lab.yaml`` may be: text, sizes, paths, settings, each with its error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")
_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_GUESSES = {"m": "MiB", "mb": "MiB", "mib": "MiB", "g": "GiB", "gb": "GiB", "gib": "GiB"}
_MIN_MIB, _MAX_MIB = 128, 1024**3  # 1 PiB
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s]+([/?]\S*)?|/\S*)")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")
_MAX_MARGIN = 1.0
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_%-]+)*")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+@%=-]+( +[A-Za-z0-9_.,:/+@%=-]+)*")
_MAX_SETTING = 100
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def parse_memory(value: Any) -> int:
    """``"1GiB"`` -> 1024 (MiB). Decimal and bare units are refused: they are ambiguous."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GiB")
    match = _SIZE.fullmatch(str(value))
    if not match:
        raise ValueError(f"{value!r} is not a size; write it like 512MiB or 2GiB")
    number, unit = match[1].lstrip("0") or "0", match[2]
    if unit not in _MIB:
        guess = _GUESSES.get(unit.lower(), "MiB")
        what = f"the unit {unit!r} is not known" if unit else "the unit is missing"
        raise ValueError(f"{what}; write {number[:20]}{guess} (MiB, GiB or TiB)")
    # The length first: Python refuses to convert thousands of digits.
    size = int(number) * _MIB[unit] if len(number) < 20 else _MAX_MIB + 1
    if not _MIN_MIB <= size <= _MAX_MIB:
        raise ValueError(f"{number[:20]}{unit} is out of range; from {_MIN_MIB}MiB to 1024TiB")
    return size


def parse_margin(value: Any) -> float:
    """``"10%"`` -> 0.1. A bare number is refused: 10 could mean 10 % or tenfold."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if not match:
        what = "there is nothing here" if value is None else f"{value!r} is not a share"
        raise ValueError(f"{what}; write it in per cent, like 10%")
    margin = float(match[1]) / 100
    if not 0 < margin <= _MAX_MARGIN:
        raise ValueError(f"{value} is out of range; above 0% and up to {_MAX_MARGIN:.0%}")
    return margin


def as_text(value: Any) -> Any:
    """Refuses what YAML reads as another kind of value; mappings and lists are for others."""
    if not isinstance(value, str | dict | list | None):
        kind = type(value).__name__
        shown = "" if isinstance(value, bytes) else f" {value}"
        raise ValueError(
            f"YAML reads this as the {kind}{shown}, a text is wanted; put it in quotes"
        )
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{value!r} has control characters; remove them")
    return value


def _no_template(value: str) -> str:
    """Ansible would expand it."""
    if any(mark in value for mark in _TEMPLATE_MARKS):
        raise ValueError(f"{value!r} has the marks of a template ({{{{, {{%, {{#); remove them")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path on the target")
    return _no_template(value)


def _word(value: str) -> str:
    """What becomes a word of ssh's command line."""
    if not value or " " in value:
        raise ValueError(f"{value!r} is empty or has spaces; write a name or an address")
    if value.startswith("-"):
        raise ValueError(f"{value!r} begins with '-'; ssh would take it for an option")
    return _no_template(value)


def _uri(value: str) -> str:
    if value in ("auto", "embed"):
        return value
    try:
        urlsplit(value).port  # noqa: B018  (raises for brackets and ports that are none)
        valid = _URI.fullmatch(value) is not None
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"{value!r} is not a libvirt URI; write auto, or one like qemu:///system "
            f"or qemu+ssh://HOST/system"
        )
    return value


def _user_path(value: Any) -> Any:
    if isinstance(value, Path):  # a model made from another's values
        return value
    text = as_text(value)
    if not isinstance(text, str):
        return text
    if not text:
        raise ValueError("this path is empty; remove the key or name a file")
    try:
        return Path(_no_template(text)).expanduser()
    except RuntimeError:
        raise ValueError(f"{text!r} names a user who is not known here; check the path") from None


def _setting_name(value: str) -> str:
    """A name as boot loaders and sysctl have it: ``kern.hz``, ``hint.psm.0.disabled``."""
    if len(value) > _MAX_SETTING or not _SETTING.fullmatch(value):
        raise ValueError(
            f"{value!r} is not the name of a setting; letters, digits, '_', '-' and '%', in parts "
            f"joined by dots, like kern.timecounter.hardware"
        )
    return value


def _setting_value(value: Any) -> Any:
    """What a boot loader's or sysctl's file can hold and cannot be broken out of."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = as_text(value)
    if isinstance(text, str) and (len(text) > _MAX_SETTING or not _VALUE.fullmatch(text)):
        raise ValueError(
            f"{text!r} cannot be the value of a setting; letters, digits, spaces within and "
            f"any of _.,:/+@%=- can"
        )
    return text


def _parameter(value: Any) -> Any:
    """A workload's parameter; what its values may be is the manifest's to say."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value)


def smbios_name(value: str) -> str:
    """What an SMBIOS table can hold; "" is the hypervisor's own."""
    if len(value) > 64 or not value.isascii():
        raise ValueError(f"{value!r} cannot be the name of a product; use at most 64 ASCII letters")
    return value


Text = Annotated[str, BeforeValidator(as_text)]
Word = Annotated[Text, AfterValidator(_word)]
MemoryMiB = Annotated[int, BeforeValidator(parse_memory)]
Margin = Annotated[float, BeforeValidator(parse_margin)]
RemotePath = Annotated[Text, AfterValidator(_absolute)]
UserPath = Annotated[Path, BeforeValidator(_user_path)]
URI = Annotated[Text, AfterValidator(_uri)]
Accel = Literal["auto", "kvm", "tcg"]
Init = Literal["minimal", "systemd"]
Settings = dict[
    Annotated[str, AfterValidator(_setting_name)], Annotated[str, BeforeValidator(_setting_value)]
]
Parameter = Annotated[str, BeforeValidator(_parameter)]
CpuModel = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]
Vcpus = Annotated[int, Field(strict=True, ge=1, le=256)]
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
