"""Everything that whoever answers a message needs, in one place."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.letter import Presence
from lingua_scheduler.front.buckets import Buckets
from lingua_scheduler.front.changes import Changes
from lingua_scheduler.front.live import Live
from lingua_scheduler.front.metrics import Metrics
from lingua_scheduler.front.neighbours import Neighbours
from lingua_scheduler.front.nodes.links import Links
from lingua_scheduler.front.numbers import Numbers
from lingua_scheduler.front.seats import Seats
from lingua_scheduler.front.socket import Sockets
from lingua_scheduler.front.stats import Stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.config import Settings
    from lingua_scheduler.core.clock import Clock
    from lingua_scheduler.core.limits import Limits
    from lingua_scheduler.front.auth import Auth
    from lingua_scheduler.front.delivery import Delivery
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.front.hearing import Hearing
    from lingua_scheduler.front.hints import Hints
    from lingua_scheduler.front.mailbox import Mailboxes
    from lingua_scheduler.front.sessions.sessions import Sessions
    from lingua_scheduler.front.submit import Submitter
    from lingua_scheduler.front.web import Request
    from lingua_scheduler.logs.levels import Levels
    from lingua_scheduler.loops.auditor import Auditor
    from lingua_scheduler.loops.catalog_refresher import CatalogRefresher
    from lingua_scheduler.loops.chronicler import Chronicler
    from lingua_scheduler.loops.marker import Marker
    from lingua_scheduler.store.engine import Engine


_MARGIN_MS: Final = 30_000


@dataclass(slots=True, kw_only=True)
class Desk:
    """What an instance has. `app` puts it together."""

    engine: Engine
    directory: Directory
    settings: Settings
    limits: Limits
    submitter: Submitter
    marker: Marker
    catalog: CatalogRefresher
    auditor: Auditor
    chronicler: Chronicler
    auth: Auth
    levels: Levels
    instance_id: str
    #: The engine's time. Whoever watches the engine sets it.
    clock: Clock
    #: Where a browser finds this instance.
    url: str = ""
    started_at_ms: int = 0
    #: Where each of the settings came from.
    origins: Mapping[str, str] = field(default_factory=dict)
    links: Links = field(default_factory=Links)
    stats: Stats = field(default_factory=Stats)
    live: Live = field(default_factory=Live)
    buckets: Buckets = field(init=False)
    numbers: Numbers = field(init=False)
    neighbours: Neighbours = field(init=False)
    changes: Changes = field(init=False)
    seats: Seats = field(init=False)
    #: These need a desk themselves, so they come last.
    sessions: Sessions = field(init=False)
    hints: Hints = field(init=False)
    delivery: Delivery = field(init=False)
    hearing: Hearing = field(init=False)
    mailboxes: Mailboxes = field(init=False)
    metrics: Metrics = field(init=False)
    #: The instance has been asked to stop: nobody new is let in, and nodes that poll are answered.
    is_draining: asyncio.Event = field(default_factory=asyncio.Event)
    #: Its time is up: whoever still waits for the end of a job is answered.
    is_closing: asyncio.Event = field(default_factory=asyncio.Event)
    #: How many requests were answered, by method, route and status.
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    #: The open sockets, by the door that they came in by.
    sockets: Sockets = field(default_factory=Sockets)
    #: Requests that wait for a slot.
    waiting: set[Request] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.buckets = Buckets(self.engine, self.settings)
        self.numbers = Numbers(self.engine, self.settings)
        self.metrics = Metrics(self)
        self.changes = Changes(self.directory, self.chronicler)
        self.seats = Seats(self.engine, self.auth, self.settings.auth)
        self.neighbours = Neighbours(self.engine, self.directory, self.instance_id)

    def describe(self) -> Presence:
        """What this instance says of itself."""
        return Presence(
            instance=self.instance_id,
            started_at_ms=self.started_at_ms,
            version=version("lingua-scheduler"),
            host=socket.gethostname(),
            pid=os.getpid(),
            url=self.url,
            nodes=len(self.links),
            sessions=len(self.sessions),
            draining=self.is_draining.is_set(),
            dispatches=tuple(self.delivery.durations.lately()),
        )

    @property
    def result_ttl_ms(self) -> int:
        """How long a result is kept that nobody released: its session may come back for it, and it may have to wait."""
        talks = self.settings.sessions
        return max(self.settings.jobs.result_ttl_ms, talks.resume_window_ms + talks.gap_ms + _MARGIN_MS)

    def waits(self, request: Request) -> None:
        """It waits for a slot: nothing of it is under way, and that may take long.

        From now on it is given up when the instance stops, until it has one.
        """
        self.waiting.add(request)
        if self.is_draining.is_set():
            request.give_up()

    def has_waited(self, request: Request) -> None:
        """It has one, or needs none any more."""
        self.waiting.discard(request)

    def drain(self) -> None:
        """Nobody new, and nodes find their work elsewhere. What began may end."""
        self.is_draining.set()
        for request in list(self.waiting):
            request.give_up()
        self.delivery.wake()

    def close(self) -> None:
        """Nobody waits any longer."""
        self.is_closing.set()
        self.hearing.wake()
