"""Instances reach their engine by wires of their own, whoever tells them where it is; and we go past these."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chaos.engines import open_engine
from chaos.network import Guide, Way
from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.store.engine import Engine
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.plan import EngineKind


@pytest.mark.parametrize(("kind", "primaries"), [("sentinel", 1), ("cluster", 3)])
async def test_an_instance_has_wires_of_its_own_and_the_auditor_goes_past_all(
    kind: EngineKind, primaries: int, tmp_path: Path
) -> None:
    async with (
        open_engine(kind, tmp_path, 2) as engine,
        await Engine.connect(engine.url, "past") as past,
        await Engine.connect(engine.url_for(1), "behind") as behind,
    ):
        other, own = engine.ways
        assert len(await _ping_all(past, "127.0.0.1")) == primaries
        assert len(await _ping_all(behind, "127.0.1.2")) == primaries
        assert sum(bool(wire.links) for wire in own.servers) >= primaries
        assert not any(wire.accepted for wire in (*other.servers, *other.guides))

        before = await engine.primaries()
        for wire in own.some(0, 1.0):
            wire.holed = True
        with pytest.raises(LinguaError):
            await _ping_all(behind, "127.0.1.2")
        assert len(await _ping_all(past, "127.0.0.1")) == primaries

        own.heal()
        async with await Engine.connect(engine.url_for(1), "again") as again:
            assert len(await _ping_all(again, "127.0.1.2")) == primaries
        assert await engine.primaries() == before


async def test_whom_a_server_of_a_cluster_sends_on_stays_on_the_wires(tmp_path: Path) -> None:
    async with open_engine("cluster", tmp_path, 1) as engine, await Engine.connect(engine.url_for(0)) as behind:
        cells = [f"c{number}" for number in range(12)]
        await asyncio.gather(*(behind.command("SET", f"{{{cell}}}", cell) for cell in cells))
        assert {server.host for server in behind.servers} == {"127.0.1.1"}
        await _ping_all(behind, "127.0.1.1")


async def _ping_all(engine: Engine, host: str) -> list[str]:
    """Every server with cells answers, and is there."""
    asked = engine.everywhere("PING")
    assert await asyncio.gather(*asked.values()) == [b"PONG"] * len(asked)
    assert all(f"{host}:" in server for server in asked)
    return list(asked)


def test_a_sentinel_names_servers_as_the_instance_reaches_them() -> None:
    guide = Guide(26379, ("127.0.1.2", 26379))
    answer = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n"
    assert guide.put("down", answer) == b"*2\r\n$9\r\n127.0.1.2\r\n$4\r\n6379\r\n"
    assert guide.put("up", answer) == answer


def test_sentinels_are_lost_only_with_all_servers_and_never_late() -> None:
    """Whoever cannot hear of a fail-over would believe the old primary for longer than the checker excuses."""
    servers, guides = [Proxy(1), Proxy(2)], [Guide(3), Guide(4)]
    way = Way(0, "", list(servers), list(guides))
    for whom in range(4):
        assert way.some(whom, 0.4) == [servers[whom % 2]]
        assert way.some(whom, 0.6) == [*servers, *guides]
        assert way.slow(whom, 0.4) == [servers[whom % 2]]
        assert way.slow(whom, 0.6) == servers
