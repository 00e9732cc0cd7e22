"""What a session owes its client, on virtual time: gaps, looks, coming back, moving, closing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lingua_scheduler.core.order import OrderLimits
from lingua_scheduler.core.refusal import Invalid, refuse
from lingua_scheduler.core.ticket import MAX_INDEX
from lingua_scheduler.flows.sessions import MAX_STATE_BYTES
from lingua_scheduler.front.assignment import Errand
from lingua_scheduler.front.sessions.effects import (
    Abandon,
    Announce,
    Close,
    Effect,
    Finish,
    Forget,
    Look,
    Number,
    Release,
    Save,
    Submit,
)
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.state import pack_state, unpack_state
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.node import NodeAsrPartial
from lingua_scheduler.protocol.options import Options
from lingua_scheduler.protocol.session import (
    AsrPartial,
    EventAck,
    SessionClose,
    SessionInit,
    SessionInitAck,
    UiEvent,
)
from tests.unit.front.sessions.talking import (
    SESSION,
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
    place,
    said_and_placed,
    say,
    talk,
    utterance,
)


def errand(index: int, job_id: str | None = None) -> Errand:
    return Errand(job_id or f"c0.j{index}", 1, "n1", SESSION, index, "t", 0)


def shown(effects: list[Effect]) -> list[str]:
    return [one.event for one in messages(effects, UiEvent)]


def test_a_gap_is_announced_its_job_cancelled_and_a_late_result_dropped() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    assert not of(Announce, machine.ended(1, "FINISHED", START_MS))
    assert not of(Announce, machine.tick(START_MS + 9_999))
    effects = machine.tick(START_MS + 10_000)
    assert only(Abandon, effects) == Abandon(0, "c0.j0")
    assert events(effects) == [(1, 0, "gap_timeout"), (2, 1, "c0.j1")]
    assert not of(Announce, machine.ended(0, "FINISHED", START_MS + 10_001))


def test_one_that_is_still_being_placed_is_given_up_like_any_other() -> None:
    machine = talk()
    say(machine, 0)
    said_and_placed(machine, 1)
    machine.ended(1, "FINISHED", START_MS)
    effects = machine.tick(START_MS + 10_000)
    assert only(Abandon, effects) == Abandon(0, "c0.j0")
    assert machine.placed(0, START_MS + 10_001) == []
    assert machine.ledger.line.room_for(0) is None


def test_what_is_given_up_while_it_is_being_placed_leaves_room_for_others() -> None:
    """Nobody tells how the placing ended of what was given up."""
    machine, large = talk(), bytes(2 * 1024 * 1024)
    for index in range(4):
        say(machine, index, audio=large)
    machine.ledger.accepted(errand(0), START_MS)
    refused = machine.hear(utterance(4), START_MS)
    assert messages(refused, ErrorMessage)[0].code == "RATE_LIMITED"
    effects = machine.tick(START_MS + 10_000)
    assert [abandon.index for abandon in of(Abandon, effects)] == [0, 1, 2, 3]
    for index in range(5, 9):
        say(machine, index, START_MS + 10_000, audio=large)
    assert shown(machine.placed(0, START_MS + 10_000)) == []
    assert machine.ledger.line.room_for(1) is not None, "what was given up leaves once"


def test_a_node_in_a_grace_stops_the_clock_of_a_gap() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    machine.ended(1, "FINISHED", START_MS)
    assert only(Look, machine.tick(START_MS + 1_000)) == Look(0, "c0.j0")
    machine.seen(0, "RUNNING", START_MS + 9_000, START_MS + 1_000)
    assert not of(Announce, machine.tick(START_MS + 17_999))
    assert of(Announce, machine.tick(START_MS + 18_000))


def test_jobs_are_looked_at_in_case_nobody_tells_how_they_end() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    say(machine, 2)
    assert not of(Look, machine.tick(START_MS + 4_999))
    assert [look.index for look in of(Look, machine.tick(START_MS + 5_000))] == [0, 1]
    assert not of(Look, machine.tick(START_MS + 5_001))
    assert events(machine.seen(0, "FAILED", 0, START_MS + 5_002)) == [(1, 0, "job_failed")]
    assert events(machine.seen(1, None, 0, START_MS + 5_002)) == [(2, 1, "lost")]
    assert machine.seen(1, "FINISHED", 0, START_MS + 5_003) == []


def test_only_what_cannot_be_seen_again_is_saved() -> None:
    machine = talk()
    say(machine, 0)
    assert not of(Save, machine.placed(0, START_MS))
    said_and_placed(machine, 1)
    say(machine, 2)
    assert not of(Save, machine.ended(1, "FINISHED", START_MS)), "its job says so"
    assert of(Save, machine.refused(2, refuse("SHUTTING_DOWN"), START_MS)), "nobody else knows"
    effects = machine.ended(0, "FAILED", START_MS)
    assert (len(of(Announce, effects)), of(Save, effects)) == (1, []), "what is announced is saved before"


def test_what_was_not_saved_is_seen_where_the_session_goes_on() -> None:
    machine = talk()
    say(machine, 0)
    saved = moved(machine)
    machine.placed(0, START_MS)
    machine.ended(0, "FINISHED", START_MS)
    effects = saved.back(init(), TOKEN, START_MS)
    assert only(Look, effects) == Look(0, "c0.j0")
    assert events(saved.seen(0, "FINISHED", 0, START_MS)) == [(1, 0, "c0.j0")]


def test_the_ends_of_jobs_have_their_names() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1, 2)
    ends = [machine.ended(index, state, START_MS) for index, state in enumerate(("FAILED", "EXPIRED", "CANCELLED"))]
    assert [events(effects)[0][2] for effects in ends] == ["job_failed", "job_timeout", "cancelled"]
    codes = [messages(effects, UiEvent)[0].error_code for effects in ends]
    assert codes == ["JOB_FAILED", "JOB_TIMEOUT", "CANCELLED"]


def test_what_is_confirmed_is_released() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    machine.ended(1, "FAILED", START_MS)
    assert of(Release, machine.hear(EventAck(last_event_id=1), START_MS)) == [Release("c0.j0")]
    assert machine.hear(EventAck(last_event_id=1), START_MS) == []
    assert of(Release, machine.hear(EventAck(last_event_id=2), START_MS)) == [Release("c0.j1")]


def test_what_nobody_confirms_is_released_after_the_window() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    machine.ended(0, "FINISHED", START_MS)
    assert not of(Release, machine.tick(START_MS + 119_999))
    assert of(Release, machine.tick(START_MS + 120_000)) == [Release("c0.j0")]


def test_a_refused_utterance_has_nothing_to_release() -> None:
    machine = talk()
    machine.hear(utterance(0, b""), START_MS)
    assert not of(Release, machine.hear(EventAck(last_event_id=1), START_MS))
    assert not machine.ledger.sent


def test_a_client_that_comes_back_gets_what_it_missed_once() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1, 2)
    machine.ended(0, "FINISHED", START_MS)
    machine.away(START_MS + 1)
    machine.ended(1, "FINISHED", START_MS + 2)
    effects = machine.back(init(last_event_id=1), TOKEN, START_MS + 3)
    assert messages(effects, SessionInitAck)[0].resume_token == TOKEN
    assert of(Release, effects) == [Release("c0.j0")]
    assert events(effects) == [(2, 1, "c0.j1")]
    assert [look.index for look in of(Look, effects)] == [2]
    assert events(machine.ended(2, "FINISHED", START_MS + 4)) == [(3, 2, "c0.j2")]


def test_a_client_that_says_nothing_of_what_it_saw_gets_all_that_it_did_not_confirm() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    machine.ended(1, "FINISHED", START_MS)
    machine.away(START_MS)
    assert events(machine.back(init(), TOKEN, START_MS)) == [(1, 0, "c0.j0"), (2, 1, "c0.j1")]


def test_what_the_client_heard_and_the_engine_forgot_is_not_announced_again_and_nothing_else_has_its_event() -> None:
    """A fail-over has forgotten three ends: of one that is known to be awaited, and of two that nobody knows of."""
    machine = talk()
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    elsewhere = moved(machine)
    effects = elsewhere.back(init(last_event_id=4), TOKEN, START_MS)
    assert (events(effects), of(Look, effects)) == ([], [])
    assert of(Abandon, effects) == [Abandon(1, "c0.j1")]
    assert of(Release, effects) == [Release("c0.j1"), Release("c0.j0")]
    assert elsewhere.ended(1, "FINISHED", START_MS) == []
    assert only(Number, elsewhere.hear(chunk(0, TENTH, is_final=True), START_MS)) == Number(None, 4)
    elsewhere.numbered(4, "c0.j4", START_MS)
    elsewhere.placed(4, START_MS)
    elsewhere.ended(4, "FINISHED", START_MS)
    again = moved(elsewhere)
    assert events(again.back(init(last_event_id=4), TOKEN, START_MS)) == [(5, 4, "c0.j4")]


def test_what_was_being_placed_and_the_client_has_heard_of_is_given_up() -> None:
    machine = talk()
    say(machine, 0)
    machine.away(START_MS)
    assert of(Abandon, machine.back(init(last_event_id=1), TOKEN, START_MS)) == [Abandon(0, "c0.j0")]
    assert not machine.ledger.line.unplaced
    assert machine.placed(0, START_MS) == []


def test_a_client_that_comes_back_may_go_on_in_another_direction() -> None:
    machine = talk(dialect="london")
    machine.away(START_MS)
    machine.back(init(tgt_lang="fr"), TOKEN, START_MS)
    said = say(machine, 0).said
    assert said.direction is not None
    assert (said.direction.pair.tgt, said.dialect) == ("fr", "london")


def test_a_client_that_comes_back_may_name_other_candidates_the_other_way() -> None:
    machine = talk(src_lang="auto", mode="two_way_auto", lang_a="en", lang_b="zh")
    machine.away(START_MS)
    machine.back(SessionInit(auto_langs=["fr", "de"]), TOKEN, START_MS)
    direction = say(machine, 0).said.direction
    assert direction is not None
    assert (direction.candidates, direction.lang_a, direction.lang_b) == (["fr", "de"], "fr", "de")


@pytest.mark.parametrize("wrong", [{"src_lang": "xx-bad!!"}, {"src_lang": "auto"}, {"tgt_lang": "nowhere"}])
def test_who_comes_back_for_a_language_that_is_none_changes_nothing(wrong: dict[str, Any]) -> None:
    machine = talk()
    machine.away(START_MS)
    before = machine.ledger.save()
    with pytest.raises(Invalid, match="lang"):
        machine.back(SessionInit(**wrong), TOKEN, START_MS)
    assert machine.ledger.save() == before
    assert machine.ledger.away_since_ms == START_MS


def test_a_paired_session_keeps_its_node_whatever_is_said_later() -> None:
    machine = talk()
    machine.ledger.about = msgspec.structs.replace(machine.ledger.about, paired_node_id="n2")
    machine.away(START_MS)
    machine.back(SessionInit(options=Options(require_tts=True)), TOKEN, START_MS)
    mine = Options(require_tts=True, preferred_node_id="n2", strict=True)
    assert say(machine, 0).said.options == mine
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    assert only(Submit, machine.numbered(1, "c0.j1", START_MS)).said.options == mine
    other = Options(preferred_node_id="n1", strict=False, wait_ms=7)
    assert say(machine, 2, options=other).said.options == msgspec.structs.replace(mine, wait_ms=7)


def test_the_trace_of_a_session_is_that_of_all_its_utterances_unless_they_have_their_own() -> None:
    machine = talk()
    assert say(machine, 0).said.trace_id == "t-session"
    assert say(machine, 1, trace_id="t-1").said.trace_id == "t-1"
    shown = machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    assert [one.trace_id for one in messages(shown, UiEvent)] == ["t-session", "t-session"]
    assert only(Submit, machine.numbered(2, "c0.j2", START_MS)).said.trace_id == "t-session"
    machine.away(START_MS)
    ack = messages(machine.back(SessionInit(trace_id="t-new"), TOKEN, START_MS), SessionInitAck)[0]
    assert (ack.trace_id, say(machine, 3).said.trace_id) == ("t-new", "t-new")


def test_what_is_kept_no_longer_is_said() -> None:
    machine = talk(SessionRules(order=OrderLimits(max_events=1)))
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    machine.ended(1, "FINISHED", START_MS)
    machine.away(START_MS)
    effects = machine.back(init(last_event_id=0), TOKEN, START_MS)
    assert "up to event 1" in messages(effects, ErrorMessage)[0].detail
    assert events(effects) == [(2, 1, "c0.j1")]


def test_a_client_that_stays_away_is_forgotten_with_all_it_waited_for() -> None:
    machine = talk(SessionRules(order=OrderLimits(window_ms=5_000)))
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    machine.hear(utterance(2), START_MS)
    machine.away(START_MS)
    assert not of(Forget, machine.tick(START_MS + 4_999))
    effects = machine.tick(START_MS + 5_000)
    assert of(Abandon, effects) == [Abandon(1, "c0.j1")]
    assert of(Release, effects)[-1] == Release("c0.j1")
    assert isinstance(effects[-1], Forget)


def test_what_was_said_goes_on_while_the_client_is_away() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH), START_MS)
    machine.away(START_MS + 1)
    assert of(Number, machine.tick(START_MS + 3_000))


def test_a_session_goes_on_elsewhere_with_its_numbers_its_events_and_its_jobs() -> None:
    machine = talk()
    said_and_placed(machine, 0, 1)
    machine.ended(0, "FINISHED", START_MS)
    elsewhere = moved(machine)
    effects = elsewhere.back(init(last_event_id=1), TOKEN, START_MS)
    assert [look.job_id for look in of(Look, effects)] == ["c0.j1"]
    assert events(elsewhere.seen(1, "FINISHED", 0, START_MS)) == [(2, 1, "c0.j1")]
    assert only(Number, elsewhere.hear(chunk(0, TENTH, is_final=True), START_MS)) == Number(None, 2)


def test_a_job_that_was_about_to_be_made_elsewhere_may_still_turn_up() -> None:
    machine = talk()
    for index in range(2):
        say(machine, index)
    elsewhere = moved(machine)
    looks = of(Look, elsewhere.back(init(), TOKEN, START_MS))
    assert [look.index for look in looks] == [0, 1]
    assert elsewhere.seen(0, None, 0, START_MS + 100) == []
    assert elsewhere.seen(1, "RUNNING", 0, START_MS + 100) == []
    assert of(Look, elsewhere.tick(START_MS + 1_000)) == [Look(0, "c0.j0")]
    assert events(elsewhere.seen(0, None, 0, START_MS + 5_000)) == [(1, 0, "lost")]


def test_state_of_another_version_is_none() -> None:
    assert unpack_state(b"\x93abc") is None


def test_the_largest_state_that_can_be_is_one_that_is_saved() -> None:
    """As many without an answer, and as many answers kept, as may be; with the longest names that there are."""
    rules = SessionRules(burst=10**6, max_unplaced=10**6)
    machine, name = talk(rules, features={"x" * 60_000: 1}), "c0." + "j" * 125
    most = rules.max_open + rules.order.max_events
    for index in range(MAX_INDEX - most, MAX_INDEX):
        only(Number, machine.hear(utterance(index, trace_id="💬" * 128), START_MS))
        machine.numbered(index, name, START_MS)
        machine.ledger.sent[index].speech_ref = name
        if index < MAX_INDEX - rules.max_open:
            machine.ended(index, "FINISHED", START_MS)
    assert of(Close, machine.hear(utterance(MAX_INDEX), START_MS))
    assert len(machine.ledger.sent) == most
    assert MAX_STATE_BYTES // 4 < len(pack_state(machine.ledger.save())) < MAX_STATE_BYTES


def test_no_text_audio_or_secret_is_saved() -> None:
    machine = talk()
    say(machine, 0, audio=b"secret sound")
    state = pack_state(machine.ledger.save())
    assert b"secret" not in state


def test_the_state_is_saved_now_and_then_though_nothing_changes() -> None:
    machine = talk()
    assert not of(Save, machine.tick(START_MS + 29_999))
    assert of(Save, machine.tick(START_MS + 30_000))
    assert not of(Save, machine.tick(START_MS + 30_001))


def test_a_node_may_be_heard_of_before_its_job_is_known_to_be_placed() -> None:
    machine = talk()
    say(machine, 0)
    assert machine.ledger.accepted(errand(0), START_MS) == []
    assert shown(place(machine, 0)) == ["DISPATCHED", "NODE_ACCEPTED"]
    assert shown(machine.ledger.accepted(errand(0), START_MS)) == ["NODE_ACCEPTED"]


def test_a_result_may_be_heard_of_before_its_job_is_known_to_be_placed() -> None:
    machine = talk()
    say(machine, 0)
    assert events(machine.ended(0, "FINISHED", START_MS)) == [(1, 0, "c0.j0")]
    assert not of(Abandon, machine.placed(0, START_MS))


def test_partials_are_passed_on_while_somebody_waits_and_only_of_its_own_job() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    message = NodeAsrPartial(job_id="c0.j0", text="sa", is_final=True)
    effects = machine.ledger.partial(errand(0), message, START_MS + 5)
    assert [one.text for one in messages(effects, AsrPartial)] == ["sa"]
    assert shown(effects) == ["ASR_FINAL"]
    assert messages(effects, UiEvent)[0].elapsed_ms == 5
    assert machine.ledger.partial(errand(0, "c0.foreign"), message, START_MS) == []
    machine.ended(0, "FINISHED", START_MS)
    assert machine.ledger.partial(errand(0), message, START_MS) == []


def test_closing_waits_for_what_is_owed_and_says_so_once() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    machine.hear(chunk(0, TENTH), START_MS)
    effects = machine.hear(SessionClose(), START_MS)
    assert of(Number, effects)
    assert not of(Finish, effects)
    assert only(Submit, machine.numbered(1, "c0.j1", START_MS)).said.is_manual_cut
    assert messages(machine.hear(utterance(2), START_MS), ErrorMessage)[0].code == "SESSION_CLOSED"
    machine.ended(1, "FINISHED", START_MS)
    effects = machine.ended(0, "FINISHED", START_MS)
    assert isinstance(effects[-1], Finish)
    assert not of(Finish, machine.tick(START_MS + 1))
    assert not of(Finish, machine.hear(SessionClose(), START_MS))


def test_a_client_that_loses_its_socket_while_it_closes_may_come_back() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    machine.hear(SessionClose(), START_MS)
    machine.away(START_MS)
    assert not of(Finish, machine.ended(0, "FINISHED", START_MS))
    effects = machine.back(init(last_event_id=0), TOKEN, START_MS)
    assert events(effects) == [(1, 0, "c0.j0")]
    assert isinstance(effects[-1], Finish)


def test_what_is_said_again_elsewhere_is_placed_from_there_as_the_same_job() -> None:
    """Whoever had the session before may have been stopped before he placed it: nobody has to miss it for that."""
    machine = talk()
    say(machine, 0)
    elsewhere = moved(machine)
    elsewhere.back(init(last_event_id=0), TOKEN, START_MS)
    again = only(Submit, elsewhere.hear(utterance(0), START_MS + 100))
    assert (again.index, again.job_id) == (0, "c0.j0")
    assert elsewhere.seen(0, None, 0, START_MS + 150) == []
    assert not of(Submit, elsewhere.hear(utterance(0), START_MS + 200))
    assert not of(Look, elsewhere.tick(START_MS + 6_000))
    elsewhere.placed(0, START_MS + 6_000)
    assert events(elsewhere.ended(0, "FINISHED", START_MS + 6_001)) == [(1, 0, "c0.j0")]


def test_what_has_its_job_is_not_placed_again() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    elsewhere = moved(machine)
    elsewhere.back(init(last_event_id=0), TOKEN, START_MS)
    assert not of(Submit, elsewhere.hear(utterance(0), START_MS))


def test_what_waited_in_vain_while_nobody_had_its_session_is_refused_and_not_lost() -> None:
    machine = talk()
    say(machine, 0)
    machine.busy(0, START_MS)
    elsewhere = moved(machine)
    assert only(Look, elsewhere.back(init(last_event_id=0), TOKEN, START_MS)) == Look(0, "c0.j0")
    effects = elsewhere.seen(0, None, 0, START_MS)
    assert messages(effects, ErrorMessage)[0].code == "NO_AVAILABLE_NODE"
    assert of(Release, effects) == [Release("c0.j0")]
    assert events(effects) == [(1, 0, "no_available_node")]
    assert elsewhere.in_vain(0, START_MS) == []


def test_what_was_seen_to_wait_and_is_gone_has_waited_in_vain() -> None:
    machine = talk()
    say(machine, 0)
    elsewhere = moved(machine)
    elsewhere.back(init(last_event_id=0), TOKEN, START_MS)
    elsewhere.seen(0, "WAITING", 0, START_MS)
    assert events(elsewhere.seen(0, None, 0, START_MS)) == [(1, 0, "no_available_node")]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_what_waited_and_had_its_node_is_lost_when_it_is_gone(is_elsewhere: bool) -> None:
    machine = talk()
    say(machine, 0)
    machine.busy(0, START_MS)
    if is_elsewhere:
        machine = moved(machine)
        machine.back(init(last_event_id=0), TOKEN, START_MS)
        machine.seen(0, "RUNNING", 0, START_MS)
    else:
        place(machine, 0)
    assert events(machine.seen(0, None, 0, START_MS)) == [(1, 0, "lost")]


def test_a_session_that_closes_is_told_again_elsewhere_that_it_has_everything() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    machine.hear(SessionClose(), START_MS)
    assert of(Finish, machine.ended(0, "FINISHED", START_MS))
    elsewhere = moved(machine)
    effects = elsewhere.back(init(last_event_id=0), TOKEN, START_MS)
    assert events(effects) == [(1, 0, "c0.j0")]
    assert isinstance(effects[-1], Finish)
    assert messages(elsewhere.hear(utterance(1), START_MS), ErrorMessage)[0].code == "SESSION_CLOSED"


def test_what_has_no_number_yet_when_a_session_closes_may_be_said_again_elsewhere() -> None:
    machine = talk()
    machine.hear(utterance(0), START_MS)
    machine.hear(SessionClose(), START_MS)
    elsewhere = moved(machine)
    assert not of(Finish, elsewhere.back(init(), TOKEN, START_MS))
    say(elsewhere, 0)
    assert not of(Finish, elsewhere.hear(SessionClose(), START_MS))
    assert of(Finish, elsewhere.ended(0, "FINISHED", START_MS))


def test_an_engine_that_lost_everything_gets_it_again() -> None:
    machine = talk()
    said_and_placed(machine, 0)
    effects = machine.reopen(START_MS)
    assert of(Save, effects)
    assert of(Look, effects) == [Look(0, "c0.j0")]


@pytest.mark.parametrize("code", ["SCHEDULER_DEPENDENCY_DOWN", "OUTCOME_UNKNOWN"])
def test_without_the_engine_all_who_stand_in_line_are_refused_at_once(code: str) -> None:
    machine = talk()
    for index in range(3):
        machine.hear(utterance(index, trace_id=f"t-{index}"), START_MS)
    machine.hear(utterance(3, b""), START_MS)
    effects = machine.not_numbered(refuse(code), START_MS + 900)
    told = [(one.code, one.trace_id) for one in messages(effects, ErrorMessage)]
    assert told == [(code, "t-0"), (code, "t-1"), (code, "t-2")], "who was refused before is not told again"
    assert not of(Number, effects)
    assert [index for _, index, _ in events(effects)] == [0, 1, 2, 3]
    assert of(Number, machine.hear(utterance(4), START_MS + 901)), "the next one asks again"


def test_a_refusal_of_one_number_is_nobody_elses() -> None:
    machine = talk()
    for index in range(2):
        machine.hear(utterance(index), START_MS)
    effects = machine.not_numbered(refuse("RATE_LIMITED"), START_MS)
    assert len(messages(effects, ErrorMessage)) == 1
    assert only(Number, effects) == Number(1, 1)
