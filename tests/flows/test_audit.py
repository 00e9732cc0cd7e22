"""The auditor finds what is wrong, and nothing else: every violation is planted in a healthy cell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.audit import audit_cell
from lingua_scheduler.core.records import JobRecord, NodeRecord, Record
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.done import done
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.views.audit import OVERDUE_MS, audit, audit_whole
from tests.support.stage import T0, A, B, C, D, bring, code_of, join, place
from tests.support.world import CELL, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.servers import Server

LEASE = f"n1:{A}:1"
FENCED = f"n1:{C}:1"


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    """A, B under way on n1, C in limbo there, D finished on n2; nobody checks it at the end."""
    world = World()
    await world.open(server.url)
    await join(world, "n1", max_concurrent_jobs=4)
    await bring(world, "DISPATCHED", A, body="text")
    await bring(world, "RUNNING", B)
    await bring(world, "CANCELLED", C)
    await join(world, "n2", max_concurrent_jobs=1, tts_langs=["zh"])
    await bring(world, "FINISHED", D, seed=2**31)
    await world.check()
    yield world
    await world.close()


async def command(world: World, name: str, key: str, *rest: str | int | bytes) -> None:
    await world.engine.command(name, cell_key(world.engine.prefix, CELL, key), *rest)


async def rewrite(world: World, key: str, member: str, kind: type[Record], **fields: Any) -> None:
    """Change fields of a record, as nobody should."""
    full = cell_key(world.engine.prefix, CELL, key)
    record = msgspec.msgpack.decode(await world.engine.command("HGET", full, member), type=kind)
    await world.engine.command("HSET", full, member, msgspec.msgpack.encode(msgspec.structs.replace(record, **fields)))


def plant(name: str, key: str, *rest: str | int | bytes) -> Callable[[World], Awaitable[None]]:
    return lambda world: command(world, name, key, *rest)


def copy(key: str, member: str, other: str) -> Callable[[World], Awaitable[None]]:
    async def deed(world: World) -> None:
        value = await world.engine.command("HGET", cell_key(world.engine.prefix, CELL, key), member)
        await command(world, "HSET", key, other, value)

    return deed


def node(node_id: str, **fields: Any) -> Callable[[World], Awaitable[None]]:
    return lambda world: rewrite(world, "nodes", node_id, NodeRecord, **fields)


def job(job_id: str, **fields: Any) -> Callable[[World], Awaitable[None]]:
    return lambda world: rewrite(world, "jobs", job_id, JobRecord, **fields)


async def test_a_healthy_cell_has_no_violations(world: World) -> None:
    assert await audit_whole(world.engine, CELL) == []
    assert await audit(world.engine, CELL) == []


#: What is planted, and (invariant, subject) of what must be found. The last column: also by the paged audit.
PLANTED: list[tuple[str, list[Callable[[World], Awaitable[None]]], set[tuple[str, str]], bool]] = [
    ("more leases than a node may have", [node("n1", ceiling=2)], {("S1", "n1")}, True),
    (
        "a full node that can be chosen",
        [node("n1", max=3, ceiling=3)],
        {("S1", "n1")},
        True,
    ),
    ("a wrong number of slots", [node("n1", used=2)], {("S3", "n1")}, True),
    ("a wrong number in limbo", [node("n1", limbo=0)], {("S3", "n1")}, True),
    ("a wrong place in the index", [plant("ZADD", "standing", 17, "n1")], {("S3", "n1")}, True),
    (
        "a current attempt that is fenced",
        [
            plant("HSET", "limbo", LEASE, T0),
            plant("ZADD", "due", T0 + 60_000, f"l:{LEASE}"),
            node("n1", limbo=2),
        ],
        {("S2", LEASE)},
        True,
    ),
    (
        "an attempt that is over and not fenced",
        [plant("HDEL", "limbo", FENCED), plant("ZREM", "due", f"l:{FENCED}"), node("n1", limbo=0)],
        {("S2", FENCED)},
        True,
    ),
    ("an attempt under another epoch", [job(A, epoch="0-x")], {("S2", LEASE)}, True),
    (
        "a lease of a node that is not there",
        [plant("ZADD", "leases", 0, "n9:c0.x:1")],
        {("S2", "n9:c0.x:1")},
        False,
    ),
    (
        "a limbo without its lease",
        [plant("HSET", "limbo", "n1:c0.x:1", T0), plant("ZADD", "due", T0 + 60_000, "l:n1:c0.x:1")],
        {("S2", "n1:c0.x:1")},
        False,
    ),
    (
        "a job without its lease",
        [plant("ZREM", "leases", LEASE), node("n1", used=2)],
        {("S2", A)},
        False,
    ),
    (
        "an attempt on two nodes",
        [
            plant("ZADD", "leases", 0, f"n2:{A}:1"),
            node("n2", used=1, standing=1),
            plant("ZADD", "standing", 33, "n2"),
            plant("HDEL", "room", 2),
        ],
        {("S2", f"n2:{A}:1"), ("S2", f"{A}:1")},
        False,
    ),
    ("too much room", [plant("HSET", "room", 1, 2)], {("S3", "group 1")}, False),
    ("no room where there is some", [plant("HDEL", "room", 1)], {("S3", "group 1")}, False),
    ("room of a group that is not there", [plant("HSET", "room", 9, 1)], {("S3", "group 9")}, False),
    (
        "somebody unknown in the index",
        [plant("ZADD", "standing", 16, "n9")],
        {("S3", "standing")},
        False,
    ),
    (
        "somebody missing in the index",
        [plant("ZREM", "standing", "n1")],
        {("S3", "standing"), ("S3", "n1")},
        False,
    ),
    (
        "a pair that nobody serves",
        [plant("HSET", "pairs", "de:fr", b"\x91\x01")],
        {("S3", "pairs")},
        False,
    ),
    ("a pair that was forgotten", [plant("HDEL", "pairs", "en:zh")], {("S3", "pairs")}, False),
    (
        "a signature that leads nowhere",
        [plant("HSET", "signatures", "x", 7)],
        {("S3", "signatures")},
        False,
    ),
    ("a job that was not counted", [plant("HINCRBY", "counts", "accepted", -1)], {("S6", "jobs")}, False),
    (
        "an end that was not counted",
        [plant("HINCRBY", "counts", "FINISHED", -1)],
        {("S6", "jobs"), ("S5", "FINISHED")},
        False,
    ),
    ("an end without its time", [job(D, ended_at_ms=0)], {("S5", D)}, False),
    ("a time without its end", [job(A, ended_at_ms=T0)], {("S5", A)}, False),
    ("a job looked at after its ack is due", [plant("ZADD", "due", T0 + 5_001, f"j:{A}")], {("S4", A)}, False),
    ("a job looked at after its run is over", [plant("ZADD", "due", T0 + 30_001, f"j:{B}")], {("S4", B)}, False),
    ("a job that nobody looks at", [plant("ZREM", "due", f"j:{A}")], {("S16", f"j:{A}")}, False),
    ("an ended job that nobody looks at", [plant("ZREM", "due", f"j:{D}")], {("S16", f"j:{D}")}, False),
    ("a node that nobody looks at", [plant("ZREM", "due", "n:n1")], {("S16", "n:n1")}, False),
    ("a limbo that nobody looks at", [plant("ZREM", "due", f"l:{FENCED}")], {("S16", f"l:{FENCED}")}, False),
    ("something due that is not there", [plant("ZADD", "due", T0, "j:c0.x")], {("S16", "j:c0.x")}, False),
    ("a limbo due that is not there", [plant("ZADD", "due", T0, "l:n1:c0.x:1")], {("S16", "l:n1:c0.x:1")}, False),
    ("a job without its ticket", [plant("HDEL", "tickets", D)], {("S16", D)}, False),
    ("a job under way without its ticket", [plant("HDEL", "tickets", A)], {("S16", A)}, False),
    ("a ticket without its job", [copy("tickets", A, "c0.x")], {("S16", "c0.x")}, False),
    ("text of a job that is gone", [plant("HSET", "bodies", "c0.x:result", "")], {("S16", "c0.x:result")}, False),
    ("a profile without its node", [copy("profiles", "n1", "n9")], {("S16", "n9")}, False),
    ("a node without its profile", [plant("HDEL", "profiles", "n1")], {("S16", "n1")}, False),
]


@pytest.mark.parametrize(("deeds", "found", "paged"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
async def test_exactly_the_planted_violation_is_found(
    world: World, deeds: list[Callable[[World], Awaitable[None]]], found: set[tuple[str, str]], paged: bool
) -> None:
    for deed in deeds:
        await deed(world)
    violations = await audit_whole(world.engine, CELL)
    assert {(violation.invariant, violation.subject) for violation in violations} == found
    if paged:
        assert await audit(world.engine, CELL) == violations


async def test_nothing_is_counted_down_without_a_successful_removal(world: World) -> None:
    """S3: whoever lost the lease, a result does not free a slot a second time."""
    await command(world, "ZREM", "leases", LEASE)
    before = (await world.cell()).nodes["n1"].used
    await done(world.engine, A, 1, "n1")
    assert (await world.cell()).nodes["n1"].used == before


async def test_what_is_due_for_longer_than_a_sweep_may_take_is_found(world: World) -> None:
    world.now_ms = T0 + 5_000 + OVERDUE_MS
    assert await audit_whole(world.engine, CELL) == []
    world.now_ms += 1
    violations = await audit_whole(world.engine, CELL)
    assert [(violation.invariant, violation.subject) for violation in violations] == [("S4", f"j:{A}")]


async def test_a_cut_off_node_s_limbo_need_not_be_looked_at_again(world: World) -> None:
    await rewrite(world, "nodes", "n1", NodeRecord, cut_off=1)
    assert await audit_whole(world.engine, CELL) == []
    await command(world, "ZREM", "due", f"l:{FENCED}")
    assert await audit_whole(world.engine, CELL) == []


async def test_pages_together_find_what_is_wrong_with_any_node(world: World) -> None:
    """The engine cuts a hash in pages once a record in it is long."""
    await asyncio.gather(*(join(world, f"m{number}", nonce="x" * 100) for number in range(100)))
    await rewrite(world, "nodes", "m7", NodeRecord, used=1)
    await rewrite(world, "nodes", "m99", NodeRecord, limbo=1)
    violations = await audit(world.engine, CELL, count=10)
    assert not isinstance(violations, Refusal)
    assert {violation.subject for violation in violations} == {"m7", "m99"}


async def test_an_audit_of_no_cell_is_refused(world: World) -> None:
    assert code_of(await audit(world.engine, "C")) == "INVALID_MESSAGE"


async def test_the_same_code_judges_a_page_and_a_cell(world: World) -> None:
    await place(world, "c0.e", seed=0)
    await rewrite(world, "nodes", "n1", NodeRecord, used=9, limbo=9, ceiling=0)
    whole = [violation for violation in audit_cell(await world.cell(), OVERDUE_MS) if violation.subject == "n1"]
    assert await audit(world.engine, CELL) == whole
    assert len(whole) == 4
