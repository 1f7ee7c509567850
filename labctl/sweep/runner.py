"""The runner: walks what is left of a run, one cell at a time on each physical machine.

Machines work side by side, each in a thread of its own; where the sweep is adaptive, a machine
that is through asks for its next phase (labctl.sweep.adaptive). A target has one persistent
shell. A benchmark command is never run again by itself: what was interrupted is a new
attempt in the journal, of the next `--resume`. Nothing is printed; events go to a callback.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from labctl.errors import LabctlError, MeasurementError, UnavailableError
from labctl.observe.facts import Facts
from labctl.observe.noise import noise_checks
from labctl.sweep.calibration import BATCHES, settle, told
from labctl.sweep.journal import Journal, now
from labctl.sweep.process import batch_command, reason, sample_of
from labctl.sweep.records import (
    Begin,
    CalibrationRecord,
    Cell,
    EndRecord,
    Execution,
    FactsRecord,
    Failure,
    Note,
    PhaseRecord,
)
from labctl.targets.base import Shell, Target
from labctl.targets.lock import Lease, claim
from labctl.workloads import Batch, Calibration, End, Start, parse_line

P = ParamSpec("P")
NextPhase = Callable[[str, Collection[str]], PhaseRecord | None]
"""``next_phase(machine, lost_targets)``"""

REPLY_GRACE_S = 15.0
"""How long past a cell's own limit its reply may take before it counts as lost."""


@dataclass(frozen=True)
class Event:
    """Something that happened, for a progress display: ``kind`` is "cell", "sample", "done",
    "failed", "boot", "lost", "facts", "noise" or "phase" (``target`` is then a machine)."""

    kind: str
    target: str
    execution: Execution | None = None
    message: str = ""
    phase: PhaseRecord | None = None


@dataclass
class Outcome:
    """How a walk ended: executions done and failed now, targets lost (name -> why)."""

    done: int = 0
    failed: int = 0
    lost: dict[str, LabctlError] = field(default_factory=dict)
    stopped: bool = False


class Runner:
    """One walk over the pending executions of a run."""

    def __init__(
        self,
        journal: Journal,
        targets: Mapping[str, Target],
        *,
        facts: Callable[[Target], dict[str, Any]],
        reboot: Callable[[Target], None],
        on_event: Callable[[Event], None],
        limit_s: int = 120,
        retry_failed: bool = False,
        lost: Mapping[str, LabctlError] | None = None,
        next_phase: NextPhase | None = None,
        machines: Collection[str] = (),
    ) -> None:
        """``targets`` are connected, but for those that are ``lost`` already; ``facts``
        collects what a boot's record says; ``reboot`` returns when another boot answers;
        ``next_phase`` gives a machine more to do, or nothing. ``machines`` are asked for their
        next phase even where nothing is pending."""
        self._journal = journal
        self._targets = targets
        self._facts = facts
        self._reboot = reboot
        self._on_event = on_event
        self._limit_s = limit_s
        self._pending = journal.view.pending(retry_failed=retry_failed)
        self._next_phase = next_phase
        self._machines = machines
        self._batches = journal.view.batches
        self._attempts = journal.view.attempts
        self._calibrations = journal.view.calibrations
        self._shells: dict[str, Shell] = {}
        self._leases: dict[str, Lease] = {}
        self._boot_ids: dict[str, str] = {}
        self._known_boots = {  # (target, planned boot, identity) that samples may be of
            (record.target, record.boot, record.boot_id)
            for record in journal.view.records
            if isinstance(record, FactsRecord)
        }
        self._noise_told: set[tuple[str, int, str]] = set()
        self._stop = threading.Event()
        self.outcome = Outcome(lost=dict(lost or {}))

    @property
    def pending(self) -> list[Execution]:
        """What this walk is to execute."""
        return self._pending

    def run(self) -> Outcome:
        """Walk to the end, or until ``stop``. Targets that are lost are left out; the rest goes on.

        Raises:
            PartialError: the journal cannot be written.
        """
        by_machine: defaultdict[str, list[Execution]] = defaultdict(list)
        by_machine |= {machine: [] for machine in self._machines}
        for execution in self._pending:
            if execution.cell.target in self.outcome.lost:
                continue
            by_machine[self._targets[execution.cell.target].machine].append(execution)
        if not by_machine:
            return self.outcome
        with ThreadPoolExecutor(len(by_machine), thread_name_prefix="machine") as pool:
            walks = [pool.submit(self._work, *machine) for machine in by_machine.items()]
            try:
                for walk in walks:
                    walk.result()
            except BaseException:
                self.stop()
                raise
            finally:
                for walk in walks:
                    walk.exception()
                self._release()
        return self.outcome

    def stop(self) -> None:
        """End soon, from any thread: what runs now is killed and becomes an interrupted attempt."""
        if self._stop.is_set():
            return
        self._stop.set()
        self.outcome.stopped = True
        for shell in list(self._shells.values()):
            shell.close()

    # -- one machine ------------------------------------------------------------------

    def _work(self, machine: str, executions: list[Execution]) -> None:
        """Everything that a physical machine has to do, phase after phase."""
        self._walk(executions)
        while self._next_phase and not self._stop.is_set():
            phase = self._next_phase(machine, self.outcome.lost)
            if phase is None:
                return
            self._batches |= {e.id: phase.batches for e in phase.executions}
            self._walk(phase.executions)

    def _walk(self, executions: list[Execution]) -> None:
        """All executions of one phase of a machine, boot after boot."""
        boots = sorted({execution.boot for execution in executions})
        for boot in boots:
            mine = [e for e in executions if e.boot == boot]
            names = list(dict.fromkeys(e.cell.target for e in mine))
            for name in names:
                self._guarded(name, self._begin_boot, name, boot)
            for execution in mine:
                name = execution.cell.target
                self._guarded(name, self._execute, execution)
            for name in names:
                self._guarded(name, self._record_facts, name, boot, "end")

    def _guarded(
        self, name: str, step: Callable[P, None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Take a step; a target that is lost in it is noted and does not take others with it."""
        if name in self.outcome.lost or self._stop.is_set():
            return
        try:
            step(*args, **kwargs)
        except UnavailableError as error:
            if self._stop.is_set():
                return
            self.outcome.lost[name] = error
            self._journal.append(Note(time=now(), target=name, message=f"lost: {error.message}"))
            self._on_event(Event("lost", name, message=error.message))

    def _begin_boot(self, name: str, boot: int) -> None:
        target = self._targets[name]
        target.connect()
        if name not in self._leases:
            self._leases[name] = claim(target, self._journal.view.header.run)
        if target.can_reboot and target.boot_id() in self._earlier(name, boot):
            self._on_event(Event("boot", name, message=f"rebooting for boot {boot + 1}"))
            self._close_shell(name)
            self._leases.pop(name).release()
            self._reboot(target)
            if target.boot_id() in self._earlier(name, boot):
                raise UnavailableError(
                    "it was to be rebooted, and its boot identity is that of an earlier boot",
                    where=name,
                    hint="see why it does not change, or sweep with --boots 1",
                )
            self._leases[name] = claim(target, self._journal.view.header.run)
        self._boot_ids[name] = target.boot_id()
        self._known_boots.add((name, boot, self._boot_ids[name]))
        self._record_facts(name, boot, "start")

    def _earlier(self, name: str, boot: int) -> set[str]:
        """Identities of a target's earlier planned boots: samples of this one must not be
        taken in any of them."""
        known = list(self._known_boots)  # other machines' threads may add theirs
        return {identity for target, at, identity in known if target == name and at < boot}

    def _record_facts(self, name: str, boot: int, moment: str) -> None:
        target = self._targets[name]
        self._on_event(Event("facts", name, message=f"facts at the {moment} of boot {boot + 1}"))
        facts = self._facts(target)
        record = FactsRecord.model_validate(
            {
                "time": now(),
                "target": name,
                "boot": boot,
                "boot_id": self._boot_ids[name],
                "moment": moment,
                "facts": facts,
            }
        )
        self._journal.append(record, durable=True)
        if moment == "start":
            for check in noise_checks(Facts.model_validate(facts)):
                if check.status != "warn" or check.name not in ("load", "processes"):
                    continue
                if (name, boot, check.name) not in self._noise_told:
                    self._noise_told.add((name, boot, check.name))
                    text = f"{check.name} {check.value}: {check.why}"
                    self._on_event(Event("noise", name, message=text))

    # -- one cell ---------------------------------------------------------------------

    def _execute(self, execution: Execution) -> None:
        cell = execution.cell
        attempt = self._attempts[execution.id] = self._attempts.get(execution.id, 0) + 1
        self._journal.append(
            Begin(
                time=now(),
                execution=execution.id,
                attempt=attempt,
                boot_id=self._boot_ids[cell.target],
            )
        )
        self._on_event(Event("cell", cell.target, execution))
        try:
            self._measure(execution, attempt)
        except MeasurementError as error:
            self._close_shell(cell.target)  # whatever the program still does must not go on
            self.outcome.failed += 1
            self._journal.append(
                Failure(
                    time=now(),
                    execution=execution.id,
                    attempt=attempt,
                    status=None,
                    message=error.message,
                    detail=error.detail,
                ),
                durable=True,
            )
            self._on_event(Event("failed", cell.target, execution, error.message))
        else:
            self.outcome.done += 1
            self._on_event(Event("done", cell.target, execution))

    def _measure(self, execution: Execution, attempt: int) -> None:
        """Run one process and journal its samples as they come.

        Raises:
            MeasurementError: the program failed or said something unexpected.
            UnavailableError: the target is lost.
        """
        cell, header = execution.cell, self._journal.view.header
        wanted = self._batches[execution.id]
        command = batch_command(
            self._targets[cell.target].workdir,
            cell,
            header,
            batches=wanted,
            ops=self._operations(cell),
            limit_s=self._limit_s,
        )
        shell = self._shell(cell.target)
        start: Start | None = None
        end: End | None = None
        batches = 0
        begun_ns = time.monotonic_ns()
        for line in shell.stream(command, timeout=self._limit_s + REPLY_GRACE_S):
            record = parse_line(line)
            if isinstance(record, Batch):
                self._journal.append(sample_of(execution, attempt, record))
                batches += record.type == "batch"
                if batches > wanted:
                    raise MeasurementError(
                        f"{cell.key}: more batches came than the {wanted} asked for",
                        where=cell.target,
                    )
                self._on_event(Event("sample", cell.target, execution))
            elif isinstance(record, Start):
                start = record
            elif isinstance(record, End):
                end = record
        total_ns = time.monotonic_ns() - begun_ns
        result = shell.last
        if result.status != 0 or end is None or batches != wanted:
            raise MeasurementError(
                f"{cell.key}: {reason(result.status, batches, wanted)}",
                detail=result.stderr.strip(),
                where=cell.target,
            )
        self._journal.append(
            EndRecord(
                time=now(),
                execution=execution.id,
                attempt=attempt,
                program_ns=end.wall_ns,
                total_ns=total_ns,
                clock_read_ns=start.clock_read_ns if start else None,
            ),
            durable=True,
        )

    def _operations(self, cell: Cell) -> int:
        """Operations a batch of a cell, found by a process of its own, once a run.

        Raises:
            MeasurementError: the program failed.
            UnavailableError: the target is lost.
        """
        if cell.key not in self._calibrations:
            found = self._calibrate(cell)
            others = list(self._calibrations.values())  # a copy: other machines add theirs
            ops, wall_ns = settle(cell, found, others, self._journal.view.header.machine_of)
            record = CalibrationRecord(time=now(), cell=cell.key, ops=ops, wall_ns=wall_ns)
            self._journal.append(record)
            self._calibrations[cell.key] = record
        return self._calibrations[cell.key].ops

    def _calibrate(self, cell: Cell) -> Calibration:
        """What the program finds for itself, with the median time of a few batches."""
        header = self._journal.view.header.model_copy(update={"warmup": 0})
        workdir = self._targets[cell.target].workdir
        command = batch_command(
            workdir, cell, header, batches=BATCHES, ops=0, limit_s=self._limit_s
        )
        shell = self._shell(cell.target)
        found = told(shell.stream(command, timeout=self._limit_s + REPLY_GRACE_S))
        if found is None or shell.last.status != 0:
            raise MeasurementError(
                f"{cell.key}: {reason(shell.last.status, 0, BATCHES)}",
                detail=shell.last.stderr.strip(),
                where=cell.target,
            )
        return found

    def _shell(self, name: str) -> Shell:
        if name not in self._shells:
            self._shells[name] = self._targets[name].shell()
            self._leases[name].cover(self._shells[name])
        return self._shells[name]

    def _close_shell(self, name: str) -> None:
        shell = self._shells.pop(name, None)
        if shell is not None:
            shell.close()

    def _release(self) -> None:
        for name in list(self._shells):
            self._close_shell(name)
        for lease in self._leases.values():
            lease.release()
        self._leases.clear()
