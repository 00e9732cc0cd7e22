"""The engine is away just when it should hear what a node was told: nobody else gets the job for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.scripts import script
from lingua_scheduler.views.cell import read_cell
from tests.support.house import CELL, House, eventually
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.cell import Cell
    from tests.support.proxy import Direction, Link
    from tests.support.servers import Server

ACK_MS: Final = 500


class Cable(Proxy):
    """To an engine that is gone for everybody in the moment in which a certain word is on its way."""

    def __init__(self, target: str | int) -> None:
        super().__init__(target)
        self.word = b""

    async def _pass(self, direction: Direction, piece: bytes, writer: asyncio.StreamWriter, link: Link) -> None:
        if self.word and self.word in piece:
            self.word = b""
            self.sever()
        else:
            await super()._pass(direction, piece, writer, link)


@pytest.fixture
async def cable(server: Server) -> AsyncIterator[Cable]:
    async with Cable(server.path) as cable:
        yield cable


@pytest.fixture
async def houses(cable: Cable) -> AsyncIterator[tuple[House, House]]:
    """Two instances; what one has to tell the other must not overtake."""
    settings = {"jobs.reservation_ttl_ms": ACK_MS, "loops.relay_lease_ms": 300, "loops.sweep_interval_ms": 10}
    async with House(cable.url, **settings).open() as here:
        shared = settings | {"engine.key_prefix": here.settings.engine.key_prefix}
        async with House(cable.url, **shared).open() as there:
            yield here, there


@pytest.mark.parametrize("features", [(), ("job_ack",)], ids=["it never acks", "it acks"])
async def test_a_job_stays_with_the_node_that_was_told(
    server: Server, cable: Cable, houses: tuple[House, House], features: tuple[str, ...]
) -> None:
    here, there = houses
    async with here.node("n1") as node, there.node("n2") as other:
        for one in (node, other):
            await one.register(slots=1, features=features)
            await one.is_ready()
        # What a node that acks says itself is told in its words.
        cable.word = script("flows/ack" if features else "flows/deliver").sha.encode()
        placed = await here.dispatch(options={"preferred_node_id": "n1"})
        job = await node.job()
        if features:
            await node.say("job_ack", job_id=job["job_id"], attempt_id=1, node_id="n1")
        async with await Engine.connect(server.url, here.settings.engine.key_prefix) as engine:

            async def look() -> Cell:
                return await read_cell(engine, CELL)  # type: ignore[return-value] # the name is right

            async def is_late() -> bool:
                cell = await look()
                return cell.now_ms > cell.jobs[placed["job_id"]].reserved_at_ms + ACK_MS + 100

            assert (await look()).jobs[placed["job_id"]].state == "RESERVED"
            await eventually(is_late)
            cable.heal()

            async def is_told() -> bool:
                return (await look()).jobs[placed["job_id"]].state == "ACCEPTED"

            await eventually(is_told)
        assert (await here.get(f"/v1/job/{placed['job_id']}"))["node_id"] == "n1"
        await node.result(job)
        ended = await there.ended(placed["job_id"])
        assert [(one["node_id"], one["end"]) for one in ended["attempts"]] == [("n1", "FINISHED")]
        assert not [said for said in other.heard if said["type"] == "job_assign"]
