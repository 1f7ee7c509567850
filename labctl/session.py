"""A sweep from request to finished run: connect, check, plan, open the journal, walk.

This is what the ``sweep`` verb calls; ``labctl.sweep`` has the parts.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from labctl import provision
from labctl.errors import (
    ConfigError,
    InterruptedByUser,
    LabctlError,
    MeasurementError,
    PartialError,
    UnavailableError,
)
from labctl.identity import check_same, facts_of, identity_of
from labctl.images.catalogue import Recipe
from labctl.lab import Lab
from labctl.request import (
    Preview,
    Request,
    check,
    new_seed,
    one_boot_notices,
    plan_of,
    preview,
    reboot_seconds,
    system_of,
)
from labctl.sweep.adaptive import Phases, design_of, open_cells
from labctl.sweep.journal import Journal, create_run, now, read_journal
from labctl.sweep.plan import TargetInfo
from labctl.sweep.price import Prices, longest, prices_by_machine
from labctl.sweep.records import Execution, Header, Note, PhaseRecord
from labctl.sweep.runner import Event, Outcome, Runner
from labctl.sweep.runs import check_results, find_run
from labctl.targets.base import Target
from labctl.version import full_version
from labctl.workloads import Capabilities, Workload, load_workloads, parse_line

__all__ = [
    "Preview",
    "Request",
    "Session",
    "conclude",
    "new_seed",
    "preview",
    "resume",
    "start",
]

REBOOT_TIMEOUT_S = 300.0


@dataclass
class Session:
    """A run opened for measuring, its targets connected."""

    lab: Lab
    catalogue: Mapping[str, Recipe]
    journal: Journal
    targets: dict[str, Target]
    retry_failed: bool = False
    notices: list[str] = field(default_factory=list)
    missing: dict[str, LabctlError] = field(default_factory=dict)
    """Targets that were asked for and could not be had, and why."""

    @property
    def run_id(self) -> str:
        """The run's name, which is its directory's."""
        return self.journal.path.parent.name

    @property
    def pending(self) -> int:
        """How many executions are left."""
        return len(self.journal.view.pending(retry_failed=self.retry_failed))

    @property
    def adaptive(self) -> bool:
        """Whether further phases are decided as it goes."""
        return bool(open_cells(self.journal.view))

    @property
    def estimate_s(self) -> float:
        """Expected duration of what is left, in seconds."""
        return self._seconds(self.journal.view.pending(retry_failed=self.retry_failed))

    def run(self, *, on_event: Callable[[Event], None], limit_s: int) -> Outcome:
        """Measure what is left. SIGINT and SIGTERM end it soon, with all samples kept."""
        runner = Runner(
            self.journal,
            self.targets,
            facts=lambda target: facts_of(self.lab, target),
            reboot=lambda target: provision.reboot(
                self.lab, target, self.catalogue, timeout=REBOOT_TIMEOUT_S
            ),
            on_event=on_event,
            limit_s=limit_s,
            retry_failed=self.retry_failed,
            lost=self.missing,
            next_phase=self._phases(on_event).next,
            machines=list(open_cells(self.journal.view)),
        )
        try:
            with _stopped_by_signals(runner):
                outcome = runner.run()
            if outcome.stopped:
                self.journal.append(Note(time=now(), message="interrupted"), durable=True)
            return outcome
        finally:
            self.journal.close()
            for target in self.targets.values():
                target.close()

    def _phases(self, on_event: Callable[[Event], None]) -> Phases:
        def tell(phase: PhaseRecord) -> None:
            on_event(Event("phase", phase.machine, phase=phase))

        return Phases(self.journal, reboots=reboot_seconds(self.lab, self.targets), on_phase=tell)

    def _seconds(self, executions: Sequence[Execution]) -> float:
        machines = {name: self.lab.machine_of(name) for name in self.lab.targets}
        prices = Prices(reboot_seconds(self.lab, self.targets))
        design = design_of(self.journal.view.header)
        return longest(prices_by_machine(executions, machines, design, prices))


def start(
    lab: Lab, request: Request, catalogue: Mapping[str, Recipe], *, progress: provision.Progress
) -> Session:
    """Connect the targets, see that the workloads are deployed, plan, and create the run.

    Every target is checked before anything is measured. One of the lab's that cannot be had
    is left out: with a notice, in the run's design, and in how the sweep ends.

    Raises:
        ConfigError: the request makes no sense.
        UnavailableError: no target answers, or one that was named does not.
    """
    known = load_workloads()
    check(lab, request, catalogue)
    check_results(lab.results_dir)
    targets, missing = _connect(lab, request.targets, catalogue, progress)
    if missing and request.named:
        for target in targets.values():
            target.close()
        raise _cannot_be_had(missing, f"cannot be measured: {', '.join(missing)}")
    left_out = [_left_out(name, error) for name, error in missing.items()]
    infos = {name: _info(target, known) for name, target in targets.items()}
    plan = plan_of(request, list(infos.values()), known)
    used = {execution.cell.target for execution in plan.executions}
    header = Header(
        run=request.run or _run_id(request, lab),
        created=now(),
        labctl=full_version(),
        lab=lab.model_dump(mode="json", exclude={"path"}),
        targets={n: identity_of(lab, t, infos[n]) for n, t in targets.items() if n in used},
        workloads=list(request.workloads),
        plan_digest=plan.digest,
        executions=list(plan.executions),
        skipped=[*plan.skipped, *left_out],
        missing={name: error.message for name, error in missing.items()},
        until=request.until,
        **asdict(plan.design),
    )
    one_boot = one_boot_notices(lab, request.design, sorted(used))
    cells = {execution.cell.key for execution in plan.executions}
    operations = [
        record.model_copy(update={"time": header.created})
        for key, record in request.operations.items()
        if key in cells
    ]
    directory = create_run(lab.results_dir, header, operations)
    for name in set(targets) - used:
        targets.pop(name).close()
    journal = Journal(directory)
    for name, text in one_boot.items():
        journal.append(Note(time=now(), target=name, message=text))
    return Session(
        lab,
        catalogue,
        journal,
        targets,
        notices=[
            *(f"left out: {text}" for text in [*left_out, *plan.skipped]),
            *(f"{name}: {text}" for name, text in one_boot.items()),
        ],
        missing=missing,
    )


def resume(
    lab: Lab, run: str, catalogue: Mapping[str, Recipe], *, retry_failed: bool = False
) -> Session:
    """Open an unfinished run again.

    Raises:
        ConfigError: no such run; the lab file no longer has one of its targets; a target's
            kernel or program is not what the run began with.
        UnavailableError: no target answers, or another labctl is at work on the run.
    """
    directory = find_run(lab.results_dir, run)
    journal = Journal(directory)
    try:
        header = journal.view.header
        if header.imported is not None:
            raise ConfigError(
                f"the run {directory.name} was imported: there is nothing to go on with",
                where="--resume",
                hint="labctl sweep makes a run of its own",
            )
        needed = {e.cell.target for e in journal.view.pending(retry_failed=retry_failed)}
        needed |= {c.target for cells in open_cells(journal.view).values() for c in cells}
        for name in sorted(needed - set(lab.targets)):
            raise ConfigError(
                f"the run {directory.name} needs the target {name!r}",
                where=str(lab.path),
                hint="declare it again, or start a new sweep",
            )
        targets, missing = _connect(lab, sorted(needed), catalogue, lambda *_: None)
        known = load_workloads()
        for name, target in targets.items():
            now_is = identity_of(lab, target, _info(target, known))
            programs = {e.cell.program for e in header.executions if e.cell.target == name}
            check_same(name, header.targets[name], now_is, programs)
        if needed:  # else nothing is gone on with, and the journal stays as it is
            journal.append(Note(time=now(), message="resumed"), durable=True)
    except BaseException:
        journal.close()
        raise
    return Session(lab, catalogue, journal, targets, retry_failed, missing=missing)


def conclude(session: Session, outcome: Outcome) -> None:
    """Turn how a walk ended into what the exit code says.

    Raises:
        InterruptedByUser: stopped by a signal.
        PartialError: a target was lost; the rest can be resumed.
        MeasurementError: a cell failed.
    """
    again = f"labctl sweep --resume {session.run_id}"
    if outcome.stopped:
        raise InterruptedByUser("stopped; what was measured is kept", hint=f"go on: {again}")
    if outcome.lost and not outcome.done and _never_began(session):
        shutil.rmtree(session.journal.path.parent)
        raise UnavailableError(
            "nothing could be measured",
            detail="\n".join(f"{name}: {error.message}" for name, error in outcome.lost.items()),
            hint=next(iter(outcome.lost.values())).hint,
        )
    if outcome.lost:
        what = "\n".join(f"{name}: {error.message}" for name, error in outcome.lost.items())
        left = read_journal(session.journal.path, samples=False)
        if left.pending() or open_cells(left):
            raise PartialError("not all of the sweep was done", detail=what, hint=f"go on: {again}")
        if not outcome.failed:
            raise PartialError(
                f"run {session.run_id} is complete without {', '.join(outcome.lost)}",
                detail=what,
                hint=f"labctl report {session.run_id}; a sweep after `labctl up` has them again",
            )
    if outcome.failed:
        failures = read_journal(session.journal.path, samples=False).failed
        raise MeasurementError(
            f"{len(failures)} cells failed; the others are measured",
            where=session.run_id,
            hint=f"labctl report {session.run_id} says which; {again} --retry-failed",
        )


# -- targets -----------------------------------------------------------------------------


def _never_began(session: Session) -> bool:
    """Whether no attempt of the run was ever begun: there is nothing to keep."""
    return not read_journal(session.journal.path, samples=False).attempts


def _connect(
    lab: Lab, names: Sequence[str], catalogue: Mapping[str, Recipe], progress: provision.Progress
) -> tuple[dict[str, Target], dict[str, LabctlError]]:
    """Connected, deployed targets; and those that cannot be had, with why."""
    results = provision.ready(lab, names, catalogue, progress=progress)
    good = {name: r for name, r in results.items() if not isinstance(r, LabctlError)}
    bad = {name: r for name, r in results.items() if isinstance(r, LabctlError)}
    if bad and not good:
        raise _cannot_be_had(bad, "no target can be measured")
    return good, bad


def _cannot_be_had(bad: Mapping[str, LabctlError], message: str) -> UnavailableError:
    first = next(iter(bad.values()))
    return UnavailableError(
        message,
        detail="\n".join(f"{n}: {e.message}\n{e.detail}".rstrip() for n, e in bad.items()),
        hint=first.hint or "labctl up",
    )


def _left_out(name: str, error: LabctlError) -> str:
    """One line of who is missing, why, and what to do."""
    return f"{name}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _info(target: Target, known: Mapping[str, Workload]) -> TargetInfo:
    """System and capabilities, asked of the target itself."""
    system = system_of(target)
    capabilities = {}
    for workload in known.values():
        if system in workload.systems:
            program = shlex.quote(f"{target.workdir}/bin/{workload.program}")
            result = target.run(f"{program} --capabilities")
            line = parse_line(result.stdout.strip()) if result.ok else None
            if isinstance(line, Capabilities):
                capabilities[workload.program] = line.params
    return TargetInfo(target.name, system, target.machine, capabilities)


def _run_id(request: Request, lab: Lab) -> str:
    """Time and workloads, made unique: ``20240131-120000-kqtest``."""
    base = time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + "-".join(request.workloads[:2])
    name, number = base, 2
    while (lab.results_dir / name).exists():
        name, number = f"{base}-{number}", number + 1
    return name


@contextlib.contextmanager
def _stopped_by_signals(runner: Runner) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the runner instead of tearing the process down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: object) -> None:
        # A handler must be quick and must not take locks that the main thread holds.
        threading.Thread(target=runner.stop, daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
