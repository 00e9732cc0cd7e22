"""The release before this one and this one, side by side under load: an upgrade, one instance after the other."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.sdk import Client, Result
from lingua_scheduler.store.tables import SCHEMA
from tests.support.house import LINGUA, Heap, Scheduler, judge
from tests.support.releases import release_of
from tests.support.sdk_clients import translated
from tests.support.sdk_nodes import RESULT, node_at, running

if TYPE_CHECKING:
    from pathlib import Path

    from lingua_scheduler.sdk import Job
    from tests.support.releases import Release
    from tests.support.servers import Server

#: So many utterances come to their end while the instances are as they are.
SOME = 15


@pytest.fixture
def before(tmp_path: Path) -> Release:
    """The release of the commit before the last one."""
    return release_of("HEAD~1", tmp_path / "before")


@pytest.fixture
def like_this(before: Release, tmp_path: Path) -> Release:
    """The same, if it shares an engine with this one; else that of the last commit."""
    return before if before.schema == SCHEMA else release_of("HEAD", tmp_path / "last")


async def at_work(_: Job) -> dict[str, str]:
    """Takes a moment, so that there is always something under way, and nobody says too much at once."""
    await asyncio.sleep(0.1)
    return RESULT


async def test_nobody_notices_that_one_instance_after_the_other_is_upgraded(store: Server, like_this: Release) -> None:
    if like_this.schema != SCHEMA:
        pytest.skip(f"schema {SCHEMA} is not committed yet: nobody shares an engine with it")
    old = [Scheduler(store.url, PYTHONPATH=str(like_this.source)) for _ in range(2)]
    new = [Scheduler(store.url) for _ in range(2)]
    results = Heap()

    async def talk(port: int) -> None:
        async with Client(f"http://127.0.0.1:{port}") as client:
            while True:
                # Without a result it raises, and the test with it.
                *_, end = await translated(client)
                assert isinstance(end, Result)
                await results.add(end)

    for scheduler in old:
        await scheduler.start()
    nodes = [node_at(scheduler.port, at_work, f"sdk-{scheduler.port}", max_jobs=8) for scheduler in old]
    async with running(*nodes), asyncio.TaskGroup() as group:
        talks = [group.create_task(talk(scheduler.port)) for scheduler in old for _ in range(4)]
        await results.reach(SOME)
        for last, following in zip(old, new, strict=True):
            # In the same place, as a service that is restarted.
            following.port = last.port
            assert await last.stop() == 0
            await following.start()
            await results.reach(len(results.things) + SOME)
            # Everybody is back, and each instance does its part again.
            async with asyncio.timeout(30):
                await asyncio.gather(*(node.joined() for node in nodes))
            await results.reach(len(results.things) + SOME)
        for one in talks:
            one.cancel()
    for scheduler in new:
        assert await scheduler.stop() == 0
    assert await judge(store) == []


async def test_this_release_shares_the_engine_of_the_one_before_or_says_what_to_do(
    store: Server, before: Release
) -> None:
    async with Scheduler(store.url, PYTHONPATH=str(before.source)):
        command = [LINGUA, "serve", "--port", "0", "--store", store.url]
        if before.schema != SCHEMA:
            tried = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, check=False, timeout=30
            )
            assert tried.returncode == 2
            assert f"schema {before.schema} by an older release" in tried.stderr
            assert "another engine.key_prefix" in tried.stderr
        else:
            async with Scheduler(store.url) as scheduler:
                assert len((await scheduler.get("/v1/instances"))["instances"]) == 2
