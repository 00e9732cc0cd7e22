"""One real engine for the whole run; a test's isolation is its key prefix. And what tests of many kinds stand on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.house import House
from tests.support.proxy import Proxy
from tests.support.servers import start_server
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.servers import Server

# How long an example takes is the machine's business, and no test's.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")


@pytest.fixture(scope="session", autouse=True)
def _signals_as_at_a_terminal() -> None:
    """Programs that tests start and strike inherit what we ignore: in the background, or under nohup, that is these."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The engine that all tests of this run share."""
    server = start_server(tmp_path_factory.mktemp("engine"))
    yield server
    server.stop()


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    """An empty cell; at the end every invariant must hold."""
    world = World()
    await world.open(server.url)
    yield world
    await world.check()
    await world.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    """An engine of its own, that keeps what it acknowledged when it is killed."""
    server = start_server(tmp_path, "--appendonly", "yes", "--appendfsync", "no")
    yield server
    server.stop()


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """The whole scheduler in this process, on real sockets and a real engine, as it comes."""
    async with House(server.url).open() as house:
        yield house


@pytest.fixture
async def network(house: House) -> AsyncIterator[Proxy]:
    """The way to the house, which can fail."""
    async with Proxy(house.port) as network:
        yield network
