"""An instance is killed: its nodes keep their jobs and its sessions their turns, wherever they come back."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import eventually, look

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server


@pytest.mark.parametrize("says_what_it_runs", [True, False], ids=["it says what it runs", "from the field"])
async def test_a_node_keeps_its_job(here: Scheduler, there: Scheduler, says_what_it_runs: bool) -> None:
    async with there.node() as node:
        await node.register()
        await node.is_ready()
        placed = await here.dispatch()
        job = await node.job()
        await there.stop(signal.SIGKILL)
        await node.gone()
        async with here.node() as back:
            said: dict[str, Any] = {"epoch": node.epoch, "running": [{"job_id": job["job_id"], "attempt_id": 1}]}
            await back.register(**(said if says_what_it_runs else {}))
            await back.is_ready()
            await back.result(job)
            ended = await here.ended(placed["job_id"])
            assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)


async def test_a_node_that_does_not_come_back_is_given_up_in_its_time(
    here: Scheduler, there: Scheduler, store: Server
) -> None:
    async with there.node() as node:
        await node.register()
        await node.is_ready()
        await there.stop(signal.SIGKILL)

        async def has_its_time() -> bool:
            return bool((await look(store)).nodes["node-1"].away_until_ms)

        await eventually(has_its_time)
        refused = await here.dispatch(status=503)
        assert refused["retryable"]


async def test_a_ghost_costs_one_refusal(here: Scheduler, there: Scheduler, store: Server) -> None:
    async with there.node("ghost") as ghost, here.node("real") as real:
        await ghost.register()
        await ghost.is_ready()
        await real.register()
        await real.is_ready()
        await there.stop(signal.SIGKILL)

        async def is_known() -> bool:
            return bool((await look(store)).nodes["ghost"].away_until_ms)

        await eventually(is_known)
        for number in range(4):
            placed = await here.dispatch(f"room-{number}")
            await real.result(await real.job(job_id=placed["job_id"]))
            assert (await here.ended(placed["job_id"]))["state"] == "FINISHED"


async def test_a_ghost_that_is_not_missed_yet_costs_no_more_than_the_ack_timeout(serve: Start, store: Server) -> None:
    """For as long as its presence lasts jobs may go to it."""
    lasting = {
        "instance__presence_ttl_ms": "600000",
        "nodes__offline_ms": "660000",
        "jobs__reservation_ttl_ms": "1000",
        "loops__relay_lease_ms": "200",
    }
    here, there = await serve(**lasting), await serve(**lasting)
    async with there.node("ghost") as ghost, here.node("real") as real:
        await ghost.register(features=("job_ack",))
        await ghost.is_ready()
        await there.stop(signal.SIGKILL)
        await ghost.gone()
        placed = await here.dispatch()
        assert placed["node_id"] == "ghost"
        await real.register(features=("job_ack",))
        await real.result(await real.job(job_id=placed["job_id"]))
        ended = await here.ended(placed["job_id"])
        assert [one["end"] for one in ended["attempts"]] == ["unsent", "FINISHED"]
        assert not (await look(store)).nodes["ghost"].away_until_ms


async def test_a_session_goes_on_elsewhere(here: Scheduler, there: Scheduler) -> None:
    async with here.node() as node, there.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        token = (await client.init())["resume_token"]
        for index in range(3):
            await client.utter(index)
        jobs = [await node.job(utterance_index=index) for index in range(3)]
        await node.result(jobs[0])
        assert (await client.next("translation_result"))["utterance_index"] == 0
        await there.stop(signal.SIGKILL)
        await client.gone()
        await node.result(jobs[2])
        async with here.client() as back:
            await back.init(resume_token=token, last_event_id=1)
            await node.result(jobs[1])
            ends = [await back.next("translation_result") for _ in range(2)]
            assert [end["utterance_index"] for end in ends] == [1, 2]
            await back.utter(3)
            await node.result(await node.job(utterance_index=3))
            assert (await back.next("translation_result"))["utterance_index"] == 3


async def test_a_turn_stays_with_its_node_wherever_the_session_is(here: Scheduler, there: Scheduler) -> None:
    async with here.node("a") as first, here.node("b") as second, there.client() as client:
        nodes = {"a": first, "b": second}
        for node in nodes.values():
            await node.register(slots=8)
            await node.is_ready()
        turn = {"options": {"bind_key": "turn-1"}}
        token = (await client.init())["resume_token"]
        await client.utter(0, **turn)
        placed = await client.next("ui_event", event="NODE_ACCEPTED")
        bound = nodes[(await here.get(f"/v1/job/{placed['job_id']}"))["node_id"]]
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            for index in range(1, 5):
                await back.utter(index, **turn)
            for index in range(5):
                await bound.result(await bound.job(utterance_index=index))
            ends = [await back.next("translation_result") for _ in range(5)]
            assert [end["utterance_index"] for end in ends] == list(range(5))
