"""The instances that share an engine, and the letters that none of them could use, as people and machines see them."""

from __future__ import annotations

from lingua_scheduler.protocol.fields import Message


class Inbox(Message, frozen=True, kw_only=True):
    """How many letters lie in an inbox, and how many of them somebody has taken and not settled."""

    letters: int
    pending: int


class InstanceAnswer(Message, frozen=True, kw_only=True):
    """One scheduler that is there."""

    instance_id: str
    started_at_ms: int
    seen_at_ms: int
    version: str
    draining: bool
    nodes: int
    sessions: int
    host: str
    pid: int
    url: str


class InstancesAnswer(Message, frozen=True, kw_only=True):
    """A page of schedulers."""

    instances: list[InstanceAnswer]
    cursor: str | None = None


class InstanceNumbers(Message, frozen=True, kw_only=True):
    """One scheduler in numbers. Of one that is not `alive` only its inbox is known, and when it was seen last."""

    instance_id: str
    alive: bool
    seen_at_ms: int
    inbox: Inbox
    version: str | None = None
    draining: bool | None = None
    uptime_ms: int | None = None
    nodes: int | None = None
    sessions: int | None = None


class ClusterAnswer(Message, frozen=True, kw_only=True):
    """All instances in numbers, those too that are gone and whose letters nobody has taken over yet."""

    generated_at_ms: int
    instances: list[InstanceNumbers]
    dead_letters: int


class DeadLetterAnswer(Message, frozen=True, kw_only=True):
    """A letter that nobody could use: what it was, to whom it was sent, why and how often it failed."""

    id: str
    instance_id: str
    reason: str
    deliveries: int
    buried_at_ms: int
    kind: str
    job_id: str
    attempt_id: int
    node_id: str
    session_id: str
    detail: str
    trace_id: str


class DeadLettersAnswer(Message, frozen=True, kw_only=True):
    """A page of dead letters, the oldest first, and how many there are."""

    letters: list[DeadLetterAnswer]
    total: int
    cursor: str | None = None


class ReplayAnswer(Message, frozen=True, kw_only=True):
    """It was sent again, to this instance, and is no dead letter any more."""

    ok: bool
    id: str
    instance_id: str


class DeletedAnswer(Message, frozen=True, kw_only=True):
    """It is gone."""

    ok: bool
    id: str
