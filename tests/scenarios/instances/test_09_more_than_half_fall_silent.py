"""More than half of the fleet fall silent at once, at all instances: nobody is given up, and somebody is told."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from lingua_scheduler.core.records import Standing
from tests.support.house import eventually, look

if TYPE_CHECKING:
    import pytest

    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server

#: Who is not heard for a second is silent, and is given up after two.
QUICK = {
    "nodes__socket_beat_ms": "500",
    "nodes__stale_ms": "1000",
    "nodes__offline_ms": "2000",
    "nodes__handover_grace_ms": "400",
    "instance__presence_ttl_ms": "1000",
    "instance__presence_beat_ms": "300",
}


async def join(scheduler: Scheduler, *node_ids: str) -> None:
    """Nodes without a socket: nobody but they themselves can say that they live."""
    for node_id in node_ids:
        said: dict[str, Any] = {"node_id": node_id, "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
        await scheduler.post("/v1/node/register", said)


async def beat(scheduler: Scheduler, *node_ids: str) -> None:
    """They go on, for ever."""
    while True:
        await asyncio.gather(*(scheduler.post("/v1/node/heartbeat", {"node_id": node_id}) for node_id in node_ids))
        await asyncio.sleep(0.2)


async def test_fencing_stops_and_an_alarm_says_so(
    serve: Start, store: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    here, there = await serve(**QUICK), await serve(**QUICK)
    await join(here, "a", "b", "c")
    await join(there, "d", "e", "f")
    placed = [await here.dispatch(f"room-{number}") for number in range(6)]
    attempts = {one["node_id"]: (one["job_id"], one["attempt_id"]) for one in placed}
    assert len(attempts) == 6
    beating = asyncio.create_task(beat(there, "a", "d"))
    silent = ("b", "c", "e", "f")

    async def is_known() -> bool:
        seen = (await look(store)).nodes
        return {seen[node_id].standing for node_id in silent} == {Standing.stale}

    await eventually(is_known)
    told = ""

    async def is_told() -> bool:
        nonlocal told
        told += capfd.readouterr().err
        found = [json.loads(line) for line in told.splitlines()]
        return ("mass_silence", 4) in [(one["event"], one.get("number")) for one in found]

    await eventually(is_told)
    beating.cancel()
    cell = await look(store)
    assert not any(node.lost_at_ms for node in cell.nodes.values())
    assert {job.attempt for job in cell.jobs.values()} == {1}
    stats = await here.stats()
    assert any("are silent" in problem for problem in stats["health"]["problems"]), stats["health"]
    for node_id, (job_id, attempt) in attempts.items():
        done = {"job_id": job_id, "attempt_id": attempt, "node_id": node_id, "status": "ok"}
        assert (await there.post("/v1/job/done", done))["state"] == "FINISHED"
