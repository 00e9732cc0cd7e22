"""Submit a job, once, however often it is sent.

With a request id the job is claimed first, in the request's own slot, and then dispatched under the id that was
claimed. Whoever dies in between leaves a claim that the next one takes up: it sends the same dispatch again, which
creates the job if it is not there, and answers where it is if it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.new_ids import is_made_by, new_job_id
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.claim import claim
from lingua_scheduler.flows.disclaim import disclaim
from lingua_scheduler.flows.seal import seal
from lingua_scheduler.front.ask import Submitted, Tags
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.placing import Placer
from lingua_scheduler.front.routes import RouteBook
from lingua_scheduler.front.seeking import Seeker, Way
from lingua_scheduler.views.whereabouts import At, seek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.ask import Ask, AtOnce, Enters
    from lingua_scheduler.store.engine import Engine

#: A request id of ours: it names the job, and the ask by its digest.
_AGAIN: Final = re.compile(r"again\.(.+)\.([0-9a-f]{32})").fullmatch


class Submitter:
    """Takes asks."""

    def __init__(
        self,
        engine: Engine,
        cell: str,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        policy: str = "random",
        home: str = "",
        directory: Directory | None = None,
    ) -> None:
        """`home` is this instance: whoever hears elsewhere how a job goes on tells it here.

        `directory`: the cells of a fleet that begins with `cell`, as this instance knows them.
        """
        self._engine = engine
        self._rules = rules
        self._policy = policy
        self._home = home
        directory = Directory(engine, cell) if directory is None else directory
        self.routes = RouteBook(directory)
        self._placer = Placer(directory, Seeker(engine, self.routes, rules.claim_lease_ms), policy)
        #: Told of a job that may have a node by now, and whose caller went, or could not be told.
        self.is_left: Callable[[str], None] = _nobody

    def ask_before_a_final_no(self, is_refilling: Callable[[], Awaitable[bool]]) -> None:
        """Whoever knows whether the engine was emptied just now is asked before a job is refused for ever."""
        self._placer.is_refilling = is_refilling

    def hear(self, event: Event) -> None:
        """What a relayer of this process brings: whoever waits for the job looks at once."""
        self._placer.hear(event)

    def submit(
        self,
        ask: Ask,
        *,
        principal: str = "",
        request_id: str = "",
        trace_id: str = "",
        enters: Enters | None = None,
        at_once: AtOnce | None = None,
        new_id: str = "",
        waits: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, Submitted | Refusal]:
        """Place the job. The same request id with the same ask is the same job; a refusal is not remembered.

        `principal` is whose job it is, "" nobody's in particular. `OutcomeUnknown` has the request id with which the
        same ask can be sent again, also where none was given: then it names the very job that may exist.

        `enters` is asked before a job is made, by the id that it will have, and not for one that exists: whether it
        may come, and the utterance index on the wire of an ask that names none. That is no part of what is compared,
        and nothing to remember, for no other job has it. A job that exists already keeps the one that it was made with.
        `at_once` is called with a new job and its index before anything else is waited for: what follows may take a
        moment. `new_id` is the id of a job that somebody must know before it exists; nobody else may have used it. What
        becomes of the job if he goes, or cannot be told how it went, is left to him: another may know the id too, and
        go on with the job. `waits` is called when it begins to wait for a node.
        """
        tags = Tags(trace_id, enters, at_once, waits)
        if new_id:
            return self._make(Way(new_id, is_known=True), ask, tags)
        if not request_id:
            return self._dispatch_once(Way(self._new_id(principal, ask), is_known=False), ask, tags)
        return self._submit_once(ask, tags, principal, request_id)

    async def _submit_once(self, ask: Ask, tags: Tags, principal: str, request_id: str) -> Submitted | Refusal:
        """Place the job of a request, however often that is sent."""
        try:
            digest = ask.digest(self._policy)
        except (AttributeError, TypeError, UnicodeEncodeError, OverflowError) as error:
            return Refusal("INVALID_MESSAGE", f"The ask cannot be written down: {error}.")
        try:
            if again := _AGAIN(request_id):
                return await self._dispatch_again(again, digest, ask, tags, principal)
            return await self._submit(ask, digest, tags, principal, request_id)
        except OutcomeUnknown as unknown:
            raise OutcomeUnknown(str(unknown), request_id) from unknown

    def _new_id(self, principal: str, ask: Ask) -> str:
        return new_job_id(self.routes.begin_at(ask.src_lang, ask.tgt_lang), principal, self._home)

    def id_to_ask_again(self, job_id: str, ask: Ask) -> str:
        """A request id for a job that nobody asked for by one: whoever sends the same ask with it gets that job."""
        return f"again.{job_id}.{ask.digest(self._policy)[:32]}"

    async def _dispatch_again(
        self, again: re.Match[str], digest: str, ask: Ask, tags: Tags, principal: str
    ) -> Submitted | Refusal:
        """Nothing was claimed: the id itself says which job and which ask it stands for."""
        job_id, body = again.groups()
        if not is_made_by(job_id, principal) or body != digest[:32]:
            return refuse("IDEMPOTENCY_CONFLICT", request_id=again[0])
        return await self._find_or_make(Way(job_id, is_known=True), ask, tags)

    async def _submit(self, ask: Ask, digest: str, tags: Tags, principal: str, request_id: str) -> Submitted | Refusal:
        """Claim the id for a job, place that, and seal the claim."""
        offered, timeout_ms, claimant = self._new_id(principal, ask), ask.limits.timeout_ms, principal or "anyone"
        job_id = await self._claim(claimant, request_id, digest, offered, timeout_ms)
        if not isinstance(job_id, str):
            return job_id
        make = self._make if job_id == offered else self._find_or_make
        way = Way(job_id, is_known=True)
        try:
            submitted = await make(way, ask, tags)
        except (asyncio.CancelledError, OutcomeUnknown):
            if job_id == offered:
                self._leave(way)
            raise
        except DependencyDown:
            # It was not made. Who asks again need not ask the same cell, unless another may have made it there.
            await self._disclaim(claimant, request_id, job_id, offered)
            raise
        if isinstance(submitted, Refusal):
            await self._disclaim(claimant, request_id, job_id, offered)
            return submitted
        if await self._seal(claimant, request_id, digest, job_id, timeout_ms, submitted.job_id):
            return submitted
        # This process slept through the lease, and the id stands for another job by now: that one, or a conflict.
        await self._drop(submitted.job_id, "its request id stands for another job")
        return await self._submit(ask, digest, tags, principal, request_id)

    async def _disclaim(self, claimant: str, request_id: str, job_id: str, offered: str) -> None:
        # If that fails the claim's lease goes on, for the same ask only; what is answered is no less true.
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await disclaim(self._engine, claimant, request_id, job_id, offered)

    async def _claim(
        self, principal: str, request_id: str, digest: str, offered: str, timeout_ms: int
    ) -> str | Submitted | Refusal:
        """The id of the job to make or to find; or that job, where it is known to exist."""
        gone = ""
        while True:
            claimed = await claim(
                self._engine, principal, request_id, digest, offered, instead_of=gone, timeout_ms=timeout_ms
            )
            if isinstance(claimed, Refusal):
                return claimed
            found, _, known = await seek(self._engine, claimed.job_id) if claimed.sealed else ("", 0, None)
            if isinstance(known, At):
                return Submitted.at(found, known)
            if not isinstance(known, Refusal):
                return claimed.job_id
            gone = claimed.job_id

    async def _seal(
        self, principal: str, request_id: str, digest: str, job_id: str, timeout_ms: int, found_id: str
    ) -> bool:
        """Whether the id goes on standing for the job, as long as its record can live: where it went."""
        ttl_ms = timeout_ms + self._rules.job_record_ttl_ms
        # If that fails the claim's lease goes on, and whoever comes again finds the job by it.
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            sealed = await seal(self._engine, principal, request_id, digest, job_id, ttl_ms, found_id)
            return not isinstance(sealed, Refusal)
        return True

    async def _dispatch_once(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        """Place a job that only this caller can ask for again: if he is gone it must not run."""
        try:
            return await self._make(way, ask, tags)
        except asyncio.CancelledError:
            await self._drop(way.job_id, "the caller is gone")
            raise
        except OutcomeUnknown as unknown:
            self._leave(way)
            raise OutcomeUnknown(str(unknown), self.id_to_ask_again(way.job_id, ask)) from unknown

    def _leave(self, way: Way) -> None:
        """Nobody here hears what comes of a job that only this caller can have made, if it was."""
        if way.is_in_doubt:
            self.is_left(way.job_id)

    async def _drop(self, job_id: str, reason: str) -> None:
        """Nobody wants the job. If the engine is away it ends by itself: with its wait, or by its deadline."""
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await cancel(self._engine, job_id, reason)

    async def _find_or_make(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        """Place a job that somebody may have made before. For one that is there nobody has to come in again.

        Whoever is not let in looks once more: the same request, sent twice at once, may have come in just now.
        """
        if tags.enters is None:
            return await self._placer.dispatch(way, ask, tags)
        found = await self._find(way, ask, tags)
        if found is not None:
            return found
        made = await self._make(way, ask, tags)
        return (await self._find(way, ask, tags) or made) if isinstance(made, Refusal) else made

    async def _find(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal | None:
        found, hop, known = await seek(self._engine, way.job_id, way.hop)
        way.go(cell_of(found), hop)
        if isinstance(known, Refusal):
            return None
        return Submitted.at(found, known) if isinstance(known, At) else await self._placer.wait(way, ask, tags)

    def _make(self, way: Way, ask: Ask, tags: Tags) -> Coroutine[Any, Any, Submitted | Refusal]:
        """Place a job, if it may come in. Mostly that is known at once."""
        entered = tags.number if tags.enters is None else tags.enters(way.job_id)
        if not isinstance(entered, int):
            return self._make_later(way, ask, tags, entered)
        tags.number = entered
        return self._placer.dispatch(way, ask, tags)

    async def _make_later(
        self, way: Way, ask: Ask, tags: Tags, entered: Awaitable[int | Refusal]
    ) -> Submitted | Refusal:
        number = await entered
        if isinstance(number, Refusal):
            return number
        tags.number = number
        return await self._placer.dispatch(way, ask, tags)


def _nobody(_job_id: str) -> None:
    """Whoever has nodes says what is to be done."""
