"""The plan: complete, randomised within each round, reproducible, honest about what is left out."""

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import ConfigError
from labctl.stats.kalibera_jones import Costs
from labctl.sweep.plan import Design, Plan, TargetInfo, make_plan
from labctl.sweep.price import FACTS_S, Price, Prices, longest, prices_by_machine
from labctl.workloads import load_workloads

KNOWN = load_workloads()
METAL = TargetInfo("metal", "linux", "local")
LINUX = TargetInfo("linux", "linux", "local")
NETBSD = TargetInfo(
    "netbsd", "netbsd", "local", {"kqtest": {"rearm": ["oneshot", "clear", "level"]}}
)
BOX = TargetInfo("box", "linux", "box")


def plan(
    workloads: tuple[str, ...] = ("kqtest",),
    targets: tuple[TargetInfo, ...] = (METAL, LINUX),
    threads: tuple[int, ...] | None = (1, 2, 4),
    params: dict[str, list[str]] | None = None,
    **design: int,
) -> Plan:
    return make_plan(
        workloads=workloads,
        targets=targets,
        known=KNOWN,
        threads=threads,
        params=params or {},
        design=Design(**design),
    )


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_every_cell_stands_once_in_every_round(rounds: int, boots: int, seed: int) -> None:
    made = plan(rounds=rounds, boots=boots, seed=seed)
    counts = Counter((e.boot, e.round, e.cell.key) for e in made.executions)
    assert set(counts.values()) == {1}
    assert len(counts) == rounds * boots * 2 * 3
    assert [e.id for e in made.executions] == list(range(len(made.executions)))


def test_rounds_follow_one_another_and_differ_in_order() -> None:
    made = plan(rounds=6, threads=(1, 2, 4, 8, 16))
    orders = [
        [e.cell.key for e in group] for _, group in groupby(made.executions, lambda e: e.round)
    ]
    assert len(orders) == 6
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == sorted(orders[0]) for order in orders)


def test_a_seed_makes_the_same_plan_again_and_another_a_different_one() -> None:
    assert plan(seed=1).digest == plan(seed=1).digest
    assert plan(seed=1).digest != plan(seed=2).digest


def test_the_order_on_a_machine_does_not_depend_on_other_machines() -> None:
    alone = [e.cell.key for e in plan(targets=(BOX,)).executions]
    among = [e.cell.key for e in plan(targets=(METAL, BOX)).executions if e.cell.target == "box"]
    assert alone == among


def test_kqtest_runs_each_systems_own_form() -> None:
    made = plan(targets=(METAL, NETBSD))
    forms = {e.cell.target: (e.cell.workload, e.cell.program) for e in made.executions}
    assert forms == {"metal": ("kqtest", "eptest"), "netbsd": ("kqtest", "kqtest")}
    assert {e.cell.form for e in made.executions} == {"epoll", "kqueue"}


def test_asking_for_both_forms_measures_a_cell_once() -> None:
    assert len(plan(("kqtest", "eptest"), rounds=1).executions) == 6


def test_what_a_build_cannot_do_is_left_out_and_said() -> None:
    made = plan(targets=(METAL, NETBSD), params={"rearm": ["oneshot", "dispatch"]}, rounds=1)
    values = {(e.cell.target, e.cell.params["rearm"]) for e in made.executions}
    assert values == {("metal", "oneshot"), ("netbsd", "oneshot")}
    assert any("netbsd" in text and "dispatch" in text for text in made.skipped)
    assert any("metal" in text and "dispatch" in text for text in made.skipped)


def test_clear_and_edge_are_one_thing() -> None:
    made = plan(targets=(METAL,), params={"rearm": ["clear"]}, threads=(1,), rounds=1)
    assert [e.cell.params["rearm"] for e in made.executions] == ["edge"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workloads": ("kqtset",)}, "no workload 'kqtset'"),
        ({"params": {"colour": ["red"]}}, "no workload of this sweep has a parameter 'colour'"),
        ({"params": {"rearm": ["sometimes"]}}, "'sometimes' is not one of"),
        ({"workloads": ("urandom",), "params": {"size": ["0"]}}, "below the least value"),
        ({"workloads": ("urandom",), "params": {"size": ["big"]}}, "not a whole number"),
        ({"params": {"rearm": ["exclusive"]}, "targets": (NETBSD,)}, "nothing to run"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(**change)  # type: ignore[arg-type]


MACHINES = {"metal": "local", "linux": "local", "box": "box"}


def price(made: Plan, prices: Prices | None = None) -> dict[str, Price]:
    return prices_by_machine(made.executions, MACHINES, made.design, prices or Prices())


def test_the_estimate_adds_up_on_one_machine_and_not_over_two() -> None:
    one = longest(price(plan(targets=(METAL,))))
    assert longest(price(plan(targets=(METAL, LINUX)))) == pytest.approx(2 * one)
    assert longest(price(plan(targets=(METAL, BOX)))) == pytest.approx(one)


def test_the_estimate_has_a_reboot_for_every_boot_but_the_first_of_who_may_be_rebooted() -> None:
    made = plan(boots=3)
    still, rebooting = price(made)["local"], price(made, Prices({"linux": 40.0}))["local"]
    assert (still.reboots, rebooting.reboots) == (0, 2)
    assert rebooting.reboot_s == 80
    assert rebooting.seconds - still.seconds == pytest.approx(80)
    assert rebooting.processes == len(made.executions) == 3 * 12 * 6


def test_the_estimate_takes_what_cells_cost_before() -> None:
    made = plan(targets=(METAL,), threads=(1,), rounds=4, batches=5)
    cost = Costs(batch=2.0, process=7.0)
    known = price(made, Prices(cells={made.executions[0].cell.key: cost}))["local"]
    assert known.seconds == pytest.approx(4 * (7 + 5 * 2) + 2 * FACTS_S)
