"""From a run to a sentence: what is called, what is barred, and with which words."""

from __future__ import annotations

import re

import pytest

from labctl.analysis import Run, compare_runs
from labctl.analysis.sentences import headline, verdict_notes, verdict_sentence
from tests.analysis.made import GUEST, METAL, Made, records

PAIR = [{"guest": "linux", "metal": "metal"}]
FLAT = {1: 2.0, 4: 2.0, 16: 2.0}
GROWS = {1: 2.0, 4: 3.0, 16: 4.2}
AMPLIFIED = {1: 2.0, 4: 4.2, 16: 7.6}


def times(factor, curve):
    return {threads: factor * us for threads, us in curve.items()}


def only(guest, metal, *, guest_facts=GUEST, metal_facts=METAL, pairs=None, **design):
    targets = {
        "metal": metal if isinstance(metal, Made) else Made(metal, metal_facts),
        "linux": guest if isinstance(guest, Made) else Made(guest, guest_facts, "vm"),
    }
    run = Run(records(targets, **design), pairs=pairs)
    (comparison,) = run.comparisons
    return comparison


@pytest.mark.parametrize(
    ("guest", "metal", "calls"),
    [
        (FLAT, FLAT, ("neither", "neither")),
        (GROWS, GROWS, ("neither", "kernel")),
        (AMPLIFIED, GROWS, ("neither", "both")),
        (GROWS, FLAT, ("neither", "virtualization")),
        (times(1.9, FLAT), FLAT, ("virtualization", "neither")),
        (times(1.9, AMPLIFIED), GROWS, ("virtualization", "both")),
        (times(1.1, FLAT), FLAT, ("cannot tell", "neither")),
    ],
)
def test_what_is_called(guest, metal, calls):
    found = only(guest, metal)
    assert (found.level.call, found.scaling.call) == calls
    assert not found.confounders


def test_one_sentence_with_its_numbers():
    text = verdict_sentence(only(times(1.9, GROWS), FLAT))
    assert text.startswith("linux / metal, kqtest: virtualization: a message takes 1.9")
    assert " times as long in linux as on metal at 1 thread [95%: 1." in text
    assert "and growth from 1 to 16 threads is 2.1" in text
    assert text.endswith("-fold on metal).") and "\n" not in text


def test_the_level_of_the_intervals_is_said_once_and_not_of_none():
    text = verdict_sentence(only(times(1.9, AMPLIFIED), GROWS))
    assert text.count("95%") == 1 and len(re.findall(r"\[[\d.]+, [\d.]+\]", text)) >= 1
    alone = verdict_sentence(only(FLAT, FLAT, boots=1, rounds=1))
    assert "[no interval]" in alone and "95%" not in alone


def test_two_calls_are_both_named():
    found = only(times(1.9, GROWS), GROWS)
    assert headline(found) == "at 1 thread virtualization, for scaling kernel"
    text = verdict_sentence(found)
    assert "growth from 1 to 16 threads is equal to within 10% (2." in text
    assert "-fold [" in text, "what is put down to the kernel has its interval"


def test_as_long_is_said_with_the_margin():
    assert "a message takes as long in linux as on metal at 1 thread, to within 10% (" in (
        verdict_sentence(only(FLAT, FLAT))
    )


def test_an_open_question_says_why():
    text = verdict_sentence(only(times(1.1, FLAT), FLAT))
    assert "which leaves it open: the interval reaches across the margin" in text


def test_an_open_growth_of_the_metal_is_what_is_named():
    edge = {1: 2.0, 4: 2.0, 16: 2.2}
    text = verdict_sentence(only(edge, edge))
    assert "is equal to within 10%" in text and "-fold [1." in text
    assert "which leaves it open: the interval reaches across the margin" in text


def test_what_is_open_of_two_questions_is_said_with_the_sides_names():
    edge = {1: 2.0, 4: 2.0, 16: 2.2}
    found = only(times(1.0, AMPLIFIED), Made(edge, METAL), pairs=PAIR)
    assert found.scaling.reason.startswith(
        "linux grows otherwise than metal; whether metal itself grows is open: "
    )


def test_a_guest_that_grows_less_is_not_called_equal():
    text = verdict_sentence(only(FLAT, GROWS))
    assert "growth from 1 to 16 threads is 0.4" in text
    assert "equal to within" not in text.split(" and growth ")[1]


def test_a_barred_pair_has_its_numbers_and_the_reason():
    found = only(times(1.9, FLAT), FLAT, guest_facts=GUEST | {"kernel": "5.10"}, pairs=PAIR)
    assert (found.level.call, found.scaling.call) == ("cannot tell", "cannot tell")
    text = verdict_sentence(found)
    assert (
        "kqtest: cannot tell, because the kernels differ (5.10 and 6.1.0-18-amd64); measured: "
        in text
    )
    assert "a message takes 1.9" in text


def test_emulation_bars_and_is_marked():
    found = only(times(9, FLAT), FLAT, guest_facts=GUEST | {"accelerator": "tcg"})
    assert found.functional and found.level.call == "cannot tell"
    assert headline(found) == "cannot tell (under emulation)"


def test_fewer_cpus_leave_the_level():
    found = only(times(1.9, GROWS), FLAT, guest_facts=GUEST | {"cpus_online": 2})
    assert (found.level.call, found.scaling.call) == ("virtualization", "cannot tell")
    assert "leaves it open: the sides have 2 and 64 CPUs" in verdict_sentence(found)


def test_a_baseline_that_is_a_guest_shows_one_more_layer_and_no_kernel():
    below = METAL | {"hypervisor": "firecracker"}
    kernel = only(GROWS, GROWS, metal_facts=below)
    assert kernel.scaling.call == "cannot tell"
    assert "metal is itself a guest of firecracker" in kernel.scaling.reason
    both = only(AMPLIFIED, GROWS, metal_facts=below)
    assert both.scaling.call == "virtualization"
    assert any("one more layer of virtualization" in note for note in verdict_notes(both))


def test_one_boot_is_said():
    metal = Made(FLAT, METAL, boots=1)
    notes = verdict_notes(only(FLAT, metal))
    assert "It holds for the one boot of metal that was measured." in notes
    assert not any("one boot" in note for note in verdict_notes(only(FLAT, FLAT)))


def test_one_thread_count_has_no_scaling_to_judge():
    found = only({1: 4.0}, {1: 2.0})
    assert (found.level.call, found.scaling.call) == ("virtualization", "cannot tell")
    assert "growth" not in verdict_sentence(found)
    assert headline(found) == "virtualization"


def test_sides_without_a_thread_count_in_common_are_not_compared():
    run = Run(records({"metal": Made({1: 2.0}), "linux": Made({2: 2.0}, GUEST, "vm")}))
    assert run.pairs and run.comparisons == []


def kernels(accelerator, factor=2.0):
    facts = GUEST | {"image_key": "k", "image": "debian-12", "accelerator": accelerator}
    targets = {
        "old": Made(times(factor, GROWS), facts | {"kernel": "5.10.0-28-amd64"}, "vm"),
        "new": Made(FLAT, facts, "vm"),
    }
    (comparison,) = Run(records(targets)).comparisons
    return comparison


def test_two_kernels_are_judged_as_kernels():
    found = kernels("kvm")
    assert (found.level.call, found.scaling.call) == ("kernel", "kernel")
    text = verdict_sentence(found)
    assert "new / old, kqtest: kernel: a message takes 0.50" in text
    assert "as long with new as with old at 1 thread" in text


def test_two_kernels_under_emulation_are_judged_and_marked():
    found = kernels("tcg")
    assert found.level.call == "kernel" and not found.barred
    assert headline(found) == "kernel (under emulation)"
    assert any("no time of a real machine follows" in note for note in verdict_notes(found))


def test_the_margin_is_the_labs():
    lab = {"margin": 1.0, "pairs": [{"guest": "linux", "metal": "metal"}]}
    found = only(times(1.5, FLAT), FLAT, lab=lab)
    assert (found.margin, found.level.call) == (1.0, "neither")


def test_simulated_sides_are_marked():
    sides = {"metal": Made(FLAT, METAL, "sim"), "linux": Made(times(2, FLAT), GUEST, "sim")}
    pairs = [{"guest": "linux", "metal": "metal"}]
    (found,) = Run(records(sides), pairs=pairs).comparisons
    assert headline(found) == "at 1 thread virtualization, for scaling neither (simulated)"
    assert verdict_notes(found)[0].startswith("Simulated: drawn from a model")


def test_many_differences_are_counted():
    more = dict.fromkeys(("libc", "compiler", "thp", "aslr", "governor", "turbo", "smt", "hz"), "x")
    (note,) = verdict_notes(
        only(FLAT, FLAT, guest_facts=GUEST | more, pairs=[{"guest": "linux", "metal": "metal"}])
    )
    assert note.startswith("What else differs, 8 things: compiler, libc, ")
    assert note.endswith("and 2 more.")


def change(now, before, *, facts=METAL, noise=0.01, boots=(6, 6), threads=FLAT):
    """One machine in two runs of different boots, the second slower by a factor."""
    made = [
        Run(records({"metal": Made(times(f, threads), own)}, boots=b, noise=noise, seed=seed))
        for seed, (f, own, b) in enumerate(zip((before, now), (METAL, facts), boots, strict=True))
    ]
    (comparison,) = compare_runs(*made).comparisons
    return comparison


@pytest.mark.parametrize(
    ("now", "headlines"),
    [
        (1.0, "unchanged"),
        (1.3, "slower, growth unchanged"),
        (0.7, "faster, growth unchanged"),
        (1.1, "of time cannot tell, growth unchanged"),
    ],
)
def test_a_change_is_called_by_its_direction(now, headlines):
    found = change(now, 1.0)
    assert headline(found) == headlines
    text = verdict_sentence(found)
    assert text.startswith("metal (new) / metal (baseline), kqtest: " + headlines)
    assert ("as long as before at all of 1, 4 and 16 threads" in text) == (now == 1.0)


def test_slower_at_some_thread_counts_is_said_of_those():
    slower = {1: 2.0, 4: 3.0, 16: 2.9}
    runs = [Run(records({"metal": Made(us)}, seed=seed)) for seed, us in enumerate((FLAT, slower))]
    (found,) = compare_runs(*runs).comparisons
    assert (found.level.call, found.level.threads) == ("slower", 4)
    assert "; slower at 4 and 16" in verdict_sentence(found)
    assert found.scaling.call == "grows more"


def test_what_changed_is_named_with_its_values():
    notes = verdict_notes(change(1.3, 1.0, facts=METAL | {"kernel": "6.12.0"}))
    assert "What is known to have changed: kernel (6.1.0-18-amd64 → 6.12.0)." in notes
    words = METAL | {"cmdline": "root=/dev/vda init_on_alloc=1"}
    notes = verdict_notes(change(1.3, 1.0, facts=words))
    assert (
        "What is known to have changed: kernel command line (+root=/dev/vda +init_on_alloc=1)."
        in notes
    )
    assert "Nothing is known to have changed." in verdict_notes(change(1.3, 1.0))


def test_boots_are_told_from_changes():
    among = verdict_notes(change(1.3, 1.0))
    assert not [note for note in among if "boot" in note]
    same = " ".join(verdict_notes(change(1.3, 1.0, boots=(1, 1))))
    assert "one and the same boot" in same, "the made runs call their first boot alike"
    other = change(1.3, 1.0, boots=(1, 6))
    assert not other.same_boot
    text = " ".join(verdict_notes(other))
    assert "the one boot of metal (baseline)" in text and "need not be a change" in text


def test_a_drift_between_the_runs_is_thought_of_where_something_changed():
    drifts = [
        any("drifts more slowly than a run" in note for note in verdict_notes(change(now, 1.0)))
        for now in (0.7, 1.0, 1.3)
    ]
    assert drifts == [True, False, True]


def test_what_neither_run_told_is_not_known_to_have_changed():
    silent = {key: value for key, value in METAL.items() if key != "clocksource"}
    runs = [Run(records({"metal": Made(FLAT, silent)}, seed=seed)) for seed in (1, 2)]
    (found,) = compare_runs(*runs).comparisons
    assert [x.key for x in found.confounders] == ["clocksource"], "nor that it is the same"
    assert "Nothing is known to have changed." in verdict_notes(found)
