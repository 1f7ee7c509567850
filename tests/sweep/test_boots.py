"""Boots: a target that may be rebooted is, between boots, and its identity must have changed.

The shells, the journal and the claims are real; the machine is this one with an identity that
the test keeps, and a workload that is a shell script.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.errors import UnavailableError
from labctl.observe.facts import collect
from labctl.sweep.journal import Journal, create_run, now, read_journal
from labctl.sweep.plan import Design, TargetInfo, make_plan
from labctl.sweep.records import Begin, FactsRecord, Failure, Header
from labctl.sweep.runner import Outcome, Runner
from labctl.targets.local import LocalTarget
from labctl.workloads import load_workloads

LINE = '"ops":10,"wall_ns":1000,"user_ns":1,"sys_ns":1,"vcsw":0,"ivcsw":0,"min_thread_ops":10,"max_thread_ops":10'
PROGRAM = f"""#!/bin/sh
echo '{{"type":"calibration","ops":10,"wall_ns":1000}}'
echo '{{"type":"batch","index":0,{LINE}}}'
echo '{{"type":"end","batches":1,"wall_ns":1000}}'
"""


class Machine(LocalTarget):
    """This machine, under identities of the test's own."""

    def __init__(self, name: str, workdir: Path, *, can_reboot: bool) -> None:
        super().__init__(name, str(workdir))
        self.can_reboot = can_reboot
        self.boots = 1
        (workdir / "bin").mkdir(parents=True)
        (workdir / "bin/eptest").write_text(PROGRAM)
        (workdir / "bin/eptest").chmod(0o755)

    def boot_id(self) -> str:
        return f"{self.name}-{self.boots}"


def boots_again(target: Machine) -> None:
    target.close()
    target.boots += 1


def sweep(
    base: Path, boots: int, rebooting: Callable[[Machine], None] = boots_again
) -> tuple[Path, Callable[[], Outcome], dict[str, Machine]]:
    """A run over a machine that may be rebooted and one that may not; how to walk it."""
    machines = {
        name: Machine(name, base / name, can_reboot=name == "guest") for name in ("guest", "metal")
    }
    plan = make_plan(
        workloads=["eptest"],
        targets=[TargetInfo(name, "linux", "local") for name in machines],
        known=load_workloads(),
        threads=[1],
        params={},
        design=Design(rounds=2, boots=boots, batches=1, warmup=0, min_batch_ms=1),
    )
    header = Header(
        run="boots", created=now(), labctl="0", lab={}, workloads=["eptest"],
        targets={name: {"machine": "local"} for name in machines}, plan_digest=plan.digest,
        executions=list(plan.executions), **plan.design.__dict__,
    )  # fmt: skip
    directory = create_run(base, header)

    def walk() -> Outcome:
        with Journal(directory) as journal:
            runner = Runner(
                journal,
                machines,
                facts=lambda target: collect(target).model_dump(mode="json"),
                reboot=lambda target: rebooting(machines[target.name]),
                on_event=lambda _: None,
            )
            return runner.run()

    return directory, walk, machines


def identities(run: Path) -> dict[str, dict[int, set[str]]]:
    """target -> planned boot -> identities under which its processes ran."""
    view = read_journal(run)
    planned = {e.id: e for e in view.executions}
    found: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in view.records:
        if isinstance(record, Begin):
            execution = planned[record.execution]
            found[execution.cell.target][execution.boot].add(record.boot_id)
    return {name: dict(boots) for name, boots in found.items()}


def test_who_may_be_rebooted_is_between_boots_and_the_other_is_not(tmp_path: Path) -> None:
    run, walk, machines = sweep(tmp_path, boots=3)
    outcome = walk()
    assert (outcome.done, outcome.lost) == (3 * 2 * 2, {})
    assert identities(run) == {
        "guest": {0: {"guest-1"}, 1: {"guest-2"}, 2: {"guest-3"}},
        "metal": {boot: {"metal-1"} for boot in range(3)},
    }
    assert machines["metal"].boots == 1


def test_a_reboot_that_keeps_the_identity_is_an_error_and_the_others_go_on(tmp_path: Path) -> None:
    run, walk, _ = sweep(tmp_path, boots=2, rebooting=lambda target: target.close())
    outcome = walk()
    assert set(outcome.lost) == {"guest"}
    assert isinstance(outcome.lost["guest"], UnavailableError)
    assert "identity is that of an earlier boot" in outcome.lost["guest"].message
    assert identities(run)["guest"] == {0: {"guest-1"}}
    assert {e.cell.target for e in read_journal(run).pending()} == {"guest"}


def test_an_identity_that_comes_back_is_noticed(tmp_path: Path) -> None:
    """A snapshot that is reverted: the third boot is the first one again."""

    def revert(target: Machine) -> None:
        target.close()
        target.boots = 2 if target.boots == 1 else 1

    run, walk, _ = sweep(tmp_path, boots=3, rebooting=revert)
    assert set(walk().lost) == {"guest"}
    assert set(identities(run)["guest"]) == {0, 1}


@pytest.mark.parametrize("between", [0, 1])
def test_a_resumed_boot_is_rebooted_only_if_it_was_not_yet(tmp_path: Path, between: int) -> None:
    """Cut in boot 2, before (0) or after (1) its facts were recorded."""
    run, walk, machines = sweep(tmp_path, boots=2)
    walk()
    path = run / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    records = read_journal(run).records
    first = next(
        n for n, r in enumerate(records)
        if isinstance(r, FactsRecord) and r.boot == 1 and r.target == "guest"
    )  # fmt: skip
    path.write_bytes(b"".join(lines[: 1 + first + between]))
    machines["guest"].boots = 2  # it is up in the boot that was begun
    walk()
    assert identities(run)["guest"] == {0: {"guest-1"}, 1: {"guest-2"}}
    assert not read_journal(run).pending()


@pytest.mark.parametrize("when", ["calibrating", "measuring"])
def test_a_program_that_gives_batches_without_end_fails_and_the_others_are_measured(
    tmp_path: Path, when: str
) -> None:
    run, walk, machines = sweep(tmp_path, boots=1)
    _, calibration, batch, end = PROGRAM.splitlines()
    ends = f'*" --ops 0 "*) {calibration}; {batch}; {end}; exit' if when == "measuring" else "no) :"
    (Path(machines["metal"].workdir) / "bin/eptest").write_text(
        f'#!/bin/sh\ncase " $* " in {ends} ;; esac\nwhile :; do {batch}; done\n'
    )
    outcome = walk()
    assert (outcome.done, outcome.failed) == (2, 2)
    failures = [r.message for r in read_journal(run).records if isinstance(r, Failure)]
    wanted = 3 if when == "calibrating" else 1
    assert len(failures) == 2
    assert all(f"more batches came than the {wanted} asked for" in said for said in failures)
