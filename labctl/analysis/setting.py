"""How two sides were measured: on one machine or two, in turns or one after the other."""

from __future__ import annotations

from labctl.analysis.verdicts import Comparison
from labctl.analysis.words import plain


def setting(c: Comparison) -> str:
    """Where and in what order both sides were measured, as a sentence."""
    machine = "simulated machine" if c.simulated else "machine"
    machines = [side.machine for side in (c.one, c.other)]
    known, same = all(machines), len(set(machines)) == 1
    if c.pair.subject == "change":
        where = f"on {'the same' if same else 'another'} {machine}"
        return plain(
            f"The sides were measured in two runs, {c.other.run} and then {c.one.run}, "
            f"{where if known else 'on machines that were not recorded'}: not in turns."
        )
    if not known:
        return (
            "Both sides were measured in one run; whether on the same machine, and so in turns, "
            "was not recorded."
        )
    if same:
        return (
            f"Both sides ran on the same {machine} and took turns: in each round the cells of both "
            "were measured in one random order."
        )
    return plain(
        f"The sides ran in one run on two {machine}s ({machines[0]} and {machines[1]}), each in a "
        "random order of its own: not in turns."
    )
