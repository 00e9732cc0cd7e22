"""One real engine for the whole run; a test's isolation is its key prefix. And what tests of many kinds stand on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from lingua_scheduler.store.embedded.options import engine_arguments
from lingua_scheduler.store.embedded.paths import Paths
from tests.support import clusters, sentinels
from tests.support.clusters import Sixpack
from tests.support.debian import Missing, find_redis
from tests.support.house import House
from tests.support.proxy import Proxy
from tests.support.sentinels import Trio
from tests.support.servers import Elsewhere, start_server
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.servers import HasUrl, Server

# How long an example takes is the machine's business, and no test's.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")


@pytest.fixture(scope="session", autouse=True)
def _signals_as_at_a_terminal() -> None:
    """Programs that tests start and strike inherit what we ignore: in the background, or under nohup, that is these."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        default="",
        help="what tests/flows run on: embedded, redis (Debian's), sentinel, cluster, plain (one server, that keeps "
        "nothing), or the URL of an engine of yours; without it, on each of the first four",
    )


#: What takes longest begins first, so that at the end nobody waits for one file while the other cores idle.
LONGEST = ("scenarios", "browser", "property", "engines", "sdk", "contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server."""
    server = start_server(tmp_path_factory.mktemp("engine"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server, set up as the embedded engine is."""
    directory = tmp_path_factory.mktemp("embedded")
    server = start_server(directory, *engine_arguments(Paths(directory, directory / "s"), "default"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server: Debian's Redis."""
    try:
        binary = find_redis()
    except Missing as missing:
        pytest.fail(str(missing), pytrace=False)
    server = start_server(tmp_path_factory.mktemp("redis"), binary=binary)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """A primary and a replica that three Sentinels watch; whoever shares it leaves it as it is."""
    trio = Trio(tmp_path_factory.mktemp("sentinel"), sentinels.NEVER_DOWN_MS)
    try:
        trio.start()
        yield trio
    finally:
        trio.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sixpack]:
    """A Cluster; whoever shares it leaves every slot where it was."""
    cluster = Sixpack(tmp_path_factory.mktemp("cluster"), clusters.NEVER_DOWN_MS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> HasUrl:
    """The engine that all tests of this run share; a few ask for it on each kind of engine."""
    kind = getattr(request, "param", request.config.getoption("--engine") or "plain")
    found: HasUrl = Elsewhere(kind) if "://" in kind else request.getfixturevalue(kind)
    return found


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
