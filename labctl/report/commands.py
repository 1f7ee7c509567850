"""The commands that repeat a run: the same plan from the same seed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from labctl.analysis.sides import Side
from labctl.analysis.words import fact_text, plain
from labctl.sweep.records import Header


def reproduce(header: Header) -> list[str]:
    """Command lines, quoted for a POSIX shell; of an imported run, the one that imports it."""
    if header.imported is not None:
        return [plain(shlex.join(["labctl", "import", header.imported.file, "--name", header.run]))]
    cells = [execution.cell for execution in header.executions]
    used = {cell.target for cell in cells}
    targets = [name for name in header.targets if name in used]
    words = ["labctl", "sweep", *header.workloads]
    words += ["--targets", ",".join(targets)]
    words += ["--threads", ",".join(str(n) for n in sorted({cell.threads for cell in cells}))]
    for name in _unique(name for cell in cells for name in cell.params):
        values = _unique(str(cell.params[name]) for cell in cells if name in cell.params)
        words += ["--param", f"{name}={','.join(values)}"]
    for option in ("rounds", "boots", "batches", "warmup", "seed"):
        words += [f"--{option}", str(getattr(header, option))]
    words += ["--min-batch-ms", str(header.min_batch_ms)]
    if header.until:
        words += ["--until", f"{header.until.half_width * 100:g}%"]
        words += ["--at-most", f"{header.until.at_most:g}"]
        if header.until.max_seconds is not None:
            words += ["--max-time", f"{header.until.max_seconds:g}s"]
    up = ["labctl", "up", *targets]
    deploy = ["labctl", "deploy", *targets]
    return [plain(shlex.join(line)) for line in (up, deploy, words, ["labctl", "report"])]


_RAN_WITH = {
    "kernel": "kernel",
    "accelerator": "accelerator",
    "qemu_version": "QEMU",
    "machine_type": "machine",
    "cpu_model_virtual": "CPU model",
    "image_key": "build of the image",
    "cpu_model": "CPU",
    "compiler": "compiler",
}


def ran_with(sides: Iterable[Side]) -> list[str]:
    """What each target was that its lab file does not say: a repetition with another kernel,
    another build of the image or another accelerator is another experiment."""
    found = []
    for side in sides:
        told = {name: fact_text(side.facts.get(key)) for key, name in _RAN_WITH.items()}
        said = ", ".join(f"{name} {text}" for name, text in told.items() if text)
        if said and not side.role.imported and not side.role.simulated:
            found.append(f"{side.name}: {said}")
    return found


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
