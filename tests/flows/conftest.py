"""Worlds with rules of their own, beside the usual one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import pytest

from lingua_scheduler.core.rules import Rules
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


#: What also runs on a Cluster: between them these run every script that has a flow or a view.
ON_A_CLUSTER: Final = {
    *("test_admit", "test_audio", "test_counts", "test_enter_session", "test_explain_job", "test_fleet"),
    *("test_mailbox", "test_pairing", "test_place", "test_sessions", "test_submit_waiting", "test_views"),
}
#: What also runs behind Sentinels, where only the way to the server is another.
BEHIND_SENTINELS: Final = {"test_fleet", "test_sessions", "test_submit_waiting"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each kind of engine for the chosen ones, unless the run was told which engine to take."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if "server" not in metafunc.fixturenames or metafunc.config.getoption("--engine") != "plain":
        return
    kinds = [kind for kind, chosen in (("cluster", ON_A_CLUSTER), ("sentinel", BEHIND_SENTINELS)) if name in chosen]
    if kinds:
        metafunc.parametrize("server", ["plain", *kinds], indirect=True, scope="session")


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
