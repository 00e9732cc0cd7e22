"""The auditor finds what is wrong, and nothing else: every violation is planted in a healthy cell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.audit import Violation, audit_cell
from lingua_scheduler.core.needs import LACKS
from lingua_scheduler.core.records import (
    FORGET_FROM,
    GONE_FROM,
    GroupRecord,
    Intent,
    JobRecord,
    NodeRecord,
    Record,
    Standing,
    Ticket,
    Wishes,
)
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.views.audit import OVERDUE_MS, audit, audit_whole
from tests.support.stage import T0, A, B, C, D, bring, code_of, join, place, queued, signature, wait
from tests.support.world import CELL, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

Deed = Callable[[World], Awaitable[None]]
Found = set[tuple[str, str]]

LEASE = f"n1:{A}:1"
FENCED = f"n1:{C}:1"
E, F, W = f"{CELL}.e", f"{CELL}.f", f"{CELL}.w"
DEADLINE = T0 + 60_000


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    """A, B under way on n1, C in limbo there, D finished on n2, E and F lost their node, `old` was drained and left.

    W waits for its first node: the group 5 of `ill` could serve it. Nobody checks it at the end.
    """
    world = World()
    await world.open(server.url)
    await join(world, "n1", max_concurrent_jobs=4)
    await bring(world, "DISPATCHED", A, body="text")
    await bring(world, "RUNNING", B)
    await bring(world, "CANCELLED", C)
    await join(world, "n2", max_concurrent_jobs=1, tts_langs=["zh"])
    await bring(world, "FINISHED", D, seed=2**31)
    await wait(world, {E: 60_000}, "zh:en")
    await wait(world, {F: 60_000}, "yue:en")
    await join(world, "old", nmt_pairs=[])
    await drain(world.engine, CELL, "old")
    await leave(world.engine, CELL, "old")
    await join(world, "ill", semantic_langs=["de"], nmt_pairs=[["de", "en"]], health="degraded")
    await dispatch(world.engine, W, "s1", "de", "en", seed=1, wanted=Wanted(wait_ms=30_000))
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


def plant(name: str, key: str, *rest: str | int | bytes) -> Deed:
    return lambda world: command(world, name, key, *rest)


def copy(key: str, member: str, other: str) -> Deed:
    async def deed(world: World) -> None:
        value = await world.engine.command("HGET", cell_key(world.engine.prefix, CELL, key), member)
        await command(world, "HSET", key, other, value)

    return deed


def node(node_id: str, **fields: Any) -> Deed:
    return lambda world: rewrite(world, "nodes", node_id, NodeRecord, **fields)


def plant_node(node_id: str, **said: Any) -> Deed:
    async def deed(world: World) -> None:
        await join(world, node_id, **said)

    return deed


def named(violations: list[Violation] | Refusal) -> Found:
    assert not isinstance(violations, Refusal)
    return {(violation.invariant, violation.subject) for violation in violations}


def job(job_id: str, **fields: Any) -> Deed:
    return lambda world: rewrite(world, "jobs", job_id, JobRecord, **fields)


async def test_a_healthy_cell_has_no_violations(world: World) -> None:
    assert await audit_whole(world.engine, CELL) == []
    assert await audit(world.engine, CELL) == []


#: The groups of n1 and n2, of which the first is said to speak.
SPEAKING = msgspec.msgpack.encode([LACKS, 2 * LACKS])

#: Nothing of it is seen page by page.
NOT_PAGED: Found = set()


def at(line: str, job_id: str = W) -> str:
    """A place in a line."""
    return f"{line}:{DEADLINE:015}:{job_id}"


def waits_for(job_id: str, *lines: str, **asked: Any) -> list[Deed]:
    """Somebody who waits asked for something else, and stands where one stands for that."""

    async def deed(world: World) -> None:
        await rewrite(world, "jobs", f"{job_id}:ticket", Ticket, **asked)
        for member in (await world.cell()).queue:
            if member.endswith(job_id):
                await command(world, "ZREM", "queue", member)
        for line in lines:
            await command(world, "ZADD", "queue", 0, at(line, job_id))

    return [deed]


#: E asks for what n1 and n2 serve, who have room.
IN_VAIN = waits_for(E, "wen:zh", "x1", "x2", pair="en:zh")


#: What is planted, and (invariant, subject) of what must be found: in the whole cell, and page by page.
PLANTED: list[tuple[str, list[Deed], Found, Found]] = [
    ("more leases than a node may have", [node("n1", ceiling=2)], {("S1", "n1")}, {("S1", "n1")}),
    ("more slots than a node says", [node("n1", max=5)], {("S1", "n1")}, {("S1", "n1")}),
    ("fewer slots than a node says", [node("n1", own_max=5)], {("S1", "n1")}, {("S1", "n1")}),
    ("more slots than the operator wants", [node("n1", own_max=5, limit=3)], {("S1", "n1")}, {("S1", "n1")}),
    ("a limit that raises", [node("n1", max=5, limit=5)], {("S1", "n1")}, {("S1", "n1")}),
    ("a full node that can be chosen", [node("n1", max=3, own_max=3, ceiling=3)], {("S1", "n1")}, {("S1", "n1")}),
    ("a wrong number of slots", [node("n1", used=2)], {("S3", "n1")}, {("S3", "n1")}),
    ("a wrong number in limbo", [node("n1", limbo=0)], {("S3", "n1")}, {("S3", "n1")}),
    (
        "a wrong place in the index",
        [plant("ZADD", "standing", 16 + Standing.full, "n1")],
        {("S3", "n1")},
        {("S3", "n1"), ("S3", "group 1")},
    ),
    (
        "a current attempt that is fenced",
        [
            plant("HSET", "limbo", LEASE, T0),
            plant("ZADD", "due", T0 + 60_000, f"l:{LEASE}"),
            node("n1", limbo=2),
        ],
        {("S2", LEASE)},
        {("S2", LEASE)},
    ),
    (
        "an attempt that is over and not fenced",
        [plant("HDEL", "limbo", FENCED), plant("ZREM", "due", f"l:{FENCED}"), node("n1", limbo=0)],
        {("S2", FENCED)},
        {("S2", FENCED)},
    ),
    ("an attempt under another epoch", [job(A, epoch="0-x")], {("S2", LEASE)}, {("S2", LEASE)}),
    (
        "a lease of a node that is not there",
        [plant("ZADD", "leases", 0, "n9:c0.x:1")],
        {("S2", "n9:c0.x:1")},
        {("S2", "n9:c0.x:1")},
    ),
    (
        "a limbo without its lease",
        [plant("HSET", "limbo", "n1:c0.x:1", T0), plant("ZADD", "due", T0 + 60_000, "l:n1:c0.x:1")],
        {("S2", "n1:c0.x:1")},
        NOT_PAGED,
    ),
    (
        "a job without its lease",
        [plant("ZREM", "leases", LEASE), node("n1", used=2)],
        {("S2", A)},
        {("S2", A)},
    ),
    (
        "an attempt on two nodes",
        [
            plant("ZADD", "leases", 0, f"n2:{A}:1"),
            node("n2", used=1, standing=Standing.full),
            plant("ZADD", "standing", 32 + Standing.full, "n2"),
            plant("HDEL", "room", 2),
        ],
        {("S2", f"n2:{A}:1"), ("S2", f"{A}:1")},
        {("S2", f"n2:{A}:1")},
    ),
    ("too much room", [plant("HSET", "room", 1, 2)], {("S3", "group 1")}, {("S3", "group 1")}),
    ("no room where there is some", [plant("HDEL", "room", 1)], {("S3", "group 1")}, {("S3", "group 1")}),
    ("room of a group that is not there", [plant("HSET", "room", 9, 1)], {("S3", "group 9")}, NOT_PAGED),
    (
        "somebody unknown in the index",
        [plant("ZADD", "standing", 16, "n9")],
        {("S3", "standing")},
        {("S3", "group 1")},
    ),
    (
        "somebody missing in the index",
        [plant("ZREM", "standing", "n1")],
        {("S3", "standing"), ("S3", "n1")},
        {("S3", "n1"), ("S3", "group 1")},
    ),
    ("a pair that nobody serves", [plant("HSET", "pairs", "de:fr", b"\x91\x01")], {("S3", "pairs")}, NOT_PAGED),
    (
        "a pair whose nodes lack more",
        [plant("HSET", "pairs", "en:zh", SPEAKING)],
        {("S3", "pairs")},
        NOT_PAGED,
    ),
    ("a pair that was forgotten", [plant("HDEL", "pairs", "en:zh")], {("S3", "pairs")}, NOT_PAGED),
    ("a source that nobody takes", [plant("HSET", "ends", "fr:", 1)], {("S3", "ends")}, NOT_PAGED),
    ("a target that was miscounted", [plant("HINCRBY", "ends", ":zh", 1)], {("S3", "ends")}, NOT_PAGED),
    ("a target that was forgotten", [plant("HDEL", "ends", ":zh")], {("S3", "ends")}, NOT_PAGED),
    ("a signature that leads nowhere", [plant("HSET", "signatures", "x", 7)], {("S3", "signatures")}, NOT_PAGED),
    (
        "a signature that leads to another group",
        [plant("HSET", "signatures", signature(["en:zh"]), 2)],
        {("S3", "group 1")},
        NOT_PAGED,
    ),
    (
        "a group with a voice that its nodes have not got",
        [lambda world: rewrite(world, "groups", "1", GroupRecord, tts=["zh"])],
        {("S3", "group 1")},
        NOT_PAGED,
    ),
    (
        "a group with labels that its nodes do not carry",
        [lambda world: rewrite(world, "groups", "1", GroupRecord, labels=[("at", "eu")])],
        {("S3", "group 1")},
        NOT_PAGED,
    ),
    (
        "a job that waits outside the queue",
        [plant("ZREM", "queue", at("wzh:en", E))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job in the queue that does not wait",
        [plant("ZADD", "queue", 0, at("wzh:en", A))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job that waits in two places",
        [plant("ZADD", "queue", 0, queued(E, T0, "zh:en"))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    ("a job missing in the line of a group", [plant("ZREM", "queue", at("g5"))], {("S3", "queue")}, NOT_PAGED),
    (
        "a job in the wrong line of its group",
        [plant("ZREM", "queue", at("g5")), plant("ZADD", "queue", 0, at("x5"))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job in the line of a group that cannot serve it",
        [plant("ZADD", "queue", 0, at("g1"))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job in the line of a group that is not there",
        [plant("ZADD", "queue", 0, at("g9"))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job that excludes nodes in the line of those that do not",
        waits_for(W, "wde:en", "g5", wishes=[Wishes(excluded=["n1"])]),
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job that insists on a node in the line of its group",
        waits_for(W, "wde:en", "nill", "g5", wishes=[Wishes(named="ill", strict=1)]),
        {("S3", "queue")},
        NOT_PAGED,
    ),
    ("a job in the line of a node", [plant("ZADD", "queue", 0, at("nill"))], {("S3", "queue")}, NOT_PAGED),
    (
        "a job that names a node outside its line",
        waits_for(W, "wde:en", "g5", wishes=[Wishes(named="ill")]),
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job outside the list of its fallback",
        [plant("ZREM", "queue", at("fzh:en:yue:en", F))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    (
        "a job in the list of a fallback that it has not",
        [plant("ZADD", "queue", 0, at("fzh:en:yue:en", E))],
        {("S3", "queue")},
        NOT_PAGED,
    ),
    ("a job that waits while a node has room", IN_VAIN, {("L1", E)}, NOT_PAGED),
    (
        "a job that waits for its first node while another has room",
        waits_for(W, "wen:zh", "g1", "g2", pair="en:zh"),
        {("L1", W)},
        NOT_PAGED,
    ),
    (
        "a job that waits while a node for any target has room",
        [plant_node("n3", nmt_pairs=[["en", "*"]]), *waits_for(E, "wen:de", "x6", pair="en:de")],
        {("L1", E)},
        NOT_PAGED,
    ),
    (
        "a job that waits while a node of its fallback has room and nobody else lives",
        waits_for(F, "wyue:en", "fen:zh:yue:en", fallback="en:zh"),
        {("L1", F)},
        NOT_PAGED,
    ),
    (
        "a job that waits while the node on which it insists has room",
        waits_for(E, "wen:zh", "nn1", pair="en:zh", wishes=[Wishes(named="n1", strict=1)]),
        {("L1", E)},
        NOT_PAGED,
    ),
    (
        "a job that waits while one of two nodes that it does not exclude has room",
        waits_for(E, "wen:zh", "x1", "x2", pair="en:zh", wishes=[Wishes(excluded=["n1"])]),
        {("L1", E)},
        NOT_PAGED,
    ),
    ("a job that was not counted", [plant("HINCRBY", "counts", "accepted", -1)], {("S6", "jobs")}, NOT_PAGED),
    (
        "an end that was not counted",
        [plant("HINCRBY", "counts", "FINISHED", -1)],
        {("S6", "jobs"), ("S5", "FINISHED")},
        NOT_PAGED,
    ),
    ("an end without its time", [job(D, ended_at_ms=0)], {("S5", D)}, {("S2", D)}),
    ("a time without its end", [job(A, ended_at_ms=T0)], {("S5", A)}, NOT_PAGED),
    ("a job looked at after its ack is due", [plant("ZADD", "due", T0 + 5_001, f"j:{A}")], {("S4", A)}, NOT_PAGED),
    ("a job looked at after its run is over", [plant("ZADD", "due", T0 + 30_001, f"j:{B}")], {("S4", B)}, NOT_PAGED),
    (
        "a waiting job looked at after its deadline",
        [plant("ZADD", "due", T0 + 60_001, f"j:{E}")],
        {("S4", E)},
        NOT_PAGED,
    ),
    ("a job looked at after its wait is over", [plant("ZADD", "due", T0 + 30_001, f"j:{W}")], {("S4", W)}, NOT_PAGED),
    ("a job under way to be forgotten", [plant("ZADD", "due", FORGET_FROM + T0, f"j:{A}")], {("S4", A)}, NOT_PAGED),
    ("an ended job to be settled", [plant("ZADD", "due", T0, f"j:{D}")], {("S4", D)}, NOT_PAGED),
    (
        "a job that nobody looks at",
        [plant("ZREM", "due", f"j:{A}")],
        {("S4", LEASE), ("S16", f"j:{A}")},
        {("S4", LEASE), ("S16", A)},
    ),
    (
        "a waiting job that nobody looks at",
        [plant("ZREM", "due", f"j:{E}")],
        {("S16", f"j:{E}")},
        {("S16", E)},
    ),
    (
        "an ended job that nobody looks at",
        [plant("ZREM", "due", f"j:{D}")],
        {("S16", f"j:{D}")},
        {("S16", D)},
    ),
    (
        "a node that is here to be forgotten",
        [plant("ZADD", "due", GONE_FROM + T0 + 3_600_000, "n:n1")],
        {("S4", "n1")},
        NOT_PAGED,
    ),
    (
        "a lost node with work to be forgotten",
        [node("n1", lost_at_ms=T0), plant("ZADD", "due", GONE_FROM + T0 + 3_600_000, "n:n1")],
        {("S4", "n1")},
        NOT_PAGED,
    ),
    (
        "a node to be forgotten before the time for its confirmation is over",
        [plant("ZADD", "due", GONE_FROM + T0, "n:n1")],
        {("S4", "n1"), ("S4", FENCED)},
        NOT_PAGED,
    ),
    ("a node that nobody looks at", [plant("ZREM", "due", "n:n1")], {("S16", "n:n1")}, NOT_PAGED),
    (
        "a limbo that nobody looks at",
        [plant("ZREM", "due", f"l:{FENCED}")],
        {("S4", FENCED), ("S16", f"l:{FENCED}")},
        {("S4", FENCED)},
    ),
    (
        "a current attempt of a cut-off node that nobody looks at",
        [node("n1", cut_off=1), plant("ZREM", "due", f"j:{A}")],
        {("S4", LEASE), ("S16", f"j:{A}")},
        {("S4", LEASE), ("S16", A)},
    ),
    ("an intent that nobody looks at", [plant("ZREM", "due", "i:old")], {("S16", "i:old")}, NOT_PAGED),
    (
        "an intent of a node that is there",
        [
            plant("HSET", "intents", "n1", msgspec.msgpack.encode(Intent("draining", 0))),
            plant("ZADD", "due", FORGET_FROM + T0, "i:n1"),
        ],
        {("S16", "n1")},
        NOT_PAGED,
    ),
    ("something due that is not there", [plant("ZADD", "due", T0, "j:c0.x")], {("S16", "j:c0.x")}, NOT_PAGED),
    ("a limbo due that is not there", [plant("ZADD", "due", T0, "l:n1:c0.x:1")], {("S16", "l:n1:c0.x:1")}, NOT_PAGED),
    ("something due of no kind", [plant("ZADD", "due", T0, "w:zh:en")], {("S16", "w:zh:en")}, NOT_PAGED),
    ("room to give of a node that is not there", [plant("ZADD", "due", T0, "r:n9")], {("S16", "r:n9")}, NOT_PAGED),
    ("an intent due that is not there", [plant("ZADD", "due", FORGET_FROM + T0, "i:n9")], {("S16", "i:n9")}, NOT_PAGED),
    ("a job without its ticket", [plant("HDEL", "jobs", f"{D}:ticket")], {("S16", D)}, NOT_PAGED),
    ("a job under way without its ticket", [plant("HDEL", "jobs", f"{A}:ticket")], {("S16", A)}, NOT_PAGED),
    (
        "a job that waits without its ticket",
        [plant("HDEL", "jobs", f"{W}:ticket")],
        {("S16", W), ("S3", "queue")},
        NOT_PAGED,
    ),
    ("a ticket without its job", [copy("jobs", f"{A}:ticket", "c0.x:ticket")], {("S16", "c0.x")}, NOT_PAGED),
    ("text of a job that is gone", [plant("HSET", "jobs", "c0.x:result", "")], {("S16", "c0.x:result")}, NOT_PAGED),
    ("a profile without its node", [copy("profiles", "n1", "n9")], {("S16", "n9")}, NOT_PAGED),
    (
        "a node without its profile",
        [plant_node("n3"), plant("HDEL", "profiles", "n3")],
        {("S16", "n3")},
        NOT_PAGED,
    ),
]


@pytest.mark.parametrize(("deeds", "whole", "paged"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
async def test_exactly_the_planted_violation_is_found(
    world: World, deeds: list[Deed], whole: Found, paged: Found
) -> None:
    for deed in deeds:
        await deed(world)
    assert named(await audit_whole(world.engine, CELL)) == whole
    assert named(await audit(world.engine, CELL)) == paged


async def test_the_only_node_of_a_group_without_its_profile_is_found(world: World) -> None:
    await command(world, "HDEL", "profiles", "n1")
    assert ("S16", "n1") in named(await audit_whole(world.engine, CELL))


async def test_a_stray_is_described_in_the_same_words_page_by_page_and_in_the_whole(world: World) -> None:
    await command(world, "ZREM", "leases", LEASE)
    await command(world, "ZADD", "leases", 0, "n9:c0.x:1")
    await rewrite(world, "nodes", "n1", NodeRecord, used=2)
    await command(world, "ZREM", "due", f"j:{D}")
    paged = await audit(world.engine, CELL)
    assert not isinstance(paged, Refusal)
    paged.sort(key=lambda violation: (violation.subject != "n9:c0.x:1", violation.subject))
    assert paged == [
        Violation("S2", "n9:c0.x:1", "its node is not registered"),
        Violation("S2", A, "it is DISPATCHED on n1 without a lease"),
        Violation("S16", D, "nobody will ever look at it again"),
    ]
    whole = await audit_whole(world.engine, CELL)
    assert not isinstance(whole, Refusal)
    assert {violation for violation in whole if violation.invariant == "S2"} == set(paged[:2])
    assert paged[2].detail in {violation.detail for violation in whole if violation.subject == f"j:{D}"}


async def test_a_node_with_room_that_somebody_is_about_to_look_at_lets_nobody_wait_in_vain(world: World) -> None:
    """A run gives away so many slots and no more; the due-list comes back for the rest."""
    for deed in IN_VAIN:
        await deed(world)
    await command(world, "ZADD", "due", T0, "r:n1")
    assert await audit_whole(world.engine, CELL) == [Violation("L1", E, "it waits while ['n2'] have room")]
    await command(world, "ZADD", "due", T0, "r:n2")
    assert await audit_whole(world.engine, CELL) == []


async def test_who_is_about_to_go_to_the_fallback_does_not_wait_in_vain(world: World) -> None:
    for deed in waits_for(F, "wyue:en", "fen:zh:yue:en", fallback="en:zh"):
        await deed(world)
    await command(world, "ZADD", "due", T0, "f:")
    assert await audit_whole(world.engine, CELL) == []


@pytest.mark.parametrize(
    "wishes",
    [Wishes(excluded=["n1", "n2"]), Wishes(labels=[("region", "eu")]), Wishes(back="zh:en")],
)
async def test_who_may_go_to_none_of_those_with_room_does_not_wait_in_vain(world: World, wishes: Wishes) -> None:
    lines = ["x1", "x2"] if wishes.excluded else []
    for deed in waits_for(E, "wen:zh", *lines, pair="en:zh", wishes=[wishes]):
        await deed(world)
    assert await audit_whole(world.engine, CELL) == []


async def test_a_node_with_room_that_nobody_looks_at_is_found_beside_who_waits_for_it(world: World) -> None:
    for deed in [*IN_VAIN, plant("ZREM", "due", "n:n1")]:
        await deed(world)
    assert named(await audit_whole(world.engine, CELL)) == {("L1", E), ("S16", "n:n1")}


async def test_nothing_is_counted_down_without_a_successful_removal(world: World) -> None:
    """S3: whoever lost the lease, a result does not free a slot a second time."""
    await command(world, "ZREM", "leases", LEASE)
    before = (await world.cell()).nodes["n1"].used
    await done(world.engine, A, 1, "n1")
    assert (await world.cell()).nodes["n1"].used == before


async def test_what_is_due_for_longer_than_a_sweep_may_take_is_found(world: World) -> None:
    world.now_ms = T0 + 5_000 + OVERDUE_MS
    assert await audit_whole(world.engine, CELL) == []
    assert await audit(world.engine, CELL) == []
    world.now_ms += 1
    late = {("S4", f"n1:{job_id}:1") for job_id in (A, B)}
    assert named(await audit_whole(world.engine, CELL)) == late | {("S4", f"j:{A}"), ("S4", f"j:{B}")}
    paged = await audit(world.engine, CELL)
    assert named(paged) == late
    assert not isinstance(paged, Refusal)
    assert Violation("S4", LEASE, f"due for {OVERDUE_MS + 1} ms") in paged


async def test_what_is_to_be_forgotten_may_be_as_late_as_everything_else(world: World) -> None:
    await command(world, "ZADD", "due", FORGET_FROM + T0 - OVERDUE_MS, "i:old")
    assert await audit_whole(world.engine, CELL) == []
    world.now_ms += 1
    assert await audit_whole(world.engine, CELL) == [Violation("S4", "i:old", f"due for {OVERDUE_MS + 1} ms")]


async def test_a_limbo_that_is_due_for_too_long_is_found_page_by_page(world: World) -> None:
    await command(world, "ZADD", "due", T0 - OVERDUE_MS, f"l:{FENCED}")
    assert await audit(world.engine, CELL) == []
    world.now_ms += 1
    assert await audit(world.engine, CELL) == [Violation("S4", FENCED, f"due for {OVERDUE_MS + 1} ms")]


async def test_a_cut_off_node_s_limbo_need_not_be_looked_at_again(world: World) -> None:
    await rewrite(world, "nodes", "n1", NodeRecord, cut_off=1)
    assert await audit_whole(world.engine, CELL) == []
    await command(world, "ZREM", "due", f"l:{FENCED}")
    assert await audit_whole(world.engine, CELL) == []
    assert await audit(world.engine, CELL) == []


async def test_pages_together_find_what_is_wrong_with_any_node(world: World) -> None:
    """The engine cuts a hash in pages once a record in it is long."""
    await asyncio.gather(*(join(world, f"m{number}", nonce="x" * 100) for number in range(100)))
    await rewrite(world, "nodes", "m7", NodeRecord, used=1)
    await rewrite(world, "nodes", "m99", NodeRecord, limbo=1)
    violations = await audit(world.engine, CELL, count=10)
    assert not isinstance(violations, Refusal)
    assert {violation.subject for violation in violations} == {"m7", "m99"}


async def test_pages_together_find_every_stray(world: World) -> None:
    """More leases and jobs than a page, and what is wrong with the first and the last of them."""
    await join(world, "n3", max_concurrent_jobs=300, nmt_pairs=[["en", "fr"]])
    names = [f"{CELL}.j{number:03}" for number in range(300)]
    await asyncio.gather(*(dispatch(world.engine, name, "s1", "en", "fr", seed=1) for name in names))
    await world.check()
    strays = [names[0], names[150], names[-1]]
    for name in strays:
        await command(world, "ZREM", "leases", f"n3:{name}:1")
        await command(world, "ZADD", "leases", 0, f"n9:{name}:1")
        await command(world, "ZREM", "due", f"j:{name}")
    await rewrite(world, "nodes", "n3", NodeRecord, used=297)
    found = named(await audit(world.engine, CELL, count=10))
    assert found == {finding for name in strays for finding in (("S2", f"n9:{name}:1"), ("S2", name), ("S16", name))}


async def test_an_audit_that_cannot_be_right_is_refused(world: World) -> None:
    assert code_of(await audit(world.engine, "C")) == "INVALID_MESSAGE"
    assert code_of(await audit(world.engine, CELL, count=0)) == "INVALID_MESSAGE"
    assert code_of(await audit_whole(world.engine, "C")) == "INVALID_MESSAGE"
    assert code_of(await audit_whole(world.engine, CELL, -1)) == "INVALID_MESSAGE"


async def test_the_same_code_judges_a_page_and_a_cell(world: World) -> None:
    await place(world, "c0.g", seed=0)
    await rewrite(world, "nodes", "n1", NodeRecord, used=9, limbo=9, ceiling=0)
    whole = [violation for violation in audit_cell(await world.cell(), OVERDUE_MS) if violation.subject == "n1"]
    assert await audit(world.engine, CELL) == whole
    assert len(whole) == 4
