"""The Universal Scalability Law, where it may be fitted.

Gunther's law for the throughput X of N threads,

    X(N) = g N / (1 + a (N - 1) + b N (N - 1)),

with g the rate of one thread, a contention and b coherency, is a law of work that can be
done side by side. It is refused where it can mean nothing: work that is serial by design
(``fixed_token``: a fixed number of messages goes round however many threads wait), fewer than
6 thread counts, a parameter on its bound. Growth and the local slopes
(``labctl.stats.effects``) say what can be said of any workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labctl.stats.nested import Floats

FEWEST_COUNTS = 6
_AT_BOUND = 1e-6

SERIAL_WORK = "the law does not fit work that is serial by design"
TOO_FEW = f"fewer than {FEWEST_COUNTS} thread counts"
NO_FIT = "no fit was found"


@dataclass(frozen=True)
class Usl:
    """A fit of the law.

    Attributes:
        rate: g, operations a second of one thread (in the unit of the throughput given).
        contention: a, between 0 and 1.
        coherency: b, between 0 and 1.
        rms: root mean square of the residuals of ln X.
    """

    rate: float
    contention: float
    coherency: float
    rms: float

    @property
    def peak(self) -> float:
        """Thread count of the greatest throughput, sqrt((1 - a) / b)."""
        return math.sqrt((1 - self.contention) / self.coherency)

    @property
    def limit(self) -> float:
        """Throughput that contention alone would allow, g / a."""
        return self.rate / self.contention

    def throughput(self, threads: Floats) -> Floats:
        """X(N)."""
        return _law(threads, self.rate, self.contention, self.coherency)


@dataclass(frozen=True)
class Refused:
    """Why no fit is given, as a clause."""

    reason: str


def fit(threads: Sequence[int], throughput: Sequence[float], *, fixed_token: bool) -> Usl | Refused:
    """Fit the law by least squares on ln X, or say why not.

    Args:
        threads: thread counts, shape (n,).
        throughput: operations a unit of time of all threads together, above 0, shape (n,).
        fixed_token: the workload's manifest says that its work is serial by design.

    Raises:
        ValueError: shapes that differ, or a value not above 0.
    """
    n, x = np.asarray(threads, np.float64), np.asarray(throughput, np.float64)
    if n.shape != x.shape or n.ndim != 1 or not np.all((x > 0) & (n > 0)):
        raise ValueError("thread counts and throughputs must be of one shape and above 0")
    if fixed_token:
        return Refused(SERIAL_WORK)
    if np.unique(n).size < FEWEST_COUNTS:
        return Refused(TOO_FEW)
    from scipy.optimize import least_squares  # slow to import, and most are refused before

    scale = float((x / n).max())
    found = least_squares(
        lambda p: np.log(_law(n, p[0], p[1], p[2])) - np.log(x / scale),
        x0=(1.0, 0.01, 0.0001),
        bounds=([1e-9, 0, 0], [np.inf, 1, 1]),
        x_scale=(1.0, 0.1, 0.01),
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    if not found.success:
        return Refused(NO_FIT)
    for name, value in zip(("contention", "coherency"), found.x[1:], strict=True):
        if value < _AT_BOUND or value > 1 - _AT_BOUND:
            return Refused(f"{name} is on its bound ({round(value)})")
    rms = float(np.sqrt(np.mean(found.fun**2)))
    return Usl(float(found.x[0]) * scale, float(found.x[1]), float(found.x[2]), rms)


def _law(n: Floats, rate: float, contention: float, coherency: float) -> Floats:
    result: Floats = rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))
    return result
