"""The simulated model against what it states, by moments of many draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from labctl.sim import field
from labctl.sim.model import SimulatedMachine, log_factor
from labctl.sim.spec import Curve, Drift, Noise, Outliers, Times, Warmup

SILENT = Noise(boot=0, process=0, batch=0)
MANY = np.arange(4000)[:, None]


def draw(times: Times, *, name: str = "m", host: str = "sim", **places: Any) -> np.ndarray:
    given: dict[str, Any] = {
        "seed": MANY, "threads": 1, "cell": 5, "boot": 0, "process": np.arange(6), "hours": 0.0,
        "batches": 4,
    }  # fmt: skip
    return SimulatedMachine(times, name=name, host=host).draw(**{**given, **places})


@pytest.mark.parametrize(
    ("curve", "factors"),
    [
        (Curve(), [1, 1, 1]),
        (Curve(law="linear", slope=0.5), [1, 1.5, 8.5]),
        (Curve(law="power", exponent=0.5), [1, 2**0.5, 4]),
        (Curve(law="usl", contention=0.1, coherence=0.01), [1, 1.12 / 2, 4.9 / 16]),
        (Curve(law="table", at=((2, 2.0), (8, 8.0))), [2, 2, 8]),
    ],
)
def test_curves(curve: Curve, factors: list[float]) -> None:
    assert np.exp(log_factor(curve, [1, 2, 16])) == pytest.approx(factors)
    if curve.law == "table":
        assert np.exp(log_factor(curve, 4)) == pytest.approx(4)


def test_the_truth_is_what_is_drawn_without_noise() -> None:
    times = Times(
        base_us=3, factor=2, growth=Curve(law="linear", slope=1), noise=SILENT,
        amplification=Curve(law="power", exponent=0.5),
    )  # fmt: skip
    drawn = draw(times, threads=4)
    assert np.exp(drawn) == pytest.approx(3 * 2 * 4 * 2)
    assert np.exp(SimulatedMachine(times, name="m").log_mean(4)) == pytest.approx(48)


@pytest.mark.parametrize("freedom", [None, 5.0])
def test_each_level_has_its_stated_spread(freedom: float | None) -> None:
    noise = Noise(boot=0.05, boot_cell=0.03, process=0.04, batch=0.02, freedom=freedom)
    boots = np.arange(3)[:, None]
    drawn = draw(Times(noise=noise), seed=MANY[:, None], boot=boots)
    other_cell = draw(Times(noise=noise), seed=MANY[:, None], boot=boots, cell=6)
    batch = drawn.std(axis=-1, ddof=1)
    assert np.sqrt((batch**2).mean()) == pytest.approx(0.02, rel=0.05)
    assert drawn.std() == pytest.approx(np.sqrt(0.05**2 + 0.03**2 + 0.04**2 + 0.02**2), rel=0.05)
    # A boot is alike in all cells; its share of their covariance is all that they have.
    covariance = np.cov(drawn[:, :, 0, 0].ravel(), other_cell[:, :, 0, 0].ravel())[0, 1]
    assert covariance == pytest.approx(0.05**2, rel=0.1)


def test_correlations() -> None:
    noise = Noise(boot=0, process=0.05, batch=0, process_correlation=0.6)
    processes = draw(Times(noise=noise), process=np.arange(12))[..., 0]
    assert processes.std(axis=0) == pytest.approx(np.full(12, 0.05), rel=0.05)
    for lag in (1, 2, 5):
        found = np.corrcoef(processes[:, 3], processes[:, 3 + lag])[0, 1]
        assert found == pytest.approx(0.6**lag, abs=0.05)
    noise = Noise(boot=0, process=0, batch=0.05, batch_correlation=0.7)
    batches = draw(Times(noise=noise))
    assert np.corrcoef(batches[:, 0, 0], batches[:, 0, 3])[0, 1] == pytest.approx(0.343, abs=0.05)
    assert batches.std() == pytest.approx(0.05, rel=0.05)


def test_outliers_are_part_of_the_stated_mean() -> None:
    times = Times(noise=SILENT, outliers=Outliers(process_rate=0.1, batch_rate=0.05, factor=2))
    drawn = draw(times)
    machine = SimulatedMachine(times, name="m")
    assert drawn.mean() == pytest.approx(float(machine.log_mean(1)), abs=0.01)
    whole = (drawn > 0.5).all(axis=-1).mean()
    assert whole == pytest.approx(0.1, abs=0.01)


def test_warm_up_decays() -> None:
    drawn = draw(Times(noise=SILENT, warmup=Warmup(factor=1.5, batches=2)))
    assert np.exp(drawn[0, 0, 0]) == pytest.approx(1.5)
    assert drawn[0, 0, 2] == pytest.approx(np.log(1.5) / np.e)


def test_drift() -> None:
    hours = np.array([0.0, 0.1, 0.2])
    linear = draw(Times(noise=SILENT, drift=Drift(per_hour=0.5)), hours=hours, process=0)
    assert linear[0, :, 0] == pytest.approx(0.5 * hours)
    wander = Times(noise=SILENT, drift=Drift(wander=0.1, wander_minutes=6))
    course = draw(wander, hours=hours, process=0)[..., 0]
    assert course.std(axis=0) == pytest.approx(np.full(3, 0.1), rel=0.05)
    assert np.corrcoef(course[:, 0], course[:, 1])[0, 1] == pytest.approx(np.exp(-1), abs=0.05)
    cycle = Times(noise=SILENT, drift=Drift(cycle=0.1, cycle_minutes=12))
    course = draw(cycle, hours=hours, process=0)[..., 0]
    assert course[:, 2] == pytest.approx(course[:, 0])
    assert course.std() == pytest.approx(0.1 / np.sqrt(2), rel=0.05)


def test_a_shared_drift_is_one_course_and_noise_is_not() -> None:
    shared = Times(noise=SILENT, drift=Drift(wander=0.1))
    own = Times(noise=SILENT, drift=Drift(wander=0.1, shared=False))
    assert draw(shared, name="a") == pytest.approx(draw(shared, name="b"))
    assert abs(np.corrcoef(draw(own, name="a")[:, 0, 0], draw(own, name="b")[:, 0, 0])[0, 1]) < 0.1
    assert draw(shared, host="x") != pytest.approx(draw(shared, host="y"))
    a, b = (draw(Times(), name=name)[:, 0, 0] for name in "ab")
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1


def test_numbers_are_those_of_their_place_in_any_order() -> None:
    noise = Noise(process_correlation=0.5, batch_correlation=0.5, freedom=4)
    times = Times(noise=noise, drift=Drift(wander=0.1), outliers=Outliers(batch_rate=0.1))
    hours = np.arange(6) / 60
    drawn = draw(times, seed=np.arange(9)[:, None], hours=hours, threads=np.full(6, 4))
    for seed, process in ((8, 5), (0, 0), (8, 5), (3, 2)):
        alone = draw(times, seed=seed, process=process, hours=hours[process], threads=4)
        assert np.array_equal(alone, drawn[seed, process])
        longer = draw(times, seed=seed, process=process, hours=hours[process], threads=4, batches=9)
        assert np.array_equal(longer[:4], alone)


def test_uniform_numbers_are_uniform_over_every_key() -> None:
    drawn = field.uniform(np.arange(300)[:, None], np.arange(300))
    assert np.histogram(drawn, bins=10, range=(0, 1))[0] == pytest.approx(
        np.full(10, 9000), rel=0.04
    )
    for other in (drawn[1:, :] * drawn[:-1, :], drawn[:, 1:] * drawn[:, :-1]):
        assert other.mean() == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "power", "slope": 1}, "slope is not of the law power"),
        ({"slope": 1}, "its parameters: none"),
        ({"law": "table"}, "needs factors"),
        ({"law": "table", "at": [[1, 1.0], [1, 2.0]]}, "stands twice"),
        ({"law": "table", "at": [[0, 1.0]]}, "greater than or equal to 1"),
        ({"law": "linear", "slope": float("nan")}, "finite"),
    ],
)
def test_curves_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Curve.model_validate(given)
