"""The part of the report's model that is of pairs: effects, what else differs, the verdict.

The document as a whole is ``model``.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from labctl.analysis.confounders import Bars
from labctl.analysis.differences import Thing, tally, things
from labctl.stats import Estimate
from labctl.stats.judge import Call, Subject


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class EffectPoint(_Part):
    """Effects of a pair at one number of threads: T of one / T of the other; how much more
    one grows; each side's own growth. The latter three are None at the least number."""

    threads: int
    ratio: Estimate
    amplification: Estimate | None
    growth_one: Estimate | None
    growth_other: Estimate | None

    @property
    def growths(self) -> tuple[Estimate | None, Estimate | None]:
        """Each side's own."""
        return self.growth_one, self.growth_other


class ConfounderView(_Part):
    """A fact that differs between the two sides besides the thing compared. Facts with one
    ``topic`` are one thing.

    ``bars`` is what it makes impossible to say: "nothing", "growth" (that the other side's own
    growth is its kernel's), "scaling" or "all"; ``why`` says so, as a clause.
    """

    key: str
    one: str
    other: str
    bars: Bars
    why: str
    topic: str = ""


class Told(_Part):
    """The effect that a verdict's sentence tells: at so many threads, with the interval that it
    rests on (its own, or the one that holds for all thread counts at once). ``n_processes`` is
    of the side that has fewer."""

    threads: int
    value: float
    low: float | None
    high: float | None
    n_processes: int = 0


class VerdictView(_Part):
    """What the effects of a pair let one say, at the least number of threads (``level``) and
    of growth (``scaling``); a reason is "" where it can be told.
    ``level_badge`` and ``scaling_badge`` are the verdict or its reason in three words.
    ``level_told`` and ``scaling_told`` are the numbers that the sentence gives for each.
    ``opening`` stands before the sentence where kernel and virtualization changed at once, and
    ``instead`` says what to measure to tell them apart. ``setting`` says whether the sides
    ran on one machine, and in turns."""

    workload: str
    params: str
    one: str
    other: str
    subject: Subject
    level: Call
    level_reason: str
    level_badge: str = ""
    level_told: Told
    scaling: Call
    scaling_reason: str
    scaling_badge: str = ""
    scaling_told: Told | None
    margin: float
    functional: bool
    simulated: bool
    headline: str
    opening: str = ""
    sentence: str
    instead: list[str] = []
    setting: str = ""
    notes: list[str]


class PairView(_Part):
    """One pair in one workload and variant. ``found`` says why, where no lab file declares it."""

    one: str
    other: str
    subject: Subject
    found: str
    one_variant: str
    other_variant: str
    functional: bool
    verdict: VerdictView
    points: list[EffectPoint]
    warnings: list[str]
    confounders: list[ConfounderView]

    @property
    def differences(self) -> list[Thing[ConfounderView]]:
        """What else differs, each thing once."""
        return things(self.confounders)

    @property
    def differing(self) -> str:
        """How many things differ, and how many of them bar a verdict."""
        return tally(self.differences)

    @property
    def title(self) -> str:
        """Both sides in words."""
        if self.one_variant == self.other_variant:
            return f"{self.one} / {self.other} {self.one_variant}".strip()
        sides = ((self.one, self.one_variant), (self.other, self.other_variant))
        return " / ".join(f"{name} {variant}".strip() for name, variant in sides)
