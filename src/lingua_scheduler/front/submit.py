"""Submit a job, once, however often it is sent.

With a request id the job is claimed first, in the request's own slot, and then dispatched under the id that was
claimed. Whoever dies in between leaves a claim that the next one takes up: it sends the same dispatch again, which
creates the job if it is not there, and answers where it is if it is.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.ids import new_job_id
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Rules
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.claim import claim
from lingua_scheduler.flows.disclaim import disclaim
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.seal import seal
from lingua_scheduler.views.job import Job, read_job

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Ask(msgspec.Struct, frozen=True):
    """What a caller wants done. Two asks with the same fields are the same body; the trace does not count."""

    session_id: str
    src_lang: str
    tgt_lang: str
    body: str = ""
    utterance_index: int = 0
    limits: Limits = Limits()

    def digest(self) -> str:
        """What is compared when the same request id comes again."""
        return hashlib.sha256(_encode(self)).hexdigest()


class Submitted(msgspec.Struct, frozen=True):
    """The job, new or known, and where it is."""

    job_id: str
    placed: Placed


_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class Submitter:
    """Takes asks for one cell."""

    def __init__(self, engine: Engine, cell: str, rules: Rules = Rules()) -> None:  # noqa: B008 - frozen
        self._engine = engine
        self._cell = cell
        self._rules = rules

    async def submit(
        self, ask: Ask, *, principal: str = "anyone", request_id: str = "", trace_id: str = ""
    ) -> Submitted | Refusal:
        """Place the job. The same request id with the same ask is the same job; a refusal is not remembered."""
        offered = new_job_id(self._cell)
        if not request_id:
            return _submitted(offered, await self._dispatch(offered, ask, trace_id))
        try:
            digest = ask.digest()
        except (TypeError, UnicodeEncodeError, OverflowError) as error:
            return Refusal("INVALID_MESSAGE", f"The ask cannot be written down: {error}.")
        gone = ""
        while True:
            claimed = await claim(self._engine, principal, request_id, digest, offered, instead_of=gone)
            if isinstance(claimed, Refusal):
                return claimed
            job_id = claimed.job_id
            if not claimed.sealed:
                break
            known = await read_job(self._engine, job_id)
            if isinstance(known, Job):
                return Submitted(job_id, _where(known))
            gone = job_id
        placed = await self._dispatch(job_id, ask, trace_id)
        if isinstance(placed, Refusal):
            await disclaim(self._engine, principal, request_id, job_id, offered)
            return placed
        ttl_ms = ask.limits.timeout_ms + self._rules.job_record_ttl_ms
        await seal(self._engine, principal, request_id, digest, job_id, ttl_ms)
        return Submitted(job_id, placed)

    async def _dispatch(self, job_id: str, ask: Ask, trace_id: str) -> Placed | Refusal:
        return await dispatch(
            self._engine,
            job_id,
            ask.session_id,
            ask.src_lang,
            ask.tgt_lang,
            body=ask.body,
            utterance_index=ask.utterance_index,
            limits=ask.limits,
            trace_id=trace_id,
        )


def _submitted(job_id: str, placed: Placed | Refusal) -> Submitted | Refusal:
    return placed if isinstance(placed, Refusal) else Submitted(job_id, placed)


def _where(job: Job) -> Placed:
    record = job.record
    return Placed(record.state, record.node, record.epoch, record.attempt, record.acks)
