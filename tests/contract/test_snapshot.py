"""What is shown of the fleet is made in the background: who looks costs the engine nothing, and sees how old it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.front import stats as stats_module
from tests.support.house import House, eventually
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}


@pytest.fixture
async def quiet(server: Server) -> AsyncIterator[House]:
    """A scheduler that looks at its fleet once, and then not for a long time."""
    async with House(server.url, **{"loops.snapshot_interval_ms": 600_000}).open() as house:
        await eventually(lambda: has_looked(house))
        yield house


async def has_looked(house: House) -> bool:
    return house.serving.desk.stats.age_ms(house.serving.desk) is not None


def looks(house: House) -> int:
    """How often the engine was asked for the numbers of the fleet."""
    return asked(house, "fleet")


def asked(house: House, script: str) -> int:
    """How often a script of the engine was run."""
    return house.serving.app.engine.meters[script].seconds.total


async def test_however_many_look_the_engine_is_not_asked(quiet: House) -> None:
    before = looks(quiet)
    answers = await asyncio.gather(*(quiet.get("/api/v1/stats") for _ in range(200)))
    assert looks(quiet) == before
    assert len({answer["generated_at_ms"] for answer in answers}) == 1
    assert all(answer["age_ms"] >= 0 for answer in answers)


async def test_who_comes_before_the_first_look_waits_for_it_and_all_for_the_same(quiet: House) -> None:
    desk = quiet.serving.desk

    async def is_noted() -> bool:
        return asked(quiet, "chart") == looks(quiet)

    await eventually(is_noted)
    desk.stats = stats_module.Stats()
    before, points = looks(quiet), asked(quiet, "chart")
    answers = await asyncio.gather(*(quiet.get("/api/v1/stats") for _ in range(50)))
    assert (looks(quiet) - before, len({answer["generated_at_ms"] for answer in answers})) == (1, 1)
    # Nor is it noted fifty times for the curves.
    assert asked(quiet, "chart") - points == 1


async def test_a_look_can_be_forced_seldom(quiet: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await quiet.post("/v1/node/register", NODE)
    assert (await quiet.get("/api/v1/stats"))["slots"]["total"] == 0
    before = looks(quiet)
    answers = await asyncio.gather(*(quiet.get("/api/v1/stats?fresh=true") for _ in range(20)))
    assert looks(quiet) - before == 1
    assert 4 in {answer["slots"]["total"] for answer in answers}
    await quiet.get("/api/v1/stats?fresh=true")
    assert looks(quiet) - before == 1
    monkeypatch.setattr(stats_module, "FORCED_S", 0)
    await quiet.get("/api/v1/stats?fresh=true")
    assert looks(quiet) - before == 2


async def test_while_the_engine_is_away_the_last_good_one_is_shown_and_that_it_is_old(tmp_path: Path) -> None:
    engine = start_server(tmp_path)
    try:
        async with House(engine.url, **{"loops.snapshot_interval_ms": 50}).open() as house:
            await house.post("/v1/node/register", NODE)
            assert (await house.stats())["slots"]["total"] == 4
            engine.freeze()
            seen: dict[str, Any] = {}

            async def is_old() -> bool:
                seen.update(await house.get("/api/v1/stats"))
                return any("nobody could look" in problem for problem in seen["health"]["problems"])

            await eventually(is_old)
            assert (seen["slots"]["total"], seen["health"]["ok"]) == (4, False)
            engine.thaw()

            async def is_new() -> bool:
                return bool((await house.get("/api/v1/stats"))["health"]["ok"])

            await eventually(is_new)
    finally:
        engine.thaw()
        engine.stop()


async def test_the_last_hour_is_told_in_points(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    await house.dispatch()
    await house.stats()
    history = await house.get("/api/v1/history")
    last = history["points"][-1]
    assert history["stretch_ms"] == 10_000
    assert (last["ready_nodes"], last["free_slots"], last["in_flight"]) == (1, 3, 1)
    assert last["p95_dispatch_ms"] > 0
    assert last["at_ms"] % 10_000 == 0


async def test_where_nothing_was_dispatched_there_is_no_percentile(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    assert (await house.stats())["dispatch_ms"]["p95"] is None
    assert (await house.get("/api/v1/history"))["points"][-1]["p95_dispatch_ms"] is None
