"""The fleet over HTTP: what can be seen, and what the operator can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.house import House


async def enrol(house: House, *node_ids: str, **said: Any) -> None:
    for node_id in node_ids:
        message = {"node_id": node_id, "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
        await house.post("/v1/node/register", message | said)


async def test_nodes(house: House) -> None:
    assert await house.get("/v1/nodes") == {"nodes": []}
    await enrol(house, "n1", "n2")
    await house.post("/v1/nodes/n2/drain", {})
    shown = await house.get("/v1/nodes")
    assert {node["node_id"]: node["standing"] for node in shown["nodes"]} == {"n1": "available", "n2": "draining"}
    drained = await house.get("/v1/nodes?standing=draining&limit=10")
    assert [node["node_id"] for node in drained["nodes"]] == ["n2"]
    node = await house.get("/v1/nodes/n1")
    assert (node["pools"], node["leases"], node["max"], node["free"]) == (["en:zh"], [], 4, 4)


async def test_pages_of_nodes_have_each_of_them(house: House) -> None:
    names = {f"n{number:03}" for number in range(300)}
    await enrol(house, *names)
    found: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await house.get(f"/v1/nodes?limit=50&cursor={cursor}")
        found.append([node["node_id"] for node in page["nodes"]])
        cursor = page.get("cursor")
    assert [len(page) for page in found] == [50] * 6
    assert [node_id for page in found for node_id in page] == sorted(names)


async def test_a_page_of_nodes_is_as_long_as_was_asked_however_few_there_are(house: House) -> None:
    await enrol(house, "n1", "n2", "n3", "n4")
    for node_id in ("n1", "n3", "n4"):
        await house.post(f"/v1/nodes/{node_id}/drain", {})
    for query, pages in (("limit=2", ["n1 n2", "n3 n4"]), ("standing=draining&limit=1", ["n1", "n3", "n4"])):
        cursor: str | None = ""
        for expected in pages:
            page = await house.get(f"/v1/nodes?{query}&cursor={cursor}")
            assert " ".join(node["node_id"] for node in page["nodes"]) == expected
            cursor = page.get("cursor")
        assert cursor is None
    assert (await house.get("/v1/nodes?standing=lost&limit=1")) == {"nodes": []}
    assert "standing must be one of" in (await house.get("/v1/nodes?standing=tall", 400))["detail"]


async def test_pools(house: House) -> None:
    await enrol(house, "n1", "n2")
    assert [pool["pair"] for pool in (await house.get("/v1/pools"))["pools"]] == ["en:zh"]
    pool = await house.get("/v1/pools/en-GB/zh-TW")
    assert (pool["pair"], pool["nodes"], pool["living"], pool["standing"]["available"]) == ("en:zh", 2, 2, 2)
    await house.post("/v1/nodes/n1/drain", {})
    pool = await house.get("/v1/pools/en/zh")
    assert (pool["nodes"], pool["living"], pool["standing"]["draining"]) == (2, 1, 1)
    assert (await house.get("/v1/pools/zh/en", 404))["error"] == "UNKNOWN_POOL"
    assert (await house.get("/v1/pools/xx/en", 400))["error"] == "INVALID_MESSAGE"


async def test_pages_of_pools_have_each_of_them_by_name(house: House) -> None:
    langs = ["de", "en", "fr", "zh"]
    await enrol(house, "n1", semantic_langs=langs, nmt_pairs=[[src, tgt] for src in langs for tgt in langs])
    whole = await house.get("/v1/pools")
    pairs = [pool["pair"] for pool in whole["pools"]]
    assert (len(pairs), pairs, "cursor" in whole) == (16, sorted(pairs), False)
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await house.get(f"/v1/pools?limit=4&cursor={cursor}")
        found += [pool["pair"] for pool in page["pools"]]
        cursor = page.get("cursor")
        assert len(page["pools"]) == 4
    assert found == pairs
    assert (await house.get("/v1/pools?limit=0", 400))["error"] == "INVALID_MESSAGE"


async def test_pools_of_one_source_or_target(house: House) -> None:
    await enrol(house, "n1", semantic_langs=["de", "en"], nmt_pairs=[["de", "zh"], ["en", "zh"], ["en", "fr"]])
    for query, pairs in (
        ("src=en-GB", ["en:fr", "en:zh"]),
        ("tgt=zh", ["de:zh", "en:zh"]),
        ("src=en&tgt=zh", ["en:zh"]),
        ("src=zh", []),
    ):
        assert [pool["pair"] for pool in (await house.get(f"/v1/pools?{query}"))["pools"]] == pairs
    assert (await house.get("/v1/pools?src=klingonese", 400))["detail"].startswith("src: ")
    await enrol(house, "n2", semantic_langs=["fr"], nmt_pairs="any")
    assert [pool["pair"] for pool in (await house.get("/v1/pools?src=fr&tgt=zh"))["pools"]] == ["fr:*"]


async def test_explain(house: House) -> None:
    await enrol(house, "n1", "n2")
    await house.post("/v1/nodes/n2/drain", {})
    told = await house.get("/v1/explain?src=en&tgt=zh")
    assert {node["node_id"]: node["reason"] for node in told["nodes"]} == {"n1": "", "n2": "draining"}
    told = await house.get("/v1/explain?src=en&tgt=zh&require_tts=true")
    assert all(node["reason"] for node in told["nodes"])
    assert "src" in (await house.get("/v1/explain?tgt=zh", 400))["detail"]


async def test_stats(house: House) -> None:
    await enrol(house, "n1", "n2")
    placed = await house.dispatch()
    stats = await house.stats()
    assert stats["slots"] == {"total": 8, "used": 1, "free": 7}
    assert stats["nodes"]["available"] == 2
    assert stats["jobs"]["in_flight"] == 1
    assert (stats["instances"], stats["health"]) == (1, {"ok": True, "problems": []})
    (pool,) = stats["pools"]
    assert pool == {"pair": "en:zh", "nodes": 2, "living": 2, "slots": 8, "free": 7, "waiting": 0}
    assert stats["dispatch_ms"]["p50"] > 0
    again = await house.stats()
    assert again["generated_at_ms"] > stats["generated_at_ms"]
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})


async def test_instances(house: House) -> None:
    page = await house.get("/v1/instances?limit=1")
    (instance,) = page.pop("instances")
    assert (instance["draining"], instance["nodes"], instance["sessions"], page) == (False, 0, 0, {})
    assert (await house.get(f"/v1/instances?cursor={instance['instance_id']}"))["instances"] == []
    assert (await house.get("/v1/instances?draining=true"))["instances"] == []
    house.serving.desk.drain()
    for draining, number in (("true", 1), ("false", 0)):
        assert len((await house.get(f"/v1/instances?draining={draining}"))["instances"]) == number


class TestTheOperator:
    async def test_drain_and_resume_are_told_to_the_node(self, house: House) -> None:
        async with house.node("n1") as node:
            await node.register()
            await house.post("/v1/nodes/n1/drain", {})
            assert (await node.next("node_control"))["command"] == "drain"
            await house.post("/v1/nodes/n1/resume", {})
            assert (await node.next("node_control"))["command"] == "resume"

    async def test_evict_moves_its_jobs_at_once(self, house: House) -> None:
        async with house.node("n1") as first, house.node("n2") as second:
            await first.register()
            placed = await house.dispatch()
            await first.job()
            await second.register()
            assert (await house.post("/v1/nodes/n1/evict", {}))["intent"] == "evicted"
            job = await second.job()
            assert (job["job_id"], job["attempt_id"]) == (placed["job_id"], 2)
            await second.result(job)

    async def test_max_only_lowers_and_can_be_taken_away(self, house: House) -> None:
        await enrol(house, "n1")
        for most, has in ((1, 1), (9, 4), (None, 4)):
            answer = await house.post("/v1/nodes/n1/max", {"max_concurrent_jobs": most})
            assert answer == {"ok": True, "node_id": "n1", "max_concurrent_jobs": has}
            assert (await house.get("/v1/nodes/n1"))["max"] == has

    async def test_a_pairing_code(self, house: House) -> None:
        await enrol(house, "n1")
        offered = await house.post("/v1/nodes/n1/pairing", {})
        assert (offered["node_id"], offered["expires_in_ms"]) == ("n1", 300_000)
        assert len(offered["pairing_code"]) == 6
        assert offered["pairing_code"].isdigit()

    @pytest.mark.parametrize("action", ["drain", "evict", "pairing", "max"])
    async def test_of_a_node_that_nobody_knows(self, house: House, action: str) -> None:
        refused = await house.post(f"/v1/nodes/n9/{action}", {"max_concurrent_jobs": 1}, 404)
        assert refused["error"] == "UNKNOWN_NODE"


@pytest.mark.parametrize("path", ["/dashboards", "/v1", "/"])
async def test_what_is_not_there_is_not_found(house: House, path: str) -> None:
    assert (await house.get(path, 404))["error"] == "NOT_FOUND"
