"""Samples of one cell as they were taken: batches within processes within boots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Nested:
    """Logarithms of positive samples, sorted so that each process and boot is a run.

    Attributes:
        logs: natural logarithms, shape (n_batches,).
        process_starts: where each process begins in ``logs``, shape (n_processes + 1,);
            the last is n_batches.
        boot_starts: where each boot begins among the processes, shape (n_boots + 1,);
            the last is n_processes.
        boots: the boots' names, in the same order.
        periods, rounds: when each process ran: the number of the planned boot, and of the
            round within it; shape (n_processes,). Processes of two cells of one machine
            with the same period and round ran side by side in time.
    """

    logs: Floats
    process_starts: Ints
    boot_starts: Ints
    boots: tuple[str, ...]
    periods: Ints
    rounds: Ints

    @classmethod
    def from_labels(
        cls, values: Any, boots: Any, processes: Any, *, periods: Any = None, rounds: Any = None
    ) -> Nested:
        """Sort samples into their clusters.

        Args:
            values: positive numbers, shape (n,), any unit.
            boots: a name for each value's boot, shape (n,).
            processes: a name for each value's process, shape (n,); unique within a boot.
            periods, rounds: numbers of each value's planned boot and round, shape (n,);
                0, and the process's number, where not given.

        Raises:
            ValueError: no values, a value not above 0 or not finite, or shapes that differ.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.ndim != 1 or not numbers.size:
            raise ValueError("a cell needs one sample or more, in one dimension")
        if not np.all(np.isfinite(numbers) & (numbers > 0)):
            raise ValueError("samples must be finite and above 0")
        names, boot = _numbered(np.asarray(boots))
        _, process = _numbered(np.asarray(processes))
        if not boot.shape == process.shape == numbers.shape:
            raise ValueError("values, boots and processes must have one shape")
        order = np.lexsort((process, boot))
        boot, process = boot[order], process[order]
        new_boot = np.diff(boot, prepend=-1) != 0
        starts = np.flatnonzero(new_boot | (np.diff(process, prepend=-1) != 0))
        began = order[starts]
        numbered = process[starts] if rounds is None else np.asarray(rounds, np.int64)[began]
        planned = np.zeros_like(began) if periods is None else np.asarray(periods, np.int64)[began]
        return cls(
            logs=np.log(numbers[order]),
            process_starts=np.append(starts, numbers.size),
            boot_starts=np.append(np.flatnonzero(new_boot[starts]), starts.size),
            boots=tuple(str(name) for name in names),
            periods=planned,
            rounds=numbered,
        )

    @property
    def n_batches(self) -> int:
        """Number of samples."""
        return int(self.logs.size)

    @property
    def n_processes(self) -> int:
        """Number of processes, over all boots."""
        return int(self.process_starts.size) - 1

    @property
    def n_boots(self) -> int:
        """Number of boots."""
        return len(self.boots)

    def process_means(self) -> Floats:
        """Mean logarithm of each process, shape (n_processes,)."""
        return run_means(self.logs, self.process_starts)

    def boot_means(self) -> Floats:
        """Mean over a boot's processes of their mean logarithms, shape (n_boots,)."""
        return run_means(self.process_means(), self.boot_starts)


def _numbered(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Ints]:
    """The different labels, sorted, and the number of each; fast where equal ones stand in runs."""
    heads = np.flatnonzero(np.append(True, labels[1:] != labels[:-1])[: labels.size])
    first = labels[heads]
    names, number = np.unique(
        first.astype(str) if first.dtype == object else first, return_inverse=True
    )
    return names, np.repeat(number, np.diff(np.append(heads, labels.size)))


def run_means(values: Floats, starts: Ints) -> Floats:
    """Mean of each run ``values[starts[i]:starts[i + 1]]``."""
    sums: Floats = np.add.reduceat(values, starts[:-1])
    return sums / np.diff(starts)
