"""What can be seen: looking changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.cell import Cell, HeldJob, HeldLease, Ledger
from lingua_scheduler.core.records import Intent, Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.job import Job, read_job
from lingua_scheduler.views.node import Node, read_node
from lingua_scheduler.views.nodes import Nodes, read_nodes
from lingua_scheduler.views.pools import Pool, read_pools
from lingua_scheduler.views.whereabouts import At, Waits, read_whereabouts
from tests.support.cells import watch
from tests.support.stage import LANGUAGES, T0, A, B, bring, calls, code_of, join, place, queued, wait
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


def standing(**numbers: int) -> dict[str, int]:
    return {name.name: numbers.get(name.name, 0) for name in Standing}


async def test_a_job_is_shown_with_everything_that_is_known_of_it(world: World) -> None:
    await join(world)
    await place(world, body="in")
    await done(world.engine, A, 1, "n1", result="out")
    view, changes = await watch(world, read_job(world.engine, A))
    cell = await world.cell()
    assert view == Job(cell.jobs[A], cell.tickets[A], "in", "out")
    assert changes == {}


async def test_a_job_without_text_is_shown_without_text(world: World) -> None:
    await join(world)
    await place(world)
    view = await read_job(world.engine, A)
    assert isinstance(view, Job)
    assert (view.payload, view.result) == ("", "")


async def test_jobs_looked_at_in_one_tick_are_not_mixed_up(world: World) -> None:
    await join(world)
    await asyncio.gather(place(world, A, body="a"), place(world, B, body="b"))
    views = await asyncio.gather(*(read_job(world.engine, job_id) for job_id in (B, "c0.x", A)))
    assert isinstance(views[0], Job)
    assert isinstance(views[2], Job)
    assert (views[0].payload, code_of(views[1]), views[2].payload) == ("b", "UNKNOWN_JOB", "a")


async def test_a_job_that_does_not_exist_cannot_be_shown(world: World) -> None:
    assert await read_job(world.engine, A) == Refusal("UNKNOWN_JOB", f"There is no job {A}, or its record has expired.")
    assert code_of(await read_job(world.engine, "a")) == "INVALID_MESSAGE"


async def test_a_node_is_shown_with_its_pairs_and_what_holds_its_slots(world: World) -> None:
    await join(world, nmt_pairs=None)
    await place(world, B)
    await bring(world, "CANCELLED", A)
    view, changes = await watch(world, read_node(world.engine, CELL, "n1"))
    cell = await world.cell()
    leases = [(f"n1:{A}:1", T0), (f"n1:{B}:1", 0)]
    assert view == Node(cell.nodes["n1"], cell.profiles["n1"], ["en:en", "en:zh", "zh:en", "zh:zh"], leases, [])
    assert changes == {}


async def test_a_node_without_pools_or_work_is_shown_too(world: World) -> None:
    await join(world, nmt_pairs=[])
    view = await read_node(world.engine, CELL, "n1")
    assert isinstance(view, Node)
    assert (view.pairs, view.leases) == ([], [])


async def test_leases_are_told_apart_when_one_node_s_name_begins_another_s(world: World) -> None:
    for node_id in ("n1", "n1.a", "n10", "n1-b"):
        await join(world, node_id)
        await place(world, f"{CELL}.{node_id}")
        await drain(world.engine, CELL, node_id)
    for node_id in ("n1", "n1.a", "n10", "n1-b"):
        view = await read_node(world.engine, CELL, node_id)
        assert isinstance(view, Node)
        assert view.leases == [(f"{node_id}:{CELL}.{node_id}:1", 0)]


async def test_a_node_that_does_not_exist_cannot_be_shown(world: World) -> None:
    await join(world, "n1")
    answers = await asyncio.gather(*(read_node(world.engine, CELL, node_id) for node_id in ("n2", "n1")))
    assert [code_of(answer) for answer in answers] == ["UNKNOWN_NODE", ""]
    assert code_of(await read_node(world.engine, CELL, "n 1")) == "INVALID_MESSAGE"
    assert code_of(await read_node(world.engine, "C", "n1")) == "INVALID_MESSAGE"


async def test_nodes_are_shown_with_their_ledgers_and_the_jobs_behind_them(world: World) -> None:
    await join(world, "n1", running=[("c0.x", 3)])
    await bring(world, "ACCEPTED")
    await drain(world.engine, CELL, "n1")
    await join(world, "n2")
    page, changes = await watch(world, read_nodes(world.engine, CELL))
    assert isinstance(page, Nodes)
    assert changes == {}
    assert (page.now_ms, page.cursor) == (T0, "0")
    cell = await world.cell()
    shown = {ledger.node_id: ledger for ledger in page.nodes}
    assert shown == {ledger.node_id: ledger for ledger in cell.ledgers()}
    assert shown["n1"] == Ledger(
        "n1",
        cell.nodes["n1"],
        16 + Standing.draining,
        [
            HeldLease(f"n1:{A}:1", 0, T0 + 5_000, HeldJob("ACCEPTED", 1, "n1", "1-n1")),
            HeldLease("n1:c0.x:3", T0, T0 + 60_000, HeldJob()),
        ],
    )
    assert shown["n2"] == Ledger("n2", cell.nodes["n2"], 16, [])


async def test_pages_show_every_node_at_least_once(world: World) -> None:
    """The engine cuts a hash in pages once a record in it is long."""
    names = {f"n{number}" for number in range(100)}
    await asyncio.gather(*(join(world, name, nonce="x" * 100) for name in names))
    seen: list[str] = []
    cursor, pages = "0", 0
    while pages == 0 or cursor != "0":
        page = await read_nodes(world.engine, CELL, cursor, 10)
        assert isinstance(page, Nodes)
        seen += [ledger.node_id for ledger in page.nodes]
        cursor, pages = page.cursor, pages + 1
    assert set(seen) == names
    assert pages > 5


@pytest.mark.parametrize(
    "wrong", [{"cell": "C"}, {"cursor": "x"}, {"cursor": "-1"}, {"cursor": "9" * 21}, {"count": 0}, {"count": 10_001}]
)
async def test_a_page_that_cannot_be_right_never_reaches_the_engine(world: World, wrong: dict[str, Any]) -> None:
    assert code_of(await read_nodes(world.engine, **({"cell": CELL} | wrong))) == "INVALID_MESSAGE"


async def test_pools_are_shown_in_order_with_how_their_nodes_stand(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world)
    await join(world, "n2", tts_langs=["zh"], nmt_pairs=[["zh", "en"], ["en", "zh"]])
    await join(world, "n3")
    await drain(world.engine, CELL, "n3")
    await join(world, "n4", health="degraded")
    await join(world, "n5", nmt_pairs=[])
    view, changes = await watch(world, read_pools(world.engine, CELL))
    assert changes == {}
    assert view == [
        Pool("en:zh", 4, standing(full=1, available=1, draining=1, not_ready=1), slots=7, free=2, waiting=0),
        Pool("zh:en", 1, standing(available=1), slots=2, free=2, waiting=0),
    ]


async def test_one_pool_is_shown_with_the_nodes_for_any_target(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2", nmt_pairs="any")
    assert await read_pools(world.engine, CELL, "en-GB:zh-CN") == [Pool("en:zh", 2, standing(available=2), 4, 4, 0)]
    assert await read_pools(world.engine, CELL, "zh:de") == [Pool("zh:de", 1, standing(available=1), 2, 2, 0)]
    assert await read_pools(world.engine, CELL, "de:zh") == [Pool("de:zh", 0, standing(), 0, 0, 0)]
    assert await read_pools(world.engine, CELL) == [
        Pool("en:*", 1, standing(available=1), 2, 2, 0),
        Pool("en:zh", 2, standing(available=2), 4, 4, 0),
        Pool("zh:*", 1, standing(available=1), 2, 2, 0),
    ]


async def test_pools_are_read_in_pages_and_shown_as_one(world: World) -> None:
    """The engine cuts a hash in pages once it is long."""
    some = LANGUAGES[:30]
    await join(world, "n1", semantic_langs=some, nmt_pairs=None)
    await join(world, "n2", semantic_langs=some[:1], nmt_pairs=None)
    before = (await calls(world))["hscan"]
    view = await read_pools(world.engine, CELL)
    assert (await calls(world))["hscan"] - before > 6
    nodes = dict.fromkeys((f"{src}:{tgt}" for src in some for tgt in some), 1) | {f"{some[0]}:{some[0]}": 2}
    assert view == [
        Pool(pair, number, standing(available=number), 2 * number, 2 * number, 0)
        for pair, number in sorted(nodes.items())
    ]


async def test_a_pool_that_cannot_be_right_never_reaches_the_engine(world: World) -> None:
    assert code_of(await read_pools(world.engine, CELL, "en:xx")) == "INVALID_MESSAGE"
    assert code_of(await read_pools(world.engine, "C", "en:zh")) == "INVALID_MESSAGE"


async def test_pools_looked_at_in_one_tick_are_not_mixed_up(world: World) -> None:
    await join(world, nmt_pairs=None)
    views = await asyncio.gather(*(read_pools(world.engine, CELL, pair) for pair in ("en:zh", "zh:en", "de:fr")))
    assert [view[0].pair for view in views if isinstance(view, list)] == ["en:zh", "zh:en", "de:fr"]


async def test_a_whole_cell_is_read_at_one_instant(world: World) -> None:
    await join(world)
    await place(world, body="in")
    await ack(world.engine, A, 1, "n1")
    await cancel(world.engine, A)
    await heartbeat(world.engine, CELL, "n1", current_load={"gpu": 0.25})
    world.now_ms += 1
    one, two = await asyncio.gather(read_cell(world.engine, CELL), read_cell(world.engine, CELL))
    assert isinstance(one, Cell)
    assert one == two
    assert one.now_ms == T0 + 1
    assert one.profiles["n1"].load == [("gpu", 0.25)]
    assert one.bodies == {f"{A}:payload": "in"}
    assert one.leases == [f"n1:{A}:1"]
    assert one.limbo == {f"n1:{A}:1": T0}
    assert [(event.kind, at) for event, at in one.outbox] == [("ended", T0), ("fenced", T0)]
    assert one.counts == {"epoch": 1, "group": 1, "accepted": 1, "CANCELLED": 1, "attempt.cancelled": 1}


async def test_a_whole_cell_is_read_with_who_waits_and_what_is_wanted_of_those_who_are_gone(world: World) -> None:
    await wait(world, {A: 60_000, B: 50_000}, "yue:en")
    await join(world)
    await drain(world.engine, CELL, "n1")
    await leave(world.engine, CELL, "n1")
    await join(world, "n2")
    cell = await read_cell(world.engine, CELL)
    assert isinstance(cell, Cell)
    places = [queued(B, T0 + 50_000, "yue:en"), queued(A, T0 + 60_000, "yue:en")]
    assert cell.queue == [place.replace("wyue:en", "fzh:en:yue:en") for place in places] + places
    assert cell.ends == {"en:": 1, ":zh": 1}
    assert cell.intents == {"n1": Intent("draining", 0)}


async def test_a_cell_that_cannot_be_right_never_reaches_the_engine(world: World) -> None:
    assert code_of(await read_cell(world.engine, "C")) == "INVALID_MESSAGE"


async def test_where_a_job_is_can_be_seen_without_its_text(world: World) -> None:
    epoch = (await join(world)).epoch
    await place(world, A, body="in")
    view, changes = await watch(world, read_whereabouts(world.engine, A))
    assert view == At("RESERVED", "n1", epoch, 1, (await world.cell()).jobs[A].acks, ["n1"])
    assert changes == {}


async def test_all_nodes_that_a_job_had_are_shown(world: World) -> None:
    for node_id in ("n1", "n2", "n3"):
        await join(world, node_id)
    first = await place(world, A)
    second = await fail(world.engine, A, 1, first.node_id, reason="broken")
    assert isinstance(second, Failed)
    third = await fail(world.engine, A, 2, second.node_id, reason="broken")
    assert isinstance(third, Failed)
    view = await read_whereabouts(world.engine, A)
    assert isinstance(view, At)
    assert (view.state, view.node_id, view.attempt_id) == ("RESERVED", third.node_id, 3)
    assert view.had == [first.node_id, second.node_id, third.node_id]
    await fail(world.engine, A, 3, third.node_id, reason="broken")
    ended = await read_whereabouts(world.engine, A)
    assert isinstance(ended, At)
    assert (ended.state, set(ended.had)) == ("FAILED", {"n1", "n2", "n3"})


@pytest.mark.parametrize("after_ms", [0, 700, 2_100])
async def test_of_a_job_that_waits_is_shown_how_long(world: World, after_ms: int) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, A)
    await dispatch(world.engine, B, "s1", "en", "zh", wanted=Wanted(wait_ms=2_000))
    world.now_ms += after_ms
    view, changes = await watch(world, read_whereabouts(world.engine, B))
    assert view == Waits(after_ms, 2_000 - after_ms)
    assert changes == {}


async def test_one_that_was_cancelled_while_it_waited_had_nobody(world: World) -> None:
    await join(world, max_concurrent_jobs=1)
    await place(world, A)
    await dispatch(world.engine, B, "s1", "en", "zh", wanted=Wanted(wait_ms=2_000))
    await cancel(world.engine, B)
    assert await read_whereabouts(world.engine, B) == At("CANCELLED", "", "", 0, 0, [])


async def test_whereabouts_asked_for_in_one_tick_are_not_mixed_up(world: World) -> None:
    await join(world)
    await place(world, A)
    views = await asyncio.gather(*(read_whereabouts(world.engine, job_id) for job_id in (B, A, "a:b")))
    assert isinstance(views[1], At)
    assert (code_of(views[0]), views[1].state, code_of(views[2])) == ("UNKNOWN_JOB", "RESERVED", "INVALID_MESSAGE")
