from __future__ import annotations

import pytest

from lingua_scheduler.core.node import check_about, check_load, check_reported, check_running, check_slots
from lingua_scheduler.core.refusal import Invalid


@pytest.mark.parametrize("health", ["registering", "ready", "degraded", "draining", "offline"])
def test_a_node_has_five_words_for_its_health(health: str) -> None:
    assert check_reported(health) == health


@pytest.mark.parametrize("health", ["", "Ready", "ok", None, 1])
def test_any_other_word_is_refused(health: object) -> None:
    with pytest.raises(Invalid, match="health must be one of registering, ready, degraded, draining, offline"):
        check_reported(health)


def test_a_node_has_one_slot_at_least_and_a_thousand_and_twenty_four_at_most() -> None:
    assert (check_slots(1), check_slots(1024)) == (1, 1024)
    for slots in (0, 1025, True, "4", None):
        with pytest.raises(Invalid, match="max_concurrent_jobs must be a whole number from 1 to 1024"):
            check_slots(slots)


def test_what_a_node_runs_is_a_list_of_attempts() -> None:
    assert check_running([]) == []
    assert check_running([("c0.a", 1), ["c0.b", 2]]) == [("c0.a", 1), ("c0.b", 2)]


@pytest.mark.parametrize(
    "running",
    [None, "c0.a", b"c0.a", {}, ["c0.a"], [("c0.a",)], [("c0.a", 1, 2)], [("a", 1)], [("c0.a", 0)], [("c0.a", True)]],
)
def test_what_names_no_attempts_is_refused(running: object) -> None:
    with pytest.raises(Invalid):
        check_running(running)


def test_a_node_may_be_at_work_on_more_than_its_slots_but_not_on_everything() -> None:
    assert len(check_running([("c0.a", 1)] * 4096)) == 4096
    with pytest.raises(Invalid, match="running must be a list of at most 4096 attempts"):
        check_running([("c0.a", 1)] * 4097)


def test_a_load_is_shares_from_nothing_to_all() -> None:
    assert check_load({}) == []
    assert check_load({"mem": 1, "gpu": 0, "cpu": 0.5}) == [("cpu", 0.5), ("gpu", 0.0), ("mem", 1.0)]


@pytest.mark.parametrize(
    "load", [None, [], {"gpu": -0.1}, {"gpu": 1.1}, {"gpu": True}, {"gpu": "1"}, {"gpu": float("nan")}]
)
def test_any_other_load_is_refused(load: object) -> None:
    with pytest.raises(Invalid, match="current_load must map gpu, cpu or mem to shares"):
        check_load(load)


@pytest.mark.parametrize("more", [{"disk": 7}, {"npu": "hot"}, {1: 2}, {"mem": None}, {"disk": None}])
def test_a_load_of_something_unknown_and_one_that_is_null_are_left_out(more: dict[object, object]) -> None:
    assert check_load({"gpu": 0.5, **more}) == [("gpu", 0.5)]
    with pytest.raises(Invalid, match="current_load must map"):
        check_load({"gpu": 2, **more})


def test_what_a_node_says_of_itself_is_bounded() -> None:
    assert check_about("x" * 16_384)
    with pytest.raises(Invalid):
        check_about("x" * 16_385)
