"""What a node has in hand, without the socket: what is heard goes in, what is to be done comes out.

An assignment is acknowledged and waits for its audio (AWAITING) if that follows as a frame; it waits for an older
attempt of the same job that has not ended here (QUEUED); it runs (RUNNING), and its answer is kept (ANSWERED) until
the scheduler has it. One that must be stopped while it runs is STOPPING until its handler has really ended.

Nobody confirms a result. But pings are answered in order: a pong says that everything before its ping was read. So
every answer is followed by a ping, and forgotten with its pong; an answer without one is kept when the socket breaks.
When the node is back it names everything it still has, is told what of it is not its own any more, and says the rest
again: behind a pong, too, because these words come before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.audio_ref import is_fetched
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.fields import RunningAttempt
from lingua_scheduler.protocol.node import (
    FromNode,
    JobAck,
    JobAssign,
    JobNack,
    JobResult,
    JobStarted,
    JobStopped,
    NodeAsrPartial,
)
from lingua_scheduler.protocol.speech import audio_of
from lingua_scheduler.sdk.nodes.results import about

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.protocol.frames import AudioFrame

#: A job and its attempt.
Key = tuple[str, int]
Answer = JobResult | JobNack

_LOW_32: Final = 2**32 - 1


class Say(msgspec.Struct, frozen=True):
    """Write a message to the scheduler."""

    message: FromNode


class Ping(msgspec.Struct, frozen=True):
    """Ask for a pong, behind everything that was said before."""

    number: int


class Begin(msgspec.Struct, frozen=True):
    """Let the handler begin. `audio` None: it is to be fetched by its ref."""

    message: JobAssign
    audio: bytes | None


class Stop(msgspec.Struct, frozen=True):
    """Stop the handler."""

    key: Key
    reason: str


Act = Say | Ping | Begin | Stop


class Stage(Enum):
    """How far an attempt is."""

    AWAITING = auto()
    QUEUED = auto()
    RUNNING = auto()
    STOPPING = auto()
    ANSWERED = auto()


@dataclass(slots=True)
class _Held:
    message: JobAssign
    stage: Stage
    audio: bytes | None = b""
    answer: Answer | None = None
    #: Behind what was last said of it on this socket; 0: nothing that matters.
    ping: int = 0

    @property
    def key(self) -> Key:
        return self.message.job_id, self.message.attempt_id


class Attempts:
    """All attempts of a node. It survives sockets: what broke was the connection, not the work."""

    def __init__(self, max_jobs: int, *, takes_frames: bool) -> None:
        self._max_jobs = max_jobs
        self._takes_frames = takes_frames
        self._held: dict[Key, _Held] = {}
        self._pings = 0
        #: The ping behind which it is known what is still ours; answers wait for its pong.
        self._comparing = 0
        self._is_joined = False
        self._is_compared = False
        #: The node's id, as soon as it has one.
        self.node_id: str | None = None
        #: No new job is taken.
        self.is_draining = False

    @property
    def is_idle(self) -> bool:
        """Nothing runs, and nothing is left to say."""
        return not self._held

    @property
    def busy(self) -> int:
        """How many slots are taken. A handler that was told to stop has its slot until it ends."""
        return sum(held.stage is not Stage.ANSWERED for held in self._held.values())

    def running(self) -> list[RunningAttempt]:
        """What it works on, for a heartbeat."""
        return _named(held for held in self._held.values() if held.stage is not Stage.ANSWERED)

    def claimed(self) -> list[RunningAttempt]:
        """What it has, for a registration: also what is done and perhaps not heard."""
        return _named(self._held.values())

    def joined(self) -> list[Act]:
        """The scheduler has taken the node in, and now says what of all this is not its own any more."""
        if self._is_joined:
            return []
        self._is_joined = True
        self._comparing = self._next_ping()
        return [Ping(self._comparing)]

    def lost(self) -> None:
        """The socket is gone. What waited for a frame will never get it: it is not claimed, and goes elsewhere."""
        self._is_joined = self._is_compared = False
        for key, held in list(self._held.items()):
            held.ping = 0
            if held.stage is Stage.AWAITING:
                del self._held[key]

    def assigned(self, message: JobAssign) -> list[Act]:
        """A job for this node."""
        key = (message.job_id, message.attempt_id)
        if key in self._held:
            return self._assigned_again(self._held[key])
        others = [held for held in self._held.values() if held.message.job_id == message.job_id]
        if any(held.message.attempt_id > message.attempt_id for held in others):
            return []
        refused = self._why_not()
        if refused:
            return self._say(_nack(message, self.node_id, refused))
        acts = self._say(JobAck(**about(message, self.node_id)))
        for held in others:
            acts += self.cancelled(held.key, "a newer attempt of the job is here")
        return acts + self._taken(message)

    def _assigned_again(self, held: _Held) -> list[Act]:
        """Told twice is not done twice."""
        if held.stage is Stage.STOPPING:
            return []
        again = self._say(JobAck(**about(held.message, self.node_id)))
        return again + self._tell(held) if held.stage is Stage.ANSWERED else again

    def _why_not(self) -> str:
        if self.is_draining:
            return "NODE_OVERLOADED: the node is about to stop"
        if self.busy >= self._max_jobs:
            return f"NODE_OVERLOADED: all slots are taken ({self._max_jobs})"
        return ""

    def _taken(self, message: JobAssign) -> list[Act]:
        """Its audio is in the message, is to be fetched, is not ours to fetch, follows, or there is none."""
        held = self._held[message.job_id, message.attempt_id] = _Held(message, Stage.AWAITING)
        if message.audio:
            try:
                held.audio = audio_of("audio", message.audio)
            except Invalid as invalid:
                return self._refuse(held, f"INVALID_MESSAGE: {invalid}")
            return self._ready(held)
        if message.audio_ref is None and self._takes_frames:
            held.ping = self._next_ping()
            return [Ping(held.ping)]
        held.audio = None if is_fetched(message.audio_ref, message.job_id) else b""
        return self._ready(held)

    def framed(self, frame: AudioFrame) -> list[Act]:
        """The audio of a job."""
        for held in self._held.values():
            job = held.message
            is_its = (job.session_id, job.utterance_index & _LOW_32) == (frame.session_id, frame.seq)
            if held.stage is Stage.AWAITING and is_its:
                held.audio = frame.audio
                return self._ready(held)
        return []

    def _ready(self, held: _Held) -> list[Act]:
        """It has all that it needs. No job runs twice at the same time."""
        job_id = held.message.job_id
        if any(one.message.job_id == job_id and one.stage is Stage.STOPPING for one in self._held.values()):
            held.stage = Stage.QUEUED
            return []
        held.stage, held.ping = Stage.RUNNING, 0
        audio, held.audio = held.audio, b""
        return [*self._say(JobStarted(**about(held.message, self.node_id))), Begin(held.message, audio)]

    def partial(self, key: Key, text: str, *, is_final: bool) -> list[Act]:
        """What was understood so far; of an attempt that is over it is dropped."""
        held = self._held.get(key)
        if held is None or held.stage is not Stage.RUNNING:
            return []
        job = held.message
        return self._say(
            NodeAsrPartial(
                job_id=job.job_id,
                text=text,
                node_id=self.node_id,
                session_id=job.session_id,
                utterance_index=job.utterance_index,
                is_final=is_final,
                trace_id=job.trace_id,
            )
        )

    def finished(self, key: Key, answer: Answer) -> list[Act]:
        """The handler has ended. Of an attempt that is not wanted any more this is all that is said."""
        held = self._held.get(key)
        if held is None or held.stage is Stage.ANSWERED:
            return []
        if held.stage is Stage.STOPPING:
            del self._held[key]
            return [*self._say(JobStopped(**about(held.message, self.node_id))), *self._next_of(key[0])]
        held.stage, held.answer = Stage.ANSWERED, answer
        return self._tell(held)

    def cancelled(self, key: Key, reason: str = "") -> list[Act]:
        """The attempt is not the node's any more."""
        held = self._held.get(key)
        if held is not None and held.stage is Stage.RUNNING:
            held.stage = Stage.STOPPING
            return [Stop(key, reason)]
        if held is not None and held.stage is Stage.STOPPING:
            return []
        if held is None:
            return self._say(JobStopped(job_id=key[0], attempt_id=key[1], node_id=self.node_id))
        del self._held[key]
        was_said = held.stage is Stage.ANSWERED and held.ping
        return [] if was_said else self._say(JobStopped(**about(held.message, self.node_id)))

    def abandon(self, reason: str) -> list[Act]:
        """There is no more time. What is not done goes to other nodes, and costs the job no try."""
        acts: list[Act] = []
        for held in list(self._held.values()):
            if held.stage is Stage.RUNNING:
                acts.append(Stop(held.key, reason))
            if held.stage in {Stage.RUNNING, Stage.QUEUED, Stage.AWAITING}:
                acts += self._refuse(held, f"NODE_OVERLOADED: {reason}")
        return acts

    def ponged(self, number: int) -> list[Act]:
        """The scheduler has read everything before this ping, and what it had written by then is here."""
        if number == self._comparing and self._is_joined:
            self._is_compared = True
            kept = [held for held in self._held.values() if held.stage is Stage.ANSWERED]
            return [act for held in kept for act in self._tell(held)]
        for key, held in list(self._held.items()):
            if held.ping != number:
                continue
            if held.stage is Stage.AWAITING:
                return self._ready(held)
            if held.stage is Stage.ANSWERED:
                del self._held[key]
        return []

    def _next_of(self, job_id: str) -> list[Act]:
        queued = [held for held in self._held.values() if held.message.job_id == job_id and held.stage is Stage.QUEUED]
        return self._ready(queued[0]) if queued else []

    def _refuse(self, held: _Held, reason: str) -> list[Act]:
        held.stage, held.answer = Stage.ANSWERED, _nack(held.message, self.node_id, reason)
        return self._tell(held)

    def _tell(self, held: _Held) -> list[Act]:
        """Say an answer, if it is known that it is still wanted."""
        if not self._is_compared or held.answer is None:
            return []
        held.ping = self._next_ping()
        return [Say(held.answer), Ping(held.ping)]

    def _say(self, message: FromNode) -> list[Act]:
        """Words that mean nothing later: the next registration says it all."""
        return [Say(message)] if self._is_joined else []

    def _next_ping(self) -> int:
        self._pings += 1
        return self._pings


def _nack(message: JobAssign, node_id: str | None, reason: str) -> JobNack:
    return JobNack(**about(message, node_id), reason=reason)


def _named(held: Iterable[_Held]) -> list[RunningAttempt]:
    return [RunningAttempt(job_id=one.message.job_id, attempt_id=one.message.attempt_id) for one in held]
