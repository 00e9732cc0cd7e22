"""Only who was gone rests when it is back; who is there and registers again does not, however often it was gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.register import register
from tests.support.cells import same
from tests.support.stage import PLAIN, T0, A, B, bring, code_of, join, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

#: How a node says that it is the one that is known, and how it is received.
AGAIN = pytest.mark.parametrize(
    ("said", "how"), [({"epoch": "1-n1"}, "RESYNC"), ({"process_id": "p1"}, "CONTINUED"), ({}, "CONTINUED")], ids=str
)


async def rested(world: World) -> None:
    """n1 was gone three times and had to rest for a second; that is over."""
    await join(world, connection="x", process_id="p1")
    for _ in range(3):
        await disconnect(world.engine, CELL, "n1", "x")
        answer = await join(world, connection="x", epoch="1-n1")
    assert answer.standing == Standing.resting
    world.now_ms += 1_000
    await sweep(world)
    assert (await world.cell()).nodes["n1"].standing == Standing.available


@AGAIN
async def test_who_was_not_gone_need_not_rest_again(world: World, said: dict[str, Any], how: str) -> None:
    await rested(world)
    for connection in ("x", "y"):
        answer = await join(world, connection=connection, **said)
        assert (answer.how, answer.standing) == (how, Standing.available)
    assert (await world.cell()).nodes["n1"].rest_until_ms == T0 + 1_000


@AGAIN
async def test_who_was_away_rests(world: World, said: dict[str, Any], how: str) -> None:
    await rested(world)
    await disconnect(world.engine, CELL, "n1", "x")
    answer = await join(world, connection="y", **said)
    assert (answer.how, answer.standing) == (how, Standing.resting)
    assert (await world.cell()).nodes["n1"].rest_until_ms == world.now_ms + 2_000


async def test_who_was_lost_rests(make_world: MakeWorld) -> None:
    """Its socket was there all the time, but nothing was heard of it."""
    world = await make_world(Rules(stale_ms=1_000, offline_ms=2_000, rest_ms=500))
    await join(world)
    found = []
    for _ in range(3):
        for _ in range(2):
            world.now_ms += 1_000
            await sweep(world)
        assert (await world.cell()).nodes["n1"].standing == Standing.lost
        answer = await join(world, epoch="1-n1")
        found.append((answer.how, answer.standing))
    assert found == [("RESYNC", Standing.available)] * 2 + [("RESYNC", Standing.resting)]


async def test_a_new_process_rests_though_nobody_saw_the_old_one_go(world: World) -> None:
    await rested(world)
    answer = await join(world, connection="y", process_id="p2")
    assert (answer.how, answer.standing) == ("NEW_PROCESS", Standing.resting)


class TestByTheConnectionThatItHas:
    """The node itself registers once more, or the instance that holds its socket does, from memory."""

    @pytest.mark.parametrize("renewed_by", ["node", "instance"])
    async def test_another_connection_is_not_pushed_aside(self, world: World, renewed_by: str) -> None:
        for newer in ("y", ""):
            await join(world, connection="x", max_concurrent_jobs=1)
            await join(world, connection=newer, max_concurrent_jobs=3)
            before = await world.cell()
            late = await register(
                world.engine,
                CELL,
                "n1",
                **(PLAIN | {"connection": "x", "renewed_by": renewed_by, "process_id": "p2", "running": [(A, 1)]}),
            )
            assert code_of(late) == "NODE_REPLACED"
            assert same(await world.cell(), before)

    @pytest.mark.parametrize("renewed_by", ["node", "instance"])
    async def test_also_by_another_credential(self, world: World, renewed_by: str) -> None:
        await join(world, connection="x", credential="one")
        late = await register(
            world.engine, CELL, "n1", **(PLAIN | {"connection": "y", "credential": "two", "renewed_by": renewed_by})
        )
        assert code_of(late) == "NODE_REPLACED"

    @pytest.mark.parametrize("renewed_by", ["node", "instance"])
    async def test_its_own_goes_on(self, world: World, renewed_by: str) -> None:
        await join(world, connection="x")
        await disconnect(world.engine, CELL, "n1", "x", "handover")
        answer = await join(world, connection="x", epoch="1-n1", renewed_by=renewed_by)
        assert (answer.how, answer.replaced) == ("RESYNC", "")
        assert (await world.cell()).nodes["n1"].away_until_ms == 0

    @pytest.mark.parametrize(("renewed_by", "attempt"), [("node", 2), ("instance", 1)])
    async def test_only_the_node_knows_better_than_the_engine_what_it_runs(
        self, world: World, renewed_by: str, attempt: int
    ) -> None:
        await join(world, connection="x")
        await bring(world, "RUNNING")
        answer = await join(world, connection="x", epoch="1-n1", running=[], renewed_by=renewed_by)
        assert answer.cancel == []
        assert (await world.cell()).jobs[A].attempt == attempt

    async def test_nobody_knows_better_than_the_instance_if_the_engine_knows_nothing(self, world: World) -> None:
        answer = await join(world, connection="x", running=[(A, 1)], renewed_by="instance")
        assert (answer.how, answer.cancel) == ("NEW", [(A, 1)])
        assert (await world.cell()).nodes["n1"].used == 1

    @pytest.mark.parametrize(("renewed_by", "used"), [("node", 1), ("instance", 0)])
    async def test_what_the_node_is_through_with_takes_no_slot_because_an_instance_has_not_heard_of_it(
        self, world: World, renewed_by: str, used: int
    ) -> None:
        """The node's own word is the last one: it may run the job again."""
        await join(world, connection="x")
        await bring(world, "FINISHED")
        await join(world, connection="x", epoch="1-n1", running=[(A, 1)], renewed_by=renewed_by)
        assert (await world.cell()).nodes["n1"].used == used

    async def test_what_the_engine_has_forgotten_takes_a_slot_and_what_it_knows_stays(self, world: World) -> None:
        """A fail-over forgets the last writes: the instance that told the node of a job remembers it."""
        await join(world, connection="x", max_concurrent_jobs=3)
        await bring(world, "DISPATCHED")
        answer = await join(
            world, connection="x", epoch="1-n1", running=[(B, 1)], renewed_by="instance", max_concurrent_jobs=3
        )
        cell = await world.cell()
        assert (answer.how, answer.cancel, cell.nodes["n1"].used) == ("RESYNC", [(B, 1)], 2)
        # Only the node itself can say that it has accepted a job.
        assert (cell.jobs[A].state, cell.jobs[A].attempt) == ("DISPATCHED", 1)

    async def test_what_was_fenced_before_is_not_over_because_an_instance_does_not_name_it(self, world: World) -> None:
        await join(world, connection="x", max_concurrent_jobs=3)
        await bring(world, "RUNNING")
        await cancel(world.engine, A)
        assert len((await world.cell()).limbo) == 1
        await join(world, connection="x", epoch="1-n1", running=[], renewed_by="instance", max_concurrent_jobs=3)
        assert len((await world.cell()).limbo) == 1

    @pytest.mark.parametrize(("opened_ms", "how"), [(T0, "NODE_REPLACED"), (T0 + 1, "CONTINUED")])
    async def test_a_connection_from_before_is_only_what_the_engine_has_fallen_back_to(
        self, world: World, opened_ms: int, how: str
    ) -> None:
        await join(world, connection="older", opened_ms=T0)
        assert await how_received(world, opened_ms, renewed_by="instance") == how

    async def test_nobody_renews_against_a_newer_one_because_time_went_back(self, world: World) -> None:
        await join(world, connection="newer", opened_ms=T0 + 9_000)
        assert await how_received(world, T0 + 8_000, renewed_by="node") == "NODE_REPLACED"


async def how_received(world: World, opened_ms: int, connection: str = "x", **said: Any) -> str:
    """How n1 is received that comes by a connection which was opened then."""
    answer = await register(
        world.engine, CELL, "n1", **(PLAIN | {"connection": connection, "opened_ms": opened_ms} | said)
    )
    return code_of(answer) if isinstance(answer, Refusal) else answer.how


class TestByAnotherConnection:
    """An instance that slept reads late what was said long ago, by a socket that its node has given up."""

    @pytest.mark.parametrize(
        "said", [{}, {"epoch": "1-n1"}, {"process_id": "p2"}, {"credential": "two"}, {"running": [(A, 1)]}], ids=str
    )
    async def test_of_two_the_one_counts_that_was_opened_later(self, world: World, said: dict[str, Any]) -> None:
        world.now_ms += 5_000
        await join(world, connection="newer", opened_ms=T0 + 2)
        before = await world.cell()
        assert await how_received(world, T0 + 1, **said) == "NODE_REPLACED"
        assert same(await world.cell(), before)

    @pytest.mark.parametrize(("opened_ms", "how"), [(T0 + 1, "NODE_REPLACED"), (T0 + 2, "CONTINUED")])
    async def test_over_http_it_is_the_request_that_came_later(self, world: World, opened_ms: int, how: str) -> None:
        world.now_ms += 5_000
        await join(world, connection="", opened_ms=T0 + 2)
        assert await how_received(world, opened_ms, connection="") == how

    @pytest.mark.parametrize("opened_ms", [T0 + 2, T0 + 3])
    async def test_one_as_young_comes_in(self, world: World, opened_ms: int) -> None:
        world.now_ms += 5_000
        await join(world, connection="older", opened_ms=T0 + 2)
        assert await how_received(world, opened_ms) == "CONTINUED"
        assert (await world.cell()).profiles["n1"].opened_ms == opened_ms

    async def test_also_when_the_newer_one_is_closed_again(self, world: World) -> None:
        await join(world, connection="newer", opened_ms=T0)
        await disconnect(world.engine, CELL, "n1", "newer")
        assert await how_received(world, T0 - 1) == "NODE_REPLACED"
        assert (await world.cell()).nodes["n1"].away_until_ms > 0

    async def test_a_clock_that_went_back_locks_nobody_out(self, world: World) -> None:
        """The server that takes over is nine seconds behind: what was opened then lies in the future."""
        await join(world, connection="older", opened_ms=T0 + 9_000)
        assert await how_received(world, T0) == "CONTINUED"

    async def test_a_registration_without_one_is_made_now(self, world: World) -> None:
        await join(world, connection="older", opened_ms=T0)
        world.now_ms += 1
        assert await how_received(world, 0, connection="") == "CONTINUED"
        assert await how_received(world, T0) == "NODE_REPLACED"
