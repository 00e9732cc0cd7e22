"""An instance reads no letters and its inbox is full: jobs go to nodes that can be reached."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.support.house import eventually, look

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server


async def test_one_more_letter_is_refused_and_the_job_goes_to_another_node(serve: Start, store: Server) -> None:
    full = {"instance__inbox_max": "1", "jobs__reservation_ttl_ms": "60000", "jobs__run_timeout_ms": "60000"}
    here, there = await serve(**full), await serve(**full)
    async with there.node("far") as far, here.node("near") as near:
        await far.register(features=("job_ack",), slots=4)
        await far.is_ready()
        os.kill(there.pid, signal.SIGSTOP)
        try:
            first = await here.dispatch("room-1")
            assert first["node_id"] == "far"
            await near.register(features=("job_ack",), slots=4)
            await near.is_ready()
            second = await here.dispatch("room-2", options={"preferred_node_id": "far"})
            assert second["node_id"] == "near"
            await near.result(await near.job(job_id=second["job_id"]))
            ended = await here.ended(second["job_id"])
            assert [one["end"] for one in ended["attempts"]] == ["undelivered", "FINISHED"]
        finally:
            os.kill(there.pid, signal.SIGCONT)
        await far.result(await far.job(job_id=first["job_id"]))
        assert (await here.ended(first["job_id"]))["attempt_id"] == 1

        async def is_empty() -> bool:
            return not (await look(store)).outbox

        await eventually(is_empty)
