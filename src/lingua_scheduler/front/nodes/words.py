"""What a node says about an attempt, told to the engine; also if that is away for a moment, for no word may be lost."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.erase_audio import erase_audio
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.front.audio import has_attempt, keep_speech
from lingua_scheduler.front.background import insist
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import refusal_of
from lingua_scheduler.protocol.failures import Failing, failing
from lingua_scheduler.protocol.node import JobAck, JobNack, JobResult, JobStarted, JobStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.delivery import Delivery
    from lingua_scheduler.front.nodes.links import Known
    from lingua_scheduler.front.nodes.phases import AttemptMessage
    from lingua_scheduler.store.engine import Engine

#: For so long a word is told again while the engine is away. All flows bear to hear it twice.
PATIENCE_S: Final = 10.0
#: That a node has a job, and its result, are worth more: without them another gets the job. They are told again until
#: the job's time is over, but not for longer than this.
LONG_PATIENCE_S: Final = 60.0


class _Kept(msgspec.Struct, omit_defaults=True):
    """What of a result is kept, and told its caller: the node's own words. The rest is known, or not for him."""

    #: Where its speech is, which is no part of the text.
    tts_ref: str | None = None
    text_asr: str | None = None
    text_translated: str | None = None
    tts_format: str | None = None
    extra: dict[str, Any] | None = None
    processing_time_ms: float | None = None
    group_id: str | None = None
    part_index: int | None = None
    node_completed_at_ms: float | None = None
    asr_quality_level: str | None = None
    reason_codes: list[str] | None = None
    quality_score: float | None = None
    rerun_count: float | None = None
    segments_meta: Any = None


_kept_of: Final = attrgetter(*_Kept.__struct_fields__[1:])


def result_text(message: JobResult, tts_ref: str = "") -> str:
    """A result as it is stored: the node's own fields, as JSON; its speech is elsewhere, under `tts_ref`."""
    return encode(_Kept(tts_ref or None, *_kept_of(message))).decode()


class Words:
    """Tells the engine, and whoever else must know."""

    def __init__(self, engine: Engine, delivery: Delivery, now: Callable[[], int], *, result_ttl_ms: int) -> None:
        self._engine = engine
        self._delivery = delivery
        self._now = now
        self._result_ttl_ms = result_ttl_ms

    async def tell(self, known: Known, message: AttemptMessage) -> Refusal | None:
        """Tell it, for a while also to an engine that is away. None: it was taken."""
        try:
            try:
                if isinstance(message, JobResult) and message.success and not self._delivery.tracing.is_on:
                    return await self._done(known, message)
                return await self._tell(known, message)
            except (DependencyDown, OutcomeUnknown) as away:
                patience_s = self._patience_s(known, message)
                return await insist(lambda: self._tell(known, message), patience_s, away)
        except LinguaError as error:
            refusal = refusal_of(error)
            if refusal.code == "INTERNAL":
                raise
            return refusal

    def _patience_s(self, known: Known, message: AttemptMessage) -> float:
        """For how long a word is told again. When a job's time is over is known where it was carried from."""
        errand = self._delivery.errands.get(message.job_id, known.node_id)
        if errand is None or not isinstance(message, JobAck | JobResult):
            return PATIENCE_S
        return max(PATIENCE_S, min(LONG_PATIENCE_S, (errand.deadline_ms - self._now()) / 1000))

    async def _tell(self, known: Known, message: AttemptMessage) -> Refusal | None:
        attempt = (self._engine, message.job_id, message.attempt_id, known.node_id, known.epoch)
        match message:
            case JobAck():
                return self._accepted(known, message, await ack(*attempt))
            case JobStarted():
                return _refusal(await started(*attempt))
        name = "done" if isinstance(message, JobResult) and message.success else "fail"
        with self._delivery.ending(name, message.job_id, message.attempt_id, known.node_id):
            return await self._tell_end(known, message)

    async def _tell_end(self, known: Known, message: JobStopped | JobNack | JobResult) -> Refusal | None:
        if isinstance(message, JobResult) and message.success:
            return await self._done(known, message)
        if isinstance(message, JobStopped):
            attempt = (self._engine, message.job_id, message.attempt_id, known.node_id, known.epoch)
            refusal = _refusal(await stopped(*attempt))
        else:
            refusal = await self._fail(known, message, failing(message))
        self._delivery.over(message.job_id, message.attempt_id, known.node_id)
        return refusal

    def _accepted(self, known: Known, message: JobAck, answer: object) -> Refusal | None:
        if not isinstance(answer, Refusal):
            self._delivery.accepted(message.job_id, known.node_id)
        return _refusal(answer)

    async def _fail(self, known: Known, message: JobNack | JobResult, words: Failing) -> Refusal | None:
        answer = await fail(self._engine, message.job_id, message.attempt_id, known.node_id, known.epoch, **words)
        if isinstance(answer, Failed) and answer.reserved:
            self._delivery.carry_soon(message.job_id, answer.attempt_id)
        return _refusal(answer)

    async def _done(self, known: Known, message: JobResult) -> Refusal | None:
        """Speech first, then the result that names it. What cannot be stored is a failure of the attempt."""
        kept = await self._keep_speech(known, message) if message.tts_audio else ""
        if isinstance(kept, Refusal):
            reason = f"its result cannot be kept: {kept.detail}"
            await self._fail(known, message, Failing(reason=reason, overloaded=False, retry_after_ms=0))
            self._delivery.over(message.job_id, message.attempt_id, known.node_id)
            return kept
        attempt, result = (message.job_id, message.attempt_id, known.node_id, known.epoch), result_text(message, kept)
        answer = await done(
            self._engine, *attempt, result=result, result_ttl_ms=self._result_ttl_ms, lease_ms=self._delivery.lease_ms
        )
        if isinstance(answer, Refusal) and kept:
            await erase_audio(self._engine, kept)
        if isinstance(answer, Refusal) or not answer.taken_at_ms:
            self._delivery.over(*attempt[:3])
        else:
            self._delivery.finished(Event("ended", *attempt, "", answer.taken_at_ms), result)
            if answer.more:
                self._delivery.has_news(message.job_id)
        if isinstance(answer, Refusal):
            return answer
        self._delivery.times.worked(message.extra, message.processing_time_ms)
        return None

    async def _keep_speech(self, known: Known, message: JobResult) -> str | Refusal:
        """Where the speech is kept; "": there is none, or the attempt is not the current one and nobody wants it.

        Under the attempt's own name: a late result cannot overwrite what a newer attempt said.
        """
        if message.tts_audio is None or not await self._is_current(known, message):
            return ""
        return await keep_speech(
            self._engine,
            message.job_id,
            message.attempt_id,
            message.tts_audio,
            field="tts_audio",
            media=message.tts_format or "",
            ttl_ms=self._result_ttl_ms,
        )

    async def _is_current(self, known: Known, message: JobResult) -> bool:
        """Whether the node has the job now. If it is not known here that it got it, the engine knows."""
        errand = self._delivery.errands.get(message.job_id, known.node_id)
        if errand is not None:
            return errand.attempt_id == message.attempt_id
        return await has_attempt(self._engine, message.job_id, message.attempt_id, known.node_id)


def _refusal(answer: object) -> Refusal | None:
    return answer if isinstance(answer, Refusal) else None
