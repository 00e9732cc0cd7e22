"""A node that polls waits at one instance; its work is laid into its mailbox by another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.front import mailbox
from tests.support.house import House, somebody_waits

if TYPE_CHECKING:
    import pytest

    from tests.support.servers import Server


async def test_it_hears_of_it_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when it next looks for itself."""
    monkeypatch.setattr(mailbox, "LOOK_MS", 60_000)
    async with House(server.url).open() as here:
        shared = {"engine.key_prefix": here.settings.engine.key_prefix}
        async with House(server.url, **shared).open() as there:
            await here.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
            polling = asyncio.create_task(there.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 15_000}))
            await somebody_waits(there)
            placed = await here.dispatch()
            (job,) = (await polling)["jobs"]
            assert job["job_id"] == placed["job_id"]
            done = {"job_id": job["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok"}
            await there.post("/v1/job/done", done)
            assert (await here.ended(placed["job_id"]))["state"] == "FINISHED"
