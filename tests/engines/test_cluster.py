"""A Cluster that is well: every call finds its server."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, ScriptFailed
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key, session_tag
from lingua_scheduler.store.slots import slot_of
from tests.support.ports import free_ports
from tests.support.tallies import ENTER, Tally, script

if TYPE_CHECKING:
    from tests.support.clusters import Node, Sixpack

CELLS = [*(f"c{number}" for number in range(12)), *(session_tag(f"room-{number}") for number in range(12))]


def errors(cluster: Sixpack, word: str) -> int:
    return sum(node.errors(word) for node in cluster.nodes)


@pytest.mark.parametrize("tag", ["c0", "sess:room-1", "req:anyone:7f3a", "123456789", "ü"])
def test_a_cell_has_the_slot_that_the_engine_says(cluster: Sixpack, tag: str) -> None:
    assert slot_of(tag) == cluster.nodes[0].ask("CLUSTER", "KEYSLOT", cell_key("lingua:v1", tag, "jobs"))


async def test_every_call_goes_to_the_primary_of_its_cell_at_once(cluster: Sixpack, engine: Engine) -> None:
    before = errors(cluster, "MOVED")
    await asyncio.gather(*(engine.run(ENTER, cell, (b"x",)) for cell in CELLS))
    await asyncio.gather(*(engine.command("PERSIST", f"{{{cell}}}", cell=cell) for cell in CELLS))
    assert errors(cluster, "MOVED") == before
    served: set[int] = set()
    for cell in CELLS:
        primary = cluster.primary_of(slot_of(cell))
        served.add(primary.port)
        assert primary.ask("LRANGE", cell_key(engine.prefix, cell, "outbox"), 0, -1) == ["x"]
    assert len(served) == 3


async def test_a_call_whose_cell_nobody_named_is_sent_on(cluster: Sixpack, engine: Engine) -> None:
    before = errors(cluster, "MOVED")
    await asyncio.gather(*(engine.command("SET", f"{engine.prefix}{{{cell}}}", cell) for cell in CELLS))
    assert errors(cluster, "MOVED") > before
    found = [await engine.command("GET", f"{engine.prefix}{{{cell}}}", cell=cell) for cell in CELLS]
    assert found == [cell.encode() for cell in CELLS]


async def test_keys_of_two_slots_are_refused_and_not_tried_again(engine: Engine) -> None:
    with pytest.raises(ScriptFailed, match="CROSSSLOT"):
        await engine.command("MGET", "{c0}", "{c1}", cell="c0")


async def test_a_script_is_loaded_on_every_primary_when_it_is_first_used(cluster: Sixpack, engine: Engine) -> None:
    before = errors(cluster, "NOSCRIPT")
    new = script("ack", f"return {{ '{secrets.token_hex(8)}' }}")
    await engine.run(new, CELLS[0], (b"x",))
    await asyncio.gather(*(engine.run(new, cell, (b"x",)) for cell in CELLS))
    assert errors(cluster, "NOSCRIPT") == before
    assert [node.ask("SCRIPT", "EXISTS", new.sha) for node in cluster.primaries()] == [[1], [1], [1]]


async def test_a_server_that_forgot_its_scripts_is_told_again(cluster: Sixpack, engine: Engine) -> None:
    tallies = [Tally(engine, cell) for cell in CELLS]
    await asyncio.gather(*(tally.enter() for tally in tallies))
    cluster.primary_of(slot_of(CELLS[0])).ask("SCRIPT", "FLUSH")
    await asyncio.gather(*(tally.enter() for tally in tallies for _ in range(3)))
    for tally in tallies:
        assert len(tally.confirmed) == 4
        await tally.check()


async def test_a_server_that_forgot_its_scripts_keeps_nobody_of_another_waiting(
    cluster: Sixpack, engine: Engine
) -> None:
    forgetful, slow, well = engine.one_cell_each("c0").values()
    await asyncio.gather(*(engine.run(ENTER, cell, (b"before",)) for cell in (forgetful, slow, well)))
    server, frozen = cluster.primary_of(slot_of(forgetful)), cluster.primary_of(slot_of(slow)).server
    frozen.freeze()
    try:
        on_way = engine.run(ENTER, slow, (b"on its way",))
        server.ask("SCRIPT", "FLUSH")
        async with asyncio.timeout(10):
            await engine.run(ENTER, forgetful, (b"told again",))
            await engine.run(ENTER, well, (b"as ever",))
        assert not on_way.done()
    finally:
        frozen.thaw()
    await on_way


async def test_every_server_can_be_asked(cluster: Sixpack, engine: Engine) -> None:
    ports = {
        name: int((await reply).decode().partition("tcp_port:")[2].split()[0])
        for name, reply in engine.everywhere("INFO", "server").items()
    }
    assert ports == {f"redis://127.0.0.1:{node.port}/0": node.port for node in cluster.primaries()}
    cells = engine.one_cell_each("c0")
    assert "c0" in cells.values()
    for name, cell in cells.items():
        assert cluster.primary_of(slot_of(cell)).port == ports[name]


# Seeds.


def by(*nodes: Node | int) -> str:
    ports = [node if isinstance(node, int) else node.port for node in nodes]
    return f"redis+cluster://{','.join(f'127.0.0.1:{port}' for port in ports)}"


async def test_one_seed_is_enough_also_if_it_is_a_replica_or_the_last_of_many(cluster: Sixpack) -> None:
    nobody = free_ports(3)
    for seeds in ([cluster.nodes[5]], [*nobody, cluster.nodes[2]]):
        async with await Engine.connect(by(*seeds)) as engine:
            assert len(engine.one_cell_each("c0")) == 3


async def test_seeds_of_whom_nobody_is_there_are_named(cluster: Sixpack) -> None:
    del cluster
    first, second = free_ports(2)
    with pytest.raises(DependencyDown) as caught:
        await Engine.connect(by(first, second))
    assert f"127.0.0.1:{first}" in str(caught.value)
    assert f"127.0.0.1:{second}" in str(caught.value)
