"""An instance is killed while a clock of one of its sessions runs: the clock goes on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.records import FORGET_FROM
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key, session_tag
from tests.support.house import eventually, look
from tests.support.people import SILENCE

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server

SAVE_EVERY_MS: Final = 30_000
QUICK: Final[dict[str, Any]] = {"instance__presence_ttl_ms": "1500", "instance__presence_beat_ms": "300"}


async def test_a_gap_is_announced_when_its_time_is_over(serve: Start) -> None:
    settings = QUICK | {"sessions__gap_ms": "3000"}
    here, there = await serve(**settings), await serve(**settings)
    async with here.node() as node, there.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        token = (await client.init())["resume_token"]
        for index in (0, 1):
            await client.utter(index)
        await node.job(utterance_index=0)
        await node.result(await node.job(utterance_index=1))
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            ends = [await back.next("translation_result", "missing_result") for _ in range(2)]
            found = [(end["utterance_index"], end.get("reason", "")) for end in ends]
            assert found == [(0, "gap_timeout"), (1, "")]


async def test_a_gap_does_not_count_while_the_instance_of_the_missing_one_s_node_is_overdue(
    serve: Start, store: Server
) -> None:
    """Nor while that node has its grace. It comes back long after the gap would have been announced."""
    settings = {"instance__presence_ttl_ms": "8000", "instance__presence_beat_ms": "300", "sessions__gap_ms": "4000"}
    here, there = await serve(**settings), await serve(**settings)
    async with there.node("slow") as slow, here.node("quick") as quick, here.client() as client:
        await slow.register(slots=1)
        await slow.is_ready()
        await client.init()
        await client.utter(0)
        job = await slow.job(utterance_index=0)
        await quick.register(slots=1)
        await quick.is_ready()
        await client.utter(1)
        await there.stop(signal.SIGKILL)
        await quick.result(await quick.job(utterance_index=1))

        async def is_known() -> bool:
            return bool((await look(store)).nodes["slow"].away_until_ms)

        await eventually(is_known)
        async with here.node("slow") as back:
            await back.register(slots=1, epoch=slow.epoch, running=[{"job_id": job["job_id"], "attempt_id": 1}])
            await back.result(job)
            ends = [await client.next("translation_result", "missing_result") for _ in range(2)]
            assert [(end["type"], end["utterance_index"]) for end in ends] == [
                ("translation_result", 0),
                ("translation_result", 1),
            ]


async def test_a_pause_ends_an_utterance_that_goes_on_elsewhere(serve: Start) -> None:
    """What had been said before may be lost with the instance; the client says it again."""
    settings = QUICK | {"sessions__pause_ms": "1500"}
    here, there = await serve(**settings), await serve(**settings)
    async with here.node() as node, there.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        token = (await client.init())["resume_token"]
        await client.say("audio_chunk", seq=0, payload=SILENCE, is_final=False)
        await client.was_read()
        await there.stop(signal.SIGKILL)
        async with here.client() as back:
            await back.init(resume_token=token)
            await back.say("audio_chunk", seq=0, payload=SILENCE, is_final=False)
            job = await node.job()
            assert (job["utterance_index"], job["is_timeout_triggered"]) == (0, True)
            await node.result(job)
            assert (await back.end_of(0))["type"] == "translation_result"


async def test_nobody_comes_back_and_nothing_stays_much_longer_than_the_window(serve: Start, store: Server) -> None:
    """What nobody confirmed has its end in the engine: there is nobody left who could erase it."""
    settings = QUICK | {"sessions__resume_window_ms": "1000", "sessions__gap_ms": "100", "jobs__result_ttl_ms": "1000"}
    here, there = await serve(**settings), await serve(**settings)
    async with here.node() as node, there.client() as client:
        await node.register(slots=4)
        await node.is_ready()
        await client.init()
        await client.utter(0)
        job = await node.job(utterance_index=0)
        await there.stop(signal.SIGKILL)
        await node.result(job)
        await here.ended(job["job_id"])
        cell = await look(store)
        # Half a minute longer than a client that is back in the last moment has to wait for its turn.
        kept_ms = cell.due[f"j:{job['job_id']}"] - FORGET_FROM - cell.jobs[job["job_id"]].ended_at_ms
        assert kept_ms == 1_000 + 100 + 30_000
    async with await Engine.connect(store.url, "lingua:v1") as engine:
        tag = session_tag(client.session_id)
        keys = [cell_key(engine.prefix, tag, name) for name in ("session", "entry")]
        left_ms = [await engine.command("PTTL", key) for key in keys]
        assert all(0 < left <= 1_000 + 2 * SAVE_EVERY_MS for left in left_ms), left_ms
