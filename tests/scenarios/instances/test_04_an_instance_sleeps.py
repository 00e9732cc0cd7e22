"""An instance sleeps for so long that it is taken for gone. When it wakes it takes its nodes back, with their jobs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

from lingua_scheduler.store.engine import Engine
from tests.support.house import eventually, look

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server

#: Who is not heard for two seconds is given up.
SOON_OFFLINE: Final = {
    "nodes__socket_beat_ms": "500",
    "nodes__stale_ms": "1000",
    "nodes__offline_ms": "2000",
    "nodes__handover_grace_ms": "400",
    "instance__presence_ttl_ms": "1000",
    "instance__presence_beat_ms": "300",
}


async def test_its_nodes_are_not_given_up(here: Scheduler, there: Scheduler, store: Server) -> None:
    async with there.node() as node:
        await node.register(features=("job_ack",))
        await node.is_ready()
        placed = await here.dispatch()
        job = await node.job()
        await node.say("job_ack", job_id=job["job_id"], attempt_id=1, node_id="node-1")

        async def is_away() -> bool:
            return bool((await look(store)).nodes["node-1"].away_until_ms)

        async def is_back() -> bool:
            return not await is_away()

        os.kill(there.pid, signal.SIGSTOP)
        try:
            await eventually(is_away)
        finally:
            os.kill(there.pid, signal.SIGCONT)
        await eventually(is_back)
        await node.result(job)
        ended = await here.ended(placed["job_id"])
        assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)
        assert not [message for message in node.heard if message["type"] == "job_cancel"]
        second = await here.dispatch("room-2")
        await node.result(await node.job(job_id=second["job_id"]))
        assert (await here.ended(second["job_id"]))["state"] == "FINISHED"


async def test_alone_it_gives_nobody_up_when_it_wakes(serve: Start, store: Server) -> None:
    """It was silent itself, and not its nodes, however long that was."""
    there = await serve(**SOON_OFFLINE)
    async with there.node() as node:
        await node.register(features=("job_ack",))
        await node.is_ready()
        placed = await there.dispatch()
        job = await node.job()
        await node.say("job_ack", job_id=job["job_id"], attempt_id=1, node_id="node-1")
        await node.was_read()
        async with await Engine.connect(store.url, "lingua:v1") as engine:

            async def would_be_lost() -> bool:
                seconds, micros = await engine.command("TIME")
                silent_ms = int(seconds) * 1_000 + int(micros) // 1_000 - (await look(store)).nodes["node-1"].seen_at_ms
                return silent_ms > int(SOON_OFFLINE["nodes__offline_ms"]) + 500

            os.kill(there.pid, signal.SIGSTOP)
            try:
                await eventually(would_be_lost)
            finally:
                os.kill(there.pid, signal.SIGCONT)
        second = await there.dispatch("room-2")
        await node.result(job)
        ended = await there.ended(placed["job_id"])
        assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)
        await node.result(await node.job(job_id=second["job_id"]))
        assert (await there.ended(second["job_id"]))["attempt_id"] == 1
        seen = (await look(store)).nodes["node-1"]
        assert (seen.lost_at_ms, seen.away_until_ms, seen.flaps) == (0, 0, 0)


async def test_what_it_was_written_meanwhile_is_read(here: Scheduler, there: Scheduler) -> None:
    """Shorter than its presence lasts: nobody takes anything away."""
    async with there.node() as node:
        await node.register(features=("job_ack",))
        await node.is_ready()
        os.kill(there.pid, signal.SIGSTOP)
        try:
            placed = await here.dispatch()
        finally:
            os.kill(there.pid, signal.SIGCONT)
        await node.result(await node.job(job_id=placed["job_id"]))
        assert (await here.ended(placed["job_id"]))["attempt_id"] == 1
