"""labctl: is it the kernel, or is it the virtualization?

The layers, each importing only what stands below it::

    cli        verbs: arguments in; tables, progress and exit codes out
    report     a run as a table, a page, JSON
    analysis   a run -> samples, cells, pairs, effects, verdicts
    stats      pure: arrays in, effects and warnings out
    sweep      plan (pure) -> journal (append-only) <- runner
    deploy     Ansible                observe   facts of a machine
    targets    local, ssh, vm         workloads manifests, batch protocol
    images     guest disks            hypervisor libvirt, accelerator proof
    lab        lab.yaml as a typed model; errors, paths

In a notebook, ``labctl.open_run("results/<run>")`` has all of a run as data frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from labctl.analysis import Run

__version__ = "0.1.0"
__all__ = ["compare_runs", "open_run"]


def open_run(path: Path | str) -> Run:
    """Open a recorded run: samples, cells, effects, verdicts and facts as data frames.

    Args:
        path: a run's directory (``results/<run>``) or its journal.

    Raises:
        ConfigError: there is no journal, or a line of it is not a record.
        MeasurementError: it has no header, or does not fit its own plan.
    """
    from labctl.analysis import open_run as opened  # pandas is slow to import: only when asked

    return opened(path)


def compare_runs(baseline: Run, new: Run) -> Run:
    """What changed from one opened run to another, as a run whose pairs are of the new run
    against the baseline; see ``labctl.analysis.compare_runs``.

    Raises:
        ConfigError: they have no target in common.
    """
    from labctl.analysis import compare_runs as compared

    return compared(baseline, new)
