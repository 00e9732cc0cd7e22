"""A result that comes after its attempt was given up changes nothing, and its sender hears so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start


async def test_the_second_node_s_result_stands(serve: Start) -> None:
    scheduler = await serve(jobs__run_timeout_ms="400", jobs__reservation_ttl_ms="300", loops__relay_lease_ms="100")
    async with scheduler.node("a") as first, scheduler.node("b") as second:
        nodes = {"a": first, "b": second}
        for node in nodes.values():
            await node.register()
        placed = await scheduler.dispatch()
        slow = nodes.pop(placed["node_id"])
        other = nodes.popitem()[1]
        old, job = await slow.job(), await other.job()
        await slow.result(old, text_translated="too late")
        assert (await slow.next("error"))["error"] == "STALE_ATTEMPT"
        await other.result(job)
        ended = await scheduler.ended(placed["job_id"])
        assert (ended["state"], ended["result"]["text_translated"]) == ("FINISHED", "said 0")
        assert [one["end"] for one in ended["attempts"]] == ["run_timeout", "FINISHED"]
