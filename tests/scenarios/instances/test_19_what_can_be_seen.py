"""What two instances show of one fleet, each a process: the same, from memory, and whatever becomes of the others."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from tests.contract.test_catalog import INSTALLED, LISTED
from tests.scenarios.instances.test_16_a_bad_model_for_all import metric
from tests.support.house import eventually
from tests.support.hub import Hub, answer

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler
    from tests.support.servers import Server

AWAY = "the state engine does not answer: nothing is accepted"
OF_THE_FLEET = ("nodes", "slots", "pools", "jobs", "sessions", "instances")
OFTEN = {"catalog__refresh_interval_ms": "500", "catalog__timeout_ms": "500"}


async def seen(scheduler: Scheduler) -> dict[str, Any]:
    """What it shows of the fleet when it has looked."""
    stats = await scheduler.stats()
    return {name: stats[name] for name in OF_THE_FLEET}


async def test_both_show_the_same_fleet_wherever_its_nodes_and_jobs_are(here: Scheduler, there: Scheduler) -> None:
    async with here.node("n1") as one, there.node("n2") as other:
        for node in (one, other):
            await node.register(slots=2)
            await node.is_ready()
        await there.dispatch(options={"preferred_node_id": "n1"})
        await one.job()

        async def is_the_same() -> bool:
            mine, yours = await seen(here), await seen(there)
            return mine == yours and (mine["jobs"]["in_flight"], mine["instances"]) == (1, 2)

        await eventually(is_the_same)
        # Only one of them was asked for the job, and both know how long that took.
        assert (await here.stats())["dispatch_ms"]["p95"] == (await there.stats())["dispatch_ms"]["p95"] > 0


async def test_however_many_look_at_both_the_engine_is_not_asked_for_it(serve: Start) -> None:
    both = [await serve(loops__snapshot_interval_ms="60000") for _ in range(2)]
    for scheduler in both:
        await scheduler.get("/api/v1/stats")
    looks = await metric("lingua_engine_call_seconds_count", *both, script="fleet")
    answers = await asyncio.gather(*(scheduler.get("/api/v1/stats?fresh=true") for scheduler in both * 50))
    forced = await metric("lingua_engine_call_seconds_count", *both, script="fleet") - looks
    # All who do not want to wait for the next look have one made together, at each of the two.
    assert 0 < forced <= len(both)
    assert len(answers) == 100


async def test_who_is_killed_is_soon_not_shown_any_more_and_the_other_goes_on(
    here: Scheduler, there: Scheduler
) -> None:
    async with there.node("n1") as node:
        await node.register()
        await node.is_ready()
        await here.stop(signal.SIGKILL)

        async def is_alone() -> bool:
            return bool((await there.stats())["instances"] == 1)

        await eventually(is_alone)
        points = (await there.get("/api/v1/history"))["points"]
        assert points[-1]["ready_nodes"] == 1


async def test_while_the_engine_is_away_both_show_the_last_they_saw_and_say_so(
    here: Scheduler, there: Scheduler, store: Server
) -> None:
    await here.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
    before = [await seen(one) for one in (here, there)]
    store.freeze()
    try:
        for one, shown in zip((here, there), before, strict=True):

            async def is_said(one: Scheduler = one) -> bool:
                return AWAY in (await one.get("/api/v1/stats"))["health"]["problems"]

            await eventually(is_said)
            stats = await one.get("/api/v1/stats")
            assert {name: stats[name] for name in ("nodes", "slots", "pools")} == {
                name: shown[name] for name in ("nodes", "slots", "pools")
            }
    finally:
        store.thaw()

    async def are_well() -> bool:
        return all([(await one.stats())["health"]["ok"] for one in (here, there)])

    await eventually(are_well)


async def test_a_hub_that_hangs_lies_redirects_and_dies_changes_nothing_at_either(serve: Start) -> None:
    async with Hub() as hub:
        hub.says = answer(LISTED)
        both = [await serve(catalog__url=hub.url, **OFTEN) for _ in range(2)]
        here, there = both

        async def informed(failures: int) -> None:
            async def is_so() -> bool:
                said = [await one.get("/api/v1/catalog") for one in both]
                return all(one["source"] == "hub" and one["failures"] >= failures for one in said)

            await eventually(is_so)

        await informed(0)
        async with here.node("n1") as node:
            await node.register(installed_services=INSTALLED)
            await node.is_ready()
            # The node is held by one of them, and both know what it should update.
            for one in both:
                shown = (await one.get("/v1/nodes/n1"))["installed"]
                assert [(service["service_id"], service["status"]) for service in shown] == [
                    ("asr-1", "outdated"),
                    ("nmt-1", "unknown"),
                ]
            elsewhere = answer(b"", "302 Found", location="http://127.0.0.1:9/")
            for says in (None, b"HTTP/1.1 200 OK\r\n\r\n{", answer(b"[]"), elsewhere):
                hub.says = says
                await informed(1)
                job = await there.dispatch()
                await node.result(await node.job(job_id=job["job_id"]))
                assert (await there.ended(job["job_id"]))["state"] == "FINISHED"
                hub.says = answer(LISTED)

                async def is_heard() -> bool:
                    return all([(await one.get("/api/v1/catalog"))["failures"] == 0 for one in both])

                await eventually(is_heard)
            await hub.die()
            await informed(3)
            for one in both:
                catalog = await one.get("/api/v1/catalog")
                assert [service["service_id"] for service in catalog["services"]] == ["asr-1", "nmt-1"]
                assert any("the service catalog" in said for said in (await one.stats())["health"]["problems"])
