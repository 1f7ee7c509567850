"""The simulated settings that ``truth.py`` tries the statistics in.

Disturbances are stated as ``labctl.sim.spec`` has them: 0.03 is 3 %. A run of the default
design is over in a minute or two of virtual time, so a drift that moves in a minute is the
kind that hurts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from labctl.sim.experiment import Experiments, Order, Side
from labctl.sim.model import SimulatedMachine
from labctl.sim.spec import Curve, Drift, Noise, Outliers, Times, Warmup
from labctl.sweep.plan import Design

DEFAULT = Design()
THREADS = (1, 2, 4, 8, 16)

GROWTH = Curve(law="power", exponent=0.3)
AMPLIFIED = Curve(law="table", at=((1, 1.0), (4, 1.2), (16, 1.4)))
NOISE = Noise(boot=0.02, process=0.03, batch=0.02)
SHARED = Drift(per_hour=1.0, wander=0.05, wander_minutes=1)
OWN_FAST = Drift(wander=0.03, wander_minutes=0.1, shared=False)
OWN_SLOW = Drift(wander=0.03, wander_minutes=1, shared=False)


@dataclass(frozen=True)
class Setting:
    """Two machines and a design. ``reboots`` says which of the two is rebooted."""

    name: str
    one: Times
    other: Times
    design: Design = DEFAULT
    reboots: tuple[bool, bool] = (True, True)

    def slower(self, factor: float) -> Setting:
        """The same with the first machine slower."""
        return replace(self, one=self.one.model_copy(update={"factor": self.one.factor * factor}))

    def draw(self, seeds: range, hours: Order | None = None) -> Experiments:
        """Experiments of this setting."""
        sides = [
            Side(SimulatedMachine(times, name=name), reboots)
            for times, name, reboots in zip(
                (self.one, self.other), ("one", "other"), self.reboots, strict=True
            )
        ]
        return Experiments(
            *sides, design=self.design, threads=THREADS, seeds=seeds, hours=hours
        )  # fmt: skip


def times(noise: Noise = NOISE, **parts: Any) -> Times:
    """A machine whose kernel makes time grow with the threads."""
    return Times.model_validate({"base_us": 2.0, "growth": GROWTH, "noise": noise, **parts})


def guest(noise: Noise = NOISE, **parts: Any) -> Times:
    """The same under a hypervisor that costs half as much again, and amplifies the growth."""
    return times(noise, factor=1.5, amplification=AMPLIFIED, **parts)


def both(name: str, design: Design = DEFAULT, **parts: Any) -> Setting:
    """Guest against metal, both disturbed alike."""
    return Setting(name, guest(**parts), times(**parts), design)


def alike(name: str, design: Design = DEFAULT, **parts: Any) -> Setting:
    """Two identical machines."""
    return Setting(name, times(**parts), times(**parts), design)


SIX_BOOTS = Design(boots=6, rounds=2)
_NOISY = Noise(boot=0.06, boot_cell=0.02)

COVERAGE = (
    both("1 boot x 12 rounds (default)"),
    both("1 boot x 6 rounds", Design(rounds=6)),
    both("3 boots x 4 rounds", Design(boots=3, rounds=4)),
    both("6 boots x 2 rounds", SIX_BOOTS),
    both("6 boots that differ by 6 %", SIX_BOOTS, noise=_NOISY),
    Setting("metal 1 boot, guest 6", guest(), times(), SIX_BOOTS, (True, False)),
    both("heavy tails (t, 3 degrees of freedom)", noise=Noise(freedom=3)),
    both("outliers (5 % take 1.5 times)", outliers=Outliers(process_rate=0.05, factor=1.5)),
    both("shared drift", drift=SHARED),
    both("shared drift, 6 boots x 2 rounds", SIX_BOOTS, drift=SHARED),
    both("each its own drift, within seconds", drift=OWN_FAST),
    both("each its own drift, within minutes (see below)", drift=OWN_SLOW),
    both("batches correlated (0.7)", noise=Noise(batch_correlation=0.7)),
    both("processes correlated (0.5)", noise=Noise(process_correlation=0.5)),
    Setting("guest 3 times as noisy", guest(Noise(process=0.09, batch=0.06)), times()),
    both("warm-up of 20 % that decays over a batch", warmup=Warmup(factor=1.2, batches=1)),
)

_STEADY = Noise(boot=0)  # two that differ by their boots are not identical in one boot each
ALIKE = (
    alike("1 boot x 12 rounds (default)", noise=_STEADY),
    alike("6 boots x 2 rounds", SIX_BOOTS),
    alike("heavy tails", noise=Noise(boot=0, freedom=3)),
    alike("shared drift", drift=SHARED, noise=_STEADY),
    alike("shared drift, 6 boots x 2 rounds", SIX_BOOTS, drift=SHARED),
    alike("a cycle of 2 minutes, 5 %", drift=Drift(cycle=0.05, cycle_minutes=2), noise=_STEADY),
    alike("each its own drift, within seconds", drift=OWN_FAST, noise=_STEADY),
    alike("each its own drift, within minutes (see below)", drift=OWN_SLOW, noise=_STEADY),
    alike("processes correlated (0.5)", noise=Noise(boot=0, process_correlation=0.5)),
)

_TWENTY = Curve(law="table", at=((1, 1.0), (4, 1.1), (16, 1.2)))
_SLOWER = times(factor=1.2, amplification=_TWENTY)
_DESIGNS = {
    f"{design.boots} x {design.rounds}": design
    for design in (
        Design(rounds=6), Design(rounds=8), Design(rounds=10), Design(rounds=12),
        Design(rounds=16), SIX_BOOTS, Design(boots=10, rounds=1),
    )
}  # fmt: skip
POWER = tuple(Setting(name, _SLOWER, times(), design) for name, design in _DESIGNS.items())

_MORE = Design(boots=6, rounds=4)
CHANGES = (
    alike("1 x 12, one and the same boot", noise=_STEADY),
    alike("1 x 12, boots that differ by 2 %"),
    alike("1 x 12, boots that differ by 6 %", noise=_NOISY),
    alike("6 x 2, boots that differ by 2 %", SIX_BOOTS),
    alike("6 x 4, boots that differ by 2 %", _MORE),
    alike("6 x 4, boots that differ by 6 %", _MORE, noise=_NOISY),
    alike("6 x 4, each run its own drift, within minutes", _MORE, drift=OWN_SLOW),
)
"""One machine in two runs: nothing of their rounds is shared."""
