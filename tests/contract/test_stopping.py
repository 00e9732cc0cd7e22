"""An instance that is about to stop begins nothing new, and lets everybody finish."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.views.cell import read_cell
from tests.support.house import CELL, House, eventually, somebody_waits
from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 4}


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/v1/node/register", {"json": NODE}),
        ("/v1/node/poll", {"json": {"node_id": "n1", "wait_ms": 15_000}}),
        ("/v1/dispatch/f2f", {"json": {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}}),
        ("/v1/audio", {"content": bytes(2 * 1024 * 1024)}),
    ],
)
async def test_nothing_begins(house: House, path: str, sent: dict[str, Any]) -> None:
    await house.post("/v1/node/register", NODE)
    house.serving.desk.drain()
    answer = await house.http.post(path, **sent)
    refused = answer.json()
    assert (answer.status_code, refused["error"], refused["retryable"]) == (503, "SHUTTING_DOWN", True)
    assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "1")


async def test_what_began_comes_to_its_end(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    first, second, third = [await house.dispatch() for _ in range(3)]
    house.serving.desk.drain()
    attempts = [{name: job[name] for name in ("job_id", "attempt_id", "node_id")} for job in (first, second)]
    answer = await house.http.post("/v1/job/ack", json=attempts[0])
    assert (answer.status_code, answer.headers.get("connection")) == (200, None)
    assert (await house.post("/v1/job/done", attempts[0] | {"status": "ok"}))["state"] == "FINISHED"
    assert (await house.post("/v1/job/fail", attempts[1] | {"reason": "no"}))["ok"]
    assert (await house.post("/v1/job/cancel", {"job_id": third["job_id"]}))["state"] == "CANCELLED"
    assert (await house.post("/v1/node/heartbeat", {"node_id": "n1"}))["ok"]
    assert (await house.get(f"/v1/job/{first['job_id']}"))["state"] == "FINISHED"
    assert (await house.get("/livez")) == {"ok": True}


@pytest.mark.parametrize("request_id", [None, "r1"])
async def test_whoever_waits_for_a_slot_is_sent_away_at_once(house: House, request_id: str | None) -> None:
    """His job goes on if he can ask for it elsewhere; if not, nobody will do it in vain."""
    await house.post("/v1/node/register", NODE | {"max_concurrent_jobs": 1})
    first = await house.dispatch()
    said = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "request_id": request_id}
    sent = house.http.post("/v1/dispatch/f2f", json=said | {"options": {"wait_ms": 60_000}})
    waiting = asyncio.create_task(sent)

    async def is_waiting() -> bool:
        cell = await read_cell(house.serving.app.engine, CELL)
        assert not isinstance(cell, Refusal)
        return bool(cell.queue)

    await eventually(is_waiting)
    house.serving.desk.drain()
    answer = await waiting
    assert (answer.status_code, answer.json()["error"]) == (503, "SHUTTING_DOWN")
    assert answer.headers["connection"] == "close"
    assert await is_waiting() == (request_id is not None)
    assert (await house.post("/v1/job/cancel", {"job_id": first["job_id"]}))["state"] == "CANCELLED"


async def test_an_open_poll_is_answered_and_is_the_last_on_its_connection(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    polling = asyncio.create_task(house.http.post("/v1/node/poll", json={"node_id": "n1", "wait_ms": 15_000}))
    await somebody_waits(house)
    house.serving.desk.drain()
    answer = await polling
    assert (answer.status_code, answer.json(), answer.headers["connection"]) == (200, {"jobs": []}, "close")


async def waiting_for(house: House, http: httpx2.AsyncClient, job_id: str) -> asyncio.Task[Any]:
    """Somebody who waits for the end of a job."""
    waits = asyncio.create_task(http.get(f"/v1/job/{job_id}?wait_ms=15000"))
    await somebody_waits(house)
    assert not waits.done(), waits.result().text
    return waits


@pytest.mark.parametrize("came_before", [True, False])
async def test_whoever_waits_for_the_end_of_a_job_waits_as_long_as_he_asked(house: House, came_before: bool) -> None:
    await house.post("/v1/node/register", NODE)
    job = await house.dispatch()
    waits = await waiting_for(house, house.http, job["job_id"]) if came_before else None
    house.serving.desk.drain()
    waits = waits or await waiting_for(house, house.http, job["job_id"])
    attempt = {name: job[name] for name in ("job_id", "attempt_id", "node_id")}
    await house.post("/v1/job/ack", attempt)
    await house.post("/v1/job/done", attempt | {"status": "ok"})
    assert (await waits).json()["state"] == "FINISHED"


async def test_when_its_time_is_up_he_is_told_how_far_it_is(server: Server) -> None:
    house = House(server.url, **{"server.drain_ms": 50})
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as caller:
        async with house.open():
            await house.post("/v1/node/register", NODE)
            job = await house.dispatch()
            caller.base_url = house.http.base_url
            waits = await waiting_for(house, caller, job["job_id"])
        answer = await waits
    assert (answer.status_code, answer.json()["state"], answer.headers["connection"]) == (200, "DISPATCHED", "close")
