"""The only place that wires everything together, and the order in which it starts and stops."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.clock import Clock
from lingua_scheduler.core.new_ids import new_instance_id
from lingua_scheduler.flows.doubt import doubt, doubt_first
from lingua_scheduler.flows.mark import Marked, mark
from lingua_scheduler.front.auth import Auth
from lingua_scheduler.front.delivery import Delivery
from lingua_scheduler.front.desk import Desk
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.door import Door
from lingua_scheduler.front.guests import Guests
from lingua_scheduler.front.handlers import (
    attempts,
    audio,
    config,
    fleet,
    health,
    instances,
    jobs,
    logs,
    nodes,
    signing,
)
from lingua_scheduler.front.handlers.documents import with_documents
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.hints import Hints
from lingua_scheduler.front.letters import Letters
from lingua_scheduler.front.live import serve_live
from lingua_scheduler.front.mailbox import Mailboxes
from lingua_scheduler.front.nodes.orphans import bereave
from lingua_scheduler.front.nodes.roster import Roster
from lingua_scheduler.front.nodes.socket import serve_node
from lingua_scheduler.front.server import Server, url_of
from lingua_scheduler.front.sessions.sessions import Sessions
from lingua_scheduler.front.sessions.socket import serve_session
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.front.survey import Survey
from lingua_scheduler.front.tracing import tracing_of
from lingua_scheduler.logs.levels import Levels
from lingua_scheduler.loops.auditor import Auditor
from lingua_scheduler.loops.broadcaster import Broadcaster
from lingua_scheduler.loops.catalog_refresher import CatalogRefresher
from lingua_scheduler.loops.chronicler import FOR_PEOPLE, Chronicler
from lingua_scheduler.loops.keeper import Keeper
from lingua_scheduler.loops.marker import Marker
from lingua_scheduler.loops.postman import Postman
from lingua_scheduler.loops.presence import PresenceKeeper
from lingua_scheduler.loops.snapshot_maker import SnapshotMaker
from lingua_scheduler.loops.surveyor import Surveyor
from lingua_scheduler.loops.tender import Tender
from lingua_scheduler.loops.undertaker import Undertaker
from lingua_scheduler.loops.usher import Usher
from lingua_scheduler.loops.watcher import Watcher
from lingua_scheduler.store.address import parse_place
from lingua_scheduler.store.assurance import Replication
from lingua_scheduler.store.channel import Ear
from lingua_scheduler.store.checks import check_engine, check_schema
from lingua_scheduler.store.embedded import Embedded
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.listen import await_letter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from lingua_scheduler.config import Settings
    from lingua_scheduler.core.letter import Presence
    from lingua_scheduler.core.records import Event
    from lingua_scheduler.store.embedded.options import Durability

    HandOver = Callable[[Event], Awaitable[None]]


async def _nobody(_event: Event) -> None:
    """Whoever only looks after cells tells people nothing."""


class App:
    """A running scheduler: the engine's client and the loops that look after the cells."""

    def __init__(self, settings: Settings, engine: Engine, embedded: Embedded | None) -> None:
        self.settings = settings
        self.limits = settings.limits()
        self.engine = engine
        self.embedded = embedded
        #: Set when another process has its name: this one must end.
        self.is_usurped = asyncio.Event()
        #: Where the engine is.
        self.url = settings.engine.url if embedded is None else embedded.url
        named = settings.instance.id
        self.instance_id = new_instance_id(socket.gethostname(), os.getpid()) if named == "auto" else named
        self.directory = Directory(engine, settings.cell.name, partial(begin_cell, engine))
        self.submitter = Submitter(
            engine, settings.cell.name, settings.rules(), settings.jobs.policy, self.instance_id, self.directory
        )
        self.marker = Marker(self._mark, settings.loops.relay_interval_ms)
        self.clock = Clock()
        self.chronicler = Chronicler(engine, self.instance_id, self.clock)
        #: Told of every mark that was made: whose, which, and until when.
        self.on_mark: Callable[[str, str, int], None] = lambda _node_id, _service, _until_ms: None
        #: Told of every node that was lost.
        self.on_lost: HandOver = _nobody
        self.catalog = CatalogRefresher(settings.catalog)
        self.levels = Levels(settings.logs)
        self.auditor = Auditor(engine, lambda: self.directory.cells, settings.loops.audit_interval_ms, again_ms=1_000)

    async def _mark(self, node_id: str, service: str, service_type: str, connection: str) -> object:
        answer = await self.directory.at_home(
            node_id, lambda cell: mark(self.engine, cell, node_id, service, service_type, connection)
        )
        if isinstance(answer, Marked):
            self.on_mark(node_id, service or service_type, answer.until_ms)
        return answer


def replication_of(settings: Settings) -> Replication | None:
    """On how many replicas must be what is acknowledged; None: on none."""
    engine = settings.engine
    if engine.durability != "replicated":
        return None
    return Replication(engine.replicas, engine.replication_timeout_ms, engine.call_timeout_ms)


@asynccontextmanager
async def reach_engine(settings: Settings) -> AsyncIterator[tuple[Engine, Embedded | None]]:
    """The state engine that the settings name, fit or not; without a URL, an embedded one."""
    async with AsyncExitStack() as stack:
        embedded = None
        url = settings.engine.url
        if not url:
            directory = settings.engine.data_dir or default_data_dir()
            durability: Durability = "fsync" if settings.engine.durability == "fsync" else "default"
            embedded = await stack.enter_async_context(Embedded(directory, durability))
            url = embedded.url
        engine = await Engine.connect(
            url,
            settings.engine.key_prefix,
            msgspec.msgpack.encode(settings.rules().of_one_cell()),
            timeout_ms=settings.engine.call_timeout_ms,
            replication=replication_of(settings),
        )
        yield await stack.enter_async_context(engine), embedded


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[tuple[Engine, Embedded | None]]:
    """The state engine that the settings name, if it is fit."""
    async with reach_engine(settings) as (engine, embedded):
        if embedded is None:
            place = parse_place(settings.engine.url)
            await check_engine(engine, place, settings.cell.name, replication_of(settings))
        # First the hook, then the look: whichever connection comes, it asks.
        doubt_first(engine, lambda: (settings.cell.name,))
        await begin_cell(engine, settings.cell.name)
        yield engine, embedded


async def begin_cell(engine: Engine, cell: str) -> int:
    """The birth of a cell that is of our shape; if another server serves it than before, its nodes are doubted."""
    birth = await check_schema(engine, cell)
    if reign := engine.reign_of(cell):
        await doubt(engine, cell, reign)
    return birth


@asynccontextmanager
async def looking_after(app: App, hand_over: HandOver) -> AsyncIterator[Tender]:
    """The loops that every cell needs; what the relayer brings goes to whoever waits for a job, and to `hand_over`."""
    guests = Guests(app.directory, app.submitter.routes)

    async def hear(event: Event) -> None:
        if event.kind == "stranded":
            await guests.seek(event)
            return
        if event.kind in FOR_PEOPLE:
            app.chronicler.hear(event)
            return
        app.submitter.hear(event)
        await hand_over(event)
        app.chronicler.hear(event)
        if event.kind == "lost":
            await app.on_lost(event)

    loops = app.settings.loops

    async def look() -> Sequence[str]:
        await app.directory.read()
        await app.submitter.routes.look()
        return app.directory.cells

    tender = Tender(
        app.engine,
        look,
        loops.watch_interval_ms,
        sweep_ms=loops.sweep_interval_ms,
        relay_ms=loops.relay_interval_ms,
        hand_over=hear,
    )
    guests.has_news = tender.has_news

    def allow_hopes() -> None:
        if not app.directory.is_one:
            app.engine.obey(msgspec.msgpack.encode(app.settings.rules()))

    allow_hopes()
    app.directory.on_growth += [allow_hopes, tender.wake]
    async with tender, Usher(loops.sweep_interval_ms, guests.look), app.marker:
        yield tender


#: Every endpoint, and so the OpenAPI document.
ROUTES: Final = with_documents(
    (
        *(*nodes.ROUTES, *jobs.ROUTES, *attempts.ROUTES, *audio.ROUTES),
        *(*fleet.ROUTES, *instances.ROUTES, *signing.ROUTES, *logs.ROUTES, *config.ROUTES, *health.ROUTES),
    )
)


def desk_of(app: App) -> Desk:
    """What the doors of this instance need."""
    settings, engine, directory = app.settings, app.engine, app.directory
    desk = Desk(
        engine=engine,
        directory=directory,
        settings=settings,
        limits=app.limits,
        submitter=app.submitter,
        marker=app.marker,
        catalog=app.catalog,
        auditor=app.auditor,
        chronicler=app.chronicler,
        auth=Auth(settings.auth),
        levels=app.levels,
        instance_id=app.instance_id,
        clock=app.clock,
    )
    app.on_mark = desk.changes.marked
    app.on_lost = desk.changes.lost
    desk.sessions = Sessions(desk)
    desk.hints = Hints(engine, desk.sessions, desk.neighbours)
    desk.delivery = Delivery(engine, desk.links, app.submitter, desk.hints, desk.neighbours, desk.clock)
    desk.delivery.tracing = tracing_of(settings.traces, app.instance_id)
    desk.hints.on_mail = desk.delivery.ring_mailbox
    desk.hearing = Hearing(engine, directory, desk.links, desk.delivery, desk.sessions, desk.neighbours)
    desk.mailboxes = Mailboxes(engine, directory, desk.delivery.mailbox_bell)
    return desk


@asynccontextmanager
async def among_others(app: App, desk: Desk, presence: PresenceKeeper, keeper: Keeper) -> AsyncIterator[None]:
    """Be one of several instances: be there, read what the others write, and take over from who is gone.

    At the end nobody writes any more when everything else is over; what nobody read by then, another reads.
    """
    settings, engine = app.settings.instance, app.engine
    bell = await Engine.connect(
        app.url,
        engine.prefix,
        timeout_ms=settings.inbox_block_ms + app.settings.engine.call_timeout_ms,
    )
    loops, letters = app.settings.loops, Letters(desk, app.submitter.hear, keeper.wake)
    note = app.chronicler.note
    postman = Postman(
        engine,
        desk.instance_id,
        loops.relay_interval_ms,
        hand_over=letters.hear,
        ring=partial(await_letter, bell, desk.instance_id, settings.inbox_block_ms),
        pauses_ms=(100, settings.letter_pause_ms),
        buried=lambda parcel, reason: note("dead_letter", parcel.id, f"{parcel.letter.kind}: {reason}"),
    )
    undertaker = Undertaker(
        engine,
        loops.inherit_interval_ms,
        settings.presence_beat_ms,
        postman,
        partial(bereave, desk),
        lambda instance_id: note("instance_went", instance_id, "nothing was heard of it any more", seen=True),
    )
    desk.hints.on_gone = undertaker.hear
    async with bell, Ear(engine, app.url, desk.hints.hear, *desk.hints.channels):
        await presence.begin((settings.presence_ttl_ms + settings.presence_beat_ms) / 1000, is_dead)
        # If a process before had this name, nobody else will ever find that it is gone.
        await bereave(desk, desk.instance_id)
        note("instance_came", desk.instance_id, f"{desk.url}, version {desk.describe().version}")
        async with presence, postman, undertaker:
            yield
        note("instance_went", desk.instance_id, "it was asked to stop", seen=True)


class Serving:
    """An instance that serves: what it is made of, and where it is."""

    def __init__(self, app: App, desk: Desk, server: Server) -> None:
        self.app = app
        self.desk = desk
        self.server = server


@asynccontextmanager
async def serve(
    settings: Settings, bound: socket.socket, origins: Mapping[str, str] | None = None
) -> AsyncIterator[Serving]:
    """Engine, doors, loops. At the end the doors first: not ready, nobody new, sockets told to go elsewhere.

    Jobs that are on their way stay with their nodes, which come back to another instance, or to the next one here.
    `origins` says where each of the settings came from.
    """
    async with open_engine(settings) as (engine, embedded):
        app = App(settings, engine, embedded)
        doubt_first(engine, lambda: app.directory.cells)
        desk = desk_of(app)
        desk.origins = origins or {}
        roster = Roster(engine, app.directory, desk.links, desk.delivery.errands)
        beat_ms = settings.instance.presence_beat_ms
        presence = PresenceKeeper(
            engine,
            beat_ms,
            desk.describe,
            roster.renew_all,
            usurped=app.is_usurped.set,
            left=desk.hints.left,
        )
        keeper = Keeper(settings.nodes.socket_beat_ms, roster.keep_all)

        async def refill(cells: Collection[str]) -> None:
            await roster.renew_all(cells)
            desk.sessions.reopen()
            presence.wake()

        watcher = Watcher(
            engine,
            lambda: app.directory.cells,
            settings.loops.watch_interval_ms,
            begin=partial(begin_cell, engine),
            refill=refill,
            clock=desk.clock,
            settle_ms=settings.nodes.heartbeat_interval_ms,
            tell=lambda kind: app.chronicler.note(kind, app.instance_id),
        )
        app.submitter.ask_before_a_final_no(watcher.is_refilling)
        engine.on_new_socket = watcher.wake
        # Before anybody comes in: its first look sets the clock.
        await app.directory.read()
        await watcher.turn()
        desk.started_at_ms = desk.clock()
        desk.url = url_of(bound)
        async with (
            app.chronicler,
            among_others(app, desk, presence, keeper),
            looking_after(app, desk.hearing.hear) as tender,
            keeper,
            watcher,
            Surveyor(settings.loops.survey_interval_ms, Survey(app.directory, desk.clock).step),
            app.catalog,
            app.auditor,
            SnapshotMaker(settings.loops.snapshot_interval_ms, partial(desk.stats.make, desk)),
            Broadcaster(settings.loops.live_interval_ms, partial(desk.live.step, desk)),
        ):
            desk.delivery.has_news = tender.has_news

            def has_result(event: Event, result: str) -> None:
                if desk.hearing.finished(event, result):
                    app.submitter.hear(event)
                    tender.confirm(event)
                else:
                    tender.take(event)

            desk.delivery.has_result, desk.delivery.lease_ms = has_result, settings.loops.relay_lease_ms
            app.directory.on_growth.append(watcher.wake)
            door = Door(desk, ROUTES, serve_node=serve_node, serve_session=serve_session, serve_live=serve_live)
            async with Server(door, bound, settings.server, desk.close) as server:
                try:
                    yield Serving(app, desk, server)
                finally:
                    server.ending.begin()
                    desk.drain()
                    presence.wake()
                    # While the nodes are still here: what was said so far is brought on its way.
                    await desk.sessions.close(server.ending.left_s)
            await desk.delivery.close(server.ending.left_s)
        await asyncio.to_thread(desk.delivery.tracing.close)
        app.levels.close()


def is_dead(other: Presence) -> bool:
    """Whether whoever says this of himself is a process of this machine that is no more."""
    if other.host != socket.gethostname():
        return False
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # Then it was in a container that has started again, and is ourselves by now.
    return other.pid == os.getpid()


def default_data_dir() -> Path:
    """The user's state folder, as the desktop convention has it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lingua-scheduler" / "engine"
