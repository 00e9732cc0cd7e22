"""The one clock: the engine's own, where nobody hands in another."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.face import pack
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.store.scripts import compose, read_packaged
from lingua_scheduler.views.nodes import Nodes, read_nodes
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[Engine]:
    """A client that leaves the time to the engine."""
    async with await Engine.connect(server.url, f"test:{secrets.token_hex(6)}", pack(Rules())) as engine:
        yield engine
        await engine.command("UNLINK", *(cell_key(engine.prefix, CELL, name) for name in CELL_KEY_NAMES))


async def test_scripts_go_by_the_engine_s_clock(engine: Engine) -> None:
    async def now_ms() -> int:
        seconds, micros = await engine.command("TIME", cell=CELL)
        return int(seconds) * 1000 + int(micros) // 1000

    before = await now_ms()
    page = await read_nodes(engine, CELL)
    assert isinstance(page, Nodes)
    assert before <= page.now_ms <= await now_ms()


@pytest.mark.parametrize(
    ("time", "now_ms"),
    [
        (("1700000000", "0"), 1_700_000_000_000),
        (("1700000000", "999"), 1_700_000_000_000),
        (("1700000000", "1000"), 1_700_000_000_001),
        (("1700000001", "999999"), 1_700_000_001_999),
        (("1700000001", "998999"), 1_700_000_001_998),
    ],
)
async def test_seconds_and_microseconds_are_whole_milliseconds(
    engine: Engine, time: tuple[str, str], now_ms: int
) -> None:
    clock = read_packaged("flows/shared/clock")
    assert clock.count('redis.call("TIME")') == 1
    frozen = clock.replace('redis.call("TIME")', '{{ "{}", "{}" }}'.format(*time))
    main = "#!lua\n-- include: clock\nreturn { string.format('%.0f', clock(ARGV[1])), KEY.jobs and nil }"
    texts = {"flows/reap": main, "flows/shared/clock": frozen}
    assert await engine.run(compose("flows/reap", texts.__getitem__), CELL, (b"",)) == b"%d" % now_ms
