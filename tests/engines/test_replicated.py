"""An engine with replicas, and `durability = "replicated"`: what was acknowledged outlives a primary that dies."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.slots import slot_of
from lingua_scheduler.views.cell import read_cell
from tests.support.asking import ask
from tests.support.clusters import Sixpack
from tests.support.house import CELL, House, eventually
from tests.support.sentinels import Member, Trio
from tests.support.waiting import holds, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.clusters import Node


#: What is said while a primary is gone; the last of them while the next one doubts its nodes.
REFUSALS: Final = {"OUTCOME_UNKNOWN", "SCHEDULER_DEPENDENCY_DOWN", "ALL_CANDIDATES_FULL_OR_FAILED"}


class Place(Protocol):
    """An engine whose servers may be stopped and come back."""

    @property
    def url(self) -> str: ...


def home_of(place: Trio | Sixpack) -> tuple[Member | Node, Member | Node]:
    """The primary that has the cell, and its replica."""
    if isinstance(place, Trio):
        return place.primary(), place.replica()
    home = place.primary_of(slot_of(CELL))
    return home, place.replica_of(home)


@pytest.fixture(params=["own_trio", "own_cluster"])
def place(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def come_back(place: Trio | Sixpack, home: Member | Node) -> None:
    if isinstance(home, Member) and isinstance(place, Trio):
        home.start("--replicaof", f"127.0.0.1 {place.primary().port}")
        wait_until(lambda: home.has_its_primary, timeout=20)
    elif isinstance(place, Sixpack):
        place.start_again()


@asynccontextmanager
async def serving(place: Place, timeout_ms: int) -> AsyncIterator[House]:
    flags = {"engine.durability": "replicated", "engine.replication_timeout_ms": timeout_ms}
    async with House(place.url, **flags).open() as house:
        yield house


async def test_a_job_whose_request_id_could_not_be_kept_is_not_made(own_trio: Trio) -> None:
    _, replica = home_of(own_trio)
    async with serving(own_trio, 500) as house, house.node() as node:
        await node.register()
        await node.is_ready()
        replica.server.freeze()
        try:
            doubtful = await house.dispatch(status=503, request_id="r-1")
            assert (doubtful["error"], doubtful["request_id"]) == ("OUTCOME_UNKNOWN", "r-1")
            cell = await read_cell(house.serving.app.engine, CELL)
            assert not isinstance(cell, Refusal)
            assert cell.jobs == {}
        finally:
            replica.server.thaw()

        async def is_promised() -> bool:
            said = {"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh", "request_id": "r-1"}
            answer = await house.http.post("/v1/dispatch/f2f", json=said | {"audio_ref": "blob://1"})
            return answer.status_code == 200

        await eventually(is_promised)
        await node.job()


async def test_without_its_replica_nothing_is_acknowledged_and_the_job_is_found_again(place: Any) -> None:
    _, replica = home_of(place)
    async with serving(place, 500) as house, house.node() as node:
        await node.register(slots=8)
        await node.is_ready()
        replica.server.freeze()
        try:
            doubtful = await house.dispatch(status=503)
            assert doubtful["error"] == "OUTCOME_UNKNOWN", doubtful
            # It was done all the same: who asks for it again gets that very job.
            job = await node.job()
            again = await house.dispatch(status=503, request_id=doubtful["request_id"])
            assert (again["error"], again["request_id"]) == ("OUTCOME_UNKNOWN", doubtful["request_id"])
        finally:
            replica.server.thaw()
        found: list[str] = []

        async def is_promised() -> bool:
            message = {"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://1"}
            answer = await house.http.post("/v1/dispatch/f2f", json=message | {"request_id": doubtful["request_id"]})
            found.append(answer.json().get("job_id", ""))
            return answer.status_code == 200

        await eventually(is_promised)
        assert found[-1] == job["job_id"]
        await node.result(job)
        assert (await house.ended(job["job_id"]))["state"] == "FINISHED"
        assert not [message for message in node.heard if message["type"] == "job_assign"]


async def test_a_result_is_told_again_until_a_replica_has_it(place: Any) -> None:
    _, replica = home_of(place)
    async with serving(place, 500) as house, house.node() as node:
        await node.register(slots=8)
        await node.is_ready()
        placed = await house.dispatch()
        job = await node.job()
        replica.server.freeze()
        try:
            await node.result(job)
            # Whoever waits for it is not kept waiting: what he is told is true, whatever becomes of the engine.
            assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"
            # And what waits for the replica holds up nobody else.
            assert (await house.get("/v1/nodes/node-1"))["used"] == 0
        finally:
            replica.server.thaw()
        look = ("HGET", cell_key(house.settings.engine.key_prefix, CELL, "jobs"), job["job_id"])
        readonly: tuple[tuple[str, ...], ...] = () if isinstance(place, Trio) else (("READONLY",),)
        await holds(lambda: "FINISHED" in ask(replica.server.path, *readonly, look)[-1])


async def test_a_primary_that_dies_right_after_takes_nothing_with_it_that_was_acknowledged(place: Any) -> None:
    home, heir = home_of(place)
    async with serving(place, 1_000) as house, house.node() as node:
        await node.register(slots=1_000)
        await node.is_ready()
        confirmed: list[str] = []
        over = asyncio.Event()

        async def submit(name: int) -> None:
            message = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://1"}
            for number in count():
                if over.is_set():
                    return
                # Nobody may say too much in one session.
                message["session_id"] = f"{name}-{number}"
                answer = await house.http.post("/v1/dispatch/f2f", json=message)
                if answer.status_code == 200:
                    confirmed.append(answer.json()["job_id"])
                else:
                    assert answer.json()["error"] in REFUSALS, answer.text
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for name in range(8):
                group.create_task(submit(name))
            await holds(lambda: len(confirmed) > 50)
            home.server.stop()
            await holds(lambda: heir.is_primary)
            over.set()
        for job_id in confirmed:
            assert (await house.get(f"/v1/job/{job_id}"))["state"] in {"DISPATCHED", "ACCEPTED", "RUNNING"}
        # Who was killed comes back as the other's replica, and results can be promised again.
        await asyncio.to_thread(come_back, place, home)
        for job_id in confirmed:
            await node.result(await node.job(job_id=job_id))
        for job_id in confirmed:
            assert (await house.ended(job_id))["state"] == "FINISHED"
