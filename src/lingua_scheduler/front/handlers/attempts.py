"""What nodes say of their attempts over HTTP: ack, started, stopped, done, fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.erase_audio import erase_audio
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.front.audio import has_attempt, keep_speech
from lingua_scheduler.front.web import LARGE_BYTES, Route
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.failures import failing, missing_service
from lingua_scheduler.protocol.http import (
    AttemptRequest,
    DoneRequest,
    FailAnswer,
    FailRequest,
    StateAnswer,
    read_attempt,
    read_done,
    read_fail,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.flows.attempts import Moved
    from lingua_scheduler.flows.stopped import Stopped
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said
    from lingua_scheduler.store.engine import Engine

    Flow = Callable[[Engine, str, int, str, str], Awaitable[Moved | Stopped | Refusal]]
    Handle = Callable[[Desk, Request], Awaitable[Said]]


def _named(said: AttemptRequest) -> tuple[str, int, str, str]:
    return said.job_id, said.attempt_id, said.node_id, said.epoch or ""


def _telling(flow: Flow) -> Handle:
    """The handler of a word that says nothing but which attempt it is about."""

    async def handle(desk: Desk, request: Request) -> Said:
        moved = await flow(desk.engine, *_named(request.message))
        return moved if isinstance(moved, Refusal) else StateAnswer(ok=True, state=moved.state)

    return handle


async def accept(desk: Desk, request: Request) -> Said:
    """The node has the job."""
    said: AttemptRequest = request.message
    moved = await ack(desk.engine, *_named(said))
    if isinstance(moved, Refusal):
        return moved
    desk.delivery.accepted(said.job_id, said.node_id)
    return StateAnswer(ok=True, state=moved.state)


async def finish(desk: Desk, request: Request) -> Said:
    """The result; or, with another status than `ok`, that there is none."""
    said: DoneRequest = request.message
    if not said.succeeded:
        return await _give_up(desk, said)
    kept = await _keep_speech(desk, said)
    if isinstance(kept, Refusal):
        return kept
    result = said.result
    if result is not None and kept:
        result = {name: value for name, value in result.items() if name != "tts_audio"} | {"tts_ref": kept}
    text = "" if result is None else encode(result).decode()
    with desk.delivery.ending("done", said.job_id, said.attempt_id, said.node_id):
        moved = await done(desk.engine, *_named(said), result=text, result_ttl_ms=desk.result_ttl_ms)
    if not isinstance(moved, Refusal):
        desk.delivery.over(said.job_id, said.attempt_id, said.node_id)
        _time(desk, said.result or {})
        return FailAnswer(ok=True, state=moved.state, attempt_id=said.attempt_id)
    if kept:
        await erase_audio(desk.engine, kept)
    return moved


def _time(desk: Desk, result: dict[str, Any]) -> None:
    extra = result.get("extra")
    desk.delivery.times.worked(extra if isinstance(extra, dict) else None, result.get("processing_time_ms"))


async def _keep_speech(desk: Desk, said: DoneRequest) -> str | Refusal:
    """Where the speech of a result is kept; "": there is none, or the node has not got the job and nobody wants it."""
    spoken = (said.result or {}).get("tts_audio")
    if said.result is None or not isinstance(spoken, str) or not spoken:
        return ""
    if not await has_attempt(desk.engine, *_named(said)):
        return ""
    media = said.result.get("tts_format")
    return await keep_speech(
        desk.engine,
        said.job_id,
        said.attempt_id,
        spoken,
        field="result.tts_audio",
        media=media if isinstance(media, str) else "",
        ttl_ms=desk.result_ttl_ms,
    )


async def give_up(desk: Desk, request: Request) -> Said:
    """The node refuses the job, or could not do it."""
    said: FailRequest = request.message
    return await _give_up(desk, said)


async def _give_up(desk: Desk, said: DoneRequest | FailRequest) -> Said:
    with desk.delivery.ending("fail", said.job_id, said.attempt_id, said.node_id):
        failed = await fail(desk.engine, *_named(said), **failing(said))
    if isinstance(failed, Refusal):
        return failed
    missing = missing_service(said)
    if missing is not None:
        desk.marker.saw(said.node_id, *missing)
    if failed.reserved:
        desk.delivery.carry_soon(said.job_id, failed.attempt_id)
    return FailAnswer(ok=True, state=failed.state, attempt_id=failed.attempt_id)


_REFUSES: Final = ("UNKNOWN_JOB", "STALE_ATTEMPT", "NODE_MISMATCH")


def _route(word: str, handle: Handle, summary: str, **more: Any) -> Route:  # noqa: ANN401
    given: dict[str, Any] = {"answers": StateAnswer, "reads": read_attempt} | more
    return Route(
        "POST",
        f"/v1/job/{word}",
        "node",
        handle,
        summary,
        refuses=_REFUSES,
        tag="attempts",
        speaks_for="node_id",
        **given,
    )


ROUTES: Final = (
    _route("ack", accept, "The node has the job."),
    _route("started", _telling(started), "It works on it."),
    _route("stopped", _telling(stopped), "It no longer works on this attempt."),
    _route("done", finish, "The result.", answers=FailAnswer, reads=read_done, most_bytes=LARGE_BYTES),
    _route("fail", give_up, "It refuses the job, or could not do it.", answers=FailAnswer, reads=read_fail),
)
