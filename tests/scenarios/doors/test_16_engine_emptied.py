"""The engine comes back empty: nodes and sessions are entered again, and lost utterances are announced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.house import empty

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server


async def test_the_fleet_serves_again_by_itself(scheduler: Scheduler, store: Server) -> None:
    async with scheduler.node() as node, scheduler.client() as client:
        await node.register()
        await client.init()
        await client.utter(0)
        lost = await node.job()
        await empty(store)
        missing = await client.end_of(0)
        assert missing["type"] == "missing_result"
        await node.result(lost)
        assert (await node.next("error"))["error"] in {"UNKNOWN_JOB", "STALE_ATTEMPT"}
        await node.next("node_register_ack")
        await client.utter(1)
        job = await node.job(utterance_index=1)
        await node.result(job)
        assert (await client.end_of(1))["type"] == "translation_result"


async def test_nobody_is_told_meanwhile_that_there_is_no_node_for_him(serve: Start, store: Server) -> None:
    """The first who asks finds out, long before anybody looks; and those that poll have the time of a heartbeat."""
    scheduler = await serve(loops__watch_interval_ms="30000", nodes__socket_beat_ms="24000")
    polling = {"node_id": "p1", "semantic_langs": ["fr"]}
    async with scheduler.node() as node:
        await node.register()
        await scheduler.post("/v1/node/register", polling)
        await empty(store)
        refused = await scheduler.dispatch(status=503)
        assert (refused["error"], refused["retryable"]) == ("SCHEDULER_DEPENDENCY_DOWN", True)
        await node.next("node_register_ack")
        await scheduler.dispatch()
        await node.result(await node.job())
        french: dict[str, Any] = {"src_lang": "fr", "tgt_lang": "fr"}
        assert (await scheduler.dispatch("room-889", 503, **french))["error"] == "SCHEDULER_DEPENDENCY_DOWN"
        await scheduler.post("/v1/node/register", polling)
        placed = await scheduler.dispatch("room-889", **french)
        await scheduler.post("/v1/job/cancel", {"job_id": placed["job_id"]})


async def test_every_instance_brings_back_what_it_holds(serve: Start, store: Server) -> None:
    """Before the sockets beat: whoever sees it first begins the cell anew, and the other sees that."""
    first, second = [await serve(nodes__socket_beat_ms="24000") for _ in range(2)]
    french = {f"{what}_languages": ["en", "fr"] for what in ("asr", "semantic", "tts")}
    async with first.node("a") as a, second.node("b") as b, first.client() as one, second.client() as two:
        await a.register()
        await b.register(language_capabilities=french)
        await one.init()
        await two.init(tgt_lang="fr")
        await empty(store)
        for node, client, said in ((a, one, {}), (b, two, {"tgt_lang": "fr"})):
            await node.next("node_register_ack")
            await client.utter(0, **said)
            await node.result(await node.job())
            assert (await client.end_of(0))["type"] == "translation_result"
