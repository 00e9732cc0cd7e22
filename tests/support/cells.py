"""What one call changed in a cell: what a test names must be so, and nothing else may have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from lingua_scheduler.core.audit import audit_cell
from lingua_scheduler.core.records import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.core.records import JobRecord, NodeRecord
    from tests.support.world import World

    Changes = dict[str, dict[Any, Any]]

T = TypeVar("T")

#: It was there before the call, and is not any more.
GONE: Final = "GONE"
#: A lease in the ledger, a place in the queue; being there is all it says.
HELD: Final = "HELD"
#: A sweep may be as late as it likes: tests set the clock and sweep when they want to.
ANY_TIME_MS: Final = 10**12


def changed(before: Cell, after: Cell, *, judged: bool = False) -> Changes:
    """Key by key what differs. Of a record that was there before, only the fields that changed.

    What is only counted (`attempt.lost`, `refused.full`, …) is left to `test_counts` and to the model; why a node was
    chosen to `test_explain` and the model; and of the lines in which a job stands only that of its pair is shown, for
    the auditor compares all of them. By what a node is remembered (its last jobs, its acks, how often it was gone) is
    shown to those who ask for it.
    """
    old, new = _keys(before), _keys(after)
    if not judged:
        old["nodes"], new["nodes"] = _unjudged(before), _unjudged(after)
    found = {name: _difference(old[name], new[name]) for name in old}
    for name in [name for name in found["counts"] if "." in name]:
        del found["counts"][name]
    return {name: entries for name, entries in found.items() if entries}


def same(one: Cell, other: Cell) -> bool:
    """The two hold the same in every key, whatever the time is."""
    return not changed(one, other)


def together(*parts: Changes) -> Changes:
    """All these changes at once."""
    found: Changes = {}
    for part in parts:
        for key, entries in part.items():
            found[key] = found.get(key, {}) | entries
    return found


async def watch(world: World, call: Awaitable[T], *, judged: bool = False) -> tuple[T, Changes]:
    """Make one call; what it answered, and all that it changed. No invariant may break on the way."""
    before = await world.cell()
    answer = await call
    after = await world.cell()
    broken = list(audit_cell(after, ANY_TIME_MS))
    assert not broken, broken
    return answer, changed(before, after, judged=judged)


def _keys(cell: Cell) -> dict[str, dict[Any, Any]]:
    keys = {name: value for name, value in msgspec.structs.asdict(cell).items() if name != "now_ms"}
    places = [place for place in cell.queue if place.startswith("w")]
    held = {"leases": dict.fromkeys(cell.leases, HELD), "queue": dict.fromkeys(places, HELD)}
    jobs = {job_id: _without_choices(job) for job_id, job in cell.jobs.items()}
    return keys | held | {"outbox": dict(cell.outbox), "jobs": jobs}


def _unjudged(cell: Cell) -> dict[str, NodeRecord]:
    nothing = {"recent": 0, "ack_ms": 0, "typical_ms": 0, "flaps": 0, "flapped_at_ms": 0}
    return {node_id: msgspec.structs.replace(node, **nothing) for node_id, node in cell.nodes.items()}


def _without_choices(job: JobRecord) -> JobRecord:
    nothing = {"chosen": 0, "reasons": [], "reserved_at_ms": 0}
    nothing |= {"dispatched_at_ms": 0, "accepted_at_ms": 0, "started_at_ms": 0}
    plain = [msgspec.structs.replace(past, **nothing) for past in job.past.attempts]
    past = msgspec.structs.replace(job.past, attempts=plain, reasons=[])
    return msgspec.structs.replace(job, chosen=0, past=past)


def _difference(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {member: GONE for member in old if member not in new}
    for member, value in new.items():
        if member not in old:
            found[member] = value
        elif value != old[member]:
            found[member] = _fields(old[member], value) if isinstance(value, Record) else value
    return found


def _fields(old: Record, new: Record) -> dict[str, Any]:
    was = msgspec.structs.asdict(old)
    return {name: value for name, value in msgspec.structs.asdict(new).items() if value != was[name]}
