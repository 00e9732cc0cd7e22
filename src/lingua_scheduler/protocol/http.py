"""Bodies of the HTTP requests of nodes and callers, and of their answers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.fields import (
    Anything,
    AttemptId,
    Count,
    Epoch,
    Id,
    Index,
    Language,
    Message,
    Prose,
    Ref,
    Running,
    RunningAttempt,
    Text,
    WaitMs,
    pairs_of,
)
from lingua_scheduler.protocol.node import JobAssign
from lingua_scheduler.protocol.options import Options
from lingua_scheduler.protocol.registration import Beating, Declaration, declared

Share = Annotated[float, Meta(ge=0, le=1)]


class RegisterRequest(Declaration, frozen=True, kw_only=True):
    """A node joins, or comes back. Without `node_id` it is given one."""

    node_id: Id | None = None
    node_secret: Text | None = None


class RegisterAnswer(Message, frozen=True, kw_only=True):
    """The node is in. `node_secret` is null where no tokens are configured."""

    ok: bool
    node_id: Id
    epoch: str
    cell: str
    health: str
    heartbeat_interval_ms: Count
    node_secret: str | None
    pools: list[str]
    warnings: list[str]


class Load(Message, frozen=True, kw_only=True):
    """How busy a node is, as shares from 0 to 1."""

    gpu: Share | None = None
    cpu: Share | None = None
    mem: Share | None = None


class HeartbeatRequest(Declaration, frozen=True, kw_only=True):
    """A sign of life, and whatever has changed. `running_jobs` is another name of `running`, or a mere number."""

    node_id: Id
    current_load: Load | None = None
    running_jobs: Running | Count | None = None
    node_secret: Text | None = None


class HeartbeatAnswer(Message, frozen=True, kw_only=True):
    """What the node must stop. `must_register`: it gets nothing until it does."""

    ok: bool
    epoch: str
    cancel: list[RunningAttempt]
    warnings: list[str] | None = None
    must_register: bool | None = None


def beating(request: HeartbeatRequest) -> Beating:
    """A heartbeat over HTTP, as the flow is told."""
    said, jobs, load = declared(request), request.running_jobs, request.current_load
    number = jobs if isinstance(jobs, int) and request.running is None else None
    if said["running"] is None and isinstance(jobs, list):
        said["running"] = pairs_of(jobs)
    shares = None if load is None else {"gpu": load.gpu, "cpu": load.cpu, "mem": load.mem}
    return Beating(
        **said,
        max_concurrent_jobs=request.max_concurrent_jobs,
        health=request.health,
        current_load=None if shares is None else {name: share for name, share in shares.items() if share is not None},
        running_jobs=number,
    )


class NodeRequest(Message, frozen=True, kw_only=True):
    """What a node asks as itself: it goes offline."""

    node_id: Id
    epoch: Epoch | None = None
    node_secret: Text | None = None


class PollRequest(NodeRequest, frozen=True, kw_only=True):
    """Is there work? The answer may come later, when there is."""

    wait_ms: WaitMs | None = None


class PollAnswer(Message, frozen=True, kw_only=True):
    """The work there is."""

    jobs: list[JobAssign]


class OkAnswer(Message, frozen=True, kw_only=True):
    """It is done."""

    ok: bool


class DispatchRequest(Message, frozen=True, kw_only=True):
    """A job. The same `request_id` with the same body is the same job."""

    session_id: Id
    src_lang: Language
    tgt_lang: Language
    audio_ref: Ref | None = None
    utterance_index: Index | None = None
    request_id: Id | None = None
    payload: Anything | None = None
    options: Options | None = None
    trace_id: Text | None = None


class DispatchAnswer(Message, frozen=True, kw_only=True):
    """The job has its node. To who preferred to wait: how it ended, if it has; `error` and `reason` if not well."""

    job_id: Id
    node_id: Id
    attempt_id: AttemptId
    trace_id: str
    state: str | None = None
    result: Any = None
    error: str | None = None
    reason: str | None = None


class AttemptRequest(Message, frozen=True, kw_only=True):
    """A node's word about an attempt: it has it, works on it, or no longer does."""

    job_id: Id
    attempt_id: AttemptId
    node_id: Id
    epoch: Epoch | None = None
    node_secret: Text | None = None


class DoneRequest(AttemptRequest, frozen=True, kw_only=True):
    """The result. Another status than `ok` is a fail, for the `reason` given."""

    status: Text | None = None
    result: Anything | None = None
    reason: Prose | None = None
    retry_after_ms: Count | None = None

    @property
    def succeeded(self) -> bool:
        """Whether it is a result at all."""
        return self.status is None or self.status == "ok"


class FailRequest(AttemptRequest, frozen=True, kw_only=True):
    """The node refuses the job, or could not do it."""

    status: Text | None = None
    reason: Prose | None = None
    retry_after_ms: Count | None = None


class CancelRequest(Message, frozen=True, kw_only=True):
    """Nobody wants the result any more."""

    job_id: Id
    reason: Prose | None = None


class StateAnswer(Message, frozen=True, kw_only=True):
    """How the job stands."""

    ok: bool
    state: str


class FailAnswer(StateAnswer, frozen=True, kw_only=True):
    """How it goes on: `RETRYING` with the number of the next attempt, or its end with that of the last one."""

    attempt_id: int


class AudioAnswer(Message, frozen=True, kw_only=True):
    """Where the audio is."""

    audio_ref: str


read_register: Final = Reader(RegisterRequest)
read_heartbeat: Final = Reader(HeartbeatRequest)
read_offline: Final = Reader(NodeRequest)
read_poll: Final = Reader(PollRequest)
read_dispatch: Final = Reader(DispatchRequest)
read_attempt: Final = Reader(AttemptRequest)
read_done: Final = Reader(DoneRequest)
read_fail: Final = Reader(FailRequest)
read_cancel: Final = Reader(CancelRequest)
