"""What is wrong with the fleet is named in words, the same wherever somebody looks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.test_live import QUICK, Viewer
from tests.contract.test_metrics import scrape, told
from tests.contract.test_snapshot import has_looked
from tests.support.house import LINGUA, House, eventually
from tests.support.programs import ran
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 1}
AWAY = "the state engine does not answer: nothing is accepted"


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    async with House(server.url, **QUICK).open() as house:
        yield house


async def fail_jobs(house: House, node_id: str, times: int = 3) -> None:
    """A node has so many jobs, and fails them. Where `jobs.max_retry` is 0 it has nothing to do then."""
    for _ in range(times):
        options = {"preferred_node_id": node_id, "strict": True}
        job = await house.dispatch(options=options)
        named = {"job_id": job["job_id"], "attempt_id": job["attempt_id"], "node_id": node_id}
        await house.post("/v1/job/fail", named | {"status": "error", "reason": "broken"})


async def problems(house: House) -> list[str]:
    health = (await house.stats())["health"]
    assert health["ok"] == (not health["problems"])
    return list(health["problems"])


async def test_a_dead_engine_is_named_long_before_the_numbers_are_old(tmp_path: Path) -> None:
    engine = start_server(tmp_path)
    # Nobody looks for ten minutes: the numbers stay as they are.
    how: dict[str, Any] = {"loops.snapshot_interval_ms": 600_000} | QUICK
    try:
        async with House(engine.url, **how).open() as house:
            # One that began to look before it came would not see it.
            await eventually(lambda: has_looked(house))
            await house.post("/v1/node/register", NODE)
            await house.get("/api/v1/stats?fresh=true")
            async with Viewer(house.port) as viewer:
                assert (await viewer.next("snapshot"))["stats"]["health"] == {"ok": True, "problems": []}
                engine.freeze()
                while (await viewer.next("delta")).get("stats", {}).get("health", {}).get("problems") != [AWAY]:
                    pass
                assert (await house.get("/api/v1/stats"))["health"] == {"ok": False, "problems": [AWAY]}
                assert told(await scrape(house), "lingua_fleet_problems") == 1
                # Whoever begins to watch now sees the same.
                async with Viewer(house.port) as late:
                    assert (await late.next("snapshot"))["stats"]["health"]["problems"] == [AWAY]
                _, said, _ = await ran(LINGUA, "top", "--json", "--url", house.url)
                assert AWAY in said
                engine.thaw()
                while (await viewer.next("delta")).get("stats", {}).get("health") != {"ok": True, "problems": []}:
                    pass
    finally:
        engine.thaw()
        engine.stop()


async def test_that_no_node_can_take_a_job_is_named_and_why_of_each(house: House) -> None:
    assert await problems(house) == ["no node has registered"]
    await house.post("/v1/node/register", NODE)
    assert await problems(house) == []
    await house.dispatch()
    assert await problems(house) == ["no node can take a job now: 1 full"]
    await house.post("/v1/node/register", NODE | {"node_id": "n2", "health": "degraded"})
    await house.post("/v1/node/register", NODE | {"node_id": "n3"})
    assert await problems(house) == []
    await house.post("/v1/nodes/n3/drain", {})
    await house.post("/v1/node/register", NODE | {"node_id": "n4", "nmt_pairs": []})
    (said,) = await problems(house)
    head, _, stand = said.partition(": ")
    assert head == "no node can take a job now"
    assert sorted(stand.split(", ")) == ["1 draining", "1 full", "1 not ready", "1 without a pair"]


async def test_pairs_that_nobody_alive_serves_are_named(house: House) -> None:
    await house.post("/v1/node/register", NODE | {"node_id": "other", "nmt_pairs": [["zh", "en"]]})
    await house.post("/v1/node/register", NODE)
    await house.post("/v1/nodes/n1/drain", {})
    assert await problems(house) == ["nobody alive serves en:zh"]
    await house.post("/v1/nodes/n1/resume", {})
    assert await problems(house) == []
    langs = ["de", "en", "fr", "ja", "ko", "zh"]
    many = {"semantic_langs": langs, "nmt_pairs": [["it", lang] for lang in langs]}
    await house.post("/v1/node/register", NODE | many | {"node_id": "n5", "semantic_langs": [*langs, "it"]})
    await house.post("/v1/nodes/n5/drain", {})
    assert await problems(house) == ["nobody alive serves it:de, it:en, it:fr, it:ja, it:ko and 1 more"]


async def test_a_lost_node_is_named_with_the_pairs_it_leaves_without_anybody(house: House) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        node.cut()

    async def is_named() -> bool:
        said = await problems(house)
        return said[0] == "no node can take a job now: 1 lost" and "1 of 1 nodes is lost" in said

    await eventually(is_named)


async def test_services_that_do_not_work_are_named_while_the_nodes_look_well(house: House) -> None:
    for node_id in ("n1", "n2"):
        await house.post("/v1/node/register", NODE | {"node_id": node_id})
    house.serving.desk.marker.saw("n1", "voice", "tts")
    said = "1 of 2 nodes has a service that does not work"
    await eventually(lambda: are(house, said))
    house.serving.desk.marker.saw("n2", "voice", "tts")
    await eventually(lambda: are(house, "2 of 2 nodes have a service that does not work"))


async def are(house: House, *said: str) -> bool:
    return await problems(house) == list(said)


async def test_what_the_auditor_found_is_named(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.post("/v1/node/register", NODE)
    auditor = house.serving.desk.auditor

    async def has_looked_once() -> bool:
        return auditor.found is not None

    await eventually(has_looked_once)
    monkeypatch.setattr(auditor, "found", Counter(S1=0, S3=2))
    assert await problems(house) == ["the auditor found what must never be, 2 times: see the log"]


async def test_a_suspect_is_named_also_while_it_is_tried_with_a_job(server: Server) -> None:
    """It stands as `available` from a moment after its last failure on: with that it is not well."""
    async with House(server.url, **QUICK, **{"nodes.probe_ms": 1, "jobs.max_retry": 0}).open() as house:
        await house.post("/v1/node/register", NODE)
        await house.post("/v1/node/register", NODE | {"node_id": "n2", "nmt_pairs": [["zh", "en"]]})
        await fail_jobs(house, "n1")

        async def may_be_tried() -> bool:
            return bool((await house.get("/v1/nodes/n1"))["standing"] == "available")

        await eventually(may_be_tried)
        assert await problems(house) == ["1 of 2 nodes is under suspicion"]
        listed = (await house.get("/v1/nodes?standing=suspect"))["nodes"]
        assert [(one["node_id"], one["standing"], one["suspect"]) for one in listed] == [("n1", "available", True)]
        words = ("nodes", "list", "--standing", "suspect", "--url", house.url)
        assert "available, on trial" in (await ran(LINGUA, *words))[1]
        async with Viewer(house.port) as viewer:
            shown = (await viewer.next("snapshot"))["nodes"]
        # Who is not well comes first.
        assert [(one["node_id"], one["suspect"]) for one in shown] == [("n1", True), ("n2", False)]
        # A look that nobody took between: nobody was trusted again.
        kinds = [event["kind"] for event in (await house.get("/api/v1/events"))["events"]]
        assert "pair_calm" not in kinds
