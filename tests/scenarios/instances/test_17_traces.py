"""One utterance is one trace: the app, two instances, the node and back, each a process that sends its own spans."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.traces import parent_of
from tests.support.collector import collecting
from tests.support.house import eventually
from tests.support.programs import ran, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.scenarios.doors.conftest import Start
    from tests.support.collector import Collector
    from tests.support.house import Scheduler

NODE = """
from lingua_scheduler.sdk import Node
node = Node(node_id="traced", semantic=["en", "zh"], asr=["en"], tts=["zh"], pairs=[("en", "zh")], max_jobs=2)
@node.job
async def translate(job):
    return {"text_asr": "the quick fox", "text_translated": "fox in zh"}
node.cli()
"""
APP = """
import asyncio, sys
from opentelemetry import trace
from lingua_scheduler.sdk import Client
from lingua_scheduler.sdk._tracing import begin_traces
async def main():
    async with Client(sys.argv[1]) as client:
        async for said in client.translate(bytes(3200), src="en", tgt="zh"):
            pass
begin_traces()
asyncio.run(main())
trace.get_tracer_provider().shutdown()
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture
async def two(serve: Start, collector: Collector) -> AsyncIterator[tuple[Scheduler, Scheduler]]:
    """Both send their spans to it; the batch leaves soon."""
    os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "50"
    yield await serve(traces__endpoint=collector.endpoint), await serve(traces__endpoint=collector.endpoint)
    del os.environ["OTEL_BSP_SCHEDULE_DELAY"]


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


async def test_an_utterance_is_one_trace_from_the_app_to_the_node_and_back(
    two: tuple[Scheduler, Scheduler], collector: Collector, tmp_path: Path
) -> None:
    here, there = two
    to = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}

    async def is_ready() -> bool:
        found = await there.http.get("/v1/nodes/traced")
        return found.status_code == 200 and bool(found.json()["standing"] == "available")

    works = program(tmp_path, "node", NODE)
    async with started(works, "start", LINGUA_URL=there.url, OTEL_SERVICE_NAME="node", **to) as node:
        await eventually(is_ready)
        asks = program(tmp_path, "app", APP)
        code, _, said = await ran(sys.executable, asks, here.url, OTEL_SERVICE_NAME="app", **to)
        assert code == 0, said
        assert await node.end(signal.SIGTERM) == 0
    names = ("translate", "submit", "dispatch", "deliver", "handle", "done", "answer")

    async def has_come() -> bool:
        return all(collector.named(name) for name in names)

    await eventually(has_come)
    spans = {span.name: span for span in collector.named(*names)}
    assert len(collector.spans) == len(spans) == 7
    assert len({span.trace for span in spans.values()}) == 1
    assert (spans["translate"].parent, spans["submit"].parent) == ("", spans["translate"].id)
    assert {span.parent for name, span in spans.items() if name not in {"translate", "submit"}} == {spans["submit"].id}
    services = {name: span.service for name, span in spans.items()}
    assert (services["translate"], services["handle"]) == ("app", "node")
    # The app spoke to one instance, and the node to another.
    assert spans["submit"].instance == spans["dispatch"].instance == spans["answer"].instance != spans["done"].instance
    assert spans["deliver"].instance == spans["done"].instance
    job_id = spans["submit"].told["lingua.job_id"]
    assert {span.told["lingua.job_id"] for name, span in spans.items() if name != "translate"} == {job_id}
    assert all(span.began_ns <= span.ended_ns for span in collector.spans)
    assert not [span for span in collector.spans if "fox" in str(span) or span.is_error]


async def test_a_callers_own_span_is_the_parent_and_a_refusal_is_one_too(
    two: tuple[Scheduler, Scheduler], collector: Collector
) -> None:
    here, there = two
    trace, span = "ab" * 16, "cd" * 8
    async with there.node() as node:
        await node.register()
        await node.is_ready()
        said = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}
        headers = {"traceparent": f"00-{trace}-{span}-01"}
        placed = (await here.http.post("/v1/dispatch/f2f", json=said, headers=headers)).json()
        job: dict[str, Any] = await node.job()
        assert (placed["trace_id"], job["traceparent"]) == (trace, parent_of(trace, placed["job_id"]))
        await node.result(job, success=False, error={"code": "BROKEN", "message": "a fox"})
        again = await node.job()
        assert again["traceparent"] == job["traceparent"]
        await node.result(again)
        await here.ended(placed["job_id"])
        await here.dispatch(src_lang="fr", status=422)

        async def has_come() -> bool:
            return len(collector.named("submit")) == 2 and len(collector.named("deliver")) == 2

        await eventually(has_come)
    (made,) = [one for one in collector.named("submit") if not one.is_error]
    assert (made.trace, made.parent, job["traceparent"].split("-")[2]) == (trace, span, made.id)
    (refused,) = [one for one in collector.named("submit") if one.is_error]
    assert (refused.told["lingua.refused"], refused.parent) == ("NO_CAPABLE_NODE", "")
    assert [one.told["lingua.attempt"] for one in collector.named("deliver")] == [1, 2]
    assert [one.parent for one in collector.named("fail", "deliver")] == [made.id] * 3


async def test_a_session_names_its_clients_span_in_its_messages(
    two: tuple[Scheduler, Scheduler], collector: Collector
) -> None:
    here, there = two
    trace, span = "12" * 16, "34" * 8
    async with there.node() as node, here.client() as client:
        await node.register()
        await node.is_ready()
        await client.init()
        await client.utter(0, traceparent=f"00-{trace}-{span}-01")
        job = await node.job()
        assert job["trace_id"] == trace
        await node.result(job)
        assert (await client.end_of(0))["trace_id"] == trace

        async def has_come() -> bool:
            return bool(collector.named("submit") and collector.named("answer") and collector.named("done"))

        await eventually(has_come)
    (made,) = collector.named("submit")
    assert (made.trace, made.parent) == (trace, span)
    assert {one.parent for one in collector.named("answer", "done", "deliver", "dispatch")} == {made.id}


async def test_where_none_are_wanted_nothing_is_sent_and_the_node_is_told_nothing(
    serve: Start, collector: Collector
) -> None:
    silent, unwanted = await serve(), await serve(traces__endpoint=collector.endpoint, traces__percent="0")
    async with silent.node() as node:
        await node.register()
        await node.is_ready()
        for scheduler in (silent, unwanted):
            placed = await scheduler.dispatch()
            job = await node.job()
            assert (job["job_id"], job["trace_id"]) == (placed["job_id"], placed["trace_id"])
            assert "traceparent" not in job
            await node.result(job)
            await scheduler.ended(placed["job_id"])
    assert await unwanted.stop() == 0
    assert collector.spans == []


async def test_a_collector_that_is_away_holds_up_nobody(serve: Start) -> None:
    """Neither a job nor the end."""
    scheduler = await serve(traces__endpoint="http://127.0.0.1:9/v1/traces", traces__timeout_s="1")
    async with scheduler.node() as node:
        await node.register()
        await node.is_ready()
        placed = await scheduler.dispatch()
        await node.result(await node.job())
        assert (await scheduler.ended(placed["job_id"]))["state"] == "FINISHED"
    assert await scheduler.stop() == 0
