"""Numbers for Prometheus: what is told, that it adds up, and that nobody is named in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lingua_scheduler.core.meters import STAGES
from lingua_scheduler.core.refusal import KEPT_AWAY
from lingua_scheduler.front.metrics import MAX_PAIRS, METRICS, OTHERS
from tests.support.house import House, eventually

if TYPE_CHECKING:
    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}

Scrape = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(house: House) -> Scrape:
    answer = await house.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def told(found: Scrape, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


async def test_what_happened_is_counted(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    placed = await house.dispatch()
    await house.dispatch(src_lang="fr", status=422)
    await house.post("/v1/job/done", {"job_id": placed["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok"})
    await house.stats()
    found = await scrape(house)
    assert told(found, "lingua_fleet_nodes", standing="available") == 1
    assert told(found, "lingua_fleet_slots", pair="en:zh") == 4
    assert told(found, "lingua_fleet_slots_used", pair="en:zh") == 0
    assert told(found, "lingua_fleet_jobs_accepted_total") == 1
    assert told(found, "lingua_fleet_jobs_ended_total", state="FINISHED") == 1
    assert told(found, "lingua_fleet_jobs_refused_total", code="NO_CAPABLE_NODE") == 1
    assert told(found, "lingua_fleet_reservations_total") == 1
    assert told(found, "lingua_fleet_instances") == 1
    route = {"method": "POST", "route": "/v1/dispatch/f2f"}
    assert told(found, "lingua_http_requests_total", **route, status="200") == 1
    assert told(found, "lingua_http_requests_total", **route, status="422") == 1
    assert told(found, "lingua_dispatch_seconds_count") == 2
    assert told(found, "lingua_dispatches_total", outcome="placed") == 1
    assert told(found, "lingua_dispatches_total", outcome="NO_CAPABLE_NODE") == 1
    assert told(found, "lingua_node_registrations_total", outcome="new") == 1
    assert told(found, "lingua_dispatch_seconds_bucket", le="+Inf") == 2
    assert told(found, "lingua_engine_call_seconds_count", script="done") == 1
    assert told(found, "lingua_snapshot_age_seconds") < 60
    assert told(found, "process_start_time_seconds") > 0


async def test_jobs_that_no_node_could_take_are_counted_by_what_kept_most_nodes_away(house: House) -> None:
    for number, act in enumerate(("drain", "drain", "")):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}", "max_concurrent_jobs": 1})
        if act:
            await house.post(f"/v1/nodes/n{number}/{act}", {})
    await house.dispatch()
    await house.dispatch(options={"max_wait_ms": 0}, status=503)
    await house.post("/v1/nodes/n0/resume", {})
    await house.dispatch()
    await house.dispatch(options={"max_wait_ms": 0}, status=503)
    # Nobody is kept away where there is nobody.
    await house.dispatch(src_lang="fr", status=422)
    found = await scrape(house)
    reasons = {
        labels[0][1]: number for (name, labels), number in found.items() if name == "lingua_dispatches_refused_total"
    }
    assert reasons == dict.fromkeys(KEPT_AWAY, 0) | {"draining": 1, "full": 1}


async def test_how_long_each_part_took_is_told_by_nodes_and_by_the_jobs_own_times(house: House) -> None:
    async with house.node("n1") as node:
        await node.register()
        placed = await house.dispatch()
        timed = {"service_timings": {"asr_ms": 120, "nmt_ms": 40.5, "tts_ms": "soon", "dreams_ms": 7}}
        await node.result(await node.job(), extra=timed, processing_time_ms=180)
        await house.ended(placed["job_id"])
    await house.post("/v1/node/register", NODE | {"node_id": "n2"})
    other = await house.dispatch(options={"preferred_node_id": "n2"})
    result = {"extra": {"asr_ms": 30_000, "nmt_ms": 1e300, "tts_ms": -1}}
    said = {"job_id": other["job_id"], "attempt_id": 1, "node_id": "n2", "status": "ok", "result": result}
    await house.post("/v1/job/done", said)

    async def is_over() -> bool:
        return told(await scrape(house), "lingua_job_total_seconds_count") == 2

    await eventually(is_over)
    found = await scrape(house)
    counts = {stage: told(found, "lingua_job_stage_seconds_count", stage=stage) for stage in STAGES}
    assert counts == {"asr": 2, "semantic": 0, "nmt": 1, "tts": 0, "node": 1}
    assert told(found, "lingua_job_stage_seconds_sum", stage="asr") == pytest.approx(30.12)
    assert told(found, "lingua_job_stage_seconds_bucket", stage="nmt", le="0.05") == 1
    assert told(found, "lingua_job_queue_seconds_count") == 2
    assert told(found, "lingua_job_total_seconds_sum") < 60


async def test_nodes_that_are_refused_are_counted_by_why(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    await house.post("/v1/node/register", NODE | {"semantic_langs": []}, status=400)
    await house.post("/v1/node/register", NODE)
    found = await scrape(house)
    outcomes = {
        labels[0][1]: number for (name, labels), number in found.items() if name == "lingua_node_registrations_total"
    }
    assert (outcomes["new"], sum(outcomes.values())) == (1, 3)
    assert outcomes["INVALID_CAPABILITY_SCHEMA"] == 1


async def test_marks_are_counted_by_what_came_of_them(house: House) -> None:
    async with house.node("n1") as node:
        await node.register()
        for _ in range(2):
            await node.say(
                "node_error", node_id="n1", code="MODEL_NOT_AVAILABLE", message="", details={"service_type": "tts"}
            )
            await node.was_read()

            async def is_told() -> bool:
                return told(await scrape(house), "lingua_marks_waiting") == 0

            await eventually(is_told)
        found = await scrape(house)
    assert [told(found, "lingua_marks_total", outcome=name) for name in ("marked", "debounced")] == [1, 1]


async def test_sockets_are_counted_by_their_door(house: House) -> None:
    async with house.node("n1") as node, house.client() as client:
        await node.register()
        await client.init()
        found = await scrape(house)
        assert [told(found, "lingua_sockets", kind=kind) for kind in ("node", "session")] == [1, 1]
        assert told(found, "lingua_socket_queue_bytes", kind="node") == 0


async def test_nobody_is_named(house: House) -> None:
    await house.post("/v1/node/register", NODE | {"node_id": "a-node-of-mine"})
    placed = await house.dispatch("a-session-of-mine")
    await house.http.get("/a/path/of/mine")
    await house.stats()
    text = (await house.http.get("/metrics")).text
    assert "of-mine" not in text
    assert "of/mine" not in text
    assert placed["job_id"] not in text


async def test_of_very_many_pairs_the_smallest_are_told_together(server: Server) -> None:
    langs = ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "zh"]
    async with House(server.url).open() as house:
        await house.post("/v1/node/register", NODE | {"semantic_langs": langs, "nmt_pairs": "any"})
        pairs = [[src, tgt] for src in langs for tgt in langs]
        await house.post("/v1/node/register", NODE | {"node_id": "n2", "semantic_langs": langs, "nmt_pairs": pairs})
        await house.stats()
        found = await scrape(house)
    shown = {labels[0][1]: value for (name, labels), value in found.items() if name == "lingua_fleet_pool_nodes"}
    assert len(shown) == MAX_PAIRS + 1
    assert shown[OTHERS] > 0


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: object) -> None:
    name, kind, labels = metric.name, metric.kind, metric.labels  # type: ignore[attr-defined] # pytest hides its type
    assert re.fullmatch(r"lingua_[a-z_]+", name)
    assert name.endswith("_total") == (kind == "counter")
    assert not re.search(r"_(ms|us|milliseconds|percent)$", name)
    assert kind != "histogram" or name.endswith("_seconds")
    assert not set(labels) & {"session", "job", "node", "node_id", "principal", "tenant", "instance", "le"}


def test_every_name_is_declared_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
