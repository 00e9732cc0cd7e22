"""A job whose caller does not hear that it was placed is carried to its node all the same, and at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.meddling import hold_back

if TYPE_CHECKING:
    from tests.support.house import House

SAID = {"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh", "options": {"wait_ms": 20_000}}
BY_ID = {"request_id": "request-1"}


async def test_its_caller_hung_up_and_may_ask_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.node("n1") as node:
        await node.register(features=("job_ack",))
        executed = hold_back(monkeypatch, house.serving.desk.engine, "dispatch", asyncio.Event(), loses=True)
        asking = asyncio.create_task(house.http.post("/v1/dispatch/f2f", json=SAID | BY_ID))
        await executed.wait()
        asking.cancel()
        job = await node.job()
        monkeypatch.undo()
        again = await house.post("/v1/dispatch/f2f", SAID | BY_ID)
        assert (again["job_id"], again["attempt_id"]) == (job["job_id"], job["attempt_id"]) == (job["job_id"], 1)
        await node.result(job)
        assert (await house.ended(job["job_id"]))["state"] == "FINISHED"


@pytest.mark.parametrize("more", [BY_ID, {}])
async def test_its_caller_was_told_that_nobody_knows(
    house: House, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    async with house.node("n1") as node:
        await node.register(features=("job_ack",))
        gate = asyncio.Event()
        gate.set()
        hold_back(monkeypatch, house.serving.desk.engine, "dispatch", gate, loses=True)
        answer = await house.http.post("/v1/dispatch/f2f", json=SAID | more)
        assert (answer.status_code, answer.json()["error"]) == (503, "OUTCOME_UNKNOWN")
        job = await node.job()
        assert job["attempt_id"] == 1
        monkeypatch.undo()
        again = await house.post("/v1/dispatch/f2f", SAID | {"request_id": answer.json()["request_id"]})
        assert again["job_id"] == job["job_id"]
        await node.result(job)
        assert (await house.ended(job["job_id"]))["state"] == "FINISHED"
