"""Virtual time: what a simulated machine would have taken. Nothing waits for it.

A process takes the time that it was asked for and not what was drawn for it, so that the
times of a whole plan are known before anything is drawn.
"""

from __future__ import annotations

BOOT_S = 20.0
"""What a reboot takes."""

_PROCESS_S = 0.05
_BATCH_LENGTHS = 1.5  # of the least length asked for: batches are doubled until they reach it


def process_s(batches: int, warmup: int, min_batch_ms: int) -> float:
    """What a process of ``batches`` and ``warmup`` batches takes, in seconds."""
    return _PROCESS_S + (batches + warmup) * _BATCH_LENGTHS * min_batch_ms / 1000
