"""What the terminal and the page both say of parts of the model."""

from __future__ import annotations

from labctl.analysis.words import number
from labctl.report.model import ScalabilityView


def law(found: ScalabilityView) -> str:
    """A fit of the Universal Scalability Law in words, or why there is none."""
    if found.rate is None or found.contention is None or found.coherency is None:
        return f"refused, {found.refused}"
    return (
        f"contention {number(found.contention)}, coherency {number(found.coherency)}, "
        f"greatest throughput at {number(found.peak_threads or 0)} threads, rms {found.rms:.1%}"
    )
