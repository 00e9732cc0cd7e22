"""The life of a node's socket, without the socket: what is heard goes in, what is to be done comes out.

It begins as `Registering`: nothing but a registration is taken. The engine's answer makes it `Live`: then the node
may say everything, but only for itself. What comes out are acts; whoever has the socket and the engine does them, in
their order, and brings the engine's answers back here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.new_ids import new_node_id
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.flows.heartbeat import Beaten
from lingua_scheduler.front.nodes.links import Known
from lingua_scheduler.front.web import SMALL_BYTES
from lingua_scheduler.logs import code_in
from lingua_scheduler.protocol.codec import Undecodable
from lingua_scheduler.protocol.errors import MAX_BAD_IN_A_ROW, CloseCode, error_message
from lingua_scheduler.protocol.failures import missing_service, service_types
from lingua_scheduler.protocol.legacy import Abilities, abilities_of, beating_node, registering_node
from lingua_scheduler.protocol.node import (
    FromNode,
    JobAck,
    JobCancel,
    JobNack,
    JobResult,
    JobStarted,
    JobStopped,
    NodeAsrPartial,
    NodeError,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    ToNode,
    read_from_node,
)
from lingua_scheduler.protocol.registration import Beating
from lingua_scheduler.protocol.registration import Registering as Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingua_scheduler.flows.register import Registered

AttemptMessage = JobAck | JobStarted | JobStopped | JobNack | JobResult

#: Words that say nothing but which attempt they are about.
_BARE: Final = (JobAck, JobStarted, JobStopped)
#: Refusals of a heartbeat after which only a registration can tell who speaks for the node.
_UNSURE: Final = ("UNKNOWN_NODE", "NODE_REPLACED")
#: What may be large: a result may carry audio, and what a node says of itself lists all that it has.
_LARGE: Final = (JobResult, NodeRegister, NodeHeartbeat)


class Say(msgspec.Struct, frozen=True):
    """Write a message to the node."""

    message: ToNode


class HangUp(msgspec.Struct, frozen=True):
    """Say why, and close the socket."""

    code: CloseCode
    detail: str = ""
    #: That of the message which is the reason; None: that of the connection.
    trace_id: str | None = None


class Enter(msgspec.Struct, frozen=True):
    """Register the node. `token` is what it showed."""

    node_id: str
    words: Words
    abilities: Abilities
    types: dict[str, str]
    token: str | None = None


class Beat(msgspec.Struct, frozen=True):
    """Take the node's heartbeat."""

    words: Beating
    epoch: str
    types: dict[str, str] | None = None


class Renew(msgspec.Struct, frozen=True):
    """The engine does not know the node any more, or by another connection: register it again, as it last said.

    If that connection is a newer one, this is the end of ours.
    """


class Tell(msgspec.Struct, frozen=True):
    """Tell the engine what the node says of an attempt."""

    message: AttemptMessage


class Pass(msgspec.Struct, frozen=True):
    """Hand on what the node has understood so far."""

    message: NodeAsrPartial


class Mark(msgspec.Struct, frozen=True):
    """A service of the node does not work; "" and "" is the whole node."""

    service: str
    type: str


class Note(msgspec.Struct, frozen=True):
    """Something for the log."""

    text: str


Act = Say | HangUp | Enter | Beat | Renew | Tell | Pass | Mark | Note


class _Traced(msgspec.Struct):
    trace_id: Any = None


_read_trace: Final = msgspec.json.Decoder(_Traced).decode


class _Reader:
    """Reads what comes, and counts what could not be read in a row. `trace_id` is that of the connection."""

    def __init__(self, trace_id: str | None) -> None:
        self._trace_id = trace_id
        self._bad = 0

    def read(self, data: str | bytes) -> FromNode | list[Act]:
        """The message; or what to do about something that is none."""
        if isinstance(data, bytes):
            return self.bad(Refusal("INVALID_MESSAGE", "A node sends no binary frames."))
        try:
            message = read_from_node(data)
        except Undecodable as undecodable:
            if undecodable.close is not None:
                return [HangUp(undecodable.close, undecodable.refusal.detail, self._trace_id)]
            return self.bad(undecodable.refusal, _trace_in(data))
        self._bad = 0
        if len(data) > SMALL_BYTES and not isinstance(message, _LARGE):
            return [_error(refuse("PAYLOAD_TOO_LARGE"), message, self._trace_id)]
        return message

    def bad(self, refusal: Refusal, trace_id: str | None = None) -> list[Act]:
        """The message was no good; too many of these, and nobody listens any more."""
        self._bad += 1
        trace_id = trace_id or self._trace_id
        if self._bad >= MAX_BAD_IN_A_ROW:
            return [HangUp(CloseCode.BAD_MESSAGES, refusal.detail, trace_id)]
        return [Say(error_message(refusal, trace_id))]


class Registering:
    """Nothing is known of the node yet."""

    def __init__(
        self,
        *,
        slots: int = 4,
        heartbeat_ms: int = 15_000,
        trace_id: str | None = None,
        new_id: Callable[[], str] = new_node_id,
    ) -> None:
        """`slots`: those of a node that does not say how many it has. `heartbeat_ms`: what it is told to beat at."""
        self._slots = slots
        self._heartbeat_ms = heartbeat_ms
        self._trace_id = trace_id
        self._new_id = new_id
        self._reader = _Reader(trace_id)

    def hear(self, data: str | bytes) -> list[Act]:
        """A message of the node."""
        message = self._reader.read(data)
        if isinstance(message, list):
            return message
        if not isinstance(message, NodeRegister):
            refusal = Refusal("INVALID_MESSAGE", "type: node_register must come first")
            return self._reader.bad(refusal, getattr(message, "trace_id", None))
        return [_entering(message, message.node_id or self._new_id(), self._slots)]

    def entered(self, enter: Enter, answer: Registered, connection: str, credential: str) -> tuple[Live, list[Act]]:
        """The engine has taken the node in."""
        known = Known(
            node_id=enter.node_id,
            epoch=answer.epoch,
            connection=connection,
            credential=credential,
            abilities=enter.abilities,
            words=enter.words,
            types=enter.types,
            heartbeat_ms=self._heartbeat_ms,
            trace_id=self._trace_id,
        )
        return Live(known, slots=self._slots), welcome(known, answer)

    def refused(self, refusal: Refusal) -> Sequence[Say | HangUp]:
        """The engine has not; the node may try again in the time that it has, or by a connection that it opens now."""
        if refusal.code == "NODE_REPLACED":
            return [HangUp(CloseCode.REPLACED, refusal.detail, self._trace_id)]
        return [Say(error_message(refusal, self._trace_id))]


class Live:
    """The node is registered, and speaks for itself."""

    def __init__(self, known: Known, *, slots: int = 4) -> None:
        self.known = known
        self._slots = slots
        self._reader = _Reader(known.trace_id)

    def hear(self, data: str | bytes) -> list[Act]:
        """A message of the node."""
        message = self._reader.read(data)
        if isinstance(message, list):
            return message
        if message.node_id not in {None, self.known.node_id}:
            return [_error(self._not_its_own(message), message, self.known.trace_id)]
        return self._acts_on(message)

    def _acts_on(self, message: FromNode) -> list[Act]:
        if isinstance(message, _BARE) or (isinstance(message, JobResult) and message.error is None):
            return [Tell(message)]
        match message:
            case NodeRegister():
                return [_entering(message, self.known.node_id, self._slots)]
            case NodeHeartbeat():
                return [self._beating(message)]
            case NodeAsrPartial():
                return [Pass(message)]
            case NodeError():
                return self._trouble(message)
        return [*self._missing(message), Tell(message)]

    def _not_its_own(self, message: FromNode) -> Refusal:
        """Nobody speaks for another node; about another's attempt the flows would say the same."""
        if isinstance(message, AttemptMessage):
            return refuse(
                "NODE_MISMATCH", node_id=self.known.node_id, attempt_id=message.attempt_id, job_id=message.job_id
            )
        return Refusal("FORBIDDEN", f"node_id: this connection is that of {self.known.node_id}, and of no other node")

    def _beating(self, message: NodeHeartbeat) -> Beat:
        """The first beat makes a node ready that has not said how it is."""
        is_first = self.known.words["health"] == "registering"
        types = None if message.installed_services is None else service_types(message.installed_services)
        return Beat(beating_node(message, first=is_first), message.epoch or self.known.epoch, types)

    def _missing(self, message: AttemptMessage | NodeError) -> list[Act]:
        if not isinstance(message, JobNack | JobResult | NodeError):
            return []
        found = missing_service(message, self.known.types)
        return [] if found is None else [Mark(*found)]

    def _trouble(self, message: NodeError) -> list[Act]:
        # Of a mark its flow tells when it is made: all nodes may cry at once, and again and again. And other words than
        # its code may tell what was said.
        missing = self._missing(message)
        return missing or [Note(f"it has trouble: {code_in(message.code) or 'it does not say which'}")]

    def entered(self, enter: Enter, answer: Registered) -> list[Act]:
        """The engine has taken the node in again."""
        known = self.known
        known.epoch, known.abilities, known.words, known.types = (
            answer.epoch,
            enter.abilities,
            enter.words,
            enter.types,
        )
        return welcome(known, answer)

    def refused(self, refusal: Refusal) -> list[Act]:
        """The engine has not: the node stays what it was. If another connection speaks for it, this one is over."""
        if refusal.code == "NODE_REPLACED":
            return [HangUp(CloseCode.REPLACED, refusal.detail)]
        return [self._say(refusal)]

    def beaten(self, beat: Beat, answer: Beaten | Refusal) -> list[Act]:
        """What the engine says to a heartbeat."""
        if isinstance(answer, Beaten):
            self._take(beat)
            return told_to_beat(self.known, answer)
        if answer.code in _UNSURE or (answer.code == "STALE_ATTEMPT" and beat.epoch == self.known.epoch):
            self._take(beat)
            return [Renew()]
        return [self._say(answer)]

    def _say(self, refusal: Refusal) -> Say:
        """A refusal of something that has no trace of its own."""
        return Say(error_message(refusal, self.known.trace_id))

    def _take(self, beat: Beat) -> None:
        """What was said last counts when the node is registered again."""
        words, said = self.known.words, beat.words
        self.known.words = {
            **words,
            "semantic_langs": _last(words["semantic_langs"], said["semantic_langs"]),
            "asr_langs": _last(words["asr_langs"], said["asr_langs"]),
            "nmt_pairs": _last(words["nmt_pairs"], said["nmt_pairs"]),
            "tts_langs": _last(words["tts_langs"], said["tts_langs"]),
            "services": _last(words["services"], said["services"]),
            "labels": _last(words["labels"], said["labels"]),
            "accept_public_jobs": _last(words["accept_public_jobs"], said["accept_public_jobs"]),
            "max_concurrent_jobs": _last(words["max_concurrent_jobs"], said["max_concurrent_jobs"]),
            "health": _last(words["health"], said["health"]),
            # Languages that came in a legacy beat may have been unknown to us.
            "lenient": words["lenient"] if said["semantic_langs"] is None else said["lenient"],
        }
        if beat.types is not None:
            self.known.types = beat.types

    def told(self, message: AttemptMessage, refusal: Refusal | None) -> list[Act]:
        """What the engine says to a word about an attempt; None: it was taken."""
        return [] if refusal is None else [_error(refusal, message, self.known.trace_id)]


def _last(before: Any, now: Any) -> Any:  # noqa: ANN401 - whatever it is
    return before if now is None else now


def told_to_beat(known: Known, answer: Beaten) -> list[Act]:
    """What a node is told after a heartbeat, its own or one that its open socket stands for."""
    acts = cancels(known, answer.cancel)
    acts += [Note(warning) for warning in answer.warnings]
    if answer.must_register:
        acts.append(HangUp(CloseCode.TIMEOUT, "register again: it was not confirmed in time that a job was stopped"))
    return acts


def welcome(known: Known, answer: Registered) -> list[Act]:
    """What a node is told that was taken in, by its own word or by ours."""
    ack = NodeRegisterAck(
        node_id=known.node_id,
        message="registered",
        status=known.words["health"],
        epoch=answer.epoch,
        heartbeat_interval_ms=known.heartbeat_ms,
        pools=answer.pairs,
        warnings=answer.warnings,
    )
    return [Say(ack), *cancels(known, answer.cancel)]


def cancels(known: Known, attempts: Iterable[tuple[str, int]]) -> list[Act]:
    """The jobs may not exist any more, so it is told under the trace of the connection."""
    reason = "this attempt is not yours any more"
    return [
        Say(JobCancel(job_id=job_id, attempt_id=attempt_id, trace_id=known.trace_id, reason=reason))
        for job_id, attempt_id in attempts
    ]


def _entering(message: NodeRegister, node_id: str, slots: int) -> Enter:
    return Enter(
        node_id,
        registering_node(message, slots=slots),
        abilities_of(message),
        service_types(message.installed_services),
        message.token,
    )


def _error(refusal: Refusal, message: FromNode, trace_id: str | None) -> Say:
    """A refusal under the message's own trace, or that of its connection."""
    return Say(error_message(refusal, getattr(message, "trace_id", None) or trace_id))


def _trace_in(data: str) -> str | None:
    """The trace id of a message that cannot be read as what it should be."""
    try:
        trace_id = _read_trace(data).trace_id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return trace_id if isinstance(trace_id, str) and len(trace_id) <= 128 else None  # noqa: PLR2004 - as `Text`
