"""The fleet, for people and machines: what can be seen, and the operator's actions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.explain import Explanation
from lingua_scheduler.core.health import is_doubted
from lingua_scheduler.core.history import STRETCH_MS
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.notice import MAX_KEPT
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.core.ticket import check_language
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.limit import limit
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.front.paging import CURSOR, LIMIT, page_of
from lingua_scheduler.front.pairing import offer_pairing
from lingua_scheduler.front.web import Query, Route
from lingua_scheduler.protocol.feed import EventsAnswer, event_answer, is_about
from lingua_scheduler.protocol.fleet import (
    CatalogAnswer,
    HistoryAnswer,
    IntentAnswer,
    MaxAnswer,
    MaxRequest,
    NodeAnswer,
    NodesAnswer,
    PairingAnswer,
    PointAnswer,
    PoolAnswer,
    PoolsAnswer,
    StatsAnswer,
    node_answer,
    node_summary,
    read_max,
    services_in,
)
from lingua_scheduler.protocol.options import Options, services_of, wanted_of
from lingua_scheduler.views.explain import explain_pair
from lingua_scheduler.views.feed import read_feed
from lingua_scheduler.views.history import read_history
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.pools import pools_everywhere
from lingua_scheduler.views.slots import slots_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import msgspec

    from lingua_scheduler.flows.intents import Intended
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.nodes.links import Command
    from lingua_scheduler.front.web import Request, Said
    from lingua_scheduler.store.engine import Engine
    from lingua_scheduler.views.pools import Pool

    Handle = Callable[[Desk, Request], Awaitable[Said]]
    Intend = Callable[[Engine, str, str], Awaitable[Intended | Refusal]]


async def list_nodes(desk: Desk, request: Request) -> Said:
    """A page of nodes, by name, perhaps only those that stand in one way."""
    standing = request.query.get("standing")
    if standing is not None and standing not in Standing.__members__:
        return refuse_value("standing", Standing.__members__)
    cells = desk.directory.cells
    seen = await asyncio.gather(*(slots_in(desk.engine, cell) for cell in cells))
    named = {
        node.node_id: (cell, node.node_id)
        for cell, nodes in zip(cells, seen, strict=True)
        for node in nodes
        if standing is None or _stands(standing, node.standing, suspect=node.is_suspect)
    }
    page, cursor = page_of(named, request.query)
    found = await asyncio.gather(*(read_node(desk.engine, cell, node_id) for cell, node_id in page))
    there = [
        node_summary(node_id, node.record)
        for (_, node_id), node in zip(page, found, strict=True)
        if not isinstance(node, Refusal)
    ]
    # Since then one may have left, or stand otherwise.
    so = [
        node for node in there if standing is None or _stands(standing, Standing[node.standing], suspect=node.suspect)
    ]
    return NodesAnswer(nodes=so, cursor=cursor)


def _stands(wanted: str, standing: Standing, *, suspect: bool) -> bool:
    """Whether a node stands as it is wanted. A suspect is one also while it has no slot, is tried or rests."""
    return wanted == standing.name or (wanted == Standing.suspect.name and is_doubted(standing, suspect=suspect))


def refuse_value(name: str, known: Iterable[str]) -> Refusal:
    """A parameter that has none of the values it may have."""
    return Refusal("INVALID_MESSAGE", f"{name} must be one of {', '.join(known)}.")


async def show_node(desk: Desk, request: Request) -> Said:
    """Everything known of a node."""
    node_id = request.named["node_id"]
    node = await desk.directory.at_home(node_id, lambda cell: read_node(desk.engine, cell, node_id))
    if isinstance(node, Refusal):
        return node
    return node_answer(node_id, node.record, node.profile, node.pairs, node.leases, desk.catalog.catalog, node.guests)


async def list_pools(desk: Desk, request: Request) -> Said:
    """A page of the pairs that somebody serves, by name, perhaps only those of one source or target."""
    wanted = {name: check_language(name, request.query[name]) for name in ("src", "tgt") if name in request.query}
    pools = await pools_everywhere(desk.engine, desk.directory.cells)
    if isinstance(pools, Refusal):
        return pools
    page, cursor = page_of({pool.pair: pool for pool in pools if _is_of(pool.pair, **wanted)}, request.query)
    return PoolsAnswer(pools=[_pool(pool) for pool in page], cursor=cursor)


def _is_of(pair: str, src: str | None = None, tgt: str | None = None) -> bool:
    """Whether a pair has this source and this target; None: whichever it has."""
    its_src, its_tgt = pair.split(":")
    return src in {None, its_src} and (tgt is None or its_tgt in {tgt, "*"})


async def show_pool(desk: Desk, request: Request) -> Said:
    """One pair, and how its nodes stand."""
    pair = f"{request.named['src']}:{request.named['tgt']}"
    pools = await pools_everywhere(desk.engine, desk.directory.cells, pair)
    if isinstance(pools, Refusal):
        return pools
    pool = _pool(pools[0])
    return pool if pool.nodes else refuse("UNKNOWN_POOL", pair=pool.pair)


def _pool(pool: Pool) -> PoolAnswer:
    return PoolAnswer(pair=pool.pair, nodes=pool.nodes, living=pool.living, standing=pool.standing)


async def show_stats(desk: Desk, request: Request) -> Said:
    """The fleet in numbers, as it was when somebody last looked."""
    return await desk.stats.read(desk, fresh=request.query.get("fresh") == "true")


async def show_history(desk: Desk, _request: Request) -> Said:
    """The last hour, point by point."""
    points = [
        PointAnswer(
            at_ms=at_ms,
            ready_nodes=point.ready_nodes,
            free_slots=point.free_slots,
            in_flight=point.in_flight,
            waiting=point.waiting,
            finished_total=point.finished_total,
            failed_total=point.failed_total,
            p95_dispatch_ms=point.dispatch_us / 1_000 or None,
        )
        for at_ms, point in await read_history(desk.engine)
    ]
    return HistoryAnswer(stretch_ms=STRETCH_MS, points=points)


async def list_events(desk: Desk, request: Request) -> Said:
    """What happened: the last, or what came after; perhaps only to one."""
    after, about = request.query.get("after", ""), request.query.get("about")
    limit = int(request.query.get("limit", "100"))
    # Whoever asks for what happened to one asks seldom: all that is kept is looked through.
    found = await read_feed(desk.engine, after, limit if about is None else MAX_KEPT)
    if isinstance(found, Refusal):
        return found
    last = found[-1][0] if found else after
    if about is not None:
        found = [(event_id, notice) for event_id, notice in found if is_about(notice, about)][-limit:]
    return EventsAnswer(events=[event_answer(event_id, notice) for event_id, notice in found], last=last)


async def show_catalog(desk: Desk, _request: Request) -> Said:
    """Which services there are, by id."""
    held = desk.catalog
    return CatalogAnswer(
        source=held.source,
        services=services_in(held.catalog),
        failures=held.failures,
        age_ms=held.age_ms,
        error=held.error or None,
    )


async def explain(desk: Desk, request: Request) -> Said:
    """A dry run: who could take such a job now, and for each other node the reason why not."""
    query = request.query
    options = Options(
        require_tts=query.get("require_tts") == "true",
        preferred_node_id=query.get("preferred_node_id"),
        strict=query.get("strict") == "true",
    )
    return await explain_pair(
        desk.engine,
        desk.directory.cells,
        query["src"],
        query["tgt"],
        wanted=wanted_of(options, services_of(None, options)),
        cursor=query.get("cursor", ""),
        count=int(query.get("limit", "200")),
    )


def _intending(flow: Intend, command: Command | None = None) -> Handle:
    """The handler of what an operator wants of a node; a node with a socket is told."""

    async def handle(desk: Desk, request: Request) -> Said:
        node_id = request.named["node_id"]
        intended = await desk.directory.at_home(node_id, lambda cell: flow(desk.engine, cell, node_id))
        if isinstance(intended, Refusal):
            return intended
        link = desk.links.get(node_id)
        if command is not None and link is not None:
            link.control(command)
        elif command is not None:
            await desk.neighbours.tell_holder(node_id, "", Letter("control", node=node_id, detail=command))
        return IntentAnswer(ok=True, node_id=node_id, intent=intended.intent)

    return handle


async def set_max(desk: Desk, request: Request) -> Said:
    """How many jobs the operator lets the node have at once, whatever it says itself; null: as it says."""
    said: MaxRequest = request.message
    node_id = request.named["node_id"]
    most = said.max_concurrent_jobs
    limited = await desk.directory.at_home(node_id, lambda cell: limit(desk.engine, cell, node_id, most))
    if isinstance(limited, Refusal):
        return limited
    return MaxAnswer(ok=True, node_id=node_id, max_concurrent_jobs=limited.max_concurrent_jobs)


def _max_in_words(said: MaxRequest) -> str:
    most = said.max_concurrent_jobs
    return "as many jobs at once as it says" if most is None else f"at most {most} jobs at once"


async def offer(desk: Desk, request: Request) -> Said:
    """A pairing code for a node."""
    node_id = request.named["node_id"]
    code = await offer_pairing(desk.directory, node_id)
    if isinstance(code, Refusal):
        return code
    return PairingAnswer(node_id=node_id, pairing_code=code, expires_in_ms=desk.settings.nodes.pairing_ttl_ms)


def _get(path: str, handle: Handle, summary: str, answers: type[msgspec.Struct], **more: Any) -> Route:  # noqa: ANN401
    return Route("GET", path, "admin", handle, summary, answers=answers, tag="fleet", **more)


def _act(action: str, handle: Handle, summary: str, answers: type[msgspec.Struct], **more: Any) -> Route:  # noqa: ANN401
    path, act = f"/v1/nodes/{{node_id}}/{action}", {"max": "set_max", "pairing": "pair"}.get(action, action)
    return Route(
        "POST",
        path,
        "admin",
        handle,
        summary,
        answers=answers,
        refuses=("UNKNOWN_NODE",),
        tag="fleet",
        act=act,
        acts_on="node_id",
        **more,
    )


ROUTES: Final = (
    _get(
        "/v1/nodes",
        list_nodes,
        "A page of nodes.",
        NodesAnswer,
        query=(LIMIT, CURSOR, Query("standing", f"Only those that stand so: {', '.join(Standing.__members__)}.")),
    ),
    _get("/v1/nodes/{node_id}", show_node, "Everything known of a node.", NodeAnswer, refuses=("UNKNOWN_NODE",)),
    _get(
        "/v1/pools",
        list_pools,
        "A page of the pairs that somebody serves.",
        PoolsAnswer,
        query=(
            LIMIT,
            CURSOR,
            Query("src", "Only those of this source."),
            Query("tgt", "Only those of this target; a pair that has every target is one."),
        ),
    ),
    _get("/v1/pools/{src}/{tgt}", show_pool, "One pair.", PoolAnswer, refuses=("UNKNOWN_POOL",)),
    _get(
        "/api/v1/stats",
        show_stats,
        "The fleet in numbers, a few seconds old.",
        StatsAnswer,
        query=(Query("fresh", "Look now, if nobody has asked for that within half a minute.", bool),),
    ),
    _get("/api/v1/history", show_history, "How the fleet was in the last hour.", HistoryAnswer),
    _get(
        "/api/v1/events",
        list_events,
        "What happened to the fleet, the oldest first.",
        EventsAnswer,
        query=(
            Query("after", "Only what came after this event; without it, the last ones."),
            Query("limit", "How many at most.", int, least=1, most=MAX_KEPT),
            Query("about", "Only what happened to this node, pair, instance, job or letter."),
        ),
    ),
    _get("/api/v1/catalog", show_catalog, "Which services nodes may install.", CatalogAnswer, asks_engine=False),
    _get(
        "/v1/explain",
        explain,
        "Who could take a job now, and why the others could not.",
        Explanation,
        query=(
            Query("src", "The language that is spoken.", required=True),
            Query("tgt", "The language that is wanted.", required=True),
            Query("require_tts", "The result is spoken too.", bool),
            Query("preferred_node_id", "The node that is asked first."),
            Query("strict", "That node or none.", bool),
            CURSOR,
            LIMIT,
        ),
    ),
    _act("drain", _intending(drain, "drain"), "No new jobs for this node.", IntentAnswer),
    _act("resume", _intending(resume, "resume"), "It may have jobs again.", IntentAnswer),
    _act("evict", _intending(evict), "Its jobs go to others at once, and it gets no more.", IntentAnswer),
    _act("max", set_max, "How many jobs it may have at once.", MaxAnswer, reads=read_max, acts_with=_max_in_words),
    _act("pairing", offer, "Six digits that stand for it, for a while.", PairingAnswer),
)
