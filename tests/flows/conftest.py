"""Worlds with rules of their own, beside the usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import pytest

from lingua_scheduler.core.rules import Rules
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


#: Every flow on every engine: our own as it is embedded, the oldest one that is served, and those that have replicas.
ENGINES: Final = ("embedded", "redis", "sentinel", "cluster")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each kind of engine, unless the run was told which one to take."""
    if "server" in metafunc.fixturenames and not metafunc.config.getoption("--engine"):
        metafunc.parametrize("server", ENGINES, indirect=True, scope="session")


class MakeWorld(Protocol):
    async def __call__(self, rules: Rules = ..., *, max_batch: int = ...) -> World: ...


@pytest.fixture
async def make_world(server: Server) -> AsyncIterator[MakeWorld]:
    """Worlds as a test wants them; at the end every invariant must hold in each."""
    worlds: list[World] = []

    async def make(rules: Rules = Rules(), *, max_batch: int = 64) -> World:  # noqa: B008 - frozen
        world = World()
        await world.open(server.url, rules, max_batch=max_batch)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        await world.check()
        await world.close()
