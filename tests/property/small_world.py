"""Two nodes as they really are, beside what the scheduler believes: which processes live, what they work on.

`moves` gives all that can happen next. Each move is one call of a flow, or none, and what it does to the real world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from lingua_scheduler.core.capability import capability
from lingua_scheduler.core.health import is_suspect
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.needs import USUAL, needs_of
from lingua_scheduler.core.records import FORGET_FROM, Standing, Ticket
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.face import pack
from tests.property.snapshot import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.records import NodeRecord

JOBS: Final = ("c0.1", "c0.2", "c0.3")

#: All lengths of time are whole ticks, so that few moments differ; a tick is a whole number of tenths of the window for
#: flaps, which are counted by the calendar, so that it does not matter when it is.
TICK_MS: Final = 1_000
RULES: Final = Rules(
    limbo_ttl_ms=3 * TICK_MS,
    stale_ms=6 * TICK_MS,
    offline_ms=8 * TICK_MS,
    node_record_ttl_ms=20 * TICK_MS,
    result_ttl_ms=30 * TICK_MS,
    job_record_ttl_ms=40 * TICK_MS,
    released_ttl_ms=10 * TICK_MS,
    reconnect_grace_ms=TICK_MS,
    handover_grace_ms=2 * TICK_MS,
    ping_interval_ms=TICK_MS,
    confirm_after_ms=TICK_MS,
    rest_ms=TICK_MS,
    max_rest_ms=2 * TICK_MS,
    probe_ms=2 * TICK_MS,
    flap_window_ms=5 * TICK_MS,
    max_undelivered=1,
    max_overloaded=1,
    max_lost=2,
)
ACK_MS, RUN_MS, TIMEOUT_MS, MAX_RETRY = TICK_MS, 2 * TICK_MS, 5 * TICK_MS, 1

_WORD, _ = capability(semantic_langs=["zh", "en"])


def _seed_for(first: int) -> int:
    """A seed whose first draw out of two is `first`."""
    return next(seed for seed in range(10_000) if (seed * 1664525 + 1013904223) % 2**32 // 2**31 == first)


SEEDS: Final = (_seed_for(0), _seed_for(1))

Attempt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Box:
    """A machine with a node's process on it. `work` is what it is really at, `max` its own word on its slots."""

    name: str
    max: int
    legacy: bool = False
    up: bool = True
    connected: bool = True
    epoch: str = ""
    process: int = 1
    connection: int = 1
    work: frozenset[Attempt] = frozenset()
    #: How many slots may be taken: as many as it has, or those that were taken when it lowered its word and still are.
    bound: int = 0
    #: It could not tell and was given the benefit of the doubt: nobody knows any more what it is at.
    forgiven: bool = False

    @property
    def told(self) -> str:
        """The epoch that its messages carry."""
        return "" if self.legacy else self.epoch


@dataclass(frozen=True, slots=True)
class Fleet:
    """The real world: the machines, which assignments have left, and a result that is still under way."""

    boxes: tuple[Box, ...]
    written: frozenset[str] = frozenset()
    mail: tuple[str, Attempt, str] | None = None

    def box(self, name: str) -> Box:
        return next(box for box in self.boxes if box.name == name)

    def with_box(self, box: Box) -> Fleet:
        return replace(self, boxes=tuple(box if box.name == each.name else each for each in self.boxes))


class Move(NamedTuple):
    """Something that happens: `flow` is called with `parts` (or nobody is told), and the world is `fleet` then."""

    name: str
    flow: str
    parts: tuple[bytes, ...]
    fleet: Fleet
    after_ms: int = 0
    job: str = ""


def lease_of(node: str, attempt: Attempt) -> str:
    return f"{node}:{attempt[0]}:{attempt[1]}"


def stands(node: NodeRecord) -> Standing:
    """Whether a node can be chosen, from nothing but the facts in its record."""
    doubtful = is_suspect(node) and (node.used > 0 or node.probe_at_ms > NOW_MS)
    reasons = {
        Standing.lost: node.lost_at_ms > 0,
        Standing.not_ready: node.away_until_ms > 0 and not node.unheard,
        Standing.stale: node.unheard or NOW_MS - node.seen_at_ms >= RULES.stale_ms,
        Standing.draining: node.intent != "active",
        Standing.resting: node.rest_until_ms > NOW_MS,
        Standing.suspect_full: doubtful and node.used >= node.max,
        Standing.suspect: doubtful,
        Standing.full: node.used >= node.max,
    }
    found = next((standing for standing, holds in reasons.items() if holds), Standing.available)
    unable = node.reported != "ready" or node.cut_off
    return Standing.not_ready if unable and found not in {Standing.lost, Standing.stale, Standing.draining} else found


def moves(cell: Cell, fleet: Fleet, only: frozenset[str]) -> Iterator[Move]:
    """All that can happen, of the kinds in `only`: a kind is the first word of a move's name."""
    for move in _moves(cell, fleet):
        if move.name.split(" ", 1)[0] in only:
            yield move


def _moves(cell: Cell, fleet: Fleet) -> Iterator[Move]:
    yield from _time(cell, fleet)
    yield from _dispatches(cell, fleet)
    for job_id, job in cell.jobs.items():
        if job.state not in ENDS:
            yield Move(f"cancel {job_id}", "cancel", (pack((job_id, 0, "cancelled")),), fleet)
    for lease in cell.leases:
        if lease not in fleet.written:
            yield from _offers(cell, fleet, lease)
    for box in fleet.boxes:
        for attempt in sorted(box.work):
            yield from _messages(cell, fleet, box, attempt)
        yield from _lives(fleet, box)
        if box.name in cell.nodes:
            yield from _intents(cell, fleet, box)
    if fleet.mail:
        node, attempt, epoch = fleet.mail
        yield _done(f"arrive {node} {_named(attempt)}", replace(fleet, mail=None), node, attempt, epoch)


def _next_moment(cell: Cell) -> int:
    return min(at % FORGET_FROM for at in cell.due.values())


def _time(cell: Cell, fleet: Fleet) -> Iterator[Move]:
    """Time passes to the next moment at which something is due, and somebody sweeps; or only a little."""
    if cell.due:
        after_ms = max(0, _next_moment(cell) - NOW_MS)
        yield Move(f"time +{after_ms // TICK_MS}", "reap", (pack((100,)),), fleet, after_ms)
        if after_ms > TICK_MS:
            yield Move("tick +1", "reap", (pack((100,)),), fleet, TICK_MS)


def _dispatches(cell: Cell, fleet: Fleet) -> Iterator[Move]:
    """The next job comes; where the draw decides, once for each outcome. Or it comes late, before any sweep."""
    job_id = next((job_id for job_id in JOBS if job_id not in cell.jobs), None)
    if job_id is None:
        return
    free = [node.used / node.max for node in cell.nodes.values() if node.standing == Standing.available]
    for seed in SEEDS if len(free) > 1 and min(free) == max(free) else SEEDS[:1]:
        ticket = Ticket(
            job_id, "s", 0, "zh:en", "", ACK_MS, RUN_MS, TIMEOUT_MS, MAX_RETRY, seed, "", needs_of(USUAL), 0, 0, []
        )
        yield Move(f"dispatch {job_id} {seed}", "dispatch", (pack(ticket), b"text"), fleet, job=job_id)
    patient = msgspec.structs.replace(ticket, wait_ms=2 * TICK_MS)
    yield Move(f"wait {job_id}", "dispatch", (pack(patient), b"text"), fleet, job=job_id)
    if cell.due and _next_moment(cell) > NOW_MS:
        after_ms = _next_moment(cell) - NOW_MS
        name = f"late-dispatch {job_id} +{after_ms // TICK_MS}"
        yield Move(name, "dispatch", (pack(ticket), b"text"), fleet, after_ms, job_id)


def _offers(cell: Cell, fleet: Fleet, lease: str) -> Iterator[Move]:
    """The assignment leaves for its node, or cannot; late, perhaps, when the attempt is fenced already.

    How late is bounded: nothing is under way for longer than `confirm_after_ms`.
    """
    node, job_id, number = lease.split(":")
    attempt, box = (job_id, int(number)), fleet.box(node)
    fenced = lease in cell.limbo
    if fenced and NOW_MS - cell.limbo[lease] >= RULES.confirm_after_ms:
        return
    gone = replace(fleet, written=fleet.written | {lease})
    item = (job_id, int(number), node, cell.nodes[node].epoch)
    if box.up and box.connected and box.epoch == cell.nodes[node].epoch:
        there = gone.with_box(replace(box, work=box.work | {attempt}))
        yield Move(f"{'late-send' if fenced else 'send'} {lease}", "deliver", (pack(item),), there)
        if not fenced:
            yield Move(f"write {lease}", "", (), there)
            yield Move(f"lose {lease}", "deliver", (pack(item),), gone)
    if not fenced:
        yield Move(f"unsent {lease}", "undeliver", (pack(item),), gone)


def _messages(cell: Cell, fleet: Fleet, box: Box, attempt: Attempt) -> Iterator[Move]:
    """What a node says of an attempt that it is really at."""
    name = f"{box.name} {_named(attempt)}"
    idle = fleet.with_box(replace(box, work=box.work - {attempt}))
    if box.connected:
        item = (*attempt, box.name, box.told)
        fenced = lease_of(box.name, attempt) in cell.limbo
        yield Move(f"ack {name}", "ack", (pack(item),), fleet)
        yield _done(f"done {name}", idle, box.name, attempt, box.told)
        yield Move(f"stopped {name}", "stopped", (pack(item),), idle)
        yield Move(f"fail {name}", "fail", (pack((*item, "failed", False, 0)),), idle)
        if not fenced:
            yield Move(f"started {name}", "started", (pack(item),), fleet)
            yield Move(f"overloaded {name}", "fail", (pack((*item, "overloaded", True, 0)),), idle)
    if fleet.mail is None:
        yield Move(f"finish {name}", "", (), replace(idle, mail=(box.name, attempt, box.told)))


def _done(name: str, fleet: Fleet, node: str, attempt: Attempt, epoch: str) -> Move:
    return Move(name, "done", (pack((*attempt, node, epoch, RULES.result_ttl_ms, 0)), b"text"), fleet)


def _lives(fleet: Fleet, box: Box) -> Iterator[Move]:
    """Processes die and come back, sockets close and open."""
    name = box.name
    closed = (pack((name, f"{name}{box.connection}", "closed")),)
    without = fleet.with_box(replace(box, up=False, connected=False, work=frozenset()))
    fresh = replace(box, connected=True, connection=box.connection + 1)
    if box.up:
        yield Move(f"crash {name}", "disconnect" if box.connected else "", closed if box.connected else (), without)
    reborn = replace(fresh, up=True, process=box.process + 1, work=frozenset())
    yield Move(f"restart {name}", "register", (_word(replace(reborn, epoch="")),), fleet.with_box(reborn))
    if box.up and box.connected:
        yield Move(f"drop {name}", "disconnect", closed, fleet.with_box(replace(box, connected=False)))
        for word, how in (("hang-up", "handover"), ("give-up", "unheard")):
            hung_up = (pack((name, f"{name}{box.connection}", how)),)
            yield Move(f"{word} {name}", "disconnect", hung_up, fleet.with_box(replace(box, connected=False)))
        yield Move(
            f"beat {name}",
            "heartbeat",
            (pack((name, box.told, _running(box), f"{name}{box.connection}", 0)), b""),
            fleet,
        )
        for word, slots in (("lower", box.max - 1), ("raise", box.max + 1)):
            if 1 <= slots <= 2 and name == "B":
                beat = (pack((name, box.told, {"max": slots}, "", 0)), b"")
                yield Move(f"{word} {name}", "heartbeat", beat, fleet.with_box(replace(box, max=slots)))
        yield Move(f"leave {name}", "leave", (pack((name, box.told)),), without)
    if box.up:
        kind = "rejoin" if box.connected else "return"
        yield Move(f"{kind} {name}", "register", (_word(fresh),), fleet.with_box(fresh))


def _intents(cell: Cell, fleet: Fleet, box: Box) -> Iterator[Move]:
    """What the operator wants."""
    name = box.name
    if cell.nodes[name].intent == "active":
        yield Move(f"drain {name}", "drain", (pack((name,)),), fleet)
        yield Move(f"evict {name}", "evict", (pack((name,)),), fleet)
    else:
        yield Move(f"resume {name}", "resume", (pack((name,)),), fleet)
    if name == "B":
        word, slots = ("free", 0) if cell.nodes[name].limit else ("limit", 1)
        yield Move(f"{word} {name}", "limit", (pack((name, slots)),), fleet)


def _running(box: Box) -> dict[str, object]:
    return {"running_jobs": len(box.work)} if box.legacy else {"running": sorted(box.work)}


def _word(box: Box) -> bytes:
    """A registration: the whole truth, or what a node from the field says of itself."""
    modern = not box.legacy
    process = f"p{box.process}" if modern else ""
    running = sorted(box.work) if modern else False
    connection = f"{box.name}{box.connection}"
    slots = (box.max, "ready", int(modern), int(modern))
    return pack((box.name, "", box.told, process, connection, *slots, "n", _WORD, running, "", "", 0, 0))


def _named(attempt: Attempt) -> str:
    return f"{attempt[0]}:{attempt[1]}"
