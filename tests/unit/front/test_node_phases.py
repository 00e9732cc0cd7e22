"""The life of a node's socket, without a socket and without an engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.flows.heartbeat import Beaten
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.front.nodes.phases import (
    Act,
    Beat,
    Enter,
    HangUp,
    Live,
    Mark,
    Note,
    Pass,
    Registering,
    Renew,
    Say,
    Tell,
)
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, ErrorMessage
from lingua_scheduler.protocol.node import (
    JobAck,
    JobCancel,
    JobResult,
    NodeAsrPartial,
    NodeRegisterAck,
    read_from_node,
    read_to_node,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

REGISTERED: Final = Registered("NEW", "1-x", Standing.not_ready, ["en:zh"], [], ["beware"])
#: A node of the field, as it introduces itself.
FIELD_NODE: Final = {
    "type": "node_register",
    "node_id": "n1",
    "version": "2.0",
    "capability_schema_version": "2.0",
    "platform": "windows",
    "hardware": {"cpu_cores": 8, "memory_gb": 16, "gpus": [{"name": "x", "memory_gb": 8}]},
    "installed_models": [],
    "installed_services": [{"service_id": "whisper", "type": "asr", "device": "gpu", "status": "running"}],
    "capability_by_type": [{"type": "asr", "ready": True}, {"type": "semantic", "ready": True}],
    "features_supported": {},
    "accept_public_jobs": True,
    "language_capabilities": {"asr_languages": ["en"], "semantic_languages": ["en"], "tts_languages": ["zh"]},
}


def said(**message: Any) -> str:
    return json.dumps(message)


def live(**changed: Any) -> Live:
    """A node that has registered."""
    phase = Registering()
    (enter,) = phase.hear(json.dumps(FIELD_NODE | changed))
    assert isinstance(enter, Enter)
    return phase.entered(enter, REGISTERED, "socket", "somebody")[0]


def error_of(acts: Sequence[Act]) -> ErrorMessage:
    (act,) = acts
    assert isinstance(act, Say)
    assert isinstance(act.message, ErrorMessage)
    return act.message


class TestRegistering:
    def test_a_field_node_is_taken_in_and_told_that_it_is_registering(self) -> None:
        phase = Registering(slots=3, heartbeat_ms=7_000)
        (enter,) = phase.hear(json.dumps(FIELD_NODE))
        assert isinstance(enter, Enter)
        assert (enter.node_id, enter.token, enter.types) == ("n1", None, {"whisper": "asr"})
        assert (enter.words["health"], enter.words["max_concurrent_jobs"]) == ("registering", 3)
        assert (enter.words["acks"], enter.words["tells"]) == (False, False)
        known, acts = phase.entered(enter, REGISTERED, "socket", "somebody")
        assert acts == [
            Say(
                NodeRegisterAck(
                    node_id="n1",
                    message="registered",
                    status="registering",
                    epoch="1-x",
                    heartbeat_interval_ms=7_000,
                    pools=["en:zh"],
                    warnings=["beware"],
                )
            )
        ]
        assert (known.known.connection, known.known.credential, known.known.epoch) == ("socket", "somebody", "1-x")

    def test_one_that_says_how_it_is_is_told_so(self) -> None:
        phase = Registering()
        (enter,) = phase.hear(json.dumps(FIELD_NODE | {"health": "ready"}))
        assert isinstance(enter, Enter)
        (welcome,) = phase.entered(enter, REGISTERED, "socket", "")[1]
        assert isinstance(welcome, Say)
        assert isinstance(welcome.message, NodeRegisterAck)
        assert welcome.message.status == "ready"

    def test_one_without_a_name_gets_one(self) -> None:
        phase = Registering(new_id=lambda: "node-new")
        (enter,) = phase.hear(json.dumps(FIELD_NODE | {"node_id": None}))
        assert isinstance(enter, Enter)
        assert enter.node_id == "node-new"

    def test_what_it_must_stop_follows_its_welcome(self) -> None:
        phase = Registering(trace_id="peer")
        (enter,) = phase.hear(json.dumps(FIELD_NODE))
        assert isinstance(enter, Enter)
        answer = Registered("RESYNC", "1-x", Standing.available, [], [("c0.a", 2)], [])
        _, stop = phase.entered(enter, answer, "socket", "")[1]
        assert isinstance(stop, Say)
        assert isinstance(stop.message, JobCancel)
        assert (stop.message.job_id, stop.message.attempt_id, stop.message.trace_id) == ("c0.a", 2, "peer")

    def test_nothing_else_may_come_first(self) -> None:
        phase = Registering()
        error = error_of(phase.hear(said(type="job_ack", job_id="c0.a", attempt_id=1, trace_id="t1")))
        assert (error.code, error.trace_id) == ("INVALID_MESSAGE", "t1")
        assert "node_register" in error.message

    def test_a_refusal_leaves_it_where_it_is(self) -> None:
        phase = Registering()
        error = error_of(phase.refused(refuse("NODE_ID_CONFLICT", node_id="n1")))
        assert error.code == "NODE_ID_CONFLICT"
        assert isinstance(phase.hear(json.dumps(FIELD_NODE))[0], Enter)


class TestWhatCannotBeRead:
    @pytest.fixture(params=["registering", "live"])
    def phase(self, request: pytest.FixtureRequest) -> Registering | Live:
        return Registering() if request.param == "registering" else live()

    def test_the_third_in_a_row_is_the_last(self, phase: Registering | Live) -> None:
        bad = said(type="something", trace_id="t1")
        first, second = error_of(phase.hear(bad)), error_of(phase.hear(b"binary"))
        assert (first.code, first.trace_id, second.code) == ("INVALID_MESSAGE", "t1", "INVALID_MESSAGE")
        (act,) = phase.hear(said(type="node_heartbeat", health="bored"))
        assert isinstance(act, HangUp)
        assert act.code == CloseCode.BAD_MESSAGES

    def test_a_good_one_in_between_counts_anew(self, phase: Registering | Live) -> None:
        for _ in range(3):
            assert error_of(phase.hear(said(type="something"))).code == "INVALID_MESSAGE"
            assert error_of(phase.hear(said(no="type"))).code == "INVALID_MESSAGE"
            assert isinstance(phase.hear(json.dumps(FIELD_NODE))[0], Enter)

    @pytest.mark.parametrize("data", ["", "{", "nothing", '{"type": "node_heartbeat"} x'])
    def test_what_is_not_json_is_the_end(self, phase: Registering | Live, data: str) -> None:
        (act,) = phase.hear(data)
        assert isinstance(act, HangUp)
        assert act.code == CloseCode.NOT_JSON

    @pytest.mark.parametrize("trace_id", [7, "x" * 129, None])
    def test_a_trace_id_that_is_none_is_not_repeated(self, phase: Registering | Live, trace_id: Any) -> None:
        assert error_of(phase.hear(said(type="something", trace_id=trace_id))).trace_id is None


class TestTheThread:
    """Whatever is refused is told under the message's own trace, or else under that of the connection."""

    @pytest.fixture(params=["registering", "live"])
    def phase(self, request: pytest.FixtureRequest) -> Registering | Live:
        phase = Registering(trace_id="peer")
        if request.param == "registering":
            return phase
        (enter,) = phase.hear(json.dumps(FIELD_NODE))
        assert isinstance(enter, Enter)
        return phase.entered(enter, REGISTERED, "socket", "somebody")[0]

    def test_of_what_cannot_be_read(self, phase: Registering | Live) -> None:
        assert error_of(phase.hear(said(type="something"))).trace_id == "peer"
        assert error_of(phase.hear(b"binary")).trace_id == "peer"
        (act,) = phase.hear(said(type="something", trace_id="own"))
        assert isinstance(act, HangUp)
        assert act.trace_id == "own"
        (act,) = phase.hear("{")
        assert isinstance(act, HangUp)
        assert act.trace_id == "peer"

    def test_of_what_is_too_large(self, phase: Registering | Live) -> None:
        ack = said(type="job_ack", job_id="c0.a", attempt_id=1, more="x" * 65_536)
        assert error_of(phase.hear(ack)).trace_id == "peer"

    def test_of_what_the_engine_refuses(self, phase: Registering | Live) -> None:
        assert error_of(phase.refused(refuse("NODE_ID_CONFLICT", node_id="n1"))).trace_id == "peer"
        if isinstance(phase, Live):
            (beat,) = phase.hear(said(type="node_heartbeat"))
            assert isinstance(beat, Beat)
            assert error_of(phase.beaten(beat, Refusal("INVALID_MESSAGE", "no"))).trace_id == "peer"
            assert error_of(phase.told(JobAck(job_id="c0.a", attempt_id=1), refuse("STALE_ATTEMPT"))).trace_id == "peer"
            assert error_of(phase.hear(said(type="node_heartbeat", node_id="n2"))).trace_id == "peer"


class TestSpeakingForOneself:
    @pytest.mark.parametrize("kind", ["node_heartbeat", "node_error", "asr_partial", "node_register"])
    def test_nobody_speaks_for_another_node(self, kind: str) -> None:
        message = FIELD_NODE | {"type": kind, "node_id": "n2", "code": "X", "job_id": "c0.a", "text": "x"}
        assert error_of(live().hear(json.dumps(message))).code == "FORBIDDEN"

    @pytest.mark.parametrize("kind", ["job_ack", "job_started", "job_stopped", "job_nack", "job_result"])
    def test_nor_of_another_nodes_attempt(self, kind: str) -> None:
        message = {"job_id": "c0.a", "attempt_id": 1, "success": True, "node_id": "n2", "trace_id": "t1"}
        error = error_of(live().hear(said(type=kind, **message)))
        assert (error.code, error.trace_id) == ("NODE_MISMATCH", "t1")

    def test_who_says_no_name_means_himself(self) -> None:
        (act,) = live().hear(said(type="job_ack", job_id="c0.a", attempt_id=1))
        assert act == Tell(JobAck(job_id="c0.a", attempt_id=1))

    def test_what_is_understood_so_far_is_passed_on(self) -> None:
        (act,) = live().hear(said(type="asr_partial", job_id="c0.a", text="hel", node_id="n1"))
        assert act == Pass(NodeAsrPartial(job_id="c0.a", text="hel", node_id="n1"))

    def test_it_may_register_again(self) -> None:
        phase = live()
        (enter,) = phase.hear(json.dumps(FIELD_NODE | {"node_id": None, "advanced_features": ["job_ack"]}))
        assert isinstance(enter, Enter)
        assert enter.node_id == "n1"
        phase.entered(enter, Registered("RESYNC", "2-x", Standing.available, [], [], []))
        assert (phase.known.epoch, phase.known.abilities.acks) == ("2-x", True)

    def test_a_small_message_may_not_be_large(self) -> None:
        long = "x" * 65_536
        error = error_of(live().hear(said(type="job_nack", job_id="c0.a", attempt_id=1, reason=long)))
        assert error.code == "PAYLOAD_TOO_LARGE"
        (act,) = live().hear(said(type="job_result", job_id="c0.a", attempt_id=1, success=True, text_asr=long))
        assert isinstance(act, Tell)


class TestBeating:
    def beat(self, phase: Live, **message: Any) -> Beat:
        (act,) = phase.hear(said(type="node_heartbeat", **message))
        assert isinstance(act, Beat)
        return act

    def test_the_first_makes_a_field_node_ready(self) -> None:
        phase = live()
        first = self.beat(phase)
        assert (first.words["health"], first.epoch) == ("ready", "1-x")
        phase.beaten(first, Beaten("1-x", Standing.available, []))
        assert self.beat(phase).words["health"] is None
        assert phase.known.words["health"] == "ready"

    def test_what_it_changes_counts_when_it_is_registered_again(self) -> None:
        phase = live()
        changed = {"asr_languages": ["de"], "semantic_languages": ["de", "xx"]}
        beat = self.beat(
            phase,
            language_capabilities=changed,
            capability_by_type=[{"type": "semantic", "ready": False}],
            installed_services=[{"service_id": "nllb", "type": "nmt"}],
        )
        phase.beaten(beat, Beaten("1-x", Standing.available, []))
        words = phase.known.words
        assert (words["asr_langs"], words["semantic_langs"], words["tts_langs"]) == (["de"], ["de", "xx"], ["zh"])
        assert (words["services"], words["lenient"]) == ({"semantic": False}, True)
        assert phase.known.types == {"nllb": "nmt"}

    @pytest.mark.parametrize("was_strict", [True, False])
    def test_languages_are_as_strict_as_who_named_them_last(self, was_strict: bool) -> None:
        """A field node may name what nobody knows, also when it is registered again."""
        ours, theirs = {"semantic_langs": ["en"]}, {"language_capabilities": {"semantic_languages": ["xx"]}}
        phase = live(**(ours if was_strict else theirs))
        assert phase.known.words["lenient"] is not was_strict
        for said_now, is_lenient in (({}, not was_strict), (theirs, True), (ours, False), ({}, False)):
            phase.beaten(self.beat(phase, **said_now), Beaten("1-x", Standing.available, []))
            assert phase.known.words["lenient"] is is_lenient

    def test_what_was_refused_does_not(self) -> None:
        phase = live()
        beat = self.beat(phase, max_concurrent_jobs=9, asr_langs=["xx"])
        error = error_of(phase.beaten(beat, Refusal("INVALID_MESSAGE", "asr_langs: xx")))
        assert error.code == "INVALID_MESSAGE"
        assert phase.known.words["max_concurrent_jobs"] == 4

    def test_it_is_told_what_to_stop(self) -> None:
        phase = live()
        answer = Beaten("1-x", Standing.available, [("c0.a", 1), ("c0.b", 2)], ["odd"])
        one, two, note = phase.beaten(self.beat(phase), answer)
        assert [act.message.job_id for act in (one, two) if isinstance(act, Say)] == ["c0.a", "c0.b"]  # type: ignore[union-attr]
        assert note == Note("odd")

    def test_one_that_must_register_is_sent_to_do_so(self) -> None:
        phase = live()
        (act,) = phase.beaten(self.beat(phase), Beaten("1-x", Standing.not_ready, [], [], must_register=True))
        assert isinstance(act, HangUp)
        assert act.code == CloseCode.TIMEOUT

    def test_one_that_the_engine_has_forgotten_is_registered_again(self) -> None:
        phase = live()
        assert phase.beaten(self.beat(phase), refuse("UNKNOWN_NODE", node_id="n1")) == [Renew()]
        assert phase.known.words["health"] == "ready"

    @pytest.mark.parametrize("code", ["NODE_REPLACED", "STALE_ATTEMPT"])
    def test_whether_another_speaks_for_it_is_found_out_by_registering(self, code: str) -> None:
        """The engine may also have forgotten the last connection."""
        phase = live()
        assert phase.beaten(self.beat(phase), refuse(code, node_id="n1")) == [Renew()]

    def test_one_that_names_an_old_life_is_only_told(self) -> None:
        phase = live()
        beat = self.beat(phase, epoch="0-x")
        assert error_of(phase.beaten(beat, refuse("STALE_ATTEMPT"))).code == "STALE_ATTEMPT"


class TestTrouble:
    FAILED: Final = {"type": "job_result", "job_id": "c0.a", "attempt_id": 1, "success": False}

    def test_a_model_that_is_not_there_is_marked_before_the_job_moves_on(self) -> None:
        error = {"code": "MODEL_NOT_AVAILABLE", "details": {"service_id": "whisper"}}
        mark, tell = live().hear(said(**self.FAILED, error=error))
        assert mark == Mark("whisper", "asr")
        assert isinstance(tell, Tell)
        assert isinstance(tell.message, JobResult)

    @pytest.mark.parametrize("details", ["CUDA is out of memory", ["a", 1], 7, None, {"more": []}])
    def test_details_may_be_anything(self, details: Any) -> None:
        (act,) = live().hear(said(**self.FAILED, error={"code": "ASR_FAILED", "details": details}))
        assert isinstance(act, Tell)
        note = live().hear(said(type="node_error", code="HOT", details=details))
        assert note == [Note("it has trouble: HOT")]
        (act,) = live().hear(said(type="job_nack", job_id="c0.a", attempt_id=1, details=details))
        assert isinstance(act, Tell)

    def test_any_other_failure_is_only_one(self) -> None:
        (act,) = live().hear(said(**self.FAILED, error={"code": "ASR_FAILED"}))
        assert isinstance(act, Tell)

    def test_a_node_says_it_of_itself(self) -> None:
        """The flow that marks it writes that down, once; a note for each cry would be a storm of its own."""
        assert live().hear(said(type="node_error", code="MODEL_NOT_AVAILABLE", message="no model")) == [Mark("", "")]

    def test_other_trouble_is_noted(self) -> None:
        assert live().hear(said(type="node_error", code="HOT")) == [Note("it has trouble: HOT")]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
#: Every field of every message, with what it should be or with anything.
fields = st.sampled_from(sorted({name for kind in read_from_node.kinds.values() for name in kind.__struct_fields__}))
fitting = st.sampled_from(["n1", "n2", "c0.a", 1, True, ["en"], {"code": "MODEL_NOT_AVAILABLE"}, [["en", "zh"]]])
messages = st.builds(
    lambda kind, said: json.dumps({"job_id": "c0.a", "attempt_id": 1, "success": False} | said | {"type": kind}),
    st.sampled_from([*sorted(map(str, read_from_node.kinds)), "something"]),
    st.dictionaries(fields, fitting | anything, max_size=6),
)
data = st.binary(max_size=64) | st.text(max_size=64) | st.builds(json.dumps, anything) | messages


@given(st.lists(data, min_size=1, max_size=6), st.booleans())
@settings(max_examples=300)
def test_whatever_is_heard_there_is_something_to_do_and_nothing_breaks(heard: list[str | bytes], is_live: bool) -> None:
    """Whoever is registered goes on as he last said it, whatever that was."""
    phase: Registering | Live = live() if is_live else Registering(trace_id="peer")
    for one in heard:
        for act in phase.hear(one):
            assert isinstance(act, Act)
            if isinstance(act, Say):
                assert read_to_node(encode(act.message)) == act.message
            elif isinstance(act, Beat):
                assert isinstance(phase, Live)
                phase.beaten(act, Beaten("1-x", Standing.available, []))
            elif isinstance(act, Enter):
                if isinstance(phase, Live):
                    phase.entered(act, REGISTERED)
                else:
                    phase, _ = phase.entered(act, REGISTERED, "socket", "somebody")


def test_a_refusal_is_told_with_the_trace_of_what_was_refused() -> None:
    phase = live()
    message = JobAck(job_id="c0.a", attempt_id=1, trace_id="t1")
    assert phase.told(message, None) == []
    error = error_of(phase.told(message, refuse("STALE_ATTEMPT")))
    assert (error.code, error.error, error.trace_id) == ("STALE_ATTEMPT", "STALE_ATTEMPT", "t1")
