"""What was done in a workload: its parameters in words, and where threads had to share CPUs."""

from __future__ import annotations

from collections.abc import Mapping

from labctl.analysis.run import Run
from labctl.analysis.sides import usable_cpus
from labctl.analysis.words import listed, plain
from labctl.report.model import ParameterView
from labctl.workloads import Workload


def parameters(run: Run, workload: str, known: Mapping[str, Workload]) -> list[ParameterView]:
    """Each parameter that its program's manifest explains, with the values that were measured."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for curve in run.curves_of(workload):
        manifest = known.get(curve.program)
        for name, value in curve.params.items():
            if manifest and name in manifest.params:
                values = found.setdefault((name, manifest.params[name].help), {})
                values[str(value)] = None
    return [
        ParameterView(name=plain(name), values=[plain(value) for value in values], meaning=meaning)
        for (name, meaning), values in found.items()
    ]


def oversubscribed(run: Run, workload: str) -> list[str]:
    """Where there were more threads than CPUs: "metal: 4 and 8 threads on 2 CPUs"."""
    found: dict[str, dict[str, None]] = {}
    for curve in run.curves_of(workload):
        cpus = usable_cpus(run.sides[curve.target].facts)
        more = [str(n) for n in curve.cells if cpus is not None and n > cpus]
        if more:
            where = f"{listed(more)} threads on {cpus} CPU{'' if cpus == 1 else 's'}"
            found.setdefault(where, {})[curve.target] = None
    return [plain(f"{', '.join(names)}: {where}") for where, names in found.items()]
