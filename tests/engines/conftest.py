"""Clients of a Cluster and of a Sentinel trio, and such that may be broken."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.store.engine import Engine
from tests.support.clusters import Sixpack
from tests.support.sentinels import Trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

#: Whatever else this machine does; that a silent server is given up is told by the tests of connections.
LONG_MS: Final = 30_000


@pytest.fixture
async def engine(cluster: Sixpack) -> AsyncIterator[Engine]:
    """A client of the Cluster that all tests share."""
    async with await Engine.connect(cluster.url, secrets.token_hex(4), timeout_ms=LONG_MS) as engine:
        yield engine


@pytest.fixture(scope="module")
def brittle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sixpack]:
    cluster = Sixpack(tmp_path_factory.mktemp("brittle"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def own_cluster(brittle: Sixpack) -> Iterator[Sixpack]:
    """A Cluster that a test may break; whoever was killed comes back, in whatever role."""
    yield brittle
    brittle.start_again()


@pytest.fixture
def own_trio(tmp_path: Path) -> Iterator[Trio]:
    """A trio that a test may break."""
    trio = Trio(tmp_path)
    try:
        trio.start()
        yield trio
    finally:
        trio.stop()
