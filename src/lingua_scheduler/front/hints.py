"""What a session should hear soon, and can do without, when its node is with another instance.

That its node has accepted a job, and what it has understood so far. It travels by Pub/Sub, to the instance that made
the job, and may be lost. So does, to all instances, that something lies in the mailbox of a node that polls, for nobody
knows at which of them it waits; that a node has moved, for they may believe it where it was; and that an instance has
ended, and left letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from lingua_scheduler.core.owner import mark_in, mark_of
from lingua_scheduler.front.assignment import Errand
from lingua_scheduler.logs import get_log
from lingua_scheduler.protocol.node import NodeAsrPartial
from lingua_scheduler.store.channel import publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.front.neighbours import Neighbours
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Hinted(Protocol):
    """Sessions, as far as they hear of what may be lost."""

    def accepted(self, errand: Errand) -> None: ...

    def partial(self, errand: Errand, message: NodeAsrPartial) -> None: ...


class Hint(msgspec.Struct, array_like=True, frozen=True):
    """That a node accepted an errand, or what it has understood of it so far; or, without an errand, other news."""

    errand: Errand | None
    partial: NodeAsrPartial | None = None
    #: The node in whose mailbox something lies.
    mailbox: str = ""
    #: The instance that has ended, and whose letters others must read.
    gone: str = ""
    #: The node that has another connection now, and its epoch.
    moved: tuple[str, str] | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Hint).decode


def channel_of(prefix: str, mark: str) -> str:
    """Where an instance listens."""
    return f"{prefix}:hints:{mark}"


def _nobody(_: str) -> None:
    pass


class Hints:
    """Tells the sessions here, and the instance that made the job if that is another."""

    def __init__(self, engine: Engine, sessions: Hinted, neighbours: Neighbours) -> None:
        self._engine = engine
        self._sessions = sessions
        self._neighbours = neighbours
        #: Where all listen, and where this instance does.
        self._shared = channel_of(engine.prefix, "all")
        self.channels = (channel_of(engine.prefix, mark_of(neighbours.instance_id)), self._shared)
        #: Told in whose mailbox something lies.
        self.on_mail: Callable[[str], None] = _nobody
        #: Told which instance has ended.
        self.on_gone: Callable[[str], None] = _nobody

    def accepted(self, errand: Errand) -> None:
        """A node has a job."""
        self._sessions.accepted(errand)
        self._pass_on(errand.job_id, Hint(errand))

    def partial(self, errand: Errand, message: NodeAsrPartial) -> None:
        """What a node has understood so far."""
        self._sessions.partial(errand, message)
        self._pass_on(errand.job_id, Hint(errand, message))

    def mailed(self, node_id: str) -> None:
        """Something lies in the mailbox of a node."""
        publish(self._engine, self._shared, _encode(Hint(None, mailbox=node_id)))

    def moved(self, node_id: str, epoch: str) -> None:
        """A node that another instance may have held is here."""
        publish(self._engine, self._shared, _encode(Hint(None, moved=(node_id, epoch))))

    async def left(self, instance_id: str) -> None:
        """An instance ends, and letters are left in its inbox."""
        await self._engine.command("PUBLISH", self._shared, _encode(Hint(None, gone=instance_id)), cell=self._shared)

    def _pass_on(self, job_id: str, hint: Hint) -> None:
        if not self._neighbours.is_at_home(job_id):
            publish(self._engine, channel_of(self._engine.prefix, mark_in(job_id)), _encode(hint))

    def hear(self, word: bytes) -> None:
        """What another instance says. Of what makes no sense, as another release may say, nothing is lost either."""
        try:
            hint: Any = _decode(word)
        except msgspec.MsgspecError as error:
            log.debug("hint", reason=error)
            return
        if hint.errand is None:
            self._hear_news(hint)
        elif hint.partial is None:
            self._sessions.accepted(hint.errand)
        else:
            self._sessions.partial(hint.errand, hint.partial)

    def _hear_news(self, hint: Hint) -> None:
        if hint.gone:
            self.on_gone(hint.gone)
        elif hint.moved is not None:
            self._neighbours.has_moved(*hint.moved)
        elif hint.mailbox:
            self.on_mail(hint.mailbox)
