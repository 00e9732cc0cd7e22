"""Ten nodes in cells of three, two instances, on one server and on a Cluster, where cells are on several primaries."""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import AsyncExitStack
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.audit import audit_guests
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.host import Hosted, host
from lingua_scheduler.flows.send_out import SentOut, send_out
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.routes import read_routes
from tests.support.house import Scheduler, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.cell import Cell
    from tests.support.people import Node

NODES = 10
CAPACITY = 3
#: How long an asker of the test has for its next step: much longer than it takes, on any machine.
ASKED_MS = 4_000
RARE = {"asr_languages": ["is"], "semantic_languages": ["is"], "tts_languages": ["fo"]}


class Fleet:
    """Two instances, the nodes at their doors, and a look past both."""

    def __init__(self, here: Scheduler, there: Scheduler, engine: Engine, stack: AsyncExitStack) -> None:
        self.here = here
        self.there = there
        self.engine = engine
        self._stack = stack
        self.nodes: dict[str, Node] = {}

    async def join(self, node_id: str, at: Scheduler, **said: Any) -> None:
        node = await self._stack.enter_async_context(at.node(node_id))
        await node.register(slots=1, **said)
        await node.is_ready()
        self.nodes[node_id] = node

    async def fill(self) -> None:
        """All come at once, half of them here and half there."""
        doors = (self.here, self.there)
        await asyncio.gather(*(self.join(f"node-{n}", doors[n % 2]) for n in range(NODES)))

    async def cells(self) -> dict[str, Cell]:
        names = [cell for cell, _ in (await read_routes(self.engine)).cells]
        return {name: await read_cell(self.engine, name) for name in sorted(names)}  # type: ignore[misc] # they are named

    async def homes(self) -> dict[str, str]:
        return {node_id: name for name, cell in (await self.cells()).items() for node_id in cell.nodes}

    async def part(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two nodes of one pair, each the only one in its cell: `near` at the first door, `far` at the second.

        Each has a job; what they were placed as. `near` was told of its job, and has said so.
        """
        for node_id in ("other-1", "other-2"):
            await self.join(node_id, self.here)
        await self.join("near", self.here, language_capabilities=RARE)
        await self.join("far", self.there, language_capabilities=RARE)
        homes = await self.homes()
        assert homes["near"] != homes["far"]
        placed = [await self.there.dispatch(f"room-{n}", src_lang="is", tgt_lang="fo") for n in range(2)]
        by_node = {one["node_id"]: one for one in placed}
        job = await self.nodes["near"].job(job_id=by_node["near"]["job_id"])
        await self.nodes["near"].say("job_ack", job_id=job["job_id"], attempt_id=1)
        return by_node["near"] | job, by_node["far"]

    async def has_left(self, job_id: str, node_id: str) -> None:
        """Wherever it is by now, or looks for."""

        async def has_it_left() -> bool:
            job = await self.here.get(f"/v1/job/{job_id}")
            return bool(job["state"] == "RETRYING" or job.get("node_id") != node_id)

        await eventually(has_it_left)

    async def is_in_state(self, job_id: str, *states: str) -> None:
        async def is_so() -> bool:
            return (await self.here.get(f"/v1/job/{job_id}"))["state"] in states

        await eventually(is_so)

    async def is_free(self, node_id: str) -> None:
        """The engine is asked, and not a door: nobody is late."""

        async def is_it() -> bool:
            return any(cell.nodes[node_id].used == 0 for cell in (await self.cells()).values() if node_id in cell.nodes)

        await eventually(is_it)

    async def send_result(self, placed: dict[str, Any]) -> None:
        node = self.nodes[placed["node_id"]]
        await node.result(await node.job(job_id=placed["job_id"]))

    async def finish(self, placed: dict[str, Any], at: Scheduler) -> None:
        await self.send_result(placed)
        assert (await at.ended(placed["job_id"]))["state"] == "FINISHED"


@pytest.fixture(params=["plain", "cluster"])
async def fleet(request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    url, prefix = request.getfixturevalue(request.param).url, f"test:{secrets.token_hex(6)}"
    rules = msgspec.msgpack.encode(Rules(relay_lease_ms=ASKED_MS))
    settings = {
        "LINGUA_ENGINE__KEY_PREFIX": prefix,
        "LINGUA_CELL__CELL_CAPACITY": str(CAPACITY),
        "LINGUA_INSTANCE__PRESENCE_TTL_MS": "1500",
        "LINGUA_INSTANCE__PRESENCE_BEAT_MS": "300",
    }
    async with (
        await Engine.connect(url, prefix, rules, timeout_ms=10_000) as engine,
        Scheduler(url, **settings) as here,
        Scheduler(url, **settings) as there,
        AsyncExitStack() as stack,
    ):
        fleet = Fleet(here, there, engine, stack)
        yield fleet
        cells = await fleet.cells()
        for name in cells:
            assert await audit_whole(engine, name, overdue_ms=10_000) == []

        async def every_guest_has_its_job() -> bool:
            return not list(audit_guests(await fleet.cells()))

        await eventually(every_guest_has_its_job)
        seen = [node_id for cell in cells.values() for node_id in cell.nodes]
        assert len(seen) == len(set(seen))


async def test_the_fleet_grows_by_itself_and_every_slot_of_it_is_found(fleet: Fleet) -> None:
    await fleet.fill()
    cells = await fleet.cells()
    assert len(cells) == 4
    assert sorted(len(cell.nodes) for cell in cells.values()) == [1, 3, 3, 3]
    doors = (fleet.here, fleet.there)
    for _ in range(2):
        placed = await asyncio.gather(*(doors[n % 2].dispatch(f"room-{n}") for n in range(NODES)))
        assert {one["node_id"] for one in placed} == fleet.nodes.keys()
        for door in doors:
            refused = await door.dispatch("one-too-many", status=503)
            assert refused["error"] == "ALL_CANDIDATES_FULL_OR_FAILED"
        # Whichever ends first, its slot is found, from the other door.
        await fleet.finish(placed[0], fleet.here)
        again = await fleet.there.dispatch("again")
        assert again["node_id"] == placed[0]["node_id"]
        await asyncio.gather(*(fleet.finish(one, fleet.there) for one in [*placed[1:], again]))
    listed = await fleet.there.get("/v1/nodes?limit=100")
    assert [node["node_id"] for node in listed["nodes"]] == sorted(fleet.nodes)
    stats = await fleet.here.stats()
    assert (stats["slots"]["total"], stats["jobs"]["finished_total"]) == (NODES, 2 * NODES + 2)
    pool = await fleet.here.get("/v1/pools/en/zh")
    assert pool["nodes"] == NODES
    explained = await fleet.there.get("/v1/explain?src=en&tgt=zh&limit=4")
    assert [node["node_id"] for node in explained["nodes"]] == sorted(fleet.nodes)[:4]
    explained = await fleet.there.get(f"/v1/job/{placed[0]['job_id']}/explain?nodes=true")
    assert {node["node_id"]: node["seen"] for node in explained["nodes"]} == {
        node_id: node_id == placed[0]["node_id"] for node_id in fleet.nodes
    }


async def test_sessions_speak_to_all_cells(fleet: Fleet) -> None:
    await fleet.fill()
    async with fleet.here.client() as client:
        await client.init()
        for index in range(NODES):
            await client.utter(index)
        jobs = {node_id: await node.job() for node_id, node in fleet.nodes.items()}
        for node_id, node in fleet.nodes.items():
            await node.result(jobs[node_id])
        for index in range(NODES):
            assert (await client.end_of(index))["type"] == "translation_result"


async def test_who_leaves_gives_its_place_to_another_and_may_come_back(fleet: Fleet) -> None:
    await fleet.fill()
    home = (await fleet.homes())["node-3"]
    said = {"node_id": "poller", "semantic_langs": ["en", "zh"], "max_concurrent_jobs": 1}
    first = await fleet.here.post("/v1/node/register", said)
    offline = {"node_id": "poller", "epoch": first["epoch"]}
    assert await fleet.there.post("/v1/node/offline", offline) == {"ok": True}
    assert "poller" not in await fleet.homes()
    again = await fleet.there.post("/v1/node/register", said)
    assert (await fleet.homes())["poller"] == again["cell"]
    await fleet.here.post("/v1/node/heartbeat", {"node_id": "poller", "epoch": again["epoch"]})
    assert (await fleet.homes())["node-3"] == home
    drained = await fleet.here.post("/v1/nodes/node-3/drain", {})
    assert drained["intent"] == "draining"
    shown = await fleet.there.get("/v1/nodes/node-3")
    assert shown["intent"] == "draining"


async def test_an_instance_is_killed_and_its_nodes_are_where_they_were(fleet: Fleet) -> None:
    await fleet.fill()
    homes = await fleet.homes()
    placed = await asyncio.gather(*(fleet.here.dispatch(f"room-{n}") for n in range(NODES)))
    theirs = [f"node-{n}" for n in range(1, NODES, 2)]
    jobs = {node_id: await fleet.nodes[node_id].job() for node_id in theirs}
    await fleet.there.stop(signal.SIGKILL)

    async def come_back(node_id: str) -> None:
        old = fleet.nodes[node_id]
        await old.gone()
        node = await fleet._stack.enter_async_context(fleet.here.node(node_id))
        running = [{"job_id": jobs[node_id]["job_id"], "attempt_id": 1}]
        await node.register(slots=1, epoch=old.epoch, running=running)
        await node.is_ready()
        await node.result(jobs[node_id])

    await asyncio.gather(*(come_back(node_id) for node_id in theirs))
    for one in placed:
        if one["node_id"] not in theirs:
            await fleet.nodes[one["node_id"]].result(await fleet.nodes[one["node_id"]].job(job_id=one["job_id"]))
        ended = await fleet.here.ended(one["job_id"])
        assert (ended["state"], ended["attempt_id"]) == ("FINISHED", 1)
    assert await fleet.homes() == homes


async def test_a_rare_pair_is_found_and_a_job_that_waits_goes_where_a_slot_is_free(fleet: Fleet) -> None:
    await fleet.fill()
    await fleet.join("rare", fleet.there, language_capabilities=RARE)
    for door in (fleet.here, fleet.there):
        placed = await door.dispatch(src_lang="is", tgt_lang="fo")
        assert placed["node_id"] == "rare"
        await fleet.finish(placed, door)
    held = [await fleet.here.dispatch(f"room-{n}") for n in range(NODES)]
    waits = asyncio.create_task(fleet.there.dispatch("patient", options={"wait_ms": 15_000}))

    async def somebody_waits() -> bool:
        return any(job.state == "WAITING" for cell in (await fleet.cells()).values() for job in cell.jobs.values())

    await eventually(somebody_waits)
    await fleet.finish(held[4], fleet.here)
    placed = await waits
    assert placed["node_id"] == held[4]["node_id"]
    await asyncio.gather(*(fleet.finish(one, fleet.here) for one in [*held[:4], *held[5:], placed]))


async def test_a_retry_that_only_its_own_node_can_take_is_back_in_a_moment(fleet: Fleet) -> None:
    """There are other cells, but nobody in them serves the pair: it does not wait for them."""
    await fleet.fill()
    await fleet.join("rare", fleet.there, language_capabilities=RARE)
    node, took_s = fleet.nodes["rare"], []
    for number in range(5):
        placed = await fleet.here.dispatch(f"room-{number}", src_lang="is", tgt_lang="fo")
        job = await node.job(job_id=placed["job_id"])
        for _ in range(2):
            began = monotonic()
            await node.say("job_nack", job_id=job["job_id"], attempt_id=job["attempt_id"], reason="INTERNAL")
            job = await node.job(job_id=placed["job_id"])
            took_s.append(monotonic() - began)
        await node.result(job)
        assert (await fleet.here.ended(placed["job_id"]))["state"] == "FINISHED"
    # All of it, also on a machine that has much else to do.
    assert median(took_s) < 0.25, took_s


async def test_the_only_node_of_a_cell_dies_and_its_job_ends_in_another_cell(fleet: Fleet) -> None:
    held, other = await fleet.part()
    await fleet.send_result(other)
    fleet.nodes["near"].cut()
    job = await fleet.nodes["far"].job(job_id=held["job_id"])
    assert job["attempt_id"] > 1
    explained = await fleet.there.get(f"/v1/job/{held['job_id']}/explain")
    assert f"guest {(await fleet.homes())['far']}" in explained["attempts"][-1]["reasons"]
    await fleet.nodes["far"].result(job)
    ended = await fleet.here.ended(held["job_id"])
    assert (ended["state"], ended["node_id"]) == ("FINISHED", "far")
    await fleet.is_free("far")
    again = await fleet.here.dispatch("again", src_lang="is", tgt_lang="fo")
    assert again["node_id"] == "far"
    await fleet.finish(again, fleet.here)


async def test_a_node_fails_a_job_and_has_room_and_another_cell_gets_it(fleet: Fleet) -> None:
    held, other = await fleet.part()
    refused = await fleet.here.dispatch("one-too-many", status=503, src_lang="is", tgt_lang="fo")
    assert refused["error"] == "ALL_CANDIDATES_FULL_OR_FAILED", "and so the first door knows both cells"
    await fleet.send_result(other)
    await fleet.is_free("far")
    near, far = fleet.nodes["near"], fleet.nodes["far"]
    await near.result(held, success=False)
    job = await far.job(job_id=held["job_id"])
    await far.result(job)
    ended = await fleet.here.ended(held["job_id"])
    assert (ended["state"], ended["node_id"]) == ("FINISHED", "far")


@pytest.mark.parametrize("steps", [1, 2], ids=["asked", "hosted"])
async def test_who_asked_for_a_node_elsewhere_dies_and_another_asks_again(fleet: Fleet, steps: int) -> None:
    """All nodes of the pair are taken while the one who will die asks: nobody is faster.

    What it asked for is its own for `ASKED_MS`; then it is dead, and the others ask.
    """
    held, other = await fleet.part()
    fleet.nodes["near"].cut()
    await fleet.is_in_state(held["job_id"], "RETRYING")
    cell = (await fleet.homes())["far"]
    asked: object = None
    while not isinstance(asked, SentOut):
        asked = await send_out(fleet.engine, held["job_id"], cell)
    await fleet.send_result(other)
    await fleet.is_free("far")
    if steps == 2:
        seen = (asked.attempt_id, asked.deadline_at_ms, asked.seed, asked.had, asked.ticket)
        assert isinstance(await host(fleet.engine, cell, held["job_id"], *seen), Hosted)
    job = await fleet.nodes["far"].job(job_id=held["job_id"])
    assert job["attempt_id"] > asked.attempt_id
    await fleet.nodes["far"].result(job)
    assert (await fleet.here.ended(held["job_id"]))["state"] == "FINISHED"


async def test_the_instance_of_its_node_is_killed_and_the_guest_stays_with_it(fleet: Fleet) -> None:
    held, other = await fleet.part()
    await fleet.finish(other, fleet.here)
    fleet.nodes["near"].cut()
    far = fleet.nodes["far"]
    job = await far.job(job_id=held["job_id"])
    await fleet.there.stop(signal.SIGKILL)
    await far.gone()
    back = await fleet._stack.enter_async_context(fleet.here.node("far"))
    running = [{"job_id": job["job_id"], "attempt_id": job["attempt_id"]}]
    await back.register(slots=1, epoch=far.epoch, running=running, language_capabilities=RARE)
    await back.is_ready()
    await back.result(job)
    ended = await fleet.here.ended(held["job_id"])
    assert (ended["state"], ended["attempt_id"]) == ("FINISHED", job["attempt_id"])


async def test_an_instance_is_killed_while_a_job_looks_for_its_node(fleet: Fleet) -> None:
    """Whichever step it was about to make, the other one finds the job a node."""
    held, other = await fleet.part()
    await fleet.finish(other, fleet.there)
    await fleet.nodes["far"].beat()
    fleet.nodes["near"].cut()
    await fleet.has_left(held["job_id"], "near")
    await fleet.here.stop(signal.SIGKILL)
    job = await fleet.nodes["far"].job(job_id=held["job_id"])
    await fleet.nodes["far"].result(job)
    assert (await fleet.there.ended(held["job_id"]))["state"] == "FINISHED"
