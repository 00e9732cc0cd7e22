"""How a node joins, what it says of itself each time, and which "no" is for good."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import error_message
from lingua_scheduler.protocol.node import JobStopped, NodeHeartbeat, NodeRegister, NodeRegisterAck
from lingua_scheduler.sdk.client_errors import Refused
from lingua_scheduler.sdk.nodes.attempts import Attempts, Ping, Say
from lingua_scheduler.sdk.nodes.membership import Act, ComeAgain, GiveUp, Joined, Leave, Membership, Note
from tests.unit.sdk.test_attempts import assign

ACK = NodeRegisterAck(
    node_id="n1", message="", status="ready", epoch="3-a", heartbeat_interval_ms=2_000, pools=["en:zh"], warnings=[]
)


def member(node_id: str | None = "n1") -> tuple[Membership, Attempts]:
    attempts = Attempts(2, takes_frames=False)
    return Membership(NodeRegister(node_id=node_id, semantic_langs=["en"]), attempts, process_id="p1"), attempts


def said(acts: list[Act]) -> Any:
    """The one message among these."""
    (one,) = (act.message for act in acts if isinstance(act, Say))
    return one


def heard(membership: Membership, message: msgspec.Struct) -> list[Act]:
    return membership.hear(encode(message).decode())


def error(code: str, detail: str = "because") -> msgspec.Struct:
    return error_message(Refusal(code, detail))


def test_it_first_joins_as_a_new_process_without_an_epoch() -> None:
    membership, _ = member()
    register = said(membership.connected())
    assert isinstance(register, NodeRegister)
    assert (register.node_id, register.epoch, register.process_id) == ("n1", None, "p1")
    assert (register.health, register.running, register.semantic_langs) == ("ready", [], ["en"])


def test_it_comes_back_with_its_epoch_and_what_it_has() -> None:
    membership, _ = member()
    membership.connected()
    acts = heard(membership, ACK)
    assert acts[0] == Joined(ACK)
    assert isinstance(acts[1], Ping)
    assert (membership.is_in, membership.interval_s) == (True, 2.0)
    heard(membership, assign())
    membership.lost(1006)
    assert not membership.is_in
    register = said(membership.connected())
    assert (register.epoch, register.process_id) == ("3-a", "p1")
    assert [(one.job_id, one.attempt_id) for one in register.running] == [("c0.1", 1)]


def test_an_id_that_it_was_given_is_its_own_from_then_on() -> None:
    membership, attempts = member(None)
    assert said(membership.connected()).node_id is None
    heard(membership, ACK)
    assert (membership.node_id, attempts.node_id) == ("n1", "n1")
    membership.lost()
    assert said(membership.connected()).node_id == "n1"


def test_an_engine_that_came_back_empty_gives_it_a_new_epoch() -> None:
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    heard(membership, msgspec.structs.replace(ACK, epoch="1-b"))
    membership.lost()
    assert said(membership.connected()).epoch == "1-b"


def test_a_heartbeat_says_how_it_is_and_what_runs() -> None:
    membership, attempts = member()
    assert membership.beat() == []
    membership.connected()
    heard(membership, ACK)
    heard(membership, assign())
    beat = said(membership.beat({"gpu": 0.5, "cpu": 0.25}))
    assert isinstance(beat, NodeHeartbeat)
    assert (beat.node_id, beat.health) == ("n1", "ready")
    assert beat.running is not None
    assert [one.job_id for one in beat.running] == ["c0.1"]
    assert beat.resource_usage is not None
    assert (beat.resource_usage.gpu_percent, beat.resource_usage.cpu_percent) == (50.0, 25.0)
    attempts.is_draining = True
    assert said(membership.beat()).health == "draining"
    assert said(membership.gone()).health == "offline"
    membership.lost()
    assert membership.gone() == []
    assert said(membership.connected()).health == "draining"


@pytest.mark.parametrize("code", ["INVALID_CAPABILITY_SCHEMA", "NODE_ID_CONFLICT", "UNAUTHENTICATED", "FORBIDDEN"])
def test_a_no_that_stays_one_ends_a_node_that_was_never_in(code: str) -> None:
    membership, _ = member()
    membership.connected()
    (act,) = heard(membership, error(code))
    assert isinstance(act, GiveUp)
    assert act.error.code == code
    assert f"{code}: because" in str(act.error)


def test_a_no_that_may_change_is_asked_again_in_time() -> None:
    membership, _ = member()
    membership.connected()
    assert heard(membership, error("CELL_FULL")) == [ComeAgain("CELL_FULL: because", 5.0)]


def test_whoever_was_in_once_keeps_trying() -> None:
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    membership.lost()
    membership.connected()
    assert heard(membership, error("UNAUTHENTICATED")) == [ComeAgain("UNAUTHENTICATED: because")]
    assert membership.refused(Refused("FORBIDDEN", "no")) == ComeAgain("FORBIDDEN: no")


def test_without_a_socket_a_no_for_good_is_one_and_says_what_to_do() -> None:
    verdict = member()[0].refused(Refused("NOT_FOUND", "nothing", trace_id="t"))
    assert isinstance(verdict, GiveUp)
    assert str(verdict.error) == "NOT_FOUND: nothing (there is no Lingua scheduler at this address)"
    assert (verdict.error.retryable, verdict.error.trace_id) == (False, "t")


def test_without_a_socket_a_no_that_may_change_is_asked_again_in_time() -> None:
    busy = Refused("RATE_LIMITED", "too many", retryable=True, retry_after=7.0)
    assert member()[0].refused(busy) == ComeAgain("RATE_LIMITED: too many", 7.0)


def test_a_restart_says_when_to_come_back() -> None:
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    assert heard(membership, error("SHUTTING_DOWN")) == [Note("SHUTTING_DOWN: because")]
    assert membership.lost(1012, "restart") == ComeAgain("closed with 1012: restart", 1.0)
    membership.connected()
    assert membership.lost(1006) == ComeAgain("the connection broke", 0.0)


def test_an_error_about_something_else_keeps_it_away_no_longer() -> None:
    """Its jobs are left to it for half a second."""
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    heard(membership, error("RATE_LIMITED"))
    assert membership.lost(1006) == ComeAgain("the connection broke", 0.0)


def test_whoever_is_replaced_does_not_fight() -> None:
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    verdict = membership.lost(4409)
    assert isinstance(verdict, GiveUp)
    assert "another process serves as n1" in str(verdict.error)


def test_whoever_was_not_let_in_for_a_newer_connection_opens_another() -> None:
    """Its own, or one that a clock which was wrong called newer."""
    membership, _ = member()
    membership.connected()
    (act,) = heard(membership, error("SESSION_CLOSED"))
    assert isinstance(act, ComeAgain)
    assert isinstance(membership.lost(4409), ComeAgain)


@pytest.mark.parametrize(
    ("command", "act"),
    [
        ("shutdown", Leave("tonight")),
        ("drain", Note("the operator says drain: tonight")),
        ("resume", Note("the operator says resume: tonight")),
        ("reload_config", Note("the operator says reload_config: tonight")),
    ],
)
def test_of_what_the_operator_says_only_shutdown_asks_something_of_it(command: str, act: Act) -> None:
    membership, _ = member()
    text = json.dumps({"type": "node_control", "command": command, "reason": "tonight"})
    assert membership.hear(text) == [act]


def test_a_cancel_reaches_the_attempts() -> None:
    membership, _ = member()
    membership.connected()
    heard(membership, ACK)
    text = json.dumps({"type": "job_cancel", "job_id": "c0.5", "attempt_id": 2})
    assert isinstance(said(membership.hear(text)), JobStopped)


@pytest.mark.parametrize("data", ["{", '{"type": "room_news"}', "[]", b"", b"\x77", b"\x01\x05"])
def test_what_is_not_understood_is_noted_and_left_alone(data: str | bytes) -> None:
    (note,) = member()[0].hear(data)
    assert isinstance(note, Note)
    assert "not understood" in note.text


def test_frames_that_are_no_audio_mean_nothing() -> None:
    assert member()[0].hear(b"\x10ping") == []
