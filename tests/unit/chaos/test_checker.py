"""The checker finds what it is there for: each rule on a small history that breaks it, and on one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.checker import Expect, check
from chaos.history import Event, in_order

#: Everything had time to end; the engine forgets nothing.
OVER = Expect(is_over=True)
UNDER_WAY = Expect(is_over=False)
#: An engine that answers before its replica has it.
FORGETFUL = Expect(is_over=False, may_forget=True)
FAIL_OVER: tuple[str, dict[str, Any]] = ("failed_over", {})


def history(*lines: tuple[str, dict[str, Any]]) -> list[Event]:
    """One event a second, in this order. What is no field of an event is told about it."""
    events = []
    for number, (what, said) in enumerate(lines):
        fields: dict[str, Any] = {name: said[name] for name in said if name in Event.__struct_fields__}
        more = {name: said[name] for name in said if name not in fields}
        events.append(Event(at_s=float(number), actor="somebody", what=what, more=more, **fields))
    return in_order(events)


def rules(events: list[Event], expect: Expect = OVER) -> list[str]:
    violations, _ = check(events, expect)
    return [violation.rule for violation in violations]


def up(node: str = "n1", slots: int = 1) -> tuple[str, dict[str, Any]]:
    return "up", {"node": node, "slots": slots}


def begin(job: str = "c0.a", attempt: int = 1, node: str = "n1", request: str = "") -> tuple[str, dict[str, Any]]:
    return "begin", {"node": node, "job": job, "attempt": attempt, "request": request}


def end(job: str = "c0.a", attempt: int = 1, node: str = "n1") -> tuple[str, dict[str, Any]]:
    return "end", {"node": node, "job": job, "attempt": attempt, "how": "done"}


def result(job: str = "c0.a", attempt: int = 1, node: str = "n1") -> tuple[str, dict[str, Any]]:
    return "result", {"node": node, "job": job, "attempt": attempt, "ok": True}


def said(index: int, session: str = "s1") -> tuple[str, dict[str, Any]]:
    return "said", {"session": session, "index": index}


def heard(
    index: int, event: int, *, job: str = "c0.a", text: str = "", session: str = "s1"
) -> tuple[str, dict[str, Any]]:
    text = text or f"{session}|{index}|{job}|1|n1"
    fields = {"kind": "translation_result", "event": event, "text": text}
    return "heard", {"session": session, "index": index, "job": job} | fields


def missing(index: int, event: int, session: str = "s1") -> tuple[str, dict[str, Any]]:
    fields = {"kind": "missing_result", "event": event, "reason": "lost"}
    return "heard", {"session": session, "index": index} | fields


def streamed(line: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The same, heard in a stream."""
    what, said = line
    return what, said | {"stream": True}


def job_is(state: str, job: str = "c0.a", attempt: int = 1, node: str = "n1") -> tuple[str, dict[str, Any]]:
    return "job_is", {"job": job, "attempt": attempt, "node": node, "state": state}


def seen(state: str, job: str = "c0.a", attempt: int = 1, text: str = "") -> tuple[str, dict[str, Any]]:
    return "seen", {"job": job, "attempt": attempt, "state": state, "text": text or f"s1|0|{job}|{attempt}|n1"}


def answered(job: str = "c0.a", request: str = "r1") -> tuple[str, dict[str, Any]]:
    return "answered", {"request": request, "job": job}


def test_a_run_in_which_all_went_well_is_well() -> None:
    run = history(
        up(),
        answered(),
        begin(request="r1"),
        end(),
        result(),
        seen("FINISHED"),
        said(0),
        begin("c0.b"),
        end("c0.b"),
        result("c0.b"),
        heard(0, 1, job="c0.b"),
        job_is("FINISHED"),
        job_is("FINISHED", "c0.b"),
    )
    assert rules(run) == []


class TestOversold:
    def test_a_node_with_more_in_work_than_slots(self) -> None:
        assert rules(history(up(), begin("c0.a"), begin("c0.b")), UNDER_WAY) == ["S1 oversold"]

    def test_the_same_attempt_in_limbo_counts(self) -> None:
        assert rules(history(up(), begin(attempt=1), begin(attempt=2)), UNDER_WAY) == ["S1 oversold"]

    def test_one_after_the_other_is_no_more_than_one(self) -> None:
        assert rules(history(up(), begin("c0.a"), end("c0.a"), begin("c0.b")), UNDER_WAY) == []

    def test_work_ends_with_its_process(self) -> None:
        killed = ("node_ended", {"node": "n1", "code": -9})
        assert rules(history(up(), begin("c0.a"), killed, up(), begin("c0.b")), UNDER_WAY) == []

    def test_another_node_has_slots_of_its_own(self) -> None:
        assert rules(history(up(), up("n2"), begin("c0.a"), begin("c0.b", node="n2")), UNDER_WAY) == []


class TestOneEnd:
    def test_a_job_that_ended_twice(self) -> None:
        assert rules(history(result(), seen("FINISHED"), seen("CANCELLED")), UNDER_WAY) == ["S5 ended twice"]

    def test_an_end_that_the_engine_does_not_have(self) -> None:
        found = rules(history(result(), seen("FINISHED"), job_is("RUNNING")), UNDER_WAY)
        assert "S5 ended twice" in found

    def test_a_later_look_at_the_same_end(self) -> None:
        assert rules(history(seen("FAILED"), seen("FAILED"), job_is("FAILED"))) == []

    def test_a_job_without_an_end_when_all_is_over(self) -> None:
        assert rules(history(job_is("RUNNING"))) == ["L2 no end"]
        assert rules(history(job_is("RUNNING")), UNDER_WAY) == []


class TestLost:
    def test_a_job_that_was_accepted_and_is_gone(self) -> None:
        assert rules(history(answered("c0.b"), job_is("FINISHED")), UNDER_WAY) == ["S15 lost"]

    def test_a_fail_over_may_forget_where_nobody_waits_for_replicas(self) -> None:
        run = history(answered("c0.b"), FAIL_OVER, job_is("FINISHED"))
        violations, forgotten = check(run, FORGETFUL)
        assert (violations, [violation.rule for violation in forgotten]) == ([], ["S15 lost"])
        assert rules(run, UNDER_WAY) == ["S15 lost"]

    def test_but_not_what_it_confirmed_long_afterwards(self) -> None:
        later = [said(index) for index in range(5)]
        assert rules(history(FAIL_OVER, *later, answered("c0.b"), job_is("FINISHED")), FORGETFUL) == ["S15 lost"]

    def test_nor_may_it_oversell(self) -> None:
        assert rules(history(up(), begin("c0.a"), FAIL_OVER, begin("c0.b")), FORGETFUL) == ["S1 oversold"]

    def test_who_hears_again_what_he_heard_before_a_fail_over_has_a_forgetful_engine(self) -> None:
        lines = (result(), said(0), said(1), heard(0, 1), heard(1, 2), FAIL_OVER, heard(0, 1), heard(1, 2))
        assert rules(history(*lines), FORGETFUL) == []
        assert "S18 twice" in rules(history(*lines), UNDER_WAY)

    def test_a_session_that_is_not_known_any_more(self) -> None:
        lost = ("session_lost", {"session": "s1", "code": 4404, "open": [0]})
        assert rules(history(said(0), lost)) == ["S15 session lost"]

    def test_who_was_away_for_too_long_has_lost_his_session_himself(self) -> None:
        opened, lost = ("opened", {"session": "s1"}), ("session_lost", {"session": "s1", "code": 4404, "open": []})
        elsewhere = [("opened", {"session": f"s{number}"}) for number in range(2, 140)]
        assert rules(history(opened, *elsewhere, lost)) == []
        assert rules(history(opened, *elsewhere[:100], lost)) == ["S15 session lost"]

    def test_nobody_knows_of_what_timed_out(self) -> None:
        assert rules(history(("asked", {"request": "r1"}), ("unknown", {"request": "r1", "why": "timeout"}))) == []


class TestIdempotent:
    def test_one_request_two_answers(self) -> None:
        assert rules(history(answered("c0.a"), answered("c0.b")), UNDER_WAY) == ["S10 two jobs"]

    def test_one_request_that_two_nodes_were_given_as_different_jobs(self) -> None:
        lines = (up(), up("n2"), begin("c0.a", request="r1"), begin("c0.b", node="n2", request="r1"))
        assert rules(history(*lines), UNDER_WAY) == ["S10 two jobs"]

    def test_the_same_job_again(self) -> None:
        assert rules(history(answered(), answered(), up(), begin(request="r1")), UNDER_WAY) == []


class TestAuthentic:
    def test_the_result_of_another_session(self) -> None:
        lines = (result("c0.b"), said(0), heard(0, 1, job="c0.b", text="s2|0|c0.b|1|n1"))
        assert rules(history(*lines)) == ["S17 foreign result"]

    def test_the_result_of_another_utterance(self) -> None:
        assert rules(history(result(), said(0), heard(0, 1, text="s1|7|c0.a|1|n1"))) == ["S17 foreign result"]

    def test_the_result_of_another_job(self) -> None:
        lines = (result("c0.b"), said(0), heard(0, 1, job="c0.a", text="s1|0|c0.b|1|n1"))
        assert rules(history(*lines)) == ["S17 foreign result"]

    def test_a_result_that_no_node_gave(self) -> None:
        assert rules(history(said(0), heard(0, 1))) == ["S7 invented result"]

    def test_the_result_of_an_attempt_that_was_fenced(self) -> None:
        lines = (result(), said(0), heard(0, 1), job_is("FINISHED", attempt=2, node="n2"))
        assert rules(history(*lines)) == ["S7 fenced result"]

    def test_a_finished_job_without_its_text(self) -> None:
        assert rules(history(result(), seen("FINISHED", text="-"))) == ["S11 no text"]


class TestInTurn:
    def test_out_of_order(self) -> None:
        lines = (result(), said(0), said(1), heard(1, 1), heard(0, 2))
        assert rules(history(*lines)) == ["S18 out of order", "S18 twice"]

    def test_a_gap_that_nobody_announced(self) -> None:
        lines = (result(), said(0), said(1), said(2), heard(0, 1), heard(2, 2))
        assert rules(history(*lines), UNDER_WAY) == ["S18 out of order"]

    def test_a_gap_that_was_announced(self) -> None:
        lines = (result(), said(0), said(1), said(2), heard(0, 1), missing(1, 2), heard(2, 3))
        assert rules(history(*lines)) == []

    def test_twice(self) -> None:
        lines = (result(), said(0), heard(0, 1), heard(0, 2))
        assert rules(history(*lines)) == ["S18 twice"]

    def test_a_stream_may_leave_numbers_out_and_hears_none_twice(self) -> None:
        first, third = (streamed(heard(index, 0)) for index in (0, 2))
        assert rules(history(result(), first, third)) == []
        assert rules(history(result(), first, third, first)) == ["S18 twice"]
        foreign = streamed(heard(0, 0, text="s2|0|c0.a|1|n1"))
        assert rules(history(result(), foreign)) == ["S17 foreign result"]

    def test_an_event_that_was_confirmed(self) -> None:
        lines = (result(), said(0), said(1), heard(0, 5), heard(1, 5))
        assert rules(history(*lines)) == ["S18 event again"]

    def test_no_answer_at_all(self) -> None:
        assert rules(history(said(0), said(1), missing(0, 1))) == ["L2 no answer"]
        assert rules(history(said(0)), UNDER_WAY) == []


def test_a_rolling_restart_that_somebody_noticed() -> None:
    lines: tuple[tuple[str, dict[str, Any]], ...] = (
        said(0),
        said(1),
        missing(0, 1),
        ("restart_begins", {}),
        missing(1, 2),
        ("restart_ends", {}),
    )
    assert rules(history(*lines)) == ["restart noticed"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (("audit", {"invariant": "S3", "subject": "n1", "detail": "used is 2"}), "S3 auditor"),
        (("left", {"rule": "S12 letters left", "detail": "7"}), "S12 letters left"),
    ],
)
def test_what_was_seen_in_the_engine_counts(line: tuple[str, dict[str, Any]], rule: str) -> None:
    assert rules(history(line)) == [rule]
