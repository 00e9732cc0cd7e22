"""Calling the handler: one task for each attempt, in a thread of its own if the handler blocks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from lingua_scheduler.protocol.node import JobResult
from lingua_scheduler.sdk._tracing import working
from lingua_scheduler.sdk.client_errors import ClientError
from lingua_scheduler.sdk.nodes.job import Job, JobError
from lingua_scheduler.sdk.nodes.results import Rubbish, failure_of, result_of

if TYPE_CHECKING:
    from lingua_scheduler.protocol.node import JobAssign
    from lingua_scheduler.sdk.nodes.attempts import Answer, Key

    Fetch = Callable[[str], Awaitable[bytes]]

#: Returns what it makes of a job, or a coroutine that does.
Handler = Callable[[Job], Any]

log: Final = logging.getLogger("lingua.node")


def is_async(handler: Callable[..., object]) -> bool:
    """Whether calling it gives something to await. Anything else is taken to block."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004 - the method, not whether there is one


async def in_thread(function: Callable[..., Any], *arguments: object, name: str) -> Any:  # noqa: ANN401 - whatever it is
    """Call it in a thread of its own. A daemon: one that never ends keeps no process from ending."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def end(returned: object, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((returned, error))

    def call() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (context.run(function, *arguments), None)
        except BaseException as error:  # noqa: BLE001 - it is told where it was called
            outcome = (None, error)
        # Of a loop that is closed nobody waits for it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, *outcome)

    threading.Thread(target=call, name=name, daemon=True).start()
    returned, error = await ended
    if error is not None:
        raise error
    return returned


def ends_all(error: BaseException, *, blocks: bool) -> bool:
    """Whether it is no failure of what was called: somebody at the terminal, whom no thread hears, or the end of the
    loop, which closes what still waits.
    """
    if isinstance(error, KeyboardInterrupt):
        return not blocks
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return False
    return isinstance(error, GeneratorExit)


async def call(handler: Handler, job: Job) -> object:
    """Call a handler as it wants to be called."""
    if is_async(handler):
        return await cast("Awaitable[object]", handler(job))
    returned = await in_thread(handler, job, name=f"job {job.job_id}")
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise Rubbish("is a plain function that returned something to await: make it `async def`")
    return returned


class Tells(Protocol):
    """Whoever must hear of it."""

    def finished(self, key: Key, answer: Answer) -> None: ...

    def partial(self, key: Key, text: str, is_final: bool) -> None: ...


@dataclass(slots=True)
class _Attempt:
    """One attempt that is worked on."""

    job: Job
    task: asyncio.Task[None]
    #: A task that is cancelled before it begins never does, and nobody would hear of its end.
    has_begun: bool = False


class Work:
    """What is being worked on."""

    def __init__(self, handler: Handler, fetch: Fetch, tells: Tells) -> None:
        self._handler = handler
        self._fetch = fetch
        self._tells = tells
        self._attempts: dict[Key, _Attempt] = {}
        self._is_async = is_async(handler)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def begin(self, message: JobAssign, audio: bytes | None, node_id: str | None) -> None:
        """Let an attempt begin."""
        key = (message.job_id, message.attempt_id)
        job = Job(message, audio or b"", lambda text, is_final: self._partial(key, text, is_final))
        task = asyncio.create_task(self._run(message, job, node_id, fetches=audio is None), name=f"job {job.job_id}")
        self._attempts[key] = _Attempt(job, task)

    def stop(self, key: Key) -> None:
        """Stop an attempt. A blocking handler cannot be stopped: it can look whether it should."""
        if key in self._attempts:
            attempt = self._attempts[key]
            attempt.job.cancel()
            if self._is_async and attempt.has_begun:
                attempt.task.cancel()

    async def close(self) -> None:
        """Stop everything; nobody waits for what blocks."""
        tasks = [attempt.task for attempt in self._attempts.values()]
        for key in list(self._attempts):
            self.stop(key)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _partial(self, key: Key, text: str, is_final: bool) -> None:
        """In the loop's own thread at once: the result that follows must not overtake it."""
        if threading.get_ident() == self._thread:
            self._tells.partial(key, text, is_final)
        else:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._tells.partial, key, text, is_final)

    async def _run(self, message: JobAssign, job: Job, node_id: str | None, *, fetches: bool) -> None:
        began, key = time.perf_counter(), (message.job_id, message.attempt_id)
        self._attempts[key].has_begun = True

        def took_ms() -> int:
            return round((time.perf_counter() - began) * 1000)

        try:
            if fetches and not job.is_cancelled:
                job.audio = await self._fetched(message.audio_ref or "")
            with working(message):
                returned = None if job.is_cancelled else await call(self._handler, job)
            answer: Answer = result_of(message, node_id, returned, took_ms())
        except asyncio.CancelledError as error:
            answer = failure_of(message, node_id, error, took_ms())
        except BaseException as error:
            if ends_all(error, blocks=not self._is_async):
                raise
            # Whatever it is: an attempt whose end nobody hears of would keep its slot for ever.
            if not isinstance(error, JobError) and not job.is_cancelled:
                log.exception("the handler failed", extra={"job_id": job.job_id})
            answer = failure_of(message, node_id, error, took_ms())
        del self._attempts[key]
        _tell(job, answer, took_ms())
        self._tells.finished(key, answer)

    async def _fetched(self, ref: str) -> bytes:
        try:
            return await self._fetch(ref)
        except ClientError as error:
            raise JobError("AUDIO_NOT_AVAILABLE", f"the audio could not be fetched: {error.detail}") from error


def _tell(job: Job, answer: Answer, took_ms: int) -> None:
    """One line for each job: who and how long, never what was said."""
    if job.is_cancelled:
        outcome, why = "cancelled", ""
    elif isinstance(answer, JobResult):
        error = answer.error
        outcome, why = ("ok", "") if error is None else ("failed", f"{error.code}: {error.message}")
    else:
        outcome, why = "refused", answer.reason or ""
    fields = {
        "job_id": job.job_id,
        "attempt_id": job.attempt_id,
        "pair": f"{job.src_lang}:{job.tgt_lang}",
        "audio_bytes": len(job.audio),
        "took_ms": took_ms,
        "outcome": outcome,
        "trace_id": job.trace_id,
    }
    log.log(
        logging.INFO if outcome in {"ok", "cancelled"} else logging.WARNING,
        "job",
        extra=fields | ({"error": why} if why else {}),
    )
