"""Whoever hangs up is not worked for any longer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from bench.raw import RawSocket
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.views.fleet import read_fleet
from tests.support.house import CELL, eventually, somebody_waits

if TYPE_CHECKING:
    from tests.support.house import House

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
JOB = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}


async def hang_up(house: House, method: str, path: str, message: dict[str, Any] | None = None) -> None:
    """Ask for something that takes long, and leave when the scheduler is at it."""
    async with httpx2.AsyncClient(base_url=str(house.http.base_url), timeout=20) as caller:
        asking = asyncio.create_task(caller.request(method, path, json=message))
        await somebody_waits(house)
        asking.cancel()
        await asyncio.wait([asking])


async def test_a_job_that_waits_for_a_caller_who_is_gone_is_not_done(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    held = await house.dispatch()
    await hang_up(house, "POST", "/v1/dispatch/f2f", JOB | {"options": {"wait_ms": 20_000}})

    async def nobody_waits() -> bool:
        fleet = await read_fleet(house.serving.app.engine, CELL)
        return not isinstance(fleet, Refusal) and not fleet.waiting

    await eventually(nobody_waits)
    attempt = {name: held[name] for name in ("job_id", "attempt_id", "node_id")}
    await house.post("/v1/job/done", attempt | {"status": "ok"})
    assert (await house.post("/v1/node/poll", {"node_id": "n1"})) == {"jobs": []}


async def test_a_poll_that_is_gone_takes_no_job(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    await hang_up(house, "POST", "/v1/node/poll", {"node_id": "n1", "wait_ms": 20_000})
    placed = await house.dispatch()
    polled = await house.post("/v1/node/poll", {"node_id": "n1"})
    assert [job["job_id"] for job in polled["jobs"]] == [placed["job_id"]]
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})


@pytest.mark.parametrize("number", [40])
async def test_a_node_that_breaks_its_socket_while_it_registers_is_gone(house: House, number: int) -> None:
    """Whenever that is: the server may be closing the socket just when the node is taken in."""
    said = b'{"type":"node_register","node_id":"ghost-%d","language_capabilities":{"semantic_languages":["en","zh"]}}'
    for one in range(number):
        socket = await RawSocket.connect(house.port, "/ws/node")
        socket.write(said % one)
        await asyncio.sleep(one / 20_000)
        socket.write(b"x", kind=0x3)
        socket.close()

    async def nobody_is_linked() -> bool:
        return not len(house.serving.desk.links)

    await eventually(nobody_is_linked)
