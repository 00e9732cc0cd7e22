"""A call on its way through a Cluster, and the line in which calls of a slot wait while it is being handed over."""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

import hiredis

from lingua_scheduler.store.slots import turn_of

if TYPE_CHECKING:
    import asyncio
    from typing import Any

    from lingua_scheduler.store.address import Address
    from lingua_scheduler.store.resp import Failure
    from lingua_scheduler.store.slots import Turn
    from lingua_scheduler.store.wire import Waiter

_NUMBER: Final = attrgetter("number")


class Office(Protocol):
    """Who sends errands out and hears of them."""

    def turned_away(self, errand: Errand, turn: Turn) -> None:
        """The server has not got the slot; nothing was executed."""

    def settled(self, errand: Errand) -> None:
        """It is over, for good or bad."""

    def distrust(self) -> None:
        """The server says that the Cluster is down."""


class Errand:
    """The waiter of one call: it hands on its reply, unless that only says to go elsewhere."""

    __slots__ = ("born", "data", "due", "guest_at", "hops", "number", "office", "server", "size", "slot", "waiter")

    def __init__(self, office: Office, number: int, slot: int, data: bytes, waiter: Waiter) -> None:
        self.office = office
        #: The order of calls.
        self.number = number
        self.slot = slot
        self.data = data
        self.waiter = waiter
        self.size = waiter.size
        #: Of this sending; what it was born as is its waiter's.
        self.born = waiter.born
        #: Not sent again before this time.
        self.due = 0.0
        #: How often it was sent on since it last paused, and where it went last.
        self.hops = 0
        self.server: Address | None = None
        #: A server that takes it although the slot is not its own yet.
        self.guest_at: Address | None = None

    def answer(self, reply: Any) -> None:  # noqa: ANN401
        if isinstance(reply, hiredis.ReplyError):
            if turn := turn_of(str(reply)):
                self.office.turned_away(self, turn)
                return
            if str(reply).startswith("CLUSTERDOWN"):
                self.office.distrust()
        self.office.settled(self)
        self.waiter.answer(reply)

    def fail(self, failure: Failure) -> None:
        self.office.settled(self)
        self.waiter.fail(failure)

    def lost(self, why: str) -> None:
        self.office.settled(self)
        self.waiter.lost(why)

    def gone(self) -> bool:
        return self.waiter.gone()


class Line:
    """Calls of one slot, in their order, that wait until those before them have found their server.

    The first goes alone. When it was served where the slot belongs, all others follow at once.
    """

    __slots__ = ("first", "timer", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Errand] = []
        #: The one that is on its way.
        self.first: Errand | None = None
        self.timer: asyncio.TimerHandle | None = None

    def add(self, errand: Errand) -> None:
        insort(self.waiting, errand, key=_NUMBER)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
