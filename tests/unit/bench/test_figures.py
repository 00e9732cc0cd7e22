from __future__ import annotations

import pytest

from bench.figures import least_ratio, median, percentile, ratio, rounded, rounds_won


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(250, 0, -1)]
    assert [percentile(values, percent) for percent in (0, 50, 90, 99, 100)] == [1, 125, 225, 248, 250]
    assert percentile([7.0], 99) == 7


def test_a_median_leaves_out_what_is_missing() -> None:
    assert median([3.0, None, 1.0, 2.0]) == 2
    assert median([None]) is None


def test_a_ratio_is_taken_round_by_round() -> None:
    # A slow round is slow for both: the medians alone would say 2.
    assert ratio([100.0, 10.0, 40.0], [25.0, 2.5, 20.0]) == 4
    assert ratio([100.0, None, 40.0], [25.0, 1.0, None]) == 4
    assert ratio([1.0, 2.0], []) is None


def test_the_least_ratio_is_the_one_to_the_best() -> None:
    assert least_ratio([90.0, 90.0], {"slow": [10.0, 10.0], "fast": [30.0, 30.0]}) == 3


@pytest.mark.parametrize("absent", [[], [None, None]])
def test_there_is_no_best_while_one_is_missing(absent: list[float | None]) -> None:
    assert least_ratio([90.0, 90.0], {"slow": [10.0, 10.0], "absent": absent}) is None
    assert least_ratio([90.0, 90.0], {}) is None


def test_a_round_is_won_with_every_figure_against_everybody() -> None:
    ours = [[1.0, 1.0, 1.0, 5.0], [2.0, 2.0, 2.0, 6.0]]
    theirs = {
        "one": [[2.0, 2.0, 1.0, 9.0], [3.0, 1.0, 3.0, 9.0]],  # the second by its other figure, the third not at all
        "two": [[2.0, 2.0, 2.0, 4.0], [3.0, 3.0, 3.0, 9.0]],
    }
    assert rounds_won(ours, theirs) == 1


def test_who_did_not_come_through_a_round_has_not_won_it() -> None:
    assert rounds_won([[1.0, None, 1.0]], {"one": [[2.0, 2.0, None]]}) == 2


def test_nothing_is_won_against_who_was_never_there() -> None:
    assert rounds_won([[1.0]], {"one": [[2.0]], "absent": [[]]}) is None


def test_rounding_to_no_digits_gives_a_whole_number() -> None:
    assert repr(rounded(1234.5678, 0)) == "1235"
    assert rounded(1.237) == 1.24
    assert rounded(None) is None
