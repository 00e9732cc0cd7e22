"""What others submit for a session: it is answered here, under its own number, and stays theirs."""

from __future__ import annotations

from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.front.sessions.effects import Abandon, Announce, Look, Number, Release, Save
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.session import EventAck
from tests.unit.front.sessions.talking import (
    START_MS,
    TENTH,
    chunk,
    events,
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
    assert of(Save, machine.ledger.adopt(1, "c0.http", "t", START_MS + 60_000, START_MS))
    assert machine.ledger.adopt(1, "c0.again", "t", START_MS + 60_000, START_MS) == []
    machine.ended(1, "FINISHED", START_MS)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.j0"), (2, 1, "c0.http")]
    assert only(Number, machine.hear(chunk(0, TENTH, is_final=True), START_MS)).at_least == 2


def test_what_others_submit_may_have_ended_by_then_so_it_is_looked_at() -> None:
    machine = talk()
    effects = machine.ledger.adopt(0, "c0.http", "t", START_MS + 60_000, START_MS)
    assert only(Look, effects) == Look(0, "c0.http")
    assert events(machine.seen(0, "FINISHED", 0, START_MS)) == [(1, 0, "c0.http")]


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
