"""Submit a job, once, however often it is sent.

With a request id the job is claimed first, in the request's own slot, and then dispatched under the id that was
claimed. Whoever dies in between leaves a claim that the next one takes up: it sends the same dispatch again, which
creates the job if it is not there, and answers where it is if it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import is_made_by, new_job_id
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.claim import claim
from lingua_scheduler.flows.disclaim import disclaim
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch, refused
from lingua_scheduler.flows.remember import remember
from lingua_scheduler.flows.seal import seal
from lingua_scheduler.front.turns import Turns
from lingua_scheduler.views.memory import recall
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.whereabouts import At, Waits, read_whereabouts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.engine import Engine

    AtOnce = Callable[[str, Placed, int], None]
    Enters = Callable[[], Awaitable[int | Refusal]]


class Ask(msgspec.Struct, frozen=True):
    """What a caller wants done. Two asks with the same fields are the same body; the trace does not count.

    Services, labels and excluded nodes are sets: in which order they are listed, and how often, does not matter.
    """

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

    def digest(self, usual_policy: str = "random") -> str:
        """What is compared when the same request id comes again; the policy is the usual one if it names none."""
        if not isinstance(self.limits, Limits):
            raise TypeError("limits must be Limits")
        services, excluded = (sorted(set(names)) for names in (self.wanted.services, self.wanted.exclude_node_ids))
        policy = self.wanted.policy or usual_policy
        wanted = msgspec.structs.replace(self.wanted, services=services, exclude_node_ids=excluded, policy=policy)
        return hashlib.sha256(_encode(msgspec.structs.replace(self, wanted=wanted))).hexdigest()


class _Tags(NamedTuple):
    """What a job is given on its way and nobody asked for: its trace, and its number where the ask has none.

    `at_once` is told of a new job in the very tick in which the engine answers that it has a node.
    """

    trace_id: str
    enters: Enters | None
    at_once: AtOnce | None
    #: Told when nobody has room, and the job begins to wait.
    waits: Callable[[], None] | None
    number: int = 0


class Submitted(msgspec.Struct, frozen=True):
    """The job, new or known, and where it is."""

    job_id: str
    placed: Placed

    @property
    def is_new(self) -> bool:
        """Whoever submitted it carries it to its node. What existed already, or had to wait, is carried by others."""
        return self.placed.is_new


#: Somebody who waits looks for himself: at first so often, then more and more seldom, down to so seldom.
_OFTEN_MS: Final = 100
_SELDOM_MS: Final = 1_000
#: All look at the strokes of one clock, so that the looks of a stroke travel as one call.
_STROKE_S: Final = 0.05

#: Policies that ask where the session's last job went.
_REMEMBERING: Final = ("spread", "sticky_pool")

#: A request id of ours: it names the job, and the ask by its digest.
_AGAIN: Final = re.compile(r"again\.(.+)\.([0-9a-f]{32})").fullmatch

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


class _Ear:
    """Somebody who waits for a job: what was heard of it since he last asked."""

    def __init__(self) -> None:
        self._heard: Event | None = None
        self._bell = asyncio.Event()

    def hear(self, event: Event) -> None:
        self._heard = event
        self._bell.set()

    def take(self) -> Event | None:
        """What was heard, once."""
        heard, self._heard = self._heard, None
        return heard

    async def listen(self, for_ms: int) -> None:
        """Until something is heard; if nothing is, until the next stroke after so long."""
        loop = asyncio.get_running_loop()
        stroke = math.ceil((loop.time() + for_ms / 1000) / _STROKE_S) * _STROKE_S
        timer = loop.call_at(stroke, self._bell.set)
        try:
            await self._bell.wait()
        finally:
            timer.cancel()
        # Before anybody looks: what is heard during the look rings again.
        self._bell.clear()


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
        self._ears: dict[str, set[_Ear]] = {}
        self._turns = Turns()

    def hear(self, event: Event) -> None:
        """What a relayer of this process brings: whoever waits for the job looks at once."""
        for ear in self._ears.get(event.job, ()):
            ear.hear(event)

    async def submit(
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
    ) -> Submitted | Refusal:
        """Place the job. The same request id with the same ask is the same job; a refusal is not remembered.

        `principal` is whose job it is, "" nobody's in particular. `OutcomeUnknown` has the request id with which the
        same ask can be sent again, also where none was given: then it names the very job that may exist.

        `enters` is asked before a job is made, and not for one that exists already: whether it may come, and the
        utterance index on the wire of an ask that names none. That is no part of what is compared, and nothing to
        remember, for no other job has it. A job that exists already keeps the one that it was made with.
        `at_once` is called with a new job and its index before anything else is waited for: what follows may take a
        moment. `new_id` is the id of a job that somebody must know before it exists; nobody else may have used it, and
        he does not ask again: if he cannot be told how it went, it is dropped. If he is cancelled that is left to him,
        for another may know the id too, and go on with the job. `waits` is called when it begins to wait for a node.
        """
        tags = _Tags(trace_id, enters, at_once, waits)
        if not request_id:
            job_id = new_id or new_job_id(self._cell, principal)
            return await self._dispatch_once(job_id, ask, tags, asks_again=not new_id)
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

    def id_to_ask_again(self, job_id: str, ask: Ask) -> str:
        """A request id for a job that nobody asked for by one: whoever sends the same ask with it gets that job."""
        return f"again.{job_id}.{ask.digest(self._policy)[:32]}"

    async def _dispatch_again(
        self, again: re.Match[str], digest: str, ask: Ask, tags: _Tags, principal: str
    ) -> Submitted | Refusal:
        """Nothing was claimed: the id itself says which job and which ask it stands for."""
        job_id, body = again.groups()
        if not is_made_by(job_id, principal) or body != digest[:32]:
            return refuse("IDEMPOTENCY_CONFLICT", request_id=again[0])
        return await self._find_or_make(job_id, ask, tags)

    async def _submit(self, ask: Ask, digest: str, tags: _Tags, principal: str, request_id: str) -> Submitted | Refusal:
        """Claim the id for a job, place that, and seal the claim."""
        offered, timeout_ms, claimant = new_job_id(self._cell, principal), ask.limits.timeout_ms, principal or "anyone"
        job_id = await self._claim(claimant, request_id, digest, offered, timeout_ms)
        if not isinstance(job_id, str):
            return job_id
        make = self._make if job_id == offered else self._find_or_make
        submitted = await make(job_id, ask, tags)
        if isinstance(submitted, Refusal):
            # If that fails the claim's lease goes on, for the same ask only; the refusal is no less true.
            with contextlib.suppress(DependencyDown, OutcomeUnknown):
                await disclaim(self._engine, claimant, request_id, job_id, offered)
            return submitted
        if await self._seal(claimant, request_id, digest, job_id, timeout_ms):
            return submitted
        # This process slept through the lease, and the id stands for another job by now: that one, or a conflict.
        await self._drop(job_id, "its request id stands for another job")
        return await self._submit(ask, digest, tags, principal, request_id)

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
            known = await read_whereabouts(self._engine, claimed.job_id) if claimed.sealed else None
            if isinstance(known, At):
                return Submitted(claimed.job_id, _placed(known))
            if not isinstance(known, Refusal):
                return claimed.job_id
            gone = claimed.job_id

    async def _seal(self, principal: str, request_id: str, digest: str, job_id: str, timeout_ms: int) -> bool:
        """Whether the id goes on standing for the job, as long as its record can live."""
        ttl_ms = timeout_ms + self._rules.job_record_ttl_ms
        # If that fails the claim's lease goes on, and whoever comes again finds the job by it.
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            return not isinstance(await seal(self._engine, principal, request_id, digest, job_id, ttl_ms), Refusal)
        return True

    async def _dispatch_once(self, job_id: str, ask: Ask, tags: _Tags, *, asks_again: bool) -> Submitted | Refusal:
        """Place a job that only this caller can ask for again, if he does: what he cannot hear of must not run."""
        try:
            return await self._make(job_id, ask, tags)
        except asyncio.CancelledError:
            if asks_again:
                await self._drop(job_id, "the caller is gone")
            raise
        except OutcomeUnknown as unknown:
            if asks_again:
                raise OutcomeUnknown(str(unknown), self.id_to_ask_again(job_id, ask)) from unknown
            await self._drop(job_id, "the caller is gone")
            raise

    async def _drop(self, job_id: str, reason: str) -> None:
        """Nobody wants the job. If the engine is away it ends by itself: with its wait, or by its deadline."""
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            await cancel(self._engine, job_id, reason)

    async def _find_or_make(self, job_id: str, ask: Ask, tags: _Tags) -> Submitted | Refusal:
        """Place a job that somebody may have made before. For one that is there nobody has to come in again.

        Whoever is not let in looks once more: the same request, sent twice at once, may have come in just now.
        """
        if tags.enters is None:
            return await self._dispatch(job_id, ask, tags)
        found = await self._find(job_id, ask, tags)
        if found is not None:
            return found
        made = await self._make(job_id, ask, tags)
        return (await self._find(job_id, ask, tags) or made) if isinstance(made, Refusal) else made

    async def _find(self, job_id: str, ask: Ask, tags: _Tags) -> Submitted | Refusal | None:
        known = await read_whereabouts(self._engine, job_id)
        if isinstance(known, Refusal):
            return None
        return Submitted(job_id, _placed(known)) if isinstance(known, At) else await self._wait(job_id, ask, tags)

    async def _make(self, job_id: str, ask: Ask, tags: _Tags) -> Submitted | Refusal:
        """Place a job, if it may come in."""
        if tags.enters is None:
            return await self._dispatch(job_id, ask, tags)
        number = await tags.enters()
        return (
            number if isinstance(number, Refusal) else await self._dispatch(job_id, ask, tags._replace(number=number))
        )

    async def _dispatch(self, job_id: str, ask: Ask, tags: _Tags) -> Submitted | Refusal:
        """Place the job by what is remembered of its session, where that matters, and remember where it went."""
        wanted = msgspec.structs.replace(ask.wanted, policy=ask.wanted.policy or self._policy)
        ask = msgspec.structs.replace(ask, wanted=wanted)
        if not (ask.bind_key or ask.utterance_index is not None or ask.wanted.policy in _REMEMBERING):
            answer = await self._place(job_id, ask, tags, Hints())
            return await self._wait(job_id, ask, tags) if isinstance(answer, Waiting) else _told(job_id, answer)
        async with self._turns.after_the_last(ask.session_id, ask.bind_key):
            answer = await self._place_by_memory(job_id, ask, tags)
        if not isinstance(answer, Waiting):
            return _told(job_id, answer)
        submitted = await self._wait(job_id, ask, tags)
        if isinstance(submitted, Submitted):
            await self._remember(job_id, ask, submitted.placed)
        return submitted

    async def _place_by_memory(self, job_id: str, ask: Ask, tags: _Tags) -> Placed | Waiting | Refusal:
        number = -1 if ask.utterance_index is None else ask.utterance_index
        hints = await recall(self._engine, ask.session_id, bind_key=ask.bind_key, utterance_index=number)
        if isinstance(hints, Refusal):
            return hints
        answer = await self._place(job_id, ask, tags, hints)
        if isinstance(answer, Placed):
            await self._remember(job_id, ask, answer)
        return answer

    async def _remember(self, job_id: str, ask: Ask, placed: Placed) -> None:
        """Where the job went. It is only a hint for the next one: if the engine is away just now, there is none."""
        if not placed.node_id:
            return
        with contextlib.suppress(DependencyDown, OutcomeUnknown):
            pool = placed.pool
            if ask.wanted.policy == "sticky_pool" and not placed.is_new:
                pool = await self._pool_of(placed.node_id)
            await remember(
                self._engine,
                ask.session_id,
                placed.node_id,
                pool=pool,
                bind_key=ask.bind_key,
                utterance_index=-1 if ask.utterance_index is None else ask.utterance_index,
                job_id=job_id,
            )

    async def _pool_of(self, node_id: str) -> str:
        """The label `group` of a node that a job got after it had waited."""
        node = await read_node(self._engine, self._cell, node_id)
        return "" if isinstance(node, Refusal) else dict(node.profile.labels).get("group", "")

    async def _wait(self, job_id: str, ask: Ask, tags: _Tags) -> Submitted | Refusal:
        """Until the job has its node, or has waited in vain."""
        if tags.waits is not None:
            tags.waits()
        with self._listening(job_id) as ear:
            return await self._hear_of(job_id, ear, ask)

    @contextlib.contextmanager
    def _listening(self, job_id: str) -> Iterator[_Ear]:
        ear = _Ear()
        ears = self._ears.setdefault(job_id, set())
        ears.add(ear)
        try:
            yield ear
        finally:
            ears.remove(ear)
            if not ears:
                del self._ears[job_id]

    async def _hear_of(self, job_id: str, ear: _Ear, ask: Ask) -> Submitted | Refusal:
        """Wait until the job has a node, or is refused. Another process may have heard it: that is seen by looking.

        What was heard may be of an earlier life of the same id, so it is believed only after a look: only that the job
        is gone proves that it was refused. An engine that is away says nothing of the job, which waits in it
        meanwhile: only after the wait's own end that is an error.
        """
        clock = asyncio.get_running_loop().time
        waits, looked_at, heard = Waits(0, min(ask.wanted.wait_ms, ask.limits.timeout_ms)), clock(), None
        while True:
            await ear.listen(_pause_ms(waits))
            heard = ear.take() or heard
            try:
                seen = await read_whereabouts(self._engine, job_id)
            except (DependencyDown, OutcomeUnknown) as away:
                if (clock() - looked_at) * 1000 > waits.left_ms + _SELDOM_MS:
                    raise OutcomeUnknown(f"job {job_id} waited, and the engine went away: {away}") from away
                continue
            if isinstance(seen, At):
                return Submitted(job_id, _placed(seen))
            if isinstance(seen, Refusal):
                return _refused(ear.take() or heard, waits, ask)
            waits, looked_at, heard = seen, clock(), None

    async def _place(self, job_id: str, ask: Ask, tags: _Tags, hints: Hints) -> Placed | Waiting | Refusal:
        index = tags.number if ask.utterance_index is None else ask.utterance_index
        answer = await dispatch(
            self._engine,
            job_id,
            ask.session_id,
            ask.src_lang,
            ask.tgt_lang,
            body=ask.body,
            utterance_index=index,
            limits=ask.limits,
            wanted=ask.wanted,
            hints=hints,
            trace_id=tags.trace_id,
        )
        if tags.at_once is not None and isinstance(answer, Placed) and answer.is_new:
            tags.at_once(job_id, answer, index)
        return answer


def _pause_ms(waits: Waits) -> int:
    """How long nobody looks at a job that was seen to wait: as long as it has waited already, within bounds.

    But there is a look soon after its wait is over; and from then on it counts anew.
    """
    if waits.left_ms <= 0:
        return min(max(-waits.left_ms, _OFTEN_MS), _SELDOM_MS)
    return min(max(waits.waited_ms, _OFTEN_MS), _SELDOM_MS, waits.left_ms + _OFTEN_MS)


def _told(job_id: str, answer: Placed | Refusal) -> Submitted | Refusal:
    return answer if isinstance(answer, Refusal) else Submitted(job_id, answer)


def _placed(job: At) -> Placed:
    return Placed(job.state, job.node_id, job.epoch, job.attempt_id, job.acks)


def _refused(heard: Event | None, waits: Waits, ask: Ask) -> Refusal:
    """The refusal of a job that waited and is gone: as it was heard, or what can be known without."""
    if heard is not None and heard.kind == "refused":
        return refused(heard, Pair.of(ask.src_lang, ask.tgt_lang), ask.wanted)
    waited_ms = waits.waited_ms + waits.left_ms
    told = f"It waited {waited_ms} ms, and no node that it wanted came to have room."
    code = "PREFERRED_NODE_UNAVAILABLE" if ask.wanted.strict else "ALL_CANDIDATES_FULL_OR_FAILED"
    return Refusal(code, told, waited_ms=waited_ms)
