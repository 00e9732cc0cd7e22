"""What others submit for a session: it is answered here, under its own number, and stays theirs."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.sessions.effects import Abandon, Announce, Finish, Look, Number, Release, Save
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.session import EventAck, SessionClose
from tests.unit.front.sessions.talking import (
    START_MS,
    TENTH,
    TOKEN,
    chunk,
    events,
    init,
    messages,
    moved,
    of,
    only,
    said_and_placed,
    talk,
    utterance,
)


def test_what_others_submit_for_a_session_is_answered_here_in_its_turn() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    assert machine.ledger.adopt(1, "c0.http", "t", START_MS + 60_000, START_MS) == [Save()]
    assert machine.ledger.adopt(1, "c0.http", "t", START_MS + 60_000, START_MS) == []
    machine.ended(1, "FINISHED", START_MS)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.j0"), (2, 1, "c0.http")]
    assert only(Number, machine.hear(chunk(0, TENTH, is_final=True), START_MS)).at_least == 2


def test_what_has_no_turn_here_is_refused_and_changes_nothing() -> None:
    machine = talk(SessionRules(max_open=2))
    said_and_placed(machine, 5)
    machine.ended(5, "FINISHED", START_MS)
    said_and_placed(machine, 7)
    before = machine.ledger.save()
    for index, why in ((3, "too late"), (5, "too late"), (7, "in use")):
        refusal = machine.ledger.adopt(index, "c0.http", "t", START_MS + 60_000, START_MS)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, why in refusal.detail) == ("INVALID_MESSAGE", True)
    assert machine.ledger.save() == before
    assert machine.ledger.adopt(6, "c0.http", "t", START_MS + 60_000, START_MS) == [Save()]
    full = machine.ledger.adopt(8, "c0.more", "t", START_MS + 60_000, START_MS)
    assert isinstance(full, Refusal)
    assert (full.code, machine.ledger.order.pending) == ("RATE_LIMITED", 2)


def test_what_others_submit_may_have_ended_by_then_so_it_is_looked_at() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    assert only(Look, machine.placed(0, START_MS)) == Look(0, "c0.http")
    assert events(machine.seen(0, "FINISHED", 0, START_MS)) == [(1, 0, "c0.http")]


def test_what_others_submit_keeps_its_turn_while_it_is_being_placed() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    assert machine.ledger.is_being_placed(0)
    said_and_placed(machine, 1)
    assert events(machine.ended(1, "FINISHED", START_MS)) == []
    assert not of(Look, machine.tick(START_MS + 9_999)), "whoever places it says how that went"
    machine.placed(0, START_MS)
    assert not machine.ledger.is_being_placed(0)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.http"), (2, 1, "c0.j1")]


def test_what_others_submit_and_is_refused_is_told_there_and_not_here() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    said_and_placed(machine, 1)
    machine.ended(1, "FINISHED", START_MS)
    effects = machine.withdraw(0, START_MS)
    assert events(effects) == [(1, 1, "c0.j1")]
    assert of(Release, effects) == [Release("c0.http", is_foreign=True)]
    assert of(Save, effects)
    assert not messages(effects, ErrorMessage)
    assert not machine.ledger.has_adopted(0, "c0.http")
    assert machine.withdraw(1, START_MS) == []


def test_what_is_refused_may_be_submitted_again_under_its_number() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.full", "t", START_MS + 60_000, START_MS)
    machine.withdraw(0, START_MS)
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    assert machine.ledger.has_adopted(0, "c0.http")
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.http")]


def test_a_session_that_closes_waits_for_what_others_submit_until_that_is_refused() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    assert not of(Finish, machine.hear(SessionClose(), START_MS))
    assert of(Finish, machine.withdraw(0, START_MS))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_when_nobody_knows_whether_it_was_placed_its_job_may_turn_up_for_a_while(elsewhere: bool) -> None:
    """Because the answer was lost, or because the session goes on elsewhere."""
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    said_and_placed(machine, 1)
    machine.ended(1, "FINISHED", START_MS)
    if elsewhere:
        machine = moved(machine)
        machine.back(init(resume_token=TOKEN), TOKEN, START_MS)
    else:
        assert only(Look, machine.doubt(0, START_MS)) == Look(0, "c0.http")
    assert not machine.ledger.is_being_placed(0)
    assert events(machine.seen(0, None, 0, START_MS + 4_999)) == []
    assert machine.ledger.has_adopted(0, "c0.http")
    late = moved(machine)
    assert events(late.seen(0, "FINISHED", 0, START_MS + 4_999)) == [(1, 0, "c0.http"), (2, 1, "c0.j1")]
    assert events(machine.seen(0, None, 0, START_MS + 5_000)) == [(1, 1, "c0.j1")]
    assert machine.doubt(1, START_MS) == []


def test_what_was_there_and_is_no_more_is_missing() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    machine.placed(0, START_MS)
    assert events(machine.seen(0, None, 0, START_MS)) == [(1, 0, "lost")]


def test_what_others_submit_and_waits_in_vain_is_nobodys_here() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    machine = moved(machine)
    machine.back(init(), TOKEN, START_MS)
    assert not of(Announce, machine.seen(0, "WAITING", 0, START_MS))
    effects = machine.seen(0, None, 0, START_MS)
    assert of(Release, effects) == [Release("c0.http", is_foreign=True)]
    assert not of(Announce, effects)
    assert machine.ledger.is_settled


def test_what_others_submit_is_neither_erased_nor_cancelled_here() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    machine.ledger.adopt(1, "c0.slow", "t", START_MS + 60_000, START_MS)
    machine.ended(0, "FINISHED", START_MS)
    assert of(Release, machine.hear(EventAck(last_event_id=1), START_MS)) == [Release("c0.http", is_foreign=True)]
    said_and_placed(machine, 2)
    machine.ended(2, "FINISHED", START_MS)
    effects = machine.tick(START_MS + 10_000)
    assert events(effects) == [(2, 1, "gap_timeout"), (3, 2, "c0.j2")]
    assert not of(Abandon, effects)
    machine.ledger.adopt(3, "c0.last", "t", START_MS + 60_000, START_MS)
    effects = moved(machine).give_up()
    assert not of(Abandon, effects)
    released = {one.job_id: one.is_foreign for one in of(Release, effects)}
    assert released == {"c0.slow": True, "c0.j2": False, "c0.last": True}


def test_a_number_that_another_job_has_makes_an_error_and_no_end_of_its_own() -> None:
    machine = talk()
    machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    machine.hear(utterance(0), START_MS)
    effects = machine.not_numbered(refuse("INVALID_MESSAGE"), START_MS)
    assert len(messages(effects, ErrorMessage)) == 1
    assert not of(Announce, effects)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.http")]


def test_a_number_that_nobody_uses_but_is_gone_is_missing_in_its_turn() -> None:
    machine = talk()
    machine.hear(utterance(0), START_MS)
    effects = machine.not_numbered(refuse("INVALID_MESSAGE"), START_MS)
    assert len(messages(effects, ErrorMessage)) == 1
    assert events(effects) == [(1, 0, "invalid_message")]
