"""Attempts at executions: which are complete, and which of a journal's samples count.

A sample counts once or not at all. An attempt is opened by a Begin and is complete when its End
follows; of an execution the first complete attempt counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from labctl.sweep.records import Begin, EndRecord, Failure, Record

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Attempts:
    """Which opening of which attempt a sample belongs to, and which of them count.

    An attempt number seen with two Begins is two openings: only what came after the
    latter can be closed by the End. What has no Begin before it belongs to an opening
    of its own, with no boot identity.

    Attributes:
        boot_ids: of each opening, "" where unknown.
        of_samples: the opening of each sample, shape (n_samples,).
        counting: the openings whose samples count: each execution's first complete one.
        unfinished: number of openings with neither an End nor a Failure.
    """

    def __init__(self, events: Sequence[tuple[int, Record]], samples: pd.DataFrame) -> None:
        """``events`` are all other records with their lines; ``samples`` has the columns line,
        execution, attempt, warmup and batch."""
        import pandas as pd

        begins = [(line, r) for line, r in events if type(r) is Begin]
        closing = [(line, r) for line, r in events if type(r) is EndRecord or type(r) is Failure]
        failed = np.array([type(r) is Failure for _, r in closing], dtype=bool)
        ends = _places([(line, r.execution, r.attempt) for line, r in closing])
        taken = samples[["line", "execution", "attempt"]]
        both = ["execution", "attempt"]
        early = pd.concat([ends[both], taken[both]]).drop_duplicates().sort_values(both)
        begun = _places([(line, r.execution, r.attempt) for line, r in begins])
        self._openings = pd.concat([early.assign(line=-1), begun], ignore_index=True)
        self.boot_ids = [""] * len(early) + [r.boot_id for _, r in begins]

        closed = self._opening_at(ends)
        good = closed[~failed & ~np.isin(closed, closed[failed])]
        _, first = np.unique(self._openings["execution"].to_numpy()[good], return_index=True)
        self.counting: Ints = good[first]
        self.of_samples = self._opening_at(taken)
        self._samples = samples[["warmup", "batch"]]

        opened = np.zeros(len(self._openings), bool)
        opened[len(early) :] = opened[self.of_samples] = True
        opened[closed] = False
        self.unfinished = int(opened.sum())

    def counts(self) -> Bools:
        """Whether each sample counts; one that repeats a batch of its opening does not."""
        again = self._samples.assign(opening=self.of_samples).duplicated().to_numpy()
        counts: Bools = np.isin(self.of_samples, self.counting) & ~again
        return counts

    def _opening_at(self, places: pd.DataFrame) -> Ints:
        """The opening that is current at each of ``places``, which rise in line."""
        import pandas as pd

        known = self._openings.assign(opening=range(len(self._openings)))
        found = pd.merge_asof(places, known, on="line", by=["execution", "attempt"])
        openings: Ints = found["opening"].to_numpy("int64")
        return openings


def _places(rows: Sequence[tuple[int, int, int]]) -> pd.DataFrame:
    """Lines of a journal, and the execution and attempt that they are about."""
    import pandas as pd

    columns = np.array(rows, np.int64).reshape(-1, 3)
    return pd.DataFrame(columns, columns=["line", "execution", "attempt"])
