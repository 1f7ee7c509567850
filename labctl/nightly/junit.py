"""A night as JUnit XML, as CI systems show it: one test case a cell.

A cell that is slower is a failure, one whose program failed an error; what nothing can be said
of is skipped, with the reason. Targets and numbers stand in the message.
"""

from __future__ import annotations

import re
from datetime import datetime
from xml.etree import ElementTree as ET

from labctl.nightly.record import CellResult, Night
from labctl.nightly.words import sentence

_SKIPPED = (
    "cannot tell",
    "missing",
    "new baseline",
    "no baseline",
    "not measured again",
    "failed once",
)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def to_junit(night: Night) -> str:
    """The document, with an XML declaration."""
    root = ET.Element("testsuites", {"name": "labctl nightly"})
    for workload in dict.fromkeys(cell.workload for cell in night.cells):
        root.append(_suite(night, workload))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(night: Night, workload: str) -> ET.Element:
    cells = [cell for cell in night.cells if cell.workload == workload]
    counts = {
        "tests": len(cells),
        "failures": sum(cell.state == "slower" for cell in cells),
        "errors": sum(cell.state == "failed" for cell in cells),
        "skipped": sum(cell.state in _SKIPPED for cell in cells),
    }
    attributes = {name: str(number) for name, number in counts.items()}
    begun = datetime.fromisoformat(night.begun).replace(tzinfo=None)
    suite = ET.Element(
        "testsuite",
        {"name": _text(workload), "timestamp": begun.isoformat(timespec="seconds"), **attributes},
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("night", night.night),
        ("run", night.run),
        ("margin", f"{night.margin:.0%}"),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
    suite.extend(_case(cell) for cell in cells)
    return suite


def _case(cell: CellResult) -> ET.Element:
    where = f"{cell.workload}.{cell.target}"
    case = ET.Element("testcase", {"classname": _text(where), "name": _text(cell.work)})
    said = _text(sentence(cell))
    if cell.state == "slower":
        _add(case, "failure", said, cell)
    elif cell.state == "failed":
        _add(case, "error", said, cell)
    elif cell.state in _SKIPPED:
        ET.SubElement(case, "skipped", {"message": said})
    else:
        ET.SubElement(case, "system-out").text = said
    return case


def _add(case: ET.Element, tag: str, said: str, cell: CellResult) -> None:
    lines = [said, *(f"not as in the baseline: {cause}" for cause in cell.causes)]
    found = ET.SubElement(case, tag, {"message": said, "type": cell.state})
    found.text = "\n".join(_text(line) for line in lines)


def _text(text: str) -> str:
    return _NOT_XML.sub("?", text)
