"""Python's collector of garbage, where there is nothing for it to find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Do not look for garbage: hundreds of thousands of objects are made, and all are kept.

    Only what refers to itself in a circle waits for the collector; all else is still freed at once.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
