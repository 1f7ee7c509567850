"""What pydantic finds wrong with a file of labctl's own, as lines of text.

Files that people write (the lab file, expectations) are worded by ``labctl.lab.findings``.
"""

from __future__ import annotations

from pydantic import ValidationError

_MOST = 5


def findings(error: ValidationError) -> str:
    """One line for each finding: its place in the file, and what is wrong there."""
    items = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{place}: {item['msg']}" if (place := ".".join(map(str, item["loc"]))) else item["msg"]
        for item in items
    ]
    more = len(lines) - _MOST
    return "\n".join(lines[:_MOST] + ([f"and {more} more"] if more > 0 else []))
