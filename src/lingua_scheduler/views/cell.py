"""cell: everything in a cell at one instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.ids import check_cell
from lingua_scheduler.core.records import Event, GroupRecord, Guest, Intent, JobRecord, NodeRecord, Profile, Ticket, Way
from lingua_scheduler.core.refusal import Invalid, Refusal
from lingua_scheduler.store.scripts import script

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class _Packed(msgspec.Struct, array_like=True, frozen=True):
    now_ms: int
    nodes: list[tuple[str, NodeRecord]]
    profiles: list[tuple[str, Profile]]
    standing: list[tuple[str, int]]
    room: list[tuple[str, str]]
    groups: list[tuple[str, GroupRecord]]
    signatures: list[tuple[str, str]]
    pairs: list[tuple[str, list[int]]]
    ends: list[tuple[str, str]]
    intents: list[tuple[str, Intent]]
    departed: list[tuple[str, str]]
    jobs: list[tuple[str, JobRecord]]
    tickets: list[tuple[str, Ticket]]
    ways: list[tuple[str, Way]]
    bodies: list[tuple[str, str]]
    guests: list[tuple[str, Guest]]
    leases: list[tuple[str, int]]
    limbo: list[tuple[str, str]]
    queue: list[str]
    due: list[tuple[str, int]]
    outbox: list[tuple[Event, int]]
    counts: list[tuple[str, str]]


_CELL: Final = script("views/cell")
_decode: Final = msgspec.msgpack.Decoder(_Packed).decode


async def read_cell(engine: Engine, cell: str) -> Cell | Refusal:
    """Read the whole cell atomically."""
    try:
        cell = check_cell(cell)
    except Invalid as invalid:
        return invalid.refusal
    packed = _decode(await engine.run(_CELL, cell, (b"\x90",)))
    return Cell(
        now_ms=packed.now_ms,
        nodes=dict(packed.nodes),
        profiles=dict(packed.profiles),
        standing=dict(packed.standing),
        room={int(group): int(number) for group, number in packed.room},
        groups={int(group): record for group, record in packed.groups},
        signatures={signature: int(group) for signature, group in packed.signatures},
        pairs=dict(packed.pairs),
        ends={name: int(number) for name, number in packed.ends},
        intents=dict(packed.intents),
        departed={node_id: int(stamp) for node_id, stamp in packed.departed},
        jobs=dict(packed.jobs),
        tickets=dict(packed.tickets),
        ways=dict(packed.ways),
        bodies=dict(packed.bodies),
        guests=dict(packed.guests),
        leases=[member for member, _ in packed.leases],
        limbo={lease: int(fenced_at) for lease, fenced_at in packed.limbo},
        queue=packed.queue,
        due=dict(packed.due),
        outbox=packed.outbox,
        counts={name: int(number) for name, number in packed.counts},
    )
