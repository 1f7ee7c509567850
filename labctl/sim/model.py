"""Draws from a stated model, for one process or for a thousand experiments at once.

The logarithm of a sample is a sum: the truth of its cell, what its boot, its process and
its batch shift, and what the time of day does. Every part is a function of seed and place
(``field``), so both ways of drawing give the same numbers. A place is a boot, a cell, and
the number of the cell's process within the boot.

The truth is a geometric mean of the steady state at time 0: a warm-up, and a drift that
is not the same on both sides, are errors of whoever measures, and no part of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labctl.sim import field
from labctl.sim.spec import Curve, Times
from labctl.stats.nested import Floats

# The parts of a sample; part of the keys, so that no two of them share numbers.
_BOOT, _BOOT_CELL, _PROCESS, _BATCH, _BAD_PROCESS, _BAD_BATCH, _CYCLE, _WANDER = range(1, 9)
_WAVES = 48  # sinusoids that make up the wandering
_FORGOTTEN = 1e-4  # correlation that is as good as none


class SimulatedMachine:
    """A machine of a model. ``name`` and ``host`` (the physical machine) make its numbers
    its own: two machines with one seed share nothing but a shared drift."""

    def __init__(self, times: Times, *, name: str, host: str = "sim") -> None:
        self.times = times
        self._own = field.key("own", name)
        self._day = field.key("day", host if times.drift.shared else f"{host}/{name}")

    # -- the truth ------------------------------------------------------------------------

    def log_mean(self, threads: Any) -> Floats:
        """Mean logarithm of the times at these thread counts, in log us; their shape."""
        return self._undisturbed(threads) + self.times.disturbed

    def _undisturbed(self, threads: Any) -> Floats:
        times = self.times
        level = np.log(times.base_us * times.factor)
        found: Floats = level + log_factor(times.growth, threads)
        return found + log_factor(times.amplification, threads)

    def log_boot(self, seed: Any, boot: Any, cell: Any) -> Floats:
        """What a boot shifts the logarithms of a cell by; shape of all three."""
        noise = self.times.noise
        own = field.mixed(seed, self._own)
        shift = noise.boot * field.normal(own, _BOOT, boot)
        if noise.boot_cell:
            shift = shift + noise.boot_cell * field.normal(own, _BOOT_CELL, boot, cell)
        return shift + np.zeros(np.shape(cell))

    # -- samples --------------------------------------------------------------------------

    def draw(
        self, *, seed: Any, threads: Any, cell: Any, boot: Any, process: Any, hours: Any,
        batches: int,
    ) -> Floats:  # fmt: skip
        """Logarithms of processes' times an operation, in log us.

        All but ``batches`` are arrays that broadcast; the result has their shape and one
        axis more, (..., batches). The first of the batches is the first that runs: whoever
        has warm-up batches asks for them too.

        Args:
            seed: of the experiment, integers from 0.
            threads: thread counts.
            cell: keys of the cells (``field.key``).
            boot, process: numbers from 0 of the boot, and of the process among its cell's in
                that boot.
            hours: virtual time of the process.
            batches: how many of each process.
        """
        own = field.mixed(seed, self._own)
        level = self._undisturbed(threads) + self.log_boot(seed, boot, cell)
        level = level + self._process(own, boot, cell, process) + self._drift(seed, hours)
        return level[..., None] + self._batches(own, boot, cell, process, batches)

    def _process(self, own: Any, boot: Any, cell: Any, process: Any) -> Floats:
        noise, outliers = self.times.noise, self.times.outliers

        def innovation(lag: int) -> Floats:
            earlier = np.maximum(np.asarray(process) - lag, 0)
            return field.normal(own, _PROCESS, boot, cell, earlier, freedom=noise.freedom)

        shift = innovation(0)
        if rho := noise.process_correlation:
            # AR(1) written out from its start: the first process is stationary already.
            fresh, number = np.sqrt(1 - rho**2), np.asarray(process)
            shift = np.where(number == 0, 1, fresh) * shift
            lags = int(np.ceil(np.log(_FORGOTTEN) / np.log(rho)))
            for lag in range(1, min(lags, int(np.max(number))) + 1):
                weight = np.where(number > lag, fresh, number == lag) * rho**lag
                shift = shift + weight * innovation(lag)
        shift = noise.process * shift
        if outliers.process_rate:
            bad = field.uniform(own, _BAD_PROCESS, boot, cell, process) < outliers.process_rate
            shift = shift + bad * np.log(outliers.factor)
        return shift

    def _batches(self, own: Any, boot: Any, cell: Any, process: Any, batches: int) -> Floats:
        noise, outliers, warmup = self.times.noise, self.times.outliers, self.times.warmup
        own, boot, cell, process = (np.asarray(x)[..., None] for x in (own, boot, cell, process))
        number = np.arange(batches)
        shift = field.normal(own, _BATCH, boot, cell, process, number, freedom=noise.freedom)
        if rho := noise.batch_correlation:
            fresh = np.sqrt(1 - rho**2)
            for index in range(1, batches):
                shift[..., index] = rho * shift[..., index - 1] + fresh * shift[..., index]
        shift *= noise.batch
        if outliers.batch_rate:
            bad = field.uniform(own, _BAD_BATCH, boot, cell, process, number)
            shift += (bad < outliers.batch_rate) * np.log(outliers.factor)
        if warmup.factor != 1:
            shift += np.log(warmup.factor) * np.exp(-number / warmup.batches)
        return shift

    def _drift(self, seed: Any, hours: Any) -> Floats:
        drift = self.times.drift
        day, hours = field.mixed(seed, self._day), np.asarray(hours, np.float64)
        shift: Floats = drift.per_hour * hours
        if drift.cycle:
            turns = hours * 60 / drift.cycle_minutes + field.uniform(day, _CYCLE)
            shift = shift + drift.cycle * np.sin(2 * np.pi * turns)
        if drift.wander:
            shift = shift + drift.wander * _wandering(day, hours * 60 / drift.wander_minutes)
        return shift


def log_factor(curve: Curve, threads: Any) -> Floats:
    """Logarithm of a curve's factor at these thread counts; their shape."""
    n = np.asarray(threads, np.float64)
    found: Floats
    if curve.law == "linear":
        found = np.log1p(curve.slope * (n - 1))
    elif curve.law == "power":
        found = curve.exponent * np.log(n)
    elif curve.law == "usl":
        found = np.log((1 + curve.contention * (n - 1) + curve.coherence * n * (n - 1)) / n)
    elif curve.law == "table":
        at, factors = np.log(np.array(sorted(curve.at))).T
        found = np.interp(np.log(n), at, factors)
    else:
        found = np.zeros(n.shape)
    return found


def _wandering(day: Any, time: Floats) -> Floats:
    """A stationary process of variance 1 and correlation exp(-|lag|), at ``time``.

    A sum of sinusoids whose frequencies come from that correlation's spectrum, which is
    Cauchy's distribution (random Fourier features, Rahimi and Recht 2007).
    """
    total = np.zeros(np.broadcast_shapes(np.shape(day), time.shape))
    for wave in range(_WAVES):
        frequency = np.tan(np.pi * (field.uniform(day, _WANDER, wave, 0) - 0.5))
        phase = 2 * np.pi * field.uniform(day, _WANDER, wave, 1)
        total += np.cos(frequency * time + phase)
    wandering: Floats = total * np.sqrt(2 / _WAVES)
    return wandering
