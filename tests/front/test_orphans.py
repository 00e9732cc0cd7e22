"""When an instance dies nobody sees the sockets of its nodes close: whoever finds out gives them time to come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.done import done
from lingua_scheduler.front.nodes.orphans import hand_over_nodes
from lingua_scheduler.views.connections import Connections, read_connections
from tests.support.nodes import Stage
from tests.support.stage import sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


async def away(world: World) -> set[str]:
    return {node_id for node_id, node in (await world.cell()).nodes.items() if node.away_until_ms}


async def test_its_nodes_have_time_to_come_back_and_keep_their_jobs(world: World) -> None:
    there, here = Stage(world, "there"), Stage(world, "here")
    for node_id in ("n1", "n2"):
        await there.join(node_id)
    await here.join("n3")
    job_id = await there.put(preferred_node_id="n1")

    assert await hand_over_nodes(world.engine, [CELL], "there") == 2
    assert await away(world) == {"n1", "n2"}
    world.now_ms += world.rules.handover_grace_ms - 1
    await sweep(world)
    assert (await world.cell()).jobs[job_id].node == "n1"
    assert not isinstance(await done(world.engine, job_id, 1, "n1", result="{}"), Refusal)

    # Somebody else finds it out, too: their time is not prolonged.
    await hand_over_nodes(world.engine, [CELL], "there")
    world.now_ms += 1
    await sweep(world)
    assert {node_id for node_id, node in (await world.cell()).nodes.items() if node.lost_at_ms} == {"n1", "n2"}


async def test_who_came_back_elsewhere_is_not_meant(world: World) -> None:
    there, here = Stage(world, "there"), Stage(world, "here")
    await there.join("n1")
    await here.join("n1")
    assert await hand_over_nodes(world.engine, [CELL], "there") == 0
    assert await away(world) == set()


async def test_instances_are_told_apart(world: World) -> None:
    for instance in ("there", "there.too", "ther"):
        await Stage(world, instance).join(f"at-{instance}")
    for instance in ("there", "there.too", "ther"):
        page = await read_connections(world.engine, CELL, instance)
        assert isinstance(page, Connections)
        assert [node_id for node_id, _ in page.found] == [f"at-{instance}"]


async def test_many_are_found_in_pages(world: World) -> None:
    stage = Stage(world, "there")
    names = {f"n{number}" for number in range(600)}
    for name in names:
        await stage.join(name)
    assert await hand_over_nodes(world.engine, [CELL], "there") >= len(names)
    assert await away(world) == names


@pytest.mark.parametrize("wrong", [{"instance_id": ""}, {"cursor": "x"}, {"count": 0}, {"cell": "C"}])
async def test_what_makes_no_sense_is_refused(world: World, wrong: dict[str, object]) -> None:
    asked: dict[str, object] = {"cell": CELL, "instance_id": "there"} | wrong
    answer = await read_connections(world.engine, **asked)  # type: ignore[arg-type]  # that is the point
    assert isinstance(answer, Refusal)
