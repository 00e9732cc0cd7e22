"""Two instances on a Cluster, and behind Sentinels: as on one server."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.audit import audit_whole
from tests.support.house import CELL, Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(params=["cluster", "sentinel"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Scheduler, Scheduler]]:
    """Here and there; at the end the auditor looks at everything."""
    url, prefix = request.getfixturevalue(request.param).url, f"test:{secrets.token_hex(6)}"
    async with (
        Scheduler(url, LINGUA_ENGINE__KEY_PREFIX=prefix) as here,
        Scheduler(url, LINGUA_ENGINE__KEY_PREFIX=prefix) as there,
    ):
        yield here, there
    async with await Engine.connect(url, prefix, msgspec.msgpack.encode(Rules())) as engine:
        assert await audit_whole(engine, CELL) == []


async def test_a_job_its_node_and_its_session_are_anywhere(pair: tuple[Scheduler, Scheduler]) -> None:
    here, there = pair
    async with there.node() as node, here.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        placed = await here.dispatch()
        await node.result(await node.job(job_id=placed["job_id"]))
        assert (await here.ended(placed["job_id"]))["state"] == "FINISHED"
        token = (await client.init())["resume_token"]
        await client.utter(0)
        job = await node.job(utterance_index=0)
        async with there.client() as moved:
            await moved.init(resume_token=token)
            assert (await client.gone())[0] == 4409
            await node.result(job)
            assert (await moved.end_of(0))["type"] == "translation_result"
