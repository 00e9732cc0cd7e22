"""A node whose instance is dead, and not yet missed, is with another: whoever has a job for it finds it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingua_scheduler.core.owner import new_connection
from lingua_scheduler.flows.register import Registered, register
from tests.support.house import CELL, House, eventually
from tests.support.mail import arrive, look

if TYPE_CHECKING:
    from tests.support.servers import Server


async def test_also_if_it_was_found_where_it_was_before(server: Server) -> None:
    flags = {"loops.inherit_interval_ms": 60_000, "instance.id": "here"}
    async with House(server.url, **flags).open() as here:
        shared = flags | {"engine.key_prefix": here.settings.engine.key_prefix, "instance.id": "there"}
        async with House(server.url, **shared).open() as there:
            desk = here.serving.desk
            await arrive(desk.engine, "ghost")
            held = await register(
                *(desk.engine, CELL, "node-1"),
                connection=new_connection("ghost"),
                semantic_langs=["en", "zh"],
                max_concurrent_jobs=4,
            )
            assert isinstance(held, Registered)
            lost = await here.dispatch("room-1")
            assert (await look(desk.engine, "ghost"))[1] == 1, "nobody will read it"
            async with there.node() as node:
                await node.register(epoch=held.epoch, running=[], slots=4)
                await node.is_ready()

                async def is_forgotten() -> bool:
                    return await desk.neighbours.holder("node-1", held.epoch) == "there"

                await eventually(is_forgotten)
                placed = await here.dispatch("room-2")
                await node.result(await node.job(job_id=placed["job_id"]))
                assert (await here.ended(placed["job_id"]))["attempt_id"] == 1
                await node.result(await node.job(job_id=lost["job_id"]))
                ended = await here.ended(lost["job_id"])
                assert (ended["state"], ended["attempts"][0]["end"]) == ("FINISHED", "undelivered")
