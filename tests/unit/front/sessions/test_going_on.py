"""A stream goes on elsewhere: with what was heard and is in no utterance, its turn, its numbers and its pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.front.sessions.effects import Look, Number, Save, Submit
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.state import pack_state, unpack_state
from lingua_scheduler.front.sessions.talk import Talk
from lingua_scheduler.protocol.errors import ErrorMessage
from lingua_scheduler.protocol.session import SessionClose, SessionInitAck
from tests.support.logs import told
from tests.unit.front.sessions.talking import (
    START_MS,
    TENTH,
    TOKEN,
    chunk,
    counting,
    init,
    messages,
    moved,
    of,
    only,
    talk,
)

if TYPE_CHECKING:
    from lingua_scheduler.front.sessions.said import Said

#: A second is too long.
SHORT = SessionRules(cut=CutLimits(max_duration_ms=1_000))


def back(machine: Talk, now_ms: int = START_MS) -> int | None:
    """The client is there again, and is told what was heard."""
    (ack,) = messages(machine.back(init(), TOKEN, now_ms), SessionInitAck)
    return ack.heard_seq


def numbered(machine: Talk, index: int, now_ms: int = START_MS) -> Said:
    return only(Submit, machine.numbered(index, f"c0.{index}", now_ms)).said


def errors(machine: Talk, seq: int, now_ms: int = START_MS) -> list[str]:
    return [error.detail for error in messages(machine.hear(chunk(seq, b"zz"), now_ms), ErrorMessage)]


def test_what_was_heard_is_in_the_utterance_that_ends_elsewhere() -> None:
    machine = talk()
    machine.hear(chunk(0, b"aa"), START_MS)
    machine.hear(chunk(1, b"bbb"), START_MS + 100)
    other = moved(machine, START_MS + 200)
    assert back(other) == 1
    only(Number, other.hear(chunk(2, b"bcc", is_final=True), START_MS + 300))
    said = numbered(other, 0)
    assert (said.audio, said.began_ms, said.is_manual_cut) == (b"aabbbbcc", START_MS, True)


def bare(machine: Talk) -> Talk:
    """It goes on elsewhere, and the engine had no memory for its audio."""
    saved = unpack_state(pack_state(machine.save(is_bare=True)))
    assert saved is not None
    return Talk.load(machine.ledger.rules, saved, START_MS, counting())


def test_a_client_whose_audio_could_not_be_kept_is_told_from_where_to_say_it_again() -> None:
    machine = talk(SHORT)
    assert back(bare(machine)) == -1
    machine.hear(chunk(0, b"aa"), START_MS)
    assert back(bare(machine)) == -1
    machine.hear(chunk(1, b"bb", is_final=True), START_MS)
    # In line for its number: nobody has it yet.
    assert back(bare(machine)) == -1
    numbered(machine, 0)
    assert back(bare(machine)) == 1
    machine.hear(chunk(2, b"cc"), START_MS)
    machine.hear(chunk(3, b"dd"), START_MS)
    assert back(bare(machine)) == 1
    assert back(bare(moved(machine))) == 1
    only(Number, machine.hear(chunk(4, b"ee", is_final=True), START_MS))
    machine.hear(chunk(5, b"ff"), START_MS)
    again = bare(machine)
    assert back(again) == 1
    for seq, audio in enumerate((b"cc", b"dd"), start=2):
        again.hear(chunk(seq, audio), START_MS)
    only(Number, again.hear(chunk(4, b"ee", is_final=True), START_MS))
    assert numbered(again, 1).audio == b"ccddee"


def test_its_pause_goes_on_whether_or_not_anybody_comes_back() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH), START_MS)
    other = moved(machine, START_MS + 2_000)
    assert not of(Number, other.tick(START_MS + 2_999))
    only(Number, other.tick(START_MS + 3_000))
    assert numbered(other, 0).is_timeout_triggered


def test_its_turn_goes_on_with_the_next_piece() -> None:
    machine = talk(SHORT)
    machine.hear(chunk(0, TENTH * 11), START_MS)
    first = numbered(machine, 0)
    other = moved(machine)
    only(Number, other.hear(chunk(1, is_final=True), START_MS))
    last = numbered(other, 1)
    assert (last.turn_id, last.piece, last.bind_key, last.audio) == (first.turn_id, 1, first.bind_key, TENTH)


def test_what_was_cut_and_had_no_number_yet_gets_it_elsewhere() -> None:
    machine = talk(SHORT)
    machine.hear(chunk(0, b"a" * 32_000 + b"b" * 32_000 + b"c" * 100), START_MS)
    other = moved(machine, START_MS + 50)
    assert other.due_ms <= START_MS + 50
    only(Number, other.tick(START_MS + 50))
    again = moved(other, START_MS + 60)
    only(Number, again.tick(START_MS + 60))
    first, second = numbered(again, 0), numbered(again, 1)
    assert [(one.audio[:1], len(one.audio), one.piece) for one in (first, second)] == [
        (b"a", 32_000, 0),
        (b"b", 32_000, 1),
    ]
    assert first.is_max_duration_triggered
    assert first.turn_id == second.turn_id == first.bind_key
    for index in (0, 1):
        again.placed(index, START_MS)
    assert moved(again).heard().since(0) == b"c" * 100


def test_what_has_its_job_is_heard_no_more() -> None:
    machine = talk()
    only(Number, machine.hear(chunk(7, TENTH, is_final=True), START_MS))
    before = machine.heard()
    numbered(machine, 0)
    assert (before.since(0), machine.heard().since(0), machine.heard().front) == (TENTH, TENTH, before.front)
    machine.placed(0, START_MS)
    assert machine.heard().since(0) == b""
    assert machine.heard().front != before.front
    other = moved(machine)
    assert back(other) == 7
    assert not of(Number, other.tick(START_MS + 100_000))


def test_what_was_not_placed_elsewhere_is_placed_as_the_same_job() -> None:
    machine = talk(SHORT)
    machine.hear(chunk(0, TENTH * 10 + b"zz"), START_MS)
    was = only(Submit, machine.numbered(0, "c0.0", START_MS))
    other = moved(moved(machine, START_MS), START_MS)
    assert [look.job_id for look in of(Look, other.tick(START_MS))] == ["c0.0"]
    submit = only(Submit, other.seen(0, None, 0, START_MS))
    assert (submit.index, submit.job_id) == (0, "c0.0")
    assert submit.said == msgspec.structs.replace(was.said, heard_ms=START_MS)
    assert other.seen(0, None, 0, START_MS) == [], "whoever looked did so before"
    other.placed(0, START_MS)
    assert other.heard().since(0) == b"zz"


@pytest.mark.parametrize("state", ["RUNNING", "WAITING", "FINISHED", "FAILED"])
def test_what_was_placed_elsewhere_is_not_placed_again(state: str) -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    numbered(machine, 0)
    other = moved(machine)
    before = other.heard()
    assert not of(Submit, other.seen(0, state, 0, START_MS))
    assert (before.since(0), other.heard().since(0)) == (TENTH, b"")
    again = moved(machine)
    again.ended(0, "FINISHED", START_MS)
    assert again.heard().since(0) == b""


def test_what_has_ended_before_it_is_known_to_be_placed_is_still_being_placed() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    numbered(machine, 0)
    machine.ended(0, "FINISHED", START_MS)
    assert machine.ledger.line.unplaced == {0: len(TENTH)}


def test_what_has_the_number_of_another_is_heard_no_more() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    before = machine.heard()
    machine.ledger.adopt(0, "c0.other", "t", START_MS + 1_000, START_MS)
    (error,) = messages(machine.numbered(0, "c0.0", START_MS), ErrorMessage)
    assert error.code == "INVALID_MESSAGE"
    assert machine.heard().since(0) == b""
    assert machine.heard().front != before.front


def test_what_is_known_to_have_its_job_needs_no_audio_elsewhere() -> None:
    machine = talk()
    machine.hear(chunk(0, TENTH, is_final=True), START_MS)
    numbered(machine, 0)
    machine.busy(0, START_MS)
    assert moved(machine).heard().since(0) == b""


def test_a_chunk_that_was_heard_elsewhere_is_not_heard_again() -> None:
    machine = talk()
    machine.hear(chunk(0, b"aa"), START_MS)
    machine.hear(chunk(1, b"bb"), START_MS)
    other = moved(machine)
    back(other)
    assert errors(other, 1) == ["audio_chunk 1: dropped, for it is not above 1, which was heard"]
    assert errors(other, 2) == []
    assert other.heard().since(0) == b"aabbzz"


def test_whoever_goes_on_without_what_was_lost_is_told_so_once() -> None:
    machine = talk()
    machine.hear(chunk(0, b"aa"), START_MS)
    other = moved(machine)
    assert back(other) == 0
    assert errors(other, 4) == ["audio_chunk 4: 3 before it were not heard"]
    assert errors(other, 9) == [], "who leaves something out knows it"
    assert back(other) == 9
    assert errors(other, 10) == []
    assert errors(other, 12) == []


def test_chunks_without_a_number_go_on_where_they_were() -> None:
    machine = talk()
    machine.hear(chunk(5, b"aa"), START_MS)
    other = moved(machine)
    other.hear(msgspec.structs.replace(chunk(0, b"bb", is_final=True), seq=None), START_MS)
    assert numbered(other, 0).audio == b"aabb"


@pytest.mark.parametrize(("seq", "heard_seq"), [(None, -1), (3, 3)])
def test_who_comes_back_is_told_what_was_heard(seq: int | None, heard_seq: int) -> None:
    machine = talk()
    (ack,) = messages(machine.welcome(TOKEN), SessionInitAck)
    assert ack.heard_seq is None
    if seq is not None:
        machine.hear(chunk(seq, b"aa"), START_MS)
    assert back(machine) == heard_seq
    assert back(moved(machine)) == heard_seq


def test_what_was_said_before_the_end_is_known_elsewhere_too() -> None:
    machine = talk()
    machine.hear(chunk(3, b"aa"), START_MS)
    machine.hear(SessionClose(), START_MS)
    other = moved(machine)
    assert back(other) == 3
    only(Number, other.tick(START_MS))
    assert numbered(other, 0).audio == b"aa"
    machine.numbered(0, "c0.0", START_MS)
    machine.placed(0, START_MS)
    closing = moved(machine)
    assert closing.save().is_closing
    assert back(closing) == 3
    assert closing.heard().since(0) == b""


def test_of_what_another_version_saved_nothing_is_told() -> None:
    machine = talk()
    machine.hear(chunk(3, b"aa"), START_MS)
    saved = msgspec.structs.replace(machine.save(), stream=None)
    other = Talk.load(SessionRules(), saved, START_MS, counting(), b"aa")
    assert back(other) is None
    assert other.save().stream is None
    other.hear(chunk(0, b"bb"), START_MS)
    assert (back(other), other.heard().since(0)) == (0, b"bb")


def test_audio_that_is_not_all_there_is_not_taken_for_what_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    machine = talk(SHORT)
    machine.hear(chunk(0, TENTH * 11), START_MS)
    saved = unpack_state(pack_state(machine.save()))
    assert saved is not None
    other = Talk.load(SHORT, saved, START_MS, counting(), TENTH * 10)
    assert [one["reason"] for one in told(caplog, "heard")] == ["its audio is not kept"]
    assert (back(other), other.heard().since(0)) == (0, b"")
    assert not of(Number, other.tick(START_MS + 100_000))


def test_what_is_heard_is_saved_a_second_later_and_silence_is_not() -> None:
    machine = talk()
    machine.save()
    machine.hear(chunk(0, b"aa"), START_MS)
    machine.hear(chunk(1, b"aa"), START_MS + 900)
    assert machine.due_ms == START_MS + 1_000
    assert not of(Save, machine.tick(START_MS + 999))
    only(Save, machine.tick(START_MS + 1_000))
    assert machine.due_ms == START_MS + 3_900
    machine.hear(chunk(2, b"aa"), START_MS + 1_500)
    machine.save()
    assert machine.due_ms == START_MS + 4_500, "another save has it"
    machine.hear(chunk(3, is_final=True), START_MS + 1_600)
    assert not of(Save, machine.tick(START_MS + 4_000))


@pytest.mark.parametrize("rules", [SessionRules(), SessionRules(burst=1), SessionRules(max_open=1)])
def test_what_is_refused_is_heard_no_more(rules: SessionRules) -> None:
    """When its number is asked for; because it came too fast; because too much is without an answer."""
    machine = talk(rules)
    if rules != SessionRules():
        machine.hear(chunk(0, TENTH, is_final=True), START_MS)
        numbered(machine, 0)
        machine.placed(0, START_MS)
    machine.hear(chunk(1, TENTH), START_MS)
    before = machine.heard()
    machine.hear(chunk(2, is_final=True), START_MS)
    if rules == SessionRules():
        machine.not_numbered(refuse("SCHEDULER_DEPENDENCY_DOWN"), START_MS)
    machine.hear(chunk(3, b"bb" * len(TENTH)), START_MS)
    assert (before.since(0), machine.heard().since(0)) == (TENTH, b"bb" * len(TENTH))
    assert machine.heard().front != before.front


def test_whoever_closes_at_once_gets_what_was_cut_elsewhere() -> None:
    machine = talk()
    machine.hear(chunk(0, b"aa", is_final=True), START_MS)
    machine.hear(chunk(1, b"bb"), START_MS)
    other = moved(machine)
    only(Number, other.hear(SessionClose(), START_MS))
    assert [numbered(other, index).audio for index in (0, 1)] == [b"aa", b"bb"]
