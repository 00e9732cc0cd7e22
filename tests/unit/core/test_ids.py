from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_scheduler.core.ids import (
    cell_of,
    check_bool,
    check_cell,
    check_id,
    check_int,
    check_text,
)
from lingua_scheduler.core.new_ids import new_job_id, new_node_id
from lingua_scheduler.core.refusal import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = "a" + "x" * 127


@pytest.mark.parametrize("value", ["a", "0", "Z9", "node-1", "a._-", LONGEST, "room-888"])
def test_an_id_is_letters_digits_and_three_marks(value: str) -> None:
    assert check_id("node_id", value) == value


@pytest.mark.parametrize(
    "value",
    ["", " ", "a b", "a:b", "{a}", "a}", "-a", ".a", "_a", "a\n", "\na", "a\0", "ä", "节点", LONGEST + "x", "a/b", "*"],
)
def test_anything_else_is_refused_before_it_comes_near_a_key(value: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_id("node_id", value)
    assert refused.value.refusal.code == "INVALID_MESSAGE"
    assert refused.value.refusal.detail.startswith("node_id must be 1 to 128 of")


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"], True])
def test_what_is_no_text_is_no_id(value: object) -> None:
    with pytest.raises(Invalid):
        check_id("node_id", value)
    with pytest.raises(Invalid):
        check_cell(value)
    with pytest.raises(Invalid):
        cell_of(value)


def test_a_refusal_shows_what_was_wrong_but_not_ten_kilobytes_of_it() -> None:
    with pytest.raises(Invalid) as refused:
        check_id("node_id", "{" * 10_000)
    assert len(refused.value.refusal.detail) < 140
    assert refused.value.refusal.detail.endswith("…")
    with pytest.raises(Invalid) as refused:
        check_id("node_id", "a b")
    assert refused.value.refusal.detail.endswith("not 'a b'")


@pytest.mark.parametrize("value", ["c0", "c", "c12", "eu1", "a" * 16])
def test_a_cell_has_a_short_plain_name(value: str) -> None:
    assert check_cell(value) == value


@pytest.mark.parametrize("value", ["", "0", "C0", "c-0", "c.0", "{c0}", "c0\n", "a" * 17, "ä"])
def test_a_cell_has_no_other_name(value: str) -> None:
    with pytest.raises(Invalid):
        check_cell(value)


def test_a_job_id_names_its_home_and_is_made_only_once() -> None:
    made = {new_job_id("c7") for _ in range(100)}
    assert len(made) == 100
    assert {cell_of(job_id) for job_id in made} == {"c7"}
    for job_id in made:
        assert check_id("job_id", job_id) == job_id


def test_job_ids_grow_with_time() -> None:
    made = [new_job_id("c0") for _ in range(50)]
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("job_id", "cell"),
    [
        ("c0.a", "c0"),
        ("c0.0192f0c1-7a", "c0"),
        ("c0.a.b", "c0"),
        ("c0.-", "c0"),
        ("x" * 16 + "." + "y" * 111, "x" * 16),
    ],
)
def test_the_home_of_a_job_is_read_from_its_id(job_id: str, cell: str) -> None:
    assert cell_of(job_id) == cell
    assert check_id("job_id", job_id) == job_id


@pytest.mark.parametrize(
    "job_id", ["", "c0", "c0.", ".a", "C0.a", "0.a", "c0.a b", "c0.a:1", "{c0}.a", "c0.a\n", "c0." + "y" * 112]
)
def test_what_names_no_home_is_no_job_id(job_id: str) -> None:
    with pytest.raises(Invalid):
        cell_of(job_id)


@pytest.mark.parametrize("value", [3, 4, 7])
def test_a_whole_number_within_bounds_is_taken(value: int) -> None:
    assert check_int("n", value, 3, 7) == value


@pytest.mark.parametrize("value", [2, 8, True, 3.0, "3", None])
def test_any_other_number_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match="n must be a whole number from 3 to 7"):
        check_int("n", value, 3, 7)


@pytest.mark.parametrize("value", [0, 1, None, "true"])
def test_only_true_and_false_are_true_or_false(value: object) -> None:
    assert check_bool("b", True) is True
    assert check_bool("b", False) is False
    with pytest.raises(Invalid, match="b must be true or false"):
        check_bool("b", value)


def test_text_is_bounded_and_can_be_encoded() -> None:
    assert check_text("t", "", 0) == ""
    assert check_text("t", "太晚了", 3) == "太晚了"
    for value in ("太晚了!", None, b"t", 1):
        with pytest.raises(Invalid, match="t must be text of at most 3 characters"):
            check_text("t", value, 3)
    with pytest.raises(Invalid, match="t is not valid Unicode"):
        check_text("t", "\ud800", 3)


def test_a_node_without_an_id_gets_one_of_its_own() -> None:
    first, second = new_node_id(), new_node_id()
    assert first.startswith("node-")
    assert check_id("node_id", first) != second


@given(st.one_of(st.text(), st.binary(), st.integers(), st.none(), st.floats(), st.lists(st.text())))
def test_no_input_whatever_gets_past_the_checks_or_breaks_them(value: Any) -> None:
    """Whatever is let through can stand in a key and in a lease, whose parts are cut at colons."""
    checks: list[Callable[[], str]] = [lambda: check_id("x", value), lambda: check_cell(value)]
    for check in checks:
        try:
            passed = check()
        except Invalid:
            continue
        assert passed == value
        assert not set(passed) & set(":{}; \n\0")
