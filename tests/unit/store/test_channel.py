"""Words by Pub/Sub: heard by who listens, also after his connection was lost; nobody waits for them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.store.channel import Ear, publish
from lingua_scheduler.store.engine import Engine
from tests.support.house import eventually

if TYPE_CHECKING:
    from tests.support.servers import Server
    from tests.support.world import World


class Heard:
    """What came, and that something came."""

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self._more = asyncio.Event()

    def __call__(self, word: bytes) -> None:
        self.words.append(word)
        self._more.set()

    async def reach(self, number: int) -> list[bytes]:
        async with asyncio.timeout(10):
            while len(self.words) < number:
                self._more.clear()
                await self._more.wait()
        return self.words


@pytest.fixture
def name() -> str:
    return f"test:{secrets.token_hex(6)}"


@pytest.mark.parametrize("kind", ["plain", "sentinel", "cluster"])
async def test_who_listens_hears_in_order_and_nobody_else(request: pytest.FixtureRequest, kind: str, name: str) -> None:
    url, heard, other = request.getfixturevalue(kind).url, Heard(), Heard()
    async with (
        await Engine.connect(url) as engine,
        Ear(engine, url, heard, name) as ear,
        Ear(engine, url, other, f"{name}:other") as second,
    ):
        await ear.listens()
        await second.listens()
        for number in range(50):
            publish(engine, name, b"%d" % number)
        assert await heard.reach(50) == [b"%d" % number for number in range(50)]
    assert other.words == []


async def test_a_ping_between_the_words_is_no_word(server: Server, world: World, name: str) -> None:
    heard = Heard()
    async with Ear(world.engine, server.url, heard, name) as ear:
        await ear.listens()
        for number in range(20):
            ponged = ear._connection.call("PING")
            publish(world.engine, name, b"%d" % number)
            assert await ponged == [b"pong", b""]
        assert await heard.reach(20) == [b"%d" % number for number in range(20)]


async def test_a_lost_connection_listens_again(server: Server, world: World, name: str) -> None:
    heard = Heard()
    async with Ear(world.engine, server.url, heard, name) as ear:
        await ear.listens()
        await world.engine.command("CLIENT", "KILL", "TYPE", "pubsub")

        async def is_heard() -> bool:
            publish(world.engine, name, b"again")
            return bool(heard.words)

        await eventually(is_heard)


async def test_who_may_not_speak_is_told_once(server: Server, caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.WARNING)
    async with await Engine.connect(server.url) as admin:
        await admin.command("ACL", "SETUSER", name, "on", f">{name}", "+@all", "allkeys", "resetchannels")
        own = server.url.replace("unix://", f"unix://{name.replace(':', '%3A')}:{name.replace(':', '%3A')}@")
        async with await Engine.connect(own) as engine:
            for _ in range(3):
                publish(engine, name, b"word")
            await engine.command("PING")
        await admin.command("ACL", "DELUSER", name)
    assert len([line for line in caplog.messages if "not told what may be lost" in line]) == 1
