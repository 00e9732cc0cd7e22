"""A primary dies before its replica heard of its last words: what was forgotten, and what nodes really have."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.store.slots import slot_of
from tests.support.house import CELL, House, eventually
from tests.support.sentinels import Trio
from tests.support.waiting import holds, wait_until
from tests.support.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.clusters import Node as Server
    from tests.support.clusters import Sixpack
    from tests.support.people import Node
    from tests.support.sentinels import Member

#: A node that says what it does.
ACKS: Final = ("job_ack", "job_started", "job_stopped")


class Engine:
    """A primary, and a replica that hears nothing from a certain moment on."""

    def __init__(self, place: Trio | Sixpack) -> None:
        self.place = place
        self.home: Member | Server
        self.heir: Member | Server
        if isinstance(place, Trio):
            self.home, self.heir = place.primary(), place.replica()
        else:
            self.home = place.primary_of(slot_of(CELL))
            self.heir = place.replica_of(self.home)

    def part(self) -> None:
        """From here on the replica hears nothing, and does not notice; first it has all that there was."""
        wait_until(lambda: self._offset(self.home) == self._offset(self.heir), what="the replica has it all")
        self.heir.server.freeze()
        self.home.ask("CLIENT", "KILL", "TYPE", "replica")

    async def fail_over(self) -> None:
        """The primary is gone, and the replica, which knows nothing of the last moments, has its place."""
        self.home.server.stop()
        self.heir.server.thaw()
        await holds(lambda: self.heir.is_primary)

    @staticmethod
    def _offset(server: Member | Server) -> int:
        info = server.ask("INFO", "replication")
        name = "master_repl_offset" if "role:master" in info else "slave_repl_offset"
        return int(info.split(f"{name}:")[1].split()[0])


@pytest.fixture(params=["own_trio", "own_cluster"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.getfixturevalue(request.param))


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[House]:
    # A job whose end was forgotten keeps its slot until its time is over, and then as long as it may still be there.
    limits = {"jobs.reservation_ttl_ms": 2_000, "jobs.run_timeout_ms": 3_000, "nodes.limbo_ttl_ms": 6_000}
    async with House(engine.place.url, **limits).open() as house:
        yield house


async def stopped(node: Node, job: Any) -> None:
    await node.say("job_stopped", job_id=job["job_id"], attempt_id=job["attempt_id"], node_id=node.node_id)


@pytest.mark.parametrize("features", [(), ACKS], ids=["it cannot tell", "it tells"])
async def test_a_node_gets_no_job_for_a_slot_that_only_the_engine_believes_to_be_free(
    engine: Engine, features: tuple[str, ...]
) -> None:
    async with serving(engine) as house, house.node() as node:
        await node.register(slots=1, features=features)
        await node.is_ready()
        engine.part()
        forgotten = await house.dispatch()
        job = await node.job()
        await engine.fail_over()

        async def serves() -> bool:
            answer = await house.http.get("/v1/nodes/node-1")
            return answer.status_code == 200 and answer.json()["used"] == 1

        await eventually(serves)
        # The engine has never heard of the job, and knows of the slot.
        assert (await house.http.get(f"/v1/job/{forgotten['job_id']}")).status_code == 404
        refused = await house.dispatch(status=503)
        assert refused["error"] == "ALL_CANDIDATES_FULL_OR_FAILED"
        assert (await node.next("job_cancel"))["job_id"] == job["job_id"]
        assert not [message for message in node.heard if message["type"] == "job_assign"]
        # When it has stopped it has its slot back, and serves again.
        await (stopped(node, job) if features else node.result(job))
        placed = await house.dispatch(options={"wait_ms": 10_000})
        await node.result(await node.job(job_id=placed["job_id"]))
        assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"


async def test_nodes_are_never_oversold_while_all_want_something(engine: Engine) -> None:
    slots, shop, answers = 2, Workshop(), Counter[str]()

    async def ask(house: House, name: int) -> None:
        for number in count():
            message = {"session_id": f"{name}-{number}", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "b://1"}
            answer = await house.http.post("/v1/dispatch/f2f", json=message)
            answers[answer.json().get("error", "placed")] += 1
            await asyncio.sleep(0.02)

    async with serving(engine) as house:
        people = [house.node(f"node-{number}") for number in range(4)]
        for node in people:
            await node.connect()
            await node.register(slots=slots)
            await node.is_ready()
        async with asyncio.TaskGroup() as group:
            busy = [group.create_task(shop.work(node)) for node in people]
            busy += [group.create_task(ask(house, name)) for name in range(4)]
            await holds(lambda: shop.done > 20)
            # All slots are taken by what nobody will have heard of.
            await asyncio.to_thread(engine.part)
            shop.gate.clear()
            full = "ALL_CANDIDATES_FULL_OR_FAILED"
            before = answers[full]
            await holds(lambda: answers[full] > before + 20)
            await engine.fail_over()
            before = answers[full] + answers["placed"]
            await holds(lambda: answers[full] + answers["placed"] > before + 20)
            shop.gate.set()
            # And the fleet serves again by itself.
            before = shop.done
            await holds(lambda: shop.done > before + 40)
            for task in busy:
                task.cancel()
        assert shop.most == dict.fromkeys((node.node_id for node in people), slots)
        for node in people:
            await node.close()


async def test_who_waits_in_a_session_for_what_was_forgotten_is_told_and_goes_on(engine: Engine) -> None:
    async with serving(engine) as house, house.node() as node, house.client() as client:
        await node.register(slots=2)
        await node.is_ready()
        await client.init()
        await client.utter(0)
        await node.result(await node.job())
        assert (await client.end_of(0))["type"] == "translation_result"
        engine.part()
        await client.utter(1)
        job = await node.job()
        await engine.fail_over()
        assert (await client.end_of(1))["type"] == "missing_result"
        await node.result(job)
        await client.utter(2)
        await node.result(await node.job(utterance_index=2))
        assert (await client.end_of(2))["type"] == "translation_result"


async def test_a_node_that_polls_is_told_to_register_before_it_gets_anything(engine: Engine) -> None:
    async with serving(engine) as house:
        about = {
            "node_id": "p-1",
            "semantic_langs": ["en", "zh"],
            "nmt_pairs": [["en", "zh"]],
            "max_concurrent_jobs": 1,
        }
        first = await house.post("/v1/node/register", about)
        epoch = first["epoch"]
        engine.part()
        placed = await house.dispatch()
        taken = await house.post("/v1/node/poll", {"node_id": "p-1", "epoch": epoch, "wait_ms": 5_000})
        assert [job["job_id"] for job in taken["jobs"]] == [placed["job_id"]]
        await engine.fail_over()

        async def is_told() -> bool:
            answer = await house.http.post("/v1/node/poll", json={"node_id": "p-1", "epoch": epoch})
            return answer.status_code == 404

        await eventually(is_told)
        running = [{"job_id": placed["job_id"], "attempt_id": 1}]
        await house.post("/v1/node/register", about | {"epoch": epoch, "running": running})
        assert (await house.dispatch(status=503))["error"] == "ALL_CANDIDATES_FULL_OR_FAILED"
        await house.post("/v1/node/offline", {"node_id": "p-1", "epoch": epoch})
