"""Worlds with rules of their own, beside the usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from lingua_scheduler.core.rules import Rules
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


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
