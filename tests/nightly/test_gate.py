"""The gate's rule, by numbers."""

from dataclasses import replace

import pytest

from labctl.nightly.baseline import changes, system_of
from labctl.nightly.gate import Seen, _compared, stand
from labctl.nightly.record import CellResult
from labctl.stats import Estimate


def seen(low: float, high: float, barred: str = "") -> Seen:
    estimate = Estimate(
        value=(low * high) ** 0.5, low=low, high=high, level=0.95, method="", warnings=(), n_boots=6,
        n_processes=24, n_batches=72, family_low=low, family_high=high,
    )  # fmt: skip
    return Seen(estimate, barred, ())


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (1.11, 1.2, "slower"),
        (1.09, 1.2, "cannot tell"),
        (0.95, 1.05, "same"),
        (1.02, 1.08, "same"),  # surely another, and within the margin all the same
        (0.8, 0.9, "faster"),
        (0.8, 0.95, "cannot tell"),
    ],
)
def test_a_cell_stands_where_its_whole_interval_does(low: float, high: float, state: str) -> None:
    assert stand(seen(low, high), 0.1) == state


def test_what_is_barred_cannot_be_told() -> None:
    assert stand(seen(1.5, 1.6, barred="another machine"), 0.1) == "cannot tell"


def test_a_system_is_its_kernel_and_image_and_not_how_it_was_started() -> None:
    identity = {"kind": "vm", "kernel": "6.1", "image_key": "k", "asked_cmdline": "quiet"}
    facts = {"kernel_version": "#1", "cmdline": "quiet", "cpu_model": "X"}
    one = system_of(identity, facts)
    assert changes(one, system_of(identity | {"asked_cmdline": "slow"}, facts)) == []
    assert changes(one, system_of(identity, facts | {"kernel_version": "#2"})) == [
        "kernel_version #1 -> #2"
    ]
    assert changes(one, system_of(identity | {"image_key": "l"}, facts)) == ["image_key k -> l"]


def test_a_cell_shows_the_interval_that_its_state_rests_on() -> None:
    wide = replace(seen(0.95, 1.05).ratio, family_low=0.8, family_high=1.2)
    cell = CellResult(target="t", workload="w", threads=1, state="same")
    same = _compared(cell, Seen(wide, "", ()), None, 0.1)
    assert same.state == "same"
    assert str(same.ratio) == "0.999 [0.950, 1.05]"
    open_ = replace(wide, low=0.85, high=1.15)
    assert str(_compared(cell, Seen(open_, "", ()), None, 0.1).ratio) == "0.999 [0.800, 1.20]"
