"""The first phase: who comes in, and who is sent away."""

from __future__ import annotations

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.front.sessions.effects import Close, Pong
from lingua_scheduler.front.sessions.opening import Begin, Opening, Resume
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.said import insisting
from lingua_scheduler.protocol.errors import CloseCode, ErrorMessage
from lingua_scheduler.protocol.frames import PingFrame, PongFrame
from lingua_scheduler.protocol.options import Options
from lingua_scheduler.protocol.session import EventAck, SessionInit
from tests.unit.front.sessions.talking import START_MS, init, messages, of


def opening() -> Opening:
    return Opening(SessionRules(), START_MS, "t-socket")


def test_a_session_begins_as_was_agreed() -> None:
    begun = opening().hear(init(platform="web", pairing_code="123456"))
    assert isinstance(begun, Begin)
    assert (begun.agreed.codec, begun.agreed.use_binary_frame, begun.pairing_code) == ("opus", False, "123456")


def test_a_session_may_leave_its_direction_to_its_utterances_but_not_half_of_it() -> None:
    assert isinstance(opening().hear(SessionInit()), Begin)
    for wrong in (init(tgt_lang=None), init(src_lang="auto"), init(src_lang="klingon-x"), init(pairing_code="12")):
        heard = opening().hear(wrong)
        assert isinstance(heard, list)
        (error,) = messages(heard, ErrorMessage)
        code = "INVALID_PAIRING_CODE" if wrong.pairing_code else "INVALID_MESSAGE"
        assert (error.code, error.trace_id) == (code, "t-socket"), wrong


def test_a_token_names_its_session() -> None:
    found = opening().hear(init(resume_token="s-1.x.secret"))  # noqa: S106 - nobody has it
    assert isinstance(found, Resume)
    assert (found.session_id, found.token) == ("s-1.x", "s-1.x.secret")


def test_a_token_that_names_no_session_opens_none() -> None:
    for token in ("secret", ".secret", "a b.secret", "{a}.secret"):
        heard = opening().hear(init(resume_token=token))
        assert isinstance(heard, list)
        assert heard == [Close(CloseCode.UNKNOWN_SESSION)]


def test_nobody_speaks_before_his_session_is_open_and_three_tries_are_enough() -> None:
    phase = opening()
    for number in range(3):
        heard = phase.hear(EventAck(last_event_id=1))
        assert isinstance(heard, list)
        closes = of(Close, heard)
        assert [close.code for close in closes] == ([CloseCode.BAD_MESSAGES] if number == 2 else [])
        assert len(heard) == 1, "a close brings its own error"


def test_pings_are_answered_before_anything_is_agreed() -> None:
    assert opening().hear(PingFrame(b"x")) == [Pong(b"x")]
    assert opening().hear(PongFrame(b"x")) == []


def test_whoever_says_nothing_is_sent_away_in_time() -> None:
    phase = opening()
    assert phase.tick(START_MS + 9_999) == []
    assert of(Close, phase.tick(START_MS + 10_000))[0].code is CloseCode.TIMEOUT


def test_nothing_secret_is_kept_and_a_pairing_is_a_strict_wish() -> None:
    said = init(token="t" * 20, resume_token="r", pairing_code="123456", options=Options(wait_ms=7))  # noqa: S106
    kept = insisting(said, "n1")
    assert (kept.token, kept.resume_token, kept.pairing_code) == (None, None, None)
    assert kept.options == Options(wait_ms=7, preferred_node_id="n1", strict=True)
    assert insisting(said, "").options == Options(wait_ms=7)


def test_what_cannot_be_read_is_told_and_counted() -> None:
    phase = opening()
    first = phase.manners.unreadable(Invalid("no"), "t")
    assert [error.detail for error in messages(first, ErrorMessage)] == ["no"]
    phase.manners.good()
    phase.manners.unreadable(Invalid("no"), "t")
    assert not of(Close, phase.manners.unreadable(Invalid("no"), "t"))
    assert not of(Close, phase.manners.unreadable(Invalid("later", "UNSUPPORTED_FEATURE"), "t"))
    assert not of(Close, phase.manners.unreadable(Invalid("no"), "t"))
    assert not of(Close, phase.manners.unreadable(Invalid("no"), "t"))
    assert of(Close, phase.manners.unreadable(Invalid("no"), "t"))
