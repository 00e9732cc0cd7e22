"""A primary of a Cluster that is gone, slow to come back, or gives way: what was confirmed stays, and it goes on."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import OutcomeUnknown
from lingua_scheduler.store.channel import Ear, publish
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.slots import slot_of
from tests.support.tallies import ENTER, Tally
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.clusters import Node, Sixpack

CELL = "failing"
SLOT = slot_of(CELL)


@asynccontextmanager
async def writing(cluster: Sixpack, other_cell: str) -> AsyncIterator[tuple[Tally, Tally]]:
    """Writers on the cell, who count on a replica, and on another; at the end both ledgers are right."""
    async with await Engine.connect(cluster.url, secrets.token_hex(4), timeout_ms=10_000) as engine:
        await calm(engine)
        tally, other = Tally(engine, CELL), Tally(engine, other_cell)
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(tally.go_on_until(over.is_set, replicated=True))
                group.create_task(other.go_on_until(over.is_set))
            await more(tally, 20)
            yield tally, other
            over.set()
        await tally.check()
        await other.check()


async def calm(engine: Engine) -> None:
    """Wait until the map was drawn with everybody on it: from here on nobody looks at it without a reason."""
    topology = engine._carrier._topology  # type: ignore[attr-defined]  # it is a Cluster's
    topology._drawn.clear()
    topology.distrust()
    await topology._drawn.wait()


async def more(tally: Tally, count: int) -> None:
    """Wait until so many more are confirmed."""
    wanted = len(tally.confirmed) + count
    await until(lambda: len(tally.confirmed) >= wanted)


async def until(predicate: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_until, predicate, 20)


def elsewhere(cluster: Sixpack) -> str:
    """A cell of another primary."""
    home = cluster.primary_of(SLOT)
    names = (f"other{number}" for number in range(100))
    return next(name for name in names if cluster.primary_of(slot_of(name)) is not home)


@pytest.mark.parametrize("full_coverage", ["no", "yes"])
async def test_a_primary_that_dies_is_replaced_and_nothing_that_a_replica_has_is_lost(
    own_cluster: Sixpack, full_coverage: str
) -> None:
    for node in own_cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", full_coverage)
    home = own_cluster.primary_of(SLOT)
    heir = own_cluster.replica_of(home)
    async with writing(own_cluster, elsewhere(own_cluster)) as (tally, other):
        home.server.stop()
        # Whoever comes now is refused, and not kept waiting.
        await until(lambda: tally.unknown)
        await until(lambda: heir.is_primary)
        # From here on there is no replica that could have anything.
        before = len(tally.confirmed)
        async with asyncio.timeout(20):
            await tally.go_on_until(lambda: len(tally.confirmed) > before)
        # The others were served all the time, unless the Cluster is told to refuse everybody.
        assert not other.unknown
        assert set(other.refused.values()) == ({"CLUSTERDOWN"} if full_coverage == "yes" else set())
    assert heir.errors("NOSCRIPT") == 0


async def test_a_primary_that_gives_way_costs_nobody_anything(own_cluster: Sixpack) -> None:
    home = own_cluster.primary_of(SLOT)
    heir = own_cluster.replica_of(home)
    async with writing(own_cluster, elsewhere(own_cluster)) as (tally, other):
        heir.ask("CLUSTER", "FAILOVER")
        await until(lambda: heir.is_primary)
        await until(lambda: not home.is_primary)
        await more(tally, 20)
        assert set(tally.refused.values()) <= {"TRYAGAIN"}
        assert not other.refused
        assert not other.unknown
    assert heir.errors("NOSCRIPT") == 0


async def test_nobody_overtakes_a_call_that_is_still_with_the_old_primary(own_cluster: Sixpack) -> None:
    home = own_cluster.primary_of(SLOT)
    heir = own_cluster.replica_of(home)
    async with await Engine.connect(own_cluster.url, secrets.token_hex(4)) as engine:
        await engine.run(ENTER, CELL, (b"0",))
        home.server.freeze()
        try:
            first = asyncio.ensure_future(engine.run(ENTER, CELL, (b"1",)))
            await asyncio.sleep(0)
            heir.ask("CLUSTER", "FAILOVER", "TAKEOVER")
            await knows(engine, heir)
            second = asyncio.ensure_future(engine.run(ENTER, CELL, (b"2",)))
            ended: list[asyncio.Future[bytes]] = []
            for call in (second, first):
                call.add_done_callback(ended.append)
            assert await second == b"2"
            assert ended == [first, second]
            with pytest.raises(OutcomeUnknown):
                await first
        finally:
            home.server.thaw()
        await until(lambda: not home.is_primary)


async def knows(engine: Engine, primary: Node) -> None:
    """Draw the map until it shows this one as the cell's."""
    carrier = engine._carrier
    while f":{primary.port}/" not in next(name for name, cell in carrier.one_cell_each(CELL).items() if cell == CELL):
        carrier.distrust()  # type: ignore[attr-defined]  # it is a Cluster's
        await asyncio.sleep(0.01)


async def test_what_was_never_written_to_a_dead_primary_goes_to_the_next(own_cluster: Sixpack) -> None:
    home = own_cluster.primary_of(SLOT)
    heir = own_cluster.replica_of(home)
    long_ms = 10_000
    url, prefix = own_cluster.url, secrets.token_hex(4)
    async with await Engine.connect(url, prefix, timeout_ms=long_ms, patience_ms=long_ms) as engine:
        tally = Tally(engine, CELL)
        await tally.enter()
        table = engine._carrier._topology.table  # type: ignore[attr-defined]  # it is a Cluster's
        home.server.stop()
        await until(lambda: not table[SLOT].serves)
        waiting = [asyncio.create_task(tally.enter()) for _ in range(5)]
        await asyncio.sleep(0)
        heir.ask("CLUSTER", "FAILOVER", "TAKEOVER")
        await asyncio.gather(*waiting)
        assert len(tally.confirmed) == 6
        assert await tally.entered() == sorted(tally.confirmed)
        await tally.check()


async def test_all_servers_gone_and_back_and_nobody_had_to_do_anything(own_cluster: Sixpack) -> None:
    async with await Engine.connect(own_cluster.url, secrets.token_hex(4)) as engine:
        tally = Tally(engine, CELL)
        await tally.enter()
        own_cluster.stop()
        await tally.enter()
        assert len(tally.confirmed) == 1
        await asyncio.to_thread(own_cluster.start_again)
        done = tally.confirmed.copy()
        await tally.go_on_until(lambda: len(tally.confirmed) > len(done))
        await tally.check()


async def test_who_listens_hears_again_though_all_that_the_url_names_are_gone(own_cluster: Sixpack) -> None:
    """By those that the map knows."""
    seed = own_cluster.replica_of(own_cluster.primary_of(SLOT))
    url, name, heard = f"redis+cluster://127.0.0.1:{seed.port}", secrets.token_hex(4), asyncio.Event()
    async with (
        await Engine.connect(url, timeout_ms=10_000) as engine,
        Ear(engine, url, lambda _: heard.set(), name) as ear,
    ):
        await ear.listens()
        seed.server.stop()
        for node in own_cluster.nodes:
            if node is not seed:
                node.ask("CLIENT", "KILL", "TYPE", "pubsub")
        async with asyncio.timeout(20):
            while not heard.is_set():
                publish(engine, name, b"word")
                await asyncio.sleep(0.01)
