"""Two processes under one name would read each other's letters: only one of them serves."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.scenarios.test_serve import command
from tests.support.house import eventually, look
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server

NAMED = {"instance__id": "web-1", "instance__presence_ttl_ms": "1500", "instance__presence_beat_ms": "300"}
IN_THE_ENVIRONMENT = {f"LINGUA_{name.upper()}": value for name, value in NAMED.items()}


def serve_too(url: str) -> subprocess.CompletedProcess[str]:
    """Another process under the same name, until it ends."""
    environment = os.environ | IN_THE_ENVIRONMENT
    return subprocess.run(
        command("--port", "0", "--store", url), env=environment, capture_output=True, text=True, check=False
    )


async def test_the_second_is_refused_and_told_who_is_first(serve: Start, store: Server) -> None:
    first = await serve(**NAMED)
    ran = await asyncio.to_thread(serve_too, store.url)
    assert (ran.returncode, ran.stdout) == (2, "")
    waits, refused = ran.stderr.strip().splitlines()
    who = f"another process serves as instance web-1 (process {first.pid} on "
    assert who in waits
    assert who in refused
    assert [one["instance_id"] for one in (await first.get("/v1/instances"))["instances"]] == ["web-1"]


async def test_whoever_is_killed_starts_again_under_its_name_at_once(serve: Start) -> None:
    """For as long as its presence would have lasted nobody has to wait."""
    lasting = {"instance__id": "web-1", "instance__presence_ttl_ms": "600000", "nodes__offline_ms": "660000"}
    scheduler = await serve(**lasting)
    await scheduler.stop(signal.SIGKILL)
    await scheduler.start()
    assert [one["instance_id"] for one in (await scheduler.get("/v1/instances"))["instances"]] == ["web-1"]


async def test_its_nodes_have_their_time_to_come_back_and_are_given_up_then(serve: Start, store: Server) -> None:
    """Nobody ever missed the name."""
    lasting = {"instance__presence_ttl_ms": "25000", "nodes__handover_grace_ms": "6000"}
    there, here = await serve(**lasting, instance__id="web-1"), await serve(**lasting)
    async with there.node("back") as back, there.node("dead") as dead:
        for node in (back, dead):
            await node.register(slots=1)
            await node.is_ready()
        jobs = {(await here.dispatch(f"room-{n}"))["node_id"]: n for n in range(2)}
        assert set(jobs) == {"back", "dead"}
        kept, moves = await back.job(), await dead.job()
        await there.stop(signal.SIGKILL)
        await there.start()
        async with there.node("back") as again:
            await again.register(slots=1, epoch=back.epoch, running=[{"job_id": kept["job_id"], "attempt_id": 1}])

            async def is_lost() -> bool:
                return bool((await look(store)).nodes["dead"].lost_at_ms)

            await eventually(is_lost)
            assert not (await look(store)).nodes["back"].lost_at_ms
            await again.result(kept)
            await again.result(await again.job(job_id=moves["job_id"]))
            ended = [await here.ended(job["job_id"]) for job in (kept, moves)]
            assert [(one["state"], one["attempt_id"]) for one in ended] == [("FINISHED", 1), ("FINISHED", 2)]


async def test_one_that_slept_until_its_name_was_given_away_ends(serve: Start) -> None:
    sleeper, other = await serve(**NAMED), await serve()
    async with sleeper.node() as node:
        await node.register()
        await node.is_ready()
        os.kill(sleeper.pid, signal.SIGSTOP)
        try:

            async def is_gone() -> bool:
                return len((await other.get("/v1/instances"))["instances"]) == 1

            await eventually(is_gone)
            await serve(**NAMED)
        finally:
            os.kill(sleeper.pid, signal.SIGCONT)
        assert (await node.gone())[0] == 1012
        process = sleeper._process
        assert process is not None
        wait_until(lambda: process.poll() == 1)
