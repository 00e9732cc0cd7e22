"""What is remembered of what nodes have, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.front import errands as module
from lingua_scheduler.front.assignment import Errand
from lingua_scheduler.front.errands import Errands

if TYPE_CHECKING:
    import pytest


def errand(job_id: str, node_id: str = "n1", attempt_id: int = 1, deadline_ms: int = 100) -> Errand:
    return Errand(job_id, attempt_id, node_id, "s1", 0, "t1", deadline_ms)


class Told(Errands):
    """On a clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 0
        super().__init__(lambda: self.now_ms)


def test_a_later_attempt_takes_the_place_of_an_earlier() -> None:
    errands = Told()
    errands.add(errand("a"))
    errands.add(errand("a", "n2", 2))
    assert (len(errands), errands.of_node("n1")) == (1, [])
    assert errands.of_node("n2") == [errand("a", "n2", 2)]
    errands.drop("a", 1)
    errands.drop("a", 2, "n1")
    assert errands.has("a")
    errands.drop("a", 2, "n2")
    assert (len(errands), errands.of_node("n2")) == (0, [])


def test_a_node_that_went_elsewhere_has_none() -> None:
    errands = Told()
    for job_id, node_id in (("a", "n1"), ("b", "n2"), ("c", "n1")):
        errands.add(errand(job_id, node_id))
    errands.drop_node("n1")
    errands.drop_node("n1")
    assert (len(errands), errands.of_node("n2")) == (1, [errand("b", "n2")])


def test_what_cannot_go_on_is_forgotten() -> None:
    """How it ended was told elsewhere."""
    errands = Told()
    for number in range(10):
        errands.add(errand(f"old-{number}"))
    errands.now_ms = 100
    for number in range(10):
        errands.add(errand(f"new-{number}", deadline_ms=200))
    assert [one.job_id for one in errands.of_node("n1")] == [f"new-{number}" for number in range(10)]


def test_of_too_many_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 3)
    errands = Told()
    for number in range(5):
        errands.add(errand(str(number)))
    assert [one.job_id for one in errands.of_node("n1")] == ["2", "3", "4"]
