"""Who could take a job, in a fleet of several cells: all of it, whichever cell the job is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.explain import Explanation
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.withdraw import Withdrawn, withdraw
from lingua_scheduler.front.ask import Submitted
from lingua_scheduler.views.explain import explain_job, explain_pair
from tests.support.several import cell_in, cells_of, several
from tests.support.stage import code_of, place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from lingua_scheduler.core.refusal import Refusal
    from tests.flows.conftest import MakeWorld
    from tests.support.several import Instance
    from tests.support.world import World

CELLS = ["c0", "c1", "c2"]
YUE = {"semantic_langs": ["yue", "en"], "nmt_pairs": [["yue", "en"]]}
ZH = {"semantic_langs": ["zh", "en"], "nmt_pairs": [["zh", "en"]]}


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """Two nodes are a full cell here."""
    return await make_world(Rules(cell_capacity=2, stale_ms=10**9, offline_ms=2 * 10**9))


@pytest.fixture(autouse=True)
async def here(world: World) -> AsyncIterator[Instance]:
    async with several(world) as instance:
        for n in range(5):
            await instance.join(f"n{n}")
        assert await cells_of(world) == CELLS
        yield instance


async def told(asking: Awaitable[Explanation | Refusal]) -> Explanation:
    answer = await asking
    assert isinstance(answer, Explanation), answer
    return answer


def reasons(said: Explanation) -> dict[str, str]:
    """Each node's reason not to take the job; * behind those that have seen it."""
    assert said.nodes is not None
    return {node.node_id: node.reason + "*" * node.seen for node in said.nodes}


async def placed(here: Instance, **wanted: object) -> Submitted:
    answer = await here.submit(wanted=Wanted(**wanted))  # type: ignore[arg-type] # its fields, by name
    assert isinstance(answer, Submitted), answer
    return answer


async def test_a_job_is_explained_with_the_nodes_of_all_cells(world: World, here: Instance) -> None:
    job = await placed(here, preferred_node_id="n2", exclude_node_ids=["n0", "n4"])
    assert cell_in(job) == "c1"
    said = await told(explain_job(world.engine, job.job_id, CELLS, nodes=True))
    assert reasons(said) == {"n0": "excluded", "n1": "", "n2": "full*", "n3": "", "n4": "excluded"}
    assert ([attempt.node_id for attempt in said.attempts], said.cursor) == (["n2"], "")
    assert reasons(await told(explain_job(world.engine, job.job_id, nodes=True))) == {"n2": "full*", "n3": ""}
    pair = await told(explain_pair(world.engine, CELLS, "en", "zh"))
    assert reasons(pair) == {"n0": "", "n1": "", "n2": "full", "n3": "", "n4": ""}


async def test_the_pages_go_through_all_cells_by_name(world: World, here: Instance) -> None:
    job = await placed(here)
    pages, cursor = list[list[str]](), ""
    while cursor or not pages:
        said = await told(explain_job(world.engine, job.job_id, CELLS, nodes=True, cursor=cursor, count=2))
        pages.append(list(reasons(said)))
        cursor = said.cursor
    assert pages == [["n0", "n1"], ["n2", "n3"], ["n4"]]


async def test_who_had_the_job_is_known_in_every_cell(world: World, here: Instance) -> None:
    job = await placed(here, preferred_node_id="n0", wait_ms=5_000)
    assert await fail(world.engine, job.job_id, 1, "n0", reason="no") is not None
    said = await told(explain_job(world.engine, job.job_id, CELLS, nodes=True))
    assert reasons(said) == {"n0": "*", "n1": "full*", "n2": "", "n3": "", "n4": ""}


async def test_a_job_that_went_on_is_explained_where_it_is(world: World) -> None:
    assert await withdraw(world.engine, "c0.j1", 0, "c2", 60_000) == Withdrawn(1)
    await place(world, "c2.j1", hop=1)
    said = await told(explain_job(world.engine, "c0.j1", CELLS, nodes=True))
    assert said.job_id == "c2.j1"
    assert reasons(said) == {"n0": "", "n1": "", "n2": "", "n3": "", "n4": "full*"}
    assert code_of(await explain_job(world.engine, "c0.j2", CELLS, nodes=True)) == "UNKNOWN_JOB"
    assert code_of(await explain_job(world.engine, "c0.j1", ["{"], nodes=True)) == "INVALID_MESSAGE"


async def test_a_language_falls_back_only_where_no_cell_has_anybody_alive_for_it(world: World, here: Instance) -> None:
    await here.join("yue", **YUE, connection="x")
    for node_id in ("zh0", "zh1"):
        await here.join(node_id, **ZH)
    cells = await cells_of(world)
    able = {"n0": "no_pool", "n1": "no_pool", "n2": "no_pool", "n3": "no_pool", "n4": "no_pool"}
    said = await told(explain_pair(world.engine, cells, "yue", "en"))
    assert reasons(said) == able | {"yue": "", "zh0": "no_pool", "zh1": "no_pool"}
    await disconnect(world.engine, "c2", "yue", "x")
    world.now_ms += 1_000
    await reap(world.engine, "c2")
    said = await told(explain_pair(world.engine, cells, "yue", "en"))
    assert reasons(said) == able | {"yue": "lost", "zh0": "", "zh1": ""}
