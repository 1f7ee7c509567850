"""A verdict as one plain sentence with its numbers, and what is to be said beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from labctl.analysis.confounders import Confounder, reasons
from labctl.analysis.differences import tally, things
from labctl.analysis.roles import SIMULATED
from labctl.analysis.verdicts import Comparison
from labctl.analysis.words import listed, number, plain, thread_count
from labctl.stats import Estimate
from labctl.stats.estimate import FEW_ROUNDS, ONE_BOOT
from labctl.stats.judge import Judgement, Standing, beyond, standing
from labctl.stats.remarks import ITS_ONE_BOOT, SIDES

_SHOWN = 6  # of what differs, in a sentence
_REASONS = 3
_LONG = 50  # characters of two values that are shown
_ADDED = 4  # words of a command line


def verdict_sentence(c: Comparison, label: str = "") -> str:
    """The verdict in one sentence, without control characters.

    Args:
        label: what was measured, "kqtest, rearm=level"; default: the workload.
    """
    head = f"{c.pair.one} / {c.pair.other}, {label or c.one_curve.workload}: {headline(c)}"
    if c.barred:
        head += f", because {listed(_most(c.barred))}; measured"
    clauses = [_level(c)]
    if c.effects.amplification.threads:
        clauses.append(_scaling(c))
    return plain(f"{head}: {_with_level(', and '.join(clauses), c)}.")


def headline(c: Comparison) -> str:
    """The calls alone: "virtualization", or "at 1 thread virtualization, for scaling kernel"."""
    marks = [
        text for text, on in (("under emulation", c.functional), ("simulated", c.simulated)) if on
    ]
    mark = f" ({', '.join(marks)})" if marks else ""
    if c.level.call == c.scaling.call or not c.effects.amplification.threads:
        return f"{c.level.call}{mark}"
    if c.pair.subject == "change":
        growth = {"unchanged": "growth unchanged", "cannot tell": "of growth cannot tell"}
        level = "of time cannot tell" if c.level.call == "cannot tell" else c.level.call
        return f"{level}, {growth.get(c.scaling.call, c.scaling.call)}{mark}"
    at = thread_count(c.effects.base)
    return f"at {at} {c.level.call}, for scaling {c.scaling.call}{mark}"


def verdict_notes(c: Comparison) -> list[str]:
    """What must be known beside the sentence, as sentences."""
    notes = []
    if c.simulated:
        notes.append(f"{SIMULATED[0].upper()}{SIMULATED[1:]}.")
    if c.functional and not c.barred:
        notes.append(
            "Both sides are emulated (TCG): it is the effect on emulated machines, from which no "
            "time of a real machine follows."
        )
    if not c.barred:
        notes += [f"{why[0].upper()}{why[1:]}." for why in reasons(c.confounders, "growth")]
        if any(x.key == "baseline" for x in c.confounders):
            notes.append("The comparison is one more layer of virtualization against one less.")
    if alone := c.one_boot():
        whose = "each side" if len(alone) > 1 else alone[0]
        if c.pair.subject == "change" and c.same_boot:
            notes.append("Both runs were of one and the same boot, and it holds for that boot.")
        else:
            notes.append(f"It holds for the one boot of {whose} that was measured.")
            if c.pair.subject == "change":
                notes.append(
                    "Boots of one machine differ as well: what is found between two boots need "
                    "not be a change."
                )
    if c.level.call in ("slower", "faster", "mixed"):
        notes.append(
            "What drifts more slowly than a run lasts is in neither run's interval: see whether "
            "other targets of the same machine changed alike."
        )
    if c.pair.found:
        notes.append(f"The pair was found: {c.pair.found}.")
    differing = _differing(c)
    if c.pair.subject == "change":
        notes.append(
            f"What is known to have changed: {', '.join(differing)}."
            if differing
            else "Nothing is known to have changed."
        )
    elif differing:
        told = tally(things(c.confounders))
        notes.append(f"What else differs, {told}: {', '.join(differing)}.")
    return [plain(note) for note in notes]


def comparison_warnings(c: Comparison) -> list[str]:
    """What is to be said against the effects: the estimates' warnings, each once, and the
    remarks on both sides' data; but for what is said once elsewhere: that there was one boot
    (``verdict_notes``), or few rounds (of the whole report)."""
    families = (c.effects.level, c.effects.amplification, c.effects.growth_other)
    found = dict.fromkeys(
        warning
        for family in families
        for estimate in family.estimates
        for warning in estimate.warnings
        if warning not in (ONE_BOOT, FEW_ROUNDS)
    )
    found |= dict.fromkeys(text for text in c.effects.warnings if not text.endswith(ITS_ONE_BOOT))
    sides = zip(SIDES, (c.pair.one, c.pair.other), strict=True)
    texts = list(found)
    for said, name in sides:
        texts = [text.replace(said, name) for text in texts]
    return texts


def _changed(c: Comparison) -> str:
    """How much longer an operation takes in the new run, where it shows most."""
    family = c.effects.level
    n = c.level.threads or c.effects.base
    found, what = family.at(n), _operation(c.one_curve.unit)
    times = f"{number(found.value)} times"
    if c.level.call == "unchanged":
        if len(family.threads) == 1:
            where, furthest = f" at {thread_count(n)}", f"{times} {_own(found)}"
        else:
            where, furthest = (
                f" at all of {listed([str(count) for count in family.threads])} threads",
                f"the furthest from it is {times} at {thread_count(n)} {_own(found)}",
            )
        return f"{what} takes as long as before{where}, to within {c.margin:.0%} ({furthest})"
    text = f"{what} takes {times} as long as before at {thread_count(n)} {_all(found)}"
    slower, faster = beyond(family, c.margin)
    for word, counts in (("slower", slower), ("faster", faster)):
        if len(counts) > 1 or (counts and c.level.call == "mixed"):
            text += f"; {word} at {listed([str(count) for count in counts])}"
    return text + _undecided(c, c.level)


def _level(c: Comparison) -> str:
    """How long an operation takes on one side against the other."""
    if c.pair.subject == "change":
        return _changed(c)
    found = c.effects.level.at(c.effects.base)
    one, other = _where(c)
    at, what = thread_count(c.effects.base), _operation(c.one_curve.unit)
    if c.level.call == "neither":
        return (
            f"{what} takes as long {one} as {other} at {at}, to within {c.margin:.0%} "
            f"({number(found.value)} times {_own(found)})"
        )
    text = (
        f"{what} takes {number(found.value)} times as long {one} as {other} at {at} {_own(found)}"
    )
    return text + _undecided(c, c.level)


def _scaling(c: Comparison) -> str:
    """How much more it grows on one side than on the other."""
    family = c.effects.amplification
    stands = standing(family.estimates, c.margin)
    n = _telling(c, stands)
    found, ours, theirs = (f.at(n) for f in (family, c.effects.growth_one, c.effects.growth_other))
    one, other = _where(c)
    told = c.scaling.call != "cannot tell"
    unsure = not told and not reasons(c.confounders, "all", "scaling") and stands != "open"
    its_own = f" {_all(theirs)}" if c.scaling.call in ("kernel", "both") or unsure else ""
    each = f"{number(ours.value)}-fold {one}, {number(theirs.value)}-fold{its_own} {other}"
    to = f"growth from {c.effects.base} to {thread_count(n)}"
    if c.pair.subject == "change" and stands != "within":
        text = f"{to} is {number(found.value)} times what it was {_all(found)} ({each})"
    elif stands == "within" and (told or unsure):
        times = f"{number(found.value)} times {_own(found)}"
        text = f"{to} is equal to within {c.margin:.0%} ({each}: {times})"
    else:
        text = f"{to} is {number(found.value)} times that {other} {_all(found)} ({each})"
    return text + _undecided(c, c.scaling)


def level_told(c: Comparison) -> tuple[int, Estimate]:
    """The thread count and the ratio of times that the sentence gives, with the interval that
    it gives as the estimate's own."""
    n = c.effects.base
    if c.pair.subject == "change":
        n = c.level.threads or n
        if c.level.call != "unchanged":
            return n, _for_all(c.effects.level.at(n))
    return n, c.effects.level.at(n)


def scaling_told(c: Comparison) -> tuple[int, Estimate]:
    """As ``level_told``, of how much more one side grows; there is a thread count above the
    least."""
    family = c.effects.amplification
    stands = standing(family.estimates, c.margin)
    n = _telling(c, stands)
    barred = c.scaling.call == "cannot tell" and reasons(c.confounders, "all", "scaling")
    if stands == "within" and not barred:
        return n, family.at(n)
    return n, _for_all(family.at(n))


def _for_all(estimate: Estimate) -> Estimate:
    return replace(estimate, low=estimate.family_low, high=estimate.family_high)


def _telling(c: Comparison, stands: Standing) -> int:
    """The thread count to show: at which A(N) is least, or least certain, or shows most."""
    family = c.effects.amplification
    if stands == "below":
        return min(family.threads, key=lambda n: family.at(n).value)
    if stands == "open":
        return max(family.threads, key=lambda n: _reach(family.at(n)))
    if c.scaling.threads in family.threads:
        return c.scaling.threads
    return family.threads[-1]


def _reach(estimate: Estimate) -> float:
    """How far the interval reaches from 1, on a logarithmic scale."""
    if estimate.low is None or estimate.high is None or estimate.low <= 0:
        return math.inf
    return max(abs(math.log(estimate.low)), abs(math.log(estimate.high)))


def _undecided(c: Comparison, judgement: Judgement) -> str:
    """Why it cannot be told, where the head does not say so already."""
    if judgement.call != "cannot tell" or c.barred:
        return ""
    return f", which leaves it open: {judgement.reason}"


def _where(c: Comparison) -> tuple[str, str]:
    one, other = c.pair.one, c.pair.other
    if c.pair.subject == "change":
        return "now", "before"
    if c.pair.subject == "kernel":
        return f"with {one}", f"with {other}"
    return f"in {one}", f"on {other}"


def _with_level(text: str, c: Comparison) -> str:
    """The first interval says of how many per cent all of them are."""
    return re.sub(r"\[(?=\d)", f"[{c.effects.level.estimates[0].level:.0%}: ", text, count=1)


def _own(estimate: Estimate) -> str:
    """Its interval, of this number alone."""
    return _bracket(estimate.low, estimate.high)


def _all(estimate: Estimate) -> str:
    """Its interval, of those that hold for all thread counts at once."""
    return _bracket(estimate.family_low, estimate.family_high)


def _bracket(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "[no interval]"
    return f"[{number(low)}, {number(high)}]"


def _operation(unit: str) -> str:
    return f"{'an' if unit[:1].lower() in 'aeiou' else 'a'} {unit}"


def _most(texts: Sequence[str]) -> list[str]:
    """The weightiest reasons, and how many more there are."""
    more = len(texts) - _REASONS
    return [*texts[:_REASONS], f"{more} more reasons"] if more > 1 else list(texts)


def _differing(c: Comparison) -> list[str]:
    """Names of all that differs, what bars most first; of a change, from what to what."""
    change = c.pair.subject == "change"
    # What neither run told is not known to have changed.
    found = things(x for x in c.confounders if not change or x.one != x.other)
    names = [thing.name for thing in found]
    if change:
        names = [f"{thing.name}{_became(thing.rows)}" for thing in found]
    more = len(names) - _SHOWN
    return [*names[:_SHOWN], f"and {more} more"] if more > 1 else names


def _became(found: Sequence[Confounder]) -> str:
    """From what to what, where that is short: " (6.1.0-17 → 6.1.0-18)"."""
    if len(found) > 1:
        return ""
    (x,) = found
    if x.key in ("asked_cmdline", "cmdline"):
        before, after = ([] if t == "unknown" else t.split() for t in (x.other, x.one))
        words = [f"-{word}" for word in before if word not in after]
        words += [f"+{word}" for word in after if word not in before]
        return f" ({' '.join(words)})" if 0 < len(words) <= _ADDED else ""
    return f" ({x.other} → {x.one})" if len(x.one) + len(x.other) <= _LONG else ""
