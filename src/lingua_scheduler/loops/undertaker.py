"""The undertaker: finds instances that are gone, has their letters handled here, and strikes them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.close_inbox import Closed, close_inbox
from lingua_scheduler.flows.mail import parcels
from lingua_scheduler.flows.strike import strike
from lingua_scheduler.flows.take_over import Alive, take_over
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.loop import Loop, refused
from lingua_scheduler.views.instance import read_instance
from lingua_scheduler.views.instances import read_directory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.loops.postman import Postman
    from lingua_scheduler.store.engine import Engine

#: Whoever has beaten so recently, and as much longer as it takes to beat, is not asked for.
_FRESH_MS: Final = 1_000

log = get_log(__name__)


class Undertaker(Loop):
    """Every instance runs one. Several that find the same inbox share its letters: each is one's for a while."""

    def __init__(
        self,
        engine: Engine,
        interval_ms: int,
        beat_ms: int,
        postman: Postman,
        bereave: Callable[[str], Awaitable[None]],
        struck: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`bereave` is told who is gone before he is struck out, perhaps more than once, and by several.

        `struck` is told who was struck out.
        """
        super().__init__(interval_ms)
        self._struck = struck
        self._bereave = bereave
        self._bereaved: set[str] = set()
        self._engine = engine
        self._postman = postman
        self._fresh_ms = beat_ms + _FRESH_MS
        #: Who is said to be gone, however lately he has beaten.
        self._rumoured: set[str] = set()

    def hear(self, instance_id: str) -> None:
        """An instance has ended, and says that letters are left."""
        self._rumoured.add(instance_id)
        self.wake()

    async def turn(self) -> bool:
        """Look at everybody who has not beaten lately; and at the own letters that others took and did not settle."""
        directory = await read_directory(self._engine)
        # Who was struck out by another is nobody's concern any more.
        self._bereaved.intersection_update(instance_id for instance_id, _ in directory.beats)
        more = await self._inherit(self._postman.instance_id)
        rumoured, self._rumoured = self._rumoured, set()
        for instance_id, beat in directory.beats:
            # A beat from the future was made by a clock that is not there any more.
            is_fresh = 0 <= directory.now_ms - beat < self._fresh_ms and instance_id not in rumoured
            if is_fresh or instance_id == self._postman.instance_id:
                self._bereaved.discard(instance_id)
                continue
            await self._tell_of(instance_id)
            if await self._inherit(instance_id):
                more = True
            elif await strike_out(self._engine, instance_id, beat):
                self._bereaved.discard(instance_id)
                self._struck(instance_id)
                log.warning(
                    "close_inbox", instance_id=instance_id, detail="it is gone, and none of its letters is left"
                )
        return more

    async def _tell_of(self, instance_id: str) -> None:
        """If it is gone, whatever it held is somebody else's from now on."""
        if instance_id in self._bereaved:
            return
        seen = await read_instance(self._engine, instance_id)
        if isinstance(seen, Refusal) or not seen.presence:
            await self._bereave(instance_id)
            self._bereaved.add(instance_id)

    async def _inherit(self, owner: str) -> bool:
        """Take letters over, as many as the postman has room for. Whether there were any."""
        room = self._postman.room
        if not room:
            return False
        answer = await take_over(self._engine, owner, self._postman.instance_id, room)
        if isinstance(answer, Refusal):
            raise refused(answer)
        if isinstance(answer, Alive) or not answer.letters:
            return False
        detail = "letters that it did not settle are handled here"
        log.warning("take_over", instance_id=owner, number=len(answer.letters), detail=detail)
        for parcel in parcels(owner, answer.letters):
            self._postman.take(parcel)
        return True


async def strike_out(engine: Engine, instance_id: str, beat: int) -> bool:
    """Forget an instance that is gone and has no letters. Whether it is forgotten: nothing else is."""
    closed = await close_inbox(engine, instance_id, beat)
    if not isinstance(closed, Closed):
        return False
    struck = await strike(engine, instance_id, beat)
    return not isinstance(struck, Refusal) and struck.was_there
