"""Nights on real machines: this one, one that is disturbed, and a guest that is made slower.

Margins are wide: the machine that runs the tests is not quiet.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labctl.cli.app import State
from labctl.cli.nightly import _Told
from labctl.nightly.asked import Asked
from labctl.nightly.night import spend
from labctl.request import Request
from labctl.session import Session
from labctl.sweep.plan import Design
from labctl.sweep.runner import Event
from tests.conftest import Labctl

DISTURBED = 2
"""Threads of the cell that is disturbed."""


def latest(labctl: Labctl) -> dict[str, Any]:
    path = labctl.directory / "results" / "nightly" / "latest" / "night.json"
    night: dict[str, Any] = json.loads(path.read_text())
    return night


@pytest.mark.slow
def test_two_nights_of_this_machine_pass(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(
        "lab: metal\ntargets: {metal: {kind: local}}\nmargin: 100%\n"
        "nightly: {workloads: [eptest, urandom], threads: [1, 2],"
        " design: {boots: 1, rounds: 6, batches: 2, min_batch_ms: 50}}\n"
    )
    labctl("nightly")
    labctl("nightly")
    night = latest(labctl)
    assert night["outcome"] == "passed"
    assert {cell["state"] for cell in night["cells"]} <= {"same", "cannot tell", "not confirmed"}
    assert all(cell["ratio"]["value"] > 0 for cell in night["cells"])


@pytest.mark.slow
def test_a_program_that_fails_twice_fails_the_night_and_makes_no_baseline(labctl: Labctl) -> None:
    (labctl.directory / "lab.yaml").write_text(
        "lab: metal\ntargets: {metal: {kind: local}}\nnightly: {workloads: [urandom],"
        " threads: [1], design: {boots: 1, rounds: 2, batches: 2, min_batch_ms: 20}}\n"
    )
    too_long = ("nightly", "--min-batch-ms", "3000", "--limit", "1")
    assert "Failed: one cell failed" in labctl(*too_long, status=1).stderr
    (cell,) = latest(labctl)["cells"]
    assert (cell["state"], cell["reason"]) == ("failed", "its program failed twice")
    assert "as a whole" in labctl("nightly", "--accept", status=2).stderr
    labctl("nightly")
    assert [cell["state"] for cell in latest(labctl)["cells"]] == ["new baseline"]


class Load:
    """Processes that take all of the CPUs when they are let."""

    def __init__(self) -> None:
        count = 4 * (os.cpu_count() or 1)
        busy = [sys.executable, "-c", "while True: pass"]
        self._processes = [subprocess.Popen(busy) for _ in range(count)]
        self.on(False)

    def on(self, wanted: bool) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT if wanted else signal.SIGSTOP)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Disturbing(_Told):
    """Shows a night as the command does, and loads the host while one cell is measured, in the
    first measurement."""

    def __init__(self, found: State, load: Load) -> None:
        super().__init__(found)
        self._load = load

    @contextlib.contextmanager
    def measuring(self, opened: Session) -> Iterator[Callable[[Event], None]]:
        with super().measuring(opened) as shown:

            def on_event(event: Event) -> None:
                shown(event)
                if event.kind == "cell" and event.execution:
                    first = not opened.run_id.endswith("-again")
                    self._load.on(first and event.execution.cell.threads == DISTURBED)

            yield on_event
            self._load.on(False)


@pytest.mark.slow
def test_a_disturbance_of_one_cell_does_not_fail_the_night(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = labctl.directory / "lab.yaml"
    file.write_text("lab: metal\ntargets: {metal: {kind: local}}\nmargin: 100%\n")
    for name, value in labctl.environment.items():
        monkeypatch.setenv(name, value)
    found = State(file=file)
    found.output.quiet = True
    design = Design(rounds=8, batches=2, min_batch_ms=200, seed=1)
    request = Request(["urandom"], ["metal"], [1, DISTURBED], {}, design)
    asked = Asked(found.lab, found.catalogue, request, labctl.directory / "results" / "nightly")
    spend(asked, _Told(found))
    load = Load()
    try:
        night = spend(asked, Disturbing(found, load))
    finally:
        load.end()
    cells = {cell.threads: cell for cell in night.cells}
    hit = cells[DISTURBED]
    assert hit.ratio is not None
    # How much a load slows a cell is the scheduler's to say; that it fails no night is ours.
    assert hit.ratio.value > 1.2, "the load is there"
    assert hit.state != "slower"
    assert night.outcome == "passed"


@pytest.mark.guest
def test_a_guest_whose_kernel_is_made_slower_fails_the_night(tmp_path: Path) -> None:
    """Memory that is filled and checked whenever it is allocated makes page faults several times
    as dear; the kernel and the image are the same."""
    labctl = Labctl(
        tmp_path, {"XDG_STATE_HOME": str(tmp_path / "s"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    )

    def lab(cmdline: str) -> None:
        (tmp_path / "lab.yaml").write_text(
            f'lab: night\ntargets: {{linux: {{kind: vm, image: debian-12, cmdline: "{cmdline}"}}}}\n'
            "margin: 50%\n"
            "nightly: {workloads: [mmapsem], threads: [1],"
            " design: {boots: 1, rounds: 12, batches: 2, min_batch_ms: 50}}\n"
        )

    slow = "slub_debug=FZPU init_on_alloc=1 init_on_free=1 page_poison=1"
    try:
        lab("")
        labctl("nightly", timeout=900)
        lab(slow)
        said = labctl("nightly", status=1, timeout=900).stderr
    finally:
        labctl("destroy", "--yes")
    assert "starting anew, as the lab file says: linux" in said
    assert "linux, mmapsem" in said
    assert "slub_debug=FZPU" in said, "what changed is named beside it"
    (cell,) = latest(labctl)["cells"]
    assert cell["state"] == "slower"
    assert cell["ratio"]["low"] > 1.5
