"""Text and numbers as they are shown."""

from __future__ import annotations

import pytest

from labctl.analysis.words import family_interval, interval, number, plain, spread
from labctl.stats import Estimate


@pytest.mark.parametrize(
    "text", ["\x1b]0;title\x07", "a\rb", "\u202eevil", "\x9b31m", "\ud800", "nul\0"]
)
def test_nothing_that_steers_a_terminal_is_left(text):
    assert plain(text).isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.2149, "3.21"), (9.999, "10.0"), (99.96, "100"), (0.02134, "0.0213")],
)
def test_three_digits(value, text):
    assert number(value) == text


def test_an_interval_that_is_not_there_is_not_made_up():
    one = Estimate(3.0, None, None, 0.95, "", (), 1, 4, 4)
    assert (spread(one), interval(one)) == ("", "none")


def test_few_processes_are_counted_beside_an_interval_that_looks_sure():
    one = Estimate(3.0, 2.9, 3.1, 0.95, "", (), 1, 2, 6)
    assert (spread(one), interval(one)) == ("±3% n=2", "2.90 to 3.10 (n=2)")
    alone = Estimate(3.0, None, None, 0.95, "", (), 1, 1, 3)
    assert (spread(alone), interval(alone)) == ("n=1", "none (n=1)")
    wide = Estimate(3.0, 0.01, 900.0, 0.95, "", (), 1, 2, 6)
    assert spread(wide) == "[0.0100, 900] n=2"
    two = Estimate(2.0, 1.9, 2.1, 0.95, "", (), 1, 3, 9)
    assert (spread(two), interval(two)) == ("±5%", "1.90 to 2.10")


def test_the_interval_for_all_thread_counts_is_another():
    one = Estimate(2.0, 1.9, 2.1, 0.95, "", (), 1, 3, 9, family_low=1.8, family_high=2.2)
    assert (interval(one), family_interval(one)) == ("1.90 to 2.10", "1.80 to 2.20")
    assert family_interval(Estimate(2.0, 1.9, 2.1, 0.95, "", (), 1, 3, 9)) == "none"
