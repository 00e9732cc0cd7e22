"""Submit a job, once, however often it is sent.

With a request id the job is claimed first, in the request's own slot, and then dispatched under the id that was
claimed. Whoever dies in between leaves a claim that the next one takes up: it sends the same dispatch again, which
creates the job if it is not there, and answers where it is if it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import new_job_id
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.records import Event, Rules
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.claim import claim
from lingua_scheduler.flows.disclaim import disclaim
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch, refused
from lingua_scheduler.flows.remember import remember
from lingua_scheduler.flows.seal import seal
from lingua_scheduler.views.job import Job, read_job
from lingua_scheduler.views.memory import recall
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Ask(msgspec.Struct, frozen=True):
    """What a caller wants done. Two asks with the same fields are the same body; the trace does not count."""

    session_id: str
    src_lang: str
    tgt_lang: str
    body: str = ""
    #: None: the session does not number its utterances.
    utterance_index: int | None = None
    limits: Limits = Limits()
    wanted: Wanted = Wanted()
    #: Jobs of a session with the same key are pieces of one turn, and go to the same node.
    bind_key: str = ""

    def digest(self) -> str:
        """What is compared when the same request id comes again."""
        return hashlib.sha256(_encode(self)).hexdigest()


class Submitted(msgspec.Struct, frozen=True):
    """The job, new or known, and where it is."""

    job_id: str
    placed: Placed

    @property
    def is_new(self) -> bool:
        """Whoever submitted it carries it to its node. What existed already, or had to wait, is carried by others."""
        return self.placed.is_new


#: How often somebody who waits looks whether another process has heard what became of his job.
_LOOK_S: Final = 0.1

#: Policies that ask where the session's last job went.
_REMEMBERING: Final = ("spread", "sticky_pool")

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class Submitter:
    """Takes asks for one cell."""

    def __init__(
        self,
        engine: Engine,
        cell: str,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        policy: str = "random",
    ) -> None:
        self._engine = engine
        self._cell = cell
        self._rules = rules
        self._policy = policy
        self._heard: dict[str, set[asyncio.Future[Event]]] = {}

    def hear(self, event: Event) -> None:
        """What a relayer of this process brings: whoever waits for the job need not look for himself."""
        for future in self._heard.get(event.job, ()):
            if not future.done():
                future.set_result(event)

    async def submit(
        self, ask: Ask, *, principal: str = "anyone", request_id: str = "", trace_id: str = ""
    ) -> Submitted | Refusal:
        """Place the job. The same request id with the same ask is the same job; a refusal is not remembered."""
        offered = new_job_id(self._cell)
        if not request_id:
            return await self._dispatch(offered, ask, trace_id, may_come_back=False)
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
        submitted = await self._dispatch(job_id, ask, trace_id, may_come_back=True)
        if isinstance(submitted, Refusal):
            await disclaim(self._engine, principal, request_id, job_id, offered)
            return submitted
        ttl_ms = ask.limits.timeout_ms + self._rules.job_record_ttl_ms
        # If that fails the claim's lease goes on, and whoever comes again finds the job by it.
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await seal(self._engine, principal, request_id, digest, job_id, ttl_ms)
        return submitted

    async def _dispatch(self, job_id: str, ask: Ask, trace_id: str, *, may_come_back: bool) -> Submitted | Refusal:
        """Place the job by what is remembered of its session, where that matters, and remember where it went."""
        policy = ask.wanted.policy or self._policy
        ask = msgspec.structs.replace(ask, wanted=msgspec.structs.replace(ask.wanted, policy=policy))
        if not (ask.bind_key or ask.utterance_index is not None or policy in _REMEMBERING):
            return await self._wait(job_id, ask, trace_id, Hints(), may_come_back=may_come_back)
        number = -1 if ask.utterance_index is None else ask.utterance_index
        hints = await recall(self._engine, ask.session_id, bind_key=ask.bind_key, utterance_index=number)
        if isinstance(hints, Refusal):
            return hints
        submitted = await self._wait(job_id, ask, trace_id, hints, may_come_back=may_come_back)
        if isinstance(submitted, Submitted) and submitted.placed.node_id:
            # The job is placed; what is remembered of it is only a hint for the next one.
            with contextlib.suppress(DependencyDown, OutcomeUnknown):
                await self._remember(ask, submitted.placed, policy, number)
        return submitted

    async def _remember(self, ask: Ask, placed: Placed, policy: str, number: int) -> None:
        pool = placed.pool
        if policy == "sticky_pool" and not placed.is_new:
            pool = await self._pool_of(placed.node_id)
        await remember(
            self._engine,
            ask.session_id,
            placed.node_id,
            pool=pool,
            bind_key=ask.bind_key,
            utterance_index=number,
        )

    async def _pool_of(self, node_id: str) -> str:
        """The label `group` of a node that a job got after it had waited."""
        node = await read_node(self._engine, self._cell, node_id)
        return "" if isinstance(node, Refusal) else dict(node.profile.labels).get("group", "")

    async def _wait(
        self, job_id: str, ask: Ask, trace_id: str, hints: Hints, *, may_come_back: bool
    ) -> Submitted | Refusal:
        """Place the job, however long it may wait for that."""
        answer = await self._place(job_id, ask, trace_id, hints)
        if isinstance(answer, Refusal):
            return answer
        if isinstance(answer, Placed):
            return Submitted(job_id, answer)
        try:
            return await self._hear_of(job_id, ask)
        except asyncio.CancelledError:
            # Nobody waits any more. Under a request id somebody may come back for it; otherwise nobody could.
            # Where the engine is away, its wait ends by itself.
            if not may_come_back:
                with contextlib.suppress(DependencyDown, OutcomeUnknown):
                    await cancel(self._engine, job_id, "the caller is gone")
            raise

    async def _hear_of(self, job_id: str, ask: Ask) -> Submitted | Refusal:
        """Wait until the job has a node, or is refused. Another process may have heard it: that is seen by looking."""
        while True:
            heard = asyncio.get_running_loop().create_future()
            self._heard.setdefault(job_id, set()).add(heard)
            try:
                await asyncio.wait([heard], timeout=_LOOK_S)
            finally:
                self._heard[job_id].discard(heard)
                if not self._heard[job_id]:
                    del self._heard[job_id]
            known = await read_job(self._engine, job_id)
            if isinstance(known, Job) and known.record.state != "WAITING":
                return Submitted(job_id, _where(known))
            # What was heard may be of an earlier life of the same id: only that it is gone proves that it was refused.
            if isinstance(known, Refusal):
                if heard.done() and heard.result().kind == "refused":
                    return refused(heard.result(), Pair.of(ask.src_lang, ask.tgt_lang), ask.wanted)
                told = f"It waited {ask.wanted.wait_ms} ms, and no node came to have room."
                return Refusal("ALL_CANDIDATES_FULL_OR_FAILED", told, waited_ms=ask.wanted.wait_ms)

    async def _place(self, job_id: str, ask: Ask, trace_id: str, hints: Hints) -> Placed | Waiting | Refusal:
        return await dispatch(
            self._engine,
            job_id,
            ask.session_id,
            ask.src_lang,
            ask.tgt_lang,
            body=ask.body,
            utterance_index=ask.utterance_index or 0,
            limits=ask.limits,
            wanted=ask.wanted,
            hints=hints,
            trace_id=trace_id,
        )


def _where(job: Job) -> Placed:
    record = job.record
    return Placed(record.state, record.node, record.epoch, record.attempt, record.acks)
