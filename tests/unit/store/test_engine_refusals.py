"""Why the engine refuses is told apart, and all of it means: nothing was executed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, ScriptFailed
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.scripts import Script, compose
from tests.support.servers import Server, start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


def script(body: str, flags: str = "") -> Script:
    return compose("ack", lambda _: f"#!lua{flags}\n{body}")


WRITE = script("redis.call('INCR', KEY.counts)\nreturn {'written'}")
RELEASE = script("redis.call('INCR', KEY.counts)\nreturn {'released'}", " flags=allow-oom")
READ = script("return {redis.call('GET', KEY.counts) or '0'}", " flags=no-writes")
ENDLESS = script("while true do end")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = start_server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[Engine]:
    async with await Engine.connect(server.url) as engine:
        yield engine


async def reason(engine: Engine, script: Script = WRITE) -> str:
    with pytest.raises(DependencyDown) as caught:
        await engine.run(script, "c0", (b"",))
    assert caught.value.code == "SCHEDULER_DEPENDENCY_DOWN"
    assert caught.value.detail
    return caught.value.reason


async def count(engine: Engine) -> bytes:
    answer: bytes = await engine.run(READ, "c0", (b"",))
    return answer


async def config(engine: Engine, *settings: str) -> None:
    await engine.command("CONFIG", "SET", *settings)


async def test_out_of_memory_is_oom_but_what_frees_memory_runs(engine: Engine) -> None:
    await config(engine, "maxmemory", "1")
    assert await reason(engine) == "OOM"
    assert await count(engine) == b"0"
    assert await engine.run(RELEASE, "c0", (b"",)) == b"released"
    await config(engine, "maxmemory", "0")
    assert await engine.run(WRITE, "c0", (b"",)) == b"written"


async def test_a_replica_is_readonly(engine: Engine) -> None:
    await engine.command("REPLICAOF", "127.0.0.1", 1)
    assert await reason(engine) == "READONLY"
    assert await count(engine) == b"0"
    await engine.command("REPLICAOF", "NO", "ONE")
    assert await engine.run(WRITE, "c0", (b"",)) == b"written"


async def test_a_replica_without_its_master_is_masterdown(engine: Engine) -> None:
    await config(engine, "replica-serve-stale-data", "no")
    await engine.command("REPLICAOF", "127.0.0.1", 1)
    assert await reason(engine, READ) == "MASTERDOWN"
    await engine.command("REPLICAOF", "NO", "ONE")
    assert await count(engine) == b"0"


async def test_too_few_replicas_is_noreplicas(engine: Engine) -> None:
    await config(engine, "min-replicas-to-write", "1")
    assert await reason(engine) == "NOREPLICAS"
    assert await count(engine) == b"0"


async def test_a_disk_that_cannot_be_written_is_misconf(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").mkdir()
    await config(engine, "save", "3600 1")
    await engine.command("BGSAVE")
    async with asyncio.timeout(5):
        while b"rdb_last_bgsave_status:err" not in await engine.command("INFO", "persistence"):
            pass
    assert await reason(engine) == "MISCONF"
    assert await count(engine) == b"0"


async def test_another_clients_endless_script_is_busy(server: Server, engine: Engine) -> None:
    await config(engine, "busy-reply-threshold", "1")
    async with await Engine.connect(server.url, timeout_ms=60_000) as other:
        endless = other.run(ENDLESS, "c0", (b"",))
        async with asyncio.timeout(5):
            while True:
                # Until the threshold has passed the engine does not answer at all; after that it is BUSY.
                with contextlib.suppress(DependencyDown):
                    await engine.command("PING")
                    continue
                break
        assert await reason(engine) == "BUSY"
        with pytest.raises(DependencyDown, match="BUSY"):
            await Engine.connect(server.url, timeout_ms=100)
        await engine.command("SCRIPT", "KILL")
        with pytest.raises(ScriptFailed, match="SCRIPT KILL"):
            await endless
    assert await engine.run(WRITE, "c0", (b"",)) == b"written"


async def test_a_user_without_the_right_is_noperm(engine: Engine, server: Server) -> None:
    await engine.command("ACL", "SETUSER", "guest", "on", ">pw", "~*", "+@all", "-evalsha")
    async with await Engine.connect(f"unix://guest:pw@{server.path}") as guest:
        assert await reason(guest) == "NOPERM"


async def test_an_engine_that_loads_its_data_is_away_and_then_serves(tmp_path: Path) -> None:
    first = start_server(tmp_path)
    async with await Engine.connect(first.url) as engine:
        await asyncio.gather(*(engine.command("SET", f"key{i}", "x" * 100) for i in range(1000)))
        await engine.command("SAVE")
        first.stop()
        with pytest.raises(LinguaError):
            await engine.command("PING")
        slow = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
        second = start_server(tmp_path, *slow)
        try:
            assert await reason(engine) == "LOADING"
            async with asyncio.timeout(20):
                while True:
                    with contextlib.suppress(DependencyDown):
                        assert await engine.run(WRITE, "c0", (b"",)) == b"written"
                        break
            assert await engine.command("DBSIZE") == 1001
        finally:
            second.stop()
