"""Placing a job by what is remembered of its session, and waiting with it until a node has room."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.ids import cell_of, name_of
from lingua_scheduler.core.pair import Pair
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import NO_HINTS
from lingua_scheduler.flows.dispatch import Placed, Waiting, refused
from lingua_scheduler.flows.remember import remember
from lingua_scheduler.front.ask import Submitted
from lingua_scheduler.front.seeking import FINAL
from lingua_scheduler.front.turns import Turns
from lingua_scheduler.views.memory import recall
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.whereabouts import At, Waits, seek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.core.wanted import Hints
    from lingua_scheduler.front.ask import Ask, Tags
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.front.seeking import Seeker, Way

#: Somebody who waits looks for himself: at first so often, then more and more seldom, down to so seldom.
_OFTEN_MS: Final = 100
_SELDOM_MS: Final = 1_000
#: All look at the strokes of one clock, so that the looks of a stroke travel as one call.
_STROKE_S: Final = 0.05

_EMPTIED: Final = "The state engine was emptied, and the nodes are being entered again; nothing was accepted."

#: What is done where nobody names a policy.
_USUAL: Final = "random"
#: Policies that ask where the session's last job went.
_REMEMBERING: Final = ("spread", "sticky_pool")


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


class Placer:
    """Places jobs, each under an id that somebody has chosen for it."""

    def __init__(self, directory: Directory, seeker: Seeker, policy: str) -> None:
        self._engine = directory.engine
        self._directory = directory
        self._seeker = seeker
        self._policy = policy
        self._ears: dict[str, set[_Ear]] = {}
        self._turns = Turns()
        #: Asked before a final no: the fleet may only be on its way back into an engine that was emptied.
        self.is_refilling: Callable[[], Awaitable[bool]] = _never

    def hear(self, event: Event) -> None:
        """What a relayer of this process brings: whoever waits for the job looks at once."""
        for ear in self._ears.get(name_of(event.job), ()):
            ear.hear(event)

    def dispatch(self, way: Way, ask: Ask, tags: Tags) -> Coroutine[Any, Any, Submitted | Refusal]:
        """Place the job by what is remembered of its session, where that matters, and remember where it went."""
        if self._policy != _USUAL and not ask.wanted.policy:
            ask = replace(ask, wanted=replace(ask.wanted, policy=self._policy))
        if ask.bind_key or ask.utterance_index is not None or ask.wanted.policy in _REMEMBERING:
            return self._dispatch_by_memory(way, ask, tags)
        return self._dispatch(way, ask, tags)

    async def _dispatch(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        answer = await self._seeker.seek(way, ask, tags, NO_HINTS)
        if isinstance(answer, Placed):
            return Submitted(way.job_id, answer)
        return await self.wait(way, ask, tags) if isinstance(answer, Waiting) else await self._if_final(answer)

    async def _dispatch_by_memory(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        async with self._turns.after_the_last(ask.session_id, ask.bind_key):
            answer = await self._place_by_memory(way, ask, tags)
        if not isinstance(answer, Waiting):
            return _told(way, answer)
        submitted = await self.wait(way, ask, tags)
        if isinstance(submitted, Submitted):
            await self._remember(submitted.job_id, ask, submitted.placed)
        return submitted

    async def _place_by_memory(self, way: Way, ask: Ask, tags: Tags) -> Placed | Waiting | Refusal:
        number = -1 if ask.utterance_index is None else ask.utterance_index
        hints = await recall(self._engine, ask.session_id, bind_key=ask.bind_key, utterance_index=number)
        if isinstance(hints, Refusal):
            return hints
        answer = await self._place(way, ask, tags, hints)
        if isinstance(answer, Placed):
            await self._remember(way.job_id, ask, answer)
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
        node = await self._directory.at_home(node_id, lambda cell: read_node(self._engine, cell, node_id))
        return "" if isinstance(node, Refusal) else dict(node.profile.labels).get("group", "")

    async def wait(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        """Until the job has its node, or has waited in vain: a no only if nobody can have made it elsewhere."""
        try:
            answer = await self._wait(way, ask, tags)
        except DependencyDown as away:
            if way.is_in_doubt:
                raise _in_doubt(way) from away
            raise
        if isinstance(answer, Refusal) and way.is_in_doubt:
            raise _in_doubt(way)
        return answer

    async def _wait(self, way: Way, ask: Ask, tags: Tags) -> Submitted | Refusal:
        # It exists: from now on it goes nowhere without being withdrawn where it is.
        way.is_known = True
        if tags.waits is not None:
            tags.waits()
        with self._listening(name_of(way.job_id)) as ear:
            answer = None
            # If the engine is away, the job waits in it meanwhile.
            with contextlib.suppress(DependencyDown, OutcomeUnknown):
                answer = await self._seeker.seek_on(way, ask, tags, NO_HINTS)
            if isinstance(answer, Placed):
                return Submitted(way.job_id, answer)
            return answer if isinstance(answer, Refusal) else await self._hear_of(way, ear, ask, tags)

    @contextlib.contextmanager
    def _listening(self, name: str) -> Iterator[_Ear]:
        ear = _Ear()
        ears = self._ears.setdefault(name, set())
        ears.add(ear)
        try:
            yield ear
        finally:
            ears.remove(ear)
            if not ears:
                del self._ears[name]

    async def _hear_of(self, way: Way, ear: _Ear, ask: Ask, tags: Tags) -> Submitted | Refusal:
        """Wait until the job has a node, or is refused. Another process may have heard it: that is seen by looking.

        What was heard may be of an earlier life of the same id, so it is believed only after a look: only that the job
        is gone proves that it was refused. An engine that is away says nothing of the job, which waits in it
        meanwhile: only after the wait's own end that is an error.

        A node of another cell that comes to have room does not know of it. So whoever waits looks there too, and goes
        on; and when the wait is over all cells are asked once more.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        waits, looked_at, heard = Waits(0, min(ask.wanted.wait_ms, ask.limits.timeout_ms)), clock(), None
        while True:
            await ear.listen(_pause_ms(waits))
            heard = ear.take() or heard
            try:
                seen: Waits | At | Placed | Refusal = await self._look(way)
                if isinstance(seen, Waits) and seen.left_ms > 0:
                    left = _left(ask, int((clock() - began) * 1000), seen.left_ms)
                    seen = await self._go_on(way, left, tags, seen) or seen
            except (DependencyDown, OutcomeUnknown) as away:
                if (clock() - looked_at) * 1000 > waits.left_ms + _SELDOM_MS:
                    raise OutcomeUnknown(f"job {way.job_id} waited, and the engine went away: {away}") from away
                continue
            if isinstance(seen, At):
                return Submitted.at(way.job_id, seen)
            if isinstance(seen, Placed):
                return Submitted(way.job_id, seen)
            if isinstance(seen, Refusal):
                # By the engine's clock, where it began to wait last, and by ours, since it first did.
                waited_ms = max(waits.waited_ms + waits.left_ms, int((clock() - began) * 1000))
                refusal = _refused(ear.take() or heard, waits, ask)
                return await self._in_vain(way, _left(ask, waited_ms, 0), tags, refusal)
            waits, looked_at, heard = seen, clock(), None

    async def _look(self, way: Way) -> Waits | At | Refusal:
        found, hop, seen = await seek(self._engine, way.job_id, way.hop)
        # Somebody who wants the same may have sent it on.
        way.go(cell_of(found), hop)
        way.is_in_doubt = way.is_in_doubt and isinstance(seen, Refusal)
        return seen

    async def _go_on(self, way: Way, ask: Ask, tags: Tags, waits: Waits) -> Placed | Waits | None:
        """If another cell has room, the job goes there. None: it stays."""
        if self._directory.is_one or ask.wanted.strict:
            return None
        pair = Pair.of(ask.src_lang, ask.tgt_lang)
        await self._seeker.routes.look_at(pair)
        cell = self._seeker.routes.with_room(pair, but=way.cell)
        if cell is None:
            return None
        answer = await self._seeker.move(way, cell, ask, tags, waits.left_ms)
        if isinstance(answer, Refusal):
            # It cannot even wait there: it goes back to where it waited.
            answer = await self._seeker.seek(way, ask, tags, NO_HINTS)
        return answer if isinstance(answer, Placed) else Waits(waits.waited_ms, waits.left_ms)

    async def _in_vain(self, way: Way, ask: Ask, tags: Tags, refusal: Refusal) -> Submitted | Refusal:
        """The cell in which it waited has refused it. All others are asked once more, for what is left of its time."""
        await self._directory.read()
        if self._directory.is_one:
            return refusal
        answer = await self._place(way, ask, tags, NO_HINTS)
        return Submitted(way.job_id, answer) if isinstance(answer, Placed) else refusal

    async def _place(self, way: Way, ask: Ask, tags: Tags, hints: Hints) -> Placed | Waiting | Refusal:
        answer = await self._seeker.seek(way, ask, tags, hints)
        return await self._if_final(answer) if isinstance(answer, Refusal) else answer

    async def _if_final(self, refusal: Refusal) -> Refusal:
        """What is refused, unless that is only because the fleet is on its way back."""
        if refusal.code in FINAL and await self.is_refilling():
            return Refusal("SCHEDULER_DEPENDENCY_DOWN", _EMPTIED)
        return refusal


async def _never() -> bool:
    return False


def _pause_ms(waits: Waits) -> int:
    """How long nobody looks at a job that was seen to wait: as long as it has waited already, within bounds.

    But there is a look soon after its wait is over; and from then on it counts anew.
    """
    if waits.left_ms <= 0:
        return min(max(-waits.left_ms, _OFTEN_MS), _SELDOM_MS)
    return min(max(waits.waited_ms, _OFTEN_MS), _SELDOM_MS, waits.left_ms + _OFTEN_MS)


def _left(ask: Ask, waited_ms: int, left_ms: int) -> Ask:
    """The same ask for a job that has waited already: it has that much less time, and keeps its place in every line."""
    limits = replace(ask.limits, timeout_ms=max(1, ask.limits.timeout_ms - waited_ms))
    return replace(ask, limits=limits, wanted=replace(ask.wanted, wait_ms=left_ms))


def _in_doubt(way: Way) -> OutcomeUnknown:
    return OutcomeUnknown(f"job {way.job_id} went on to another cell while it waited, and may have been made there")


def _told(way: Way, answer: Placed | Refusal) -> Submitted | Refusal:
    return answer if isinstance(answer, Refusal) else Submitted(way.job_id, answer)


def _refused(heard: Event | None, waits: Waits, ask: Ask) -> Refusal:
    """The refusal of a job that waited and is gone: as it was heard, or what can be known without."""
    if heard is not None and heard.kind == "refused":
        return refused(heard, Pair.of(ask.src_lang, ask.tgt_lang), ask.wanted)
    waited_ms = waits.waited_ms + waits.left_ms
    told = f"It waited {waited_ms} ms, and no node that it wanted came to have room."
    code = "PREFERRED_NODE_UNAVAILABLE" if ask.wanted.strict else "ALL_CANDIDATES_FULL_OR_FAILED"
    return Refusal(code, told, waited_ms=waited_ms)
