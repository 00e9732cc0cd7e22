"""A job that named a node and went to another is in the log, once, with the reason and nothing that was said."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.protocol.options import Pipeline
from tests.support.logs import told
from tests.support.nodes import Stage
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

SECRET: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline(), payload={"text": "a secret"})


@pytest.fixture
def stage(world: World, caplog: pytest.LogCaptureFixture) -> Stage:
    caplog.set_level(logging.INFO, "lingua_scheduler")
    return Stage(world)


async def put(stage: Stage, session_id: str = "s1", *, bind_key: str = "", **wanted: Any) -> Submitted:
    ask = Ask(session_id, "en", "zh", wanted=Wanted(**wanted), bind_key=bind_key)
    submitted = await stage.delivery.place(ask, SECRET)
    assert isinstance(submitted, Submitted), submitted
    return submitted


async def fallbacks(stage: Stage, caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    """What is in the log when all is said."""
    await stage.delivery.close()
    assert "secret" not in caplog.text
    return [
        tuple(one[name] for name in ("job_id", "node_id", "preferred", "reason")) for one in told(caplog, "fallback")
    ]


async def test_the_node_that_is_preferred_is_nothing_to_tell(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    await stage.join("n1")
    await stage.join("n2")
    assert (await put(stage, preferred_node_id="n1")).placed.node_id == "n1"
    await put(stage)
    assert await fallbacks(stage, caplog) == []


@pytest.mark.parametrize("why", ["full", "draining"])
async def test_another_one_is(stage: Stage, caplog: pytest.LogCaptureFixture, why: str) -> None:
    await stage.join("n1", max_concurrent_jobs=1)
    await stage.join("n2")
    if why == "full":
        await put(stage, preferred_node_id="n1")
    else:
        await drain(stage.world.engine, CELL, "n1")
    placed = await put(stage, preferred_node_id="n1")
    assert placed.placed.node_id == "n2"
    assert await fallbacks(stage, caplog) == [(placed.job_id, "n2", "n1", why)]


async def test_that_it_could_not_be_written_to_is_a_reason(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    (await stage.join("n1")).room = 0
    await stage.join("n2")
    placed = await put(stage, preferred_node_id="n1")
    assert await fallbacks(stage, caplog) == [(placed.job_id, "n2", "n1", "undelivered")]


async def test_the_rest_of_the_turn_is_one(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    await stage.join("n1")
    await stage.join("n2")
    await put(stage, bind_key="t1", preferred_node_id="n2")
    placed = await put(stage, bind_key="t1", preferred_node_id="n1")
    assert await fallbacks(stage, caplog) == [(placed.job_id, "n2", "n1", "bound")]


@pytest.mark.parametrize("is_away", [False, True])
async def test_one_that_had_to_wait_is_told_once_by_who_carries_it(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Also if the engine cannot hear that it was carried, and it is carried once more."""
    await stage.join("n1", max_concurrent_jobs=1)
    await stage.join("n2", max_concurrent_jobs=1)
    await put(stage, preferred_node_id="n1")
    other = await put(stage, preferred_node_id="n2")
    waits = asyncio.ensure_future(put(stage, "s2", preferred_node_id="n1", wait_ms=1_000))
    while len((await stage.world.cell()).jobs) < 3:
        pass
    await done(stage.world.engine, other.job_id, 1, "n2")
    waited = await waits
    run = stage.world.engine.run

    def fails(script: Any, *more: Any) -> Any:
        if script.name == "deliver" and is_away:
            raise DependencyDown("TEST", "away")
        return run(script, *more)

    monkeypatch.setattr(stage.world.engine, "run", fails)
    for _ in range(2):
        await stage.delivery.carry_again(waited.job_id, 1)
    is_away = False
    assert await fallbacks(stage, caplog) == [(waited.job_id, "n2", "n1", "full")]
