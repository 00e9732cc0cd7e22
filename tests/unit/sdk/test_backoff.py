"""When nodes and apps try again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.sdk._backoff import FIRST_S, LONGEST_S, MOST_ASKED_S, Backoff


def test_the_bound_doubles_up_to_the_longest_and_begins_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [round(backoff.next_s(), 3) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_S, LONGEST_S]
    for _ in range(2_000):
        backoff.next_s()
    assert backoff.next_s() == LONGEST_S
    backoff.reset()
    assert backoff.next_s() == FIRST_S


@given(
    asked=st.lists(st.none() | st.floats(-1, 100), min_size=1, max_size=12),
    drawn=st.floats(0, 1, exclude_max=True),
)
def test_nobody_comes_earlier_than_he_was_told_and_nobody_waits_for_ever(
    asked: list[float | None], drawn: float
) -> None:
    backoff = Backoff(lambda: drawn)
    for number, asked_s in enumerate(asked):
        least_s = min(max(asked_s or 0.0, 0.0), MOST_ASKED_S)
        assert least_s <= backoff.next_s(asked_s) <= least_s + min(LONGEST_S, FIRST_S * 2**number)


def test_those_who_were_told_the_same_time_do_not_come_together() -> None:
    """A thousand that lost the same scheduler: no tenth of the time gets many more of them than another."""
    draw = random.Random(1).random
    tenths = [int((Backoff(draw).next_s(3.0) - 3.0) / FIRST_S * 10) for _ in range(1_000)]
    assert set(tenths) == set(range(10))
    assert max(tenths.count(tenth) for tenth in range(10)) < 150
