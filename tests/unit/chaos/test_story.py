"""A story has what concerns the violation, in order, and nothing else."""

from __future__ import annotations

from chaos.checker import Expect, check
from chaos.history import Event
from chaos.story import story_of


def test_an_oversold_node_is_told_by_its_jobs_and_what_was_broken_meanwhile() -> None:
    events = [
        Event(100.0, "n1.1", "up", node="n1", more={"slots": 1}),
        Event(100.0, "n2.1", "up", node="n2", more={"slots": 1}),
        Event(101.0, "n2.1", "begin", node="n2", job="c0.other", attempt=1),
        Event(102.0, "director", "answered", job="c0.a", request="r1"),
        Event(103.0, "n1.1", "begin", node="n1", job="c0.a", attempt=1),
        Event(104.0, "director", "fault", more={"kind": "engine_kill"}),
        Event(105.0, "n1.1", "begin", node="n1", job="c0.b", attempt=1),
        Event(900.0, "director", "fault", more={"kind": "reset"}),
    ]
    (violation,), _ = check(events, Expect(is_over=False))
    lines = story_of(violation, events)
    assert [line.split()[:4] for line in lines] == [
        ["0.000", "s", "n1.1", "up"],
        ["2.000", "s", "director", "answered"],
        ["3.000", "s", "n1.1", "begin"],
        ["4.000", "s", "director", "fault"],
        ["5.000", "s", "n1.1", "begin"],
    ]


def test_a_session_is_told_by_what_it_said_and_heard() -> None:
    events = [
        Event(1.0, "crowd-0", "opened", session="s1"),
        Event(2.0, "crowd-0", "said", session="s1", index=0),
        Event(3.0, "n1.1", "up", node="n1", more={"slots": 1}),
        Event(3.1, "n1.1", "begin", node="n1", job="c0.a", attempt=1, session="s1", index=0),
        Event(4.0, "crowd-0", "session_lost", session="s1", more={"code": 4404, "open": [0]}),
        Event(5.0, "director", "job_is", job="c0.a", node="n1", session="s1", more={"state": "FINISHED"}),
    ]
    (violation,), _ = check(events, Expect(is_over=False))
    assert [line.split()[3] for line in story_of(violation, events)] == ["opened", "said", "begin", "session_lost"]


def test_a_long_story_keeps_its_end() -> None:
    looks = [
        Event(float(n), "director", "seen", job="c0.a", attempt=1, more={"state": "FAILED", "text": None})
        for n in range(200)
    ]
    events = [*looks, Event(200.0, "director", "job_is", job="c0.a", attempt=2, more={"state": "CANCELLED"})]
    (violation,), _ = check(events, Expect(is_over=False))
    lines = story_of(violation, events)
    assert lines[0] == "  … 141 lines before"
    assert "CANCELLED" in lines[-1]
