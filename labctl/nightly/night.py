"""Walking through a night: up, measure, judge, measure again what stood out, report, gate.

Each step is kept before the next begins (``record``), and does nothing where it is done
already; so a night that was killed at any instant goes on by being called again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labctl import guests, provision, session
from labctl.analysis import Run, open_run
from labctl.errors import (
    ConfigError,
    InterruptedByUser,
    LabctlError,
    MeasurementError,
    PartialError,
    UnavailableError,
)
from labctl.nightly import forms
from labctl.nightly.asked import Asked, Watch
from labctl.nightly.baseline import Baseline, Reference, changing
from labctl.nightly.compared import View, view
from labctl.nightly.gate import (
    Measured,
    Place,
    Seen,
    judge,
    new_baselines,
    once_more,
    why_new,
)
from labctl.nightly.kept import alone, begun, give_up, link, opened
from labctl.nightly.record import Night, Outcome
from labctl.request import Request, check, reboot_seconds
from labctl.session import REBOOT_TIMEOUT_S, Session
from labctl.sweep.journal import JOURNAL, now, read_journal
from labctl.sweep.plan import Design
from labctl.sweep.records import CalibrationRecord
from labctl.sweep.runs import check_results
from labctl.targets.base import Target
from labctl.workloads import load_workloads

DOWN_TIMEOUT_S = 60.0


def spend(asked: Asked, watch: Watch) -> Night:
    """A whole night, or the rest of one that was not finished.

    Raises:
        UnavailableError: nothing could be measured, or another night is going on here.
        ConfigError: what is asked makes no sense.
        InterruptedByUser: stopped by a signal; another call goes on.
    """
    check(asked.lab, asked.request, asked.catalogue)
    check_results(asked.lab.results_dir)
    with alone(asked.directory):
        night = opened(asked, watch)
        try:
            return _Walk(asked, watch, night).walk()
        except _OtherTargetError as error:
            watch.warn(f"night {night.night} cannot go on: {error.told}; a new one begins")
            give_up(asked.directory, night, str(error.told))
            return _Walk(asked, watch, begun(asked)).walk()


class _OtherTargetError(Exception):
    """A target is no longer what the night began with."""

    def __init__(self, told: ConfigError) -> None:
        super().__init__(str(told))
        self.told = told


class _Walk:
    """One night's steps."""

    def __init__(self, asked: Asked, watch: Watch, night: Night) -> None:
        self._asked, self._watch, self._night = asked, watch, night
        self._lab = asked.lab
        self._baseline = Baseline()
        self._baseline.take(night.baseline)
        self._is_up = False

    def walk(self) -> Night:
        """Everything that is left to do."""
        if self._night.missing is None:
            lost = self._measure(self._night.run, self._request())
            self._keep(missing=lost)
        run, bases = self._open(self._night.run), self._bases()
        new = new_baselines(run, self._baseline, bases)
        first = view(run, None, self._baseline, bases)
        measured = _measured(run, first.seen, new)
        wanted = once_more(measured, self._night.margin)
        if wanted and self._night.again_missing is None:
            self._keep(again_missing=self._measure_again(measured, wanted))
        if not wanted or not self._has(self._night.again):
            return self._finish(first, new, measured, None)
        again = self._open(self._night.again)
        seen = view(run, again, self._baseline, bases)
        measured = _measured(run, seen.seen, new)
        return self._finish(seen, new, measured, _measured(again, seen.again, new))

    def _keep(self, **values: object) -> None:
        self._night = self._night.model_copy(update=values)
        self._night.write(self._directory)

    @property
    def _directory(self) -> Path:
        return self._asked.directory / self._night.night

    def _has(self, run: str) -> bool:
        return (self._lab.results_dir / run / JOURNAL).is_file()

    # -- measuring

    def _request(self) -> Request:
        design = replace(self._asked.request.design, seed=self._night.seed)
        return replace(
            self._asked.request,
            design=design,
            run=self._night.run,
            named=False,
            operations=self._operations(),
        )

    def _operations(self) -> dict[str, CalibrationRecord]:
        """Batches are as long as the baseline's were, in operations."""
        wanted = {(r.target, r.workload): r.run for r in self._night.baseline}
        found: dict[str, CalibrationRecord] = {}
        for run in sorted(set(wanted.values())):
            if not self._has(run):
                continue
            view = read_journal(self._lab.results_dir / run, samples=False)
            if view.header.min_batch_ms != self._asked.request.design.min_batch_ms:
                continue
            keys = {
                e.cell.key
                for e in view.executions
                if wanted.get((e.cell.target, e.cell.workload)) == run
            }
            found |= {key: r for key, r in view.calibrations.items() if key in keys}
        return found

    def _measure(self, run: str, request: Request) -> dict[str, str]:
        """Measure a run, or the rest of it; targets that were lost, and why."""
        begun = self._has(run)
        if begun and not read_journal(self._lab.results_dir / run, samples=False).pending():
            return {}
        request, absent = self._there(request)
        if begun:
            absent = {}  # whoever has something left to do is found missing by going on
        elif run == self._night.run:
            self._keep(not_up=absent)
        opened = self._session(run, request)
        for text in opened.notices:
            self._watch.warn(text)
        with self._watch.measuring(opened) as on_event:
            outcome = opened.run(on_event=on_event, limit_s=self._asked.limit_s)
        if outcome.stopped:
            raise InterruptedByUser(
                "stopped; what was measured is kept", hint="labctl nightly goes on with this night"
            )
        # Cells that failed and targets that were lost are judged with the rest.
        with contextlib.suppress(MeasurementError, PartialError):
            session.conclude(opened, outcome)
        known = opened.journal.view.header.missing
        lost = {name: e.message for name, e in outcome.lost.items() if name not in known}
        return absent | lost

    def _there(self, request: Request) -> tuple[Request, dict[str, str]]:
        """The request without the targets that do not come up, and why these do not.

        Raises:
            UnavailableError: none of them does.
        """
        errors = self._up(request.targets)
        names = [name for name in request.targets if name not in errors]
        absent = {name: error.message for name, error in errors.items()}
        if not names:
            raise UnavailableError(
                "no target came up",
                detail="\n".join(f"{name}: {why}" for name, why in absent.items()),
                hint=next(iter(errors.values())).hint,
            )
        return replace(request, targets=names), absent

    def _session(self, run: str, request: Request) -> Session:
        if self._has(run):
            try:
                return session.resume(self._lab, run, self._asked.catalogue)
            except ConfigError as error:
                raise _OtherTargetError(error) from None
        with self._watch.steps() as progress:
            return session.start(self._lab, request, self._asked.catalogue, progress=progress)

    def _up(self, names: Sequence[str]) -> dict[str, LabctlError]:
        """Bring targets up as the lab file says; errors of those that do not come.

        A guest that runs otherwise (its command line was changed, say) is stopped first.
        """
        if self._is_up:
            return {}
        errors = dict(self._watch.up(list(names)))
        other = [name for name, e in errors.items() if isinstance(e, guests.DiffersError)]
        if other:
            self._watch.say(f"starting anew, as the lab file says: {', '.join(other)}")
            provision.down(self._lab, other, timeout=DOWN_TIMEOUT_S)
            errors = {n: e for n, e in errors.items() if n not in other}
            errors |= self._watch.up(other)
        self._is_up = True
        return errors

    def _measure_again(self, measured: Measured, wanted: frozenset[str]) -> dict[str, str]:
        """Measure just these cells once more, in another boot where there may be one."""
        cells = [cell for cell in measured.cells() if cell.key in wanted]
        names = list(dict.fromkeys(cell.target for cell in cells))
        count = f"{len(cells)} cells" if len(cells) > 1 else "one cell"
        self._watch.say(f"measuring {count} of {', '.join(names)} again")
        first = self._request()
        request = replace(
            first,
            targets=names,
            run=self._night.again,
            only=wanted,
            design=again_design(first.design),
            operations=read_journal(
                self._lab.results_dir / self._night.run, samples=False
            ).calibrations,
        )
        try:
            if not self._has(self._night.again):
                self._up(names)
                self._reboot(names)
            return self._measure(self._night.again, request)
        except UnavailableError as error:
            self._watch.warn(f"nothing can be measured again: {error}")
            return dict.fromkeys(names, error.message)

    def _reboot(self, names: Collection[str]) -> None:
        """Another boot of the targets that may be rebooted; one that does not come back is
        found missing by what follows."""
        allowed = [name for name in names if name in reboot_seconds(self._lab, names)]
        if not allowed:
            return
        with self._watch.steps() as progress:
            found = provision.ready(self._lab, allowed, self._asked.catalogue, progress=progress)
            for name, target in found.items():
                if not isinstance(target, LabctlError):
                    progress(name, "rebooting")
                    self._rebooted(target)

    def _rebooted(self, target: Target) -> None:
        try:
            provision.reboot(self._lab, target, self._asked.catalogue, timeout=REBOOT_TIMEOUT_S)
        except LabctlError as error:
            self._watch.warn(f"{target.name}: not rebooted: {error.message}")
        finally:
            target.close()

    # -- judging and reporting

    def _open(self, name: str) -> Run:
        return open_run(self._lab.results_dir / name)

    def _finish(
        self,
        seen: View,
        new: Mapping[tuple[str, str], Reference],
        measured: Measured,
        again: Measured | None,
    ) -> Night:
        night = self._night
        lost = (night.missing or {}) | night.not_up
        why = {key: why_new(r, self._baseline.of(*key)) for key, r in new.items()}
        unfit = measured.unfit()
        taken = {k: r for k, r in new.items() if r.target not in lost and k not in unfit}
        cells = judge(
            measured,
            again,
            baseline=self._baseline,
            new=why,
            lost=lost,
            again_lost=night.again_missing or {},
            margin=night.margin,
        )
        changes = [
            f"{target}, {workload}: tonight's run is the new baseline: {why[target, workload]}"
            for target, workload in taken
        ]
        done = night.model_copy(update={"cells": cells, "changes": changes})
        done = done.model_copy(update={"outcome": outcome_of(done), "finished": now()})
        forms.write(done, seen.whole, self._directory, load_workloads())
        with changing(self._lab.results_dir) as baseline:
            baseline.take(taken.values())
        done.write(self._directory)
        link(self._asked.directory, done.night)
        return done

    def _bases(self) -> dict[str, Run]:
        return {name: self._open(name) for name in sorted(self._baseline.runs) if self._has(name)}


def _measured(run: Run, seen: Mapping[Place, Seen], new: Collection[tuple[str, str]]) -> Measured:
    """A run with what is compared of it: nothing of what gets a new baseline."""
    return Measured(run, {place: s for place, s in seen.items() if place[:2] not in new})


def again_design(design: Design) -> Design:
    """The design of the second measurement: few cells, so each can have twice the rounds."""
    return replace(design, rounds=2 * design.rounds, seed=design.seed + 1)


def outcome_of(night: Night) -> Outcome:
    """What a night comes to, the worst first."""
    if night.having("slower"):
        return "regressed"
    if night.having("failed"):
        return "failed"
    if night.having("missing", "not measured again"):
        return "partial"
    return "passed"
