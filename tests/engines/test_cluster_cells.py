"""A fleet of several cells, each on another primary of a Cluster: what becomes of one cell stops no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.store.keys import instance_tag, rate_tag, request_tag, session_tag
from lingua_scheduler.store.slots import slot_of
from tests.support.house import House
from tests.support.waiting import holds
from tests.support.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import pytest

    from tests.support.clusters import Node as Server
    from tests.support.clusters import Sixpack

#: Each has a node, which is the only one in its cell, and serves a pair that no other does.
CELLS: Final = {"c0": "zh", "c1": "fr", "c2": "de"}
#: Whose primary has something done to it. Neither the directory nor another cell is there.
CELL: Final = "c1"
OTHERS: Final = CELLS.keys() - {CELL}
SLOTS: Final = 2
#: Nodes that say what they have: what nobody told them of keeps no slot until they cannot have it any more.
TELLS: Final = ("job_ack", "job_stopped")
#: What may be said anywhere: while the map is drawn anew, what is done may not be promised. Nobody is refused for it.
FINE: Final = {"placed", "ALL_CANDIDATES_FULL_OR_FAILED", "OUTCOME_UNKNOWN"}


class Town:
    """What was asked in each cell, and what was answered."""

    def __init__(self, house: House, home: Callable[[str], bool]) -> None:
        self.house = house
        self.shop = Workshop()
        self.answers = {cell: Counter[str]() for cell in CELLS}
        self.confirmed: list[str] = []
        self._names = _elsewhere("s", home)

    async def ask(self, cell: str) -> None:
        """One job after the other, each of a session of its own."""
        for name in self._names:
            message = {"session_id": name, "src_lang": "en", "tgt_lang": CELLS[cell], "audio_ref": "b://1"}
            answer = (await self.house.http.post("/v1/dispatch/f2f", json=message)).json()
            self.answers[cell][answer.get("error", "placed")] += 1
            if "job_id" in answer:
                self.confirmed.append(answer["job_id"])
            await asyncio.sleep(0.02)

    async def more(self, *cells: str, number: int = 10) -> None:
        """Until so many more jobs were placed in each of these cells."""
        before = {cell: self.answers[cell]["placed"] for cell in cells}
        await holds(lambda: all(self.answers[cell]["placed"] >= before[cell] + number for cell in cells))


def _elsewhere(stem: str, is_home: Callable[[str], bool]) -> Iterator[str]:
    """Names whose slots are not where something is done."""
    return (name for name in (f"{stem}{number}" for number in count()) if not is_home(name))


def _primary(cluster: Sixpack) -> tuple[Server, Callable[[str], bool]]:
    """Whose cell something is done to, and what else has its slot there."""
    for server in cluster.nodes:
        server.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    home = cluster.primary_of(slot_of(CELL))
    spans = [(low, high) for low, high, (_, port, *_), *_ in home.ask("CLUSTER", "SLOTS") if port == home.port]
    return home, lambda tag: any(low <= slot_of(tag) <= high for low, high in spans)


def _cell_of(placed: dict[str, Any]) -> str:
    return str(placed["job_id"]).partition(".")[0]


@asynccontextmanager
async def town(cluster: Sixpack) -> AsyncIterator[tuple[Town, Server]]:
    """Three cells under load, and the primary of one of them. At the end all that was confirmed is done."""
    home, is_home = _primary(cluster)
    # Beside the cell it has the bucket from which all callers are admitted.
    assert [tag for tag in (*CELLS, "dir", rate_tag("nobody")) if is_home(tag)] == [CELL, rate_tag("nobody")]
    settings: dict[str, Any] = {"cell.cell_capacity": 1, "engine.durability": "replicated"}
    # So soon a job goes on of which nobody told its node, because the answer was lost.
    settings["jobs.reservation_ttl_ms"] = 1_500
    settings["instance.id"] = next(_elsewhere("i", lambda name: is_home(instance_tag(name))))
    async with House(cluster.url, **settings).open() as house:
        people = [house.node(f"node-{cell}") for cell in CELLS]
        for node, language in zip(people, CELLS.values(), strict=True):
            await node.connect()
            able = {kind: ["en", language] for kind in ("asr_languages", "semantic_languages", "tts_languages")}
            await node.register(slots=SLOTS, features=TELLS, language_capabilities=able, nmt_pairs=[["en", language]])
            await node.is_ready()
        town = Town(house, lambda name: is_home(session_tag(name)))
        async with asyncio.TaskGroup() as group:
            busy = [group.create_task(town.shop.work(node, tells=True)) for node in people]
            asking = [group.create_task(town.ask(cell)) for cell in CELLS for _ in range(2)]
            await town.more(*CELLS)
            yield town, home
            for task in asking:
                task.cancel()
            ended = await asyncio.gather(*(house.ended(job_id) for job_id in town.confirmed))
            for task in busy:
                task.cancel()
        assert Counter(job["state"] for job in ended) == {"FINISHED": len(town.confirmed)}
        assert max(town.shop.most.values()) <= SLOTS
        for node in people:
            await node.close()


async def test_a_primary_that_dies_stops_only_its_own_cell(own_cluster: Sixpack) -> None:
    async with town(own_cluster) as (there, home):
        heir = own_cluster.replica_of(home)
        home.server.stop()
        await there.more(*OTHERS)
        await holds(lambda: heir.is_primary)
        # As a replica of its heir it may come back; then what is acknowledged is on two servers again.
        await asyncio.to_thread(own_cluster.start_again)
        await there.more(*CELLS)
    for cell in OTHERS:
        assert there.answers[cell].keys() <= FINE, cell


async def test_a_job_goes_to_another_cell_while_nobody_serves_one_and_so_does_a_request_that_is_sent_again(
    own_cluster: Sixpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was to be made there is refused: only there it can be known whether it was. Nobody has made it."""
    home, is_home = _primary(own_cluster)
    sessions = _elsewhere("s", lambda name: is_home(session_tag(name)))
    request_id = next(_elsewhere("r", lambda name: is_home(request_tag("nobody", name))))
    settings: dict[str, Any] = {"cell.cell_capacity": 1}
    settings["instance.id"] = next(_elsewhere("i", lambda name: is_home(instance_tag(name))))
    async with House(own_cluster.url, **settings).open() as house:
        people = [house.node(f"node-{cell}") for cell in CELLS]
        for node in people:
            await node.connect()
            await node.register(slots=SLOTS, features=TELLS)
            await node.is_ready()
        for server in (own_cluster.replica_of(home), home):
            server.server.stop()
        # Nobody has looked for room for this pair yet.
        assert _cell_of(await house.dispatch(next(sessions))) in OTHERS
        asked: dict[str, Any] = {"session_id": next(sessions), "request_id": request_id}
        app = house.serving.app
        with monkeypatch.context() as before:
            # It was chosen a moment before its primary was gone.
            before.setattr(app.submitter.routes, "begin_at", lambda *_: CELL)
            refused = await house.dispatch(**asked, status=503)
        assert (refused["error"], refused["retryable"]) == ("SCHEDULER_DEPENDENCY_DOWN", True)
        # That it cannot go on from there is not tried for each of the others: that takes time.
        assert "withdraw" not in app.engine.meters or app.engine.meters["withdraw"].failed.total() <= 1
        placed = await house.dispatch(**asked)
        assert _cell_of(placed) in OTHERS
        assert (await house.dispatch(**asked))["job_id"] == placed["job_id"]
        await asyncio.to_thread(own_cluster.start_again)
        for node in people:
            await node.close()


async def test_a_slot_that_is_handed_over_costs_no_cell_anything_but_time(own_cluster: Sixpack) -> None:
    async with town(own_cluster) as (there, home):
        target = next(node for node in own_cluster.primaries() if node is not home)
        await asyncio.to_thread(own_cluster.hand_over, slot_of(CELL), target)
        await there.more(*CELLS)
        assert own_cluster.primary_of(slot_of(CELL)) is target
    for cell in OTHERS:
        assert there.answers[cell].keys() <= FINE, cell
    assert there.answers[CELL].keys() <= FINE | {"SCHEDULER_DEPENDENCY_DOWN"}
