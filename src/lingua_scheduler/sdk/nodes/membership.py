"""A node's place in the fleet, without the socket: it joins, beats, is told what to do, is cut off, and joins again."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.errors import CloseCode, ErrorMessage
from lingua_scheduler.protocol.frames import AudioFrame, decode_frame
from lingua_scheduler.protocol.node import (
    JobAssign,
    JobCancel,
    NodeControl,
    NodeHeartbeat,
    NodeRegister,
    NodeRegisterAck,
    ResourceUsage,
    ToNode,
    read_to_node,
)
from lingua_scheduler.sdk._connect import announced
from lingua_scheduler.sdk.client_errors import HINTS, Refused, hinted, refused_by, seconds
from lingua_scheduler.sdk.nodes.attempts import Act as AttemptAct
from lingua_scheduler.sdk.nodes.attempts import Say

if TYPE_CHECKING:
    from lingua_scheduler.protocol.fields import Health
    from lingua_scheduler.protocol.frames import Frame
    from lingua_scheduler.sdk.nodes.attempts import Attempts

#: What to do about a "no" that will be the same the next time.
_HINTS: Final = HINTS | {
    "UNAUTHENTICATED": "give a token as token=, or in LINGUA_TOKEN",
    "FORBIDDEN": "this token does not let a node in",
    "NODE_ID_CONFLICT": "give this node another node_id",
}
#: What a socket that was not closed at all seems to be closed with.
_ABNORMAL: Final = 1006
#: Only this connection is over.
_OVER: Final = "SESSION_CLOSED"
_REPLACED: Final = "another process serves as {}; two nodes need two ids"


class Joined(msgspec.Struct, frozen=True):
    """The node is in."""

    ack: NodeRegisterAck


class ComeAgain(msgspec.Struct, frozen=True):
    """Hang up, and try again after a while."""

    reason: str
    after_s: float = 0.0


class GiveUp(msgspec.Struct, frozen=True):
    """No other try would help."""

    error: Refused


class Leave(msgspec.Struct, frozen=True):
    """The operator wants the node to end: drain, and stop."""

    reason: str


class Note(msgspec.Struct, frozen=True):
    """Something for the log."""

    text: str


Act = AttemptAct | Joined | ComeAgain | GiveUp | Leave | Note


class Membership:
    """It survives sockets, as the node's epoch does."""

    def __init__(self, declaration: NodeRegister, attempts: Attempts, *, process_id: str = "") -> None:
        self._declaration = declaration
        self._attempts = attempts
        self._process_id = process_id or secrets.token_hex(16)
        self._epoch: str | None = None
        #: It was in the fleet at least once: then no refusal is for good, for it may be about to change.
        self._was_in = False
        self._is_in = False
        self._last_error: ErrorMessage | None = None
        self.node_id = declaration.node_id
        self.interval_s = 15.0

    @property
    def is_in(self) -> bool:
        """Whether the scheduler knows that this socket is ours."""
        return self._is_in

    @property
    def health(self) -> Health:
        """The node's own word."""
        return "draining" if self._attempts.is_draining else "ready"

    def connected(self) -> list[Act]:
        """The socket is open: say who we are, what we were, and what we have in hand."""
        self._last_error = None
        register = msgspec.structs.replace(
            self._declaration,
            node_id=self.node_id,
            health=self.health,
            epoch=self._epoch,
            process_id=self._process_id,
            running=self._attempts.claimed(),
        )
        return [Say(register)]

    def lost(self, code: int | None = None, reason: str = "") -> ComeAgain | GiveUp:
        """The socket is closed, with this, or without a word.

        Whoever was in and was replaced does not fight with the other; who was not let in because his connection is not
        the latest opens another.
        """
        was_in, self._is_in = self._is_in, False
        self._attempts.lost()
        if code == CloseCode.REPLACED and was_in:
            return GiveUp(Refused("REPLACED", _REPLACED.format(self.node_id)))
        error = announced(self._last_error, code)
        said = "the connection broke" if code in {None, _ABNORMAL} else f"closed with {code}"
        return ComeAgain(f"{said}: {reason}" if reason else said, _asked_s(error))

    def refused(self, error: Refused) -> ComeAgain | GiveUp:
        """There was no socket, or not for us."""
        if error.retryable or self._was_in or error.code == _OVER:
            return ComeAgain(str(error), error.retry_after or 0.0)
        return GiveUp(hinted(error, _HINTS))

    def beat(self, load: dict[str, float] | None = None) -> list[Act]:
        """A sign of life, and what we really work on."""
        if not self._is_in:
            return []
        usage = None if load is None else ResourceUsage(**{_PERCENT[name]: value * 100 for name, value in load.items()})
        running = self._attempts.running()
        return [Say(NodeHeartbeat(node_id=self.node_id, health=self.health, running=running, resource_usage=usage))]

    def gone(self) -> list[Act]:
        """The last word of a node that has nothing in hand any more."""
        return [Say(NodeHeartbeat(node_id=self.node_id, health="offline", running=[]))] if self._is_in else []

    def hear(self, data: str | bytes) -> list[Act]:
        """A message of the scheduler. What cannot be read, or is from a later version, is left alone."""
        try:
            if isinstance(data, bytes):
                return self._framed(decode_frame(data))
            return self._acts_on(read_to_node(data))
        except Invalid as invalid:
            return [Note(f"the scheduler said something that is not understood: {invalid}")]

    def _framed(self, frame: Frame) -> list[Act]:
        return [*self._attempts.framed(frame)] if isinstance(frame, AudioFrame) else []

    def _acts_on(self, message: ToNode) -> list[Act]:
        match message:
            case NodeRegisterAck():
                return self._joined(message)
            case JobAssign():
                return [*self._attempts.assigned(message)]
            case JobCancel():
                return [*self._attempts.cancelled((message.job_id, message.attempt_id), message.reason or "")]
            case NodeControl():
                return self._control(message)
            case ErrorMessage():
                return self._error(message)

    def _joined(self, ack: NodeRegisterAck) -> list[Act]:
        """Also when nobody asked: the engine came back empty, and the scheduler has entered us again."""
        self.node_id = self._attempts.node_id = ack.node_id
        self._epoch = ack.epoch
        self.interval_s = max(ack.heartbeat_interval_ms, 100) / 1000
        self._is_in = self._was_in = True
        return [Joined(ack), *self._attempts.joined()]

    def _control(self, message: NodeControl) -> list[Act]:
        """A drain is the scheduler's own affair: it gives us no jobs. Only `shutdown` asks something of us."""
        if message.command == "shutdown":
            return [Leave(message.reason or "the operator wants it")]
        return [Note(f"the operator says {message.command}" + (f": {message.reason}" if message.reason else ""))]

    def _error(self, error: ErrorMessage) -> list[Act]:
        """Before we are in it is the answer to the registration, or comes before a close."""
        self._last_error = error
        if self._is_in:
            return [Note(f"{error.error}: {error.detail}")]
        return [self.refused(refused_by(error))]


def _asked_s(error: ErrorMessage | None) -> float:
    return 0.0 if error is None else seconds(error.retry_after_ms) or 0.0


_PERCENT: Final = {"cpu": "cpu_percent", "gpu": "gpu_percent", "mem": "mem_percent"}
