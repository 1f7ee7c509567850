"""From a recorded run to what it lets one say.

``run`` opens a run and has its frames, ``group`` reads several as one; ``curves`` groups
samples; ``sides`` and ``roles`` say what each target is; ``pairs`` who is compared with
whom; ``confounders`` what else differs and what that bars; ``verdicts`` judges,
``sentences`` words it. ``expectations`` (with ``kernels`` and ``shapes``) says what a
workload was expected to show, and whether it did. The statistics are labctl.stats, and
how anything is shown is labctl.report.
"""

from __future__ import annotations

from labctl.analysis.group import beside, compare_runs
from labctl.analysis.pairs import Pair
from labctl.analysis.run import Run, open_run
from labctl.analysis.verdicts import Comparison

__all__ = ["Comparison", "Pair", "Run", "beside", "compare_runs", "open_run"]
