"""Calls of one tick are folded into one script call. Nobody may be able to tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.dispatch import dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.started import started
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from tests.support.cells import changed
from tests.support.stage import join, wait
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from lingua_scheduler.core.cell import Cell
    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

    Step = Iterable[Awaitable[Any]]

NODES = ["n0", "n1", "n2"]
JOBS = [f"{CELL}.{number}" for number in range(9)]
LIMITS = Limits(ack_ms=100, run_ms=200, timeout_ms=900, max_retry=1)


async def holders(world: World) -> list[tuple[str, int, str]]:
    """Every job's present attempt, and one more that nobody holds."""
    jobs = (await world.cell()).jobs
    return [(job_id, job.attempt, job.node) for job_id, job in sorted(jobs.items())] + [("c0.x", 1, "n0")]


async def start(world: World) -> None:
    """Three nodes of two groups with seven slots in all, and nine jobs that want them."""
    await asyncio.gather(
        join(world, "n0", max_concurrent_jobs=3, connection="x"),
        join(world, "n1", max_concurrent_jobs=2, connection="x", acks=False, tells=False),
        join(world, "n2", max_concurrent_jobs=2, connection="x", tts_langs=["zh"]),
    )
    await asyncio.gather(
        *(
            dispatch(world.engine, job_id, "s1", "en", "zh", seed=seed, limits=LIMITS, body="text")
            for seed, job_id in enumerate(JOBS)
        )
    )


async def about_attempts(world: World, flow: Callable[..., Awaitable[Any]], **said: Any) -> Step:
    """The same message about every attempt, the first one twice."""
    attempts = await holders(world)
    return [flow(world.engine, *attempt, **said) for attempt in [*attempts, attempts[0]]]


async def about_nodes(world: World, flow: Callable[..., Awaitable[Any]], *rest: str, **said: Any) -> Step:
    """The same message about every node, an unknown one, and the first one again."""
    return [flow(world.engine, CELL, node_id, *rest, **said) for node_id in [*NODES, "n9", "n0"]]


async def about_jobs(world: World, flow: Callable[..., Awaitable[Any]]) -> Step:
    return [flow(world.engine, job_id) for job_id in [*JOBS, JOBS[0]]]


async def run_all(world: World) -> None:
    await asyncio.gather(*await about_attempts(world, started))


async def lose_all(world: World) -> None:
    await run_all(world)
    await asyncio.gather(*await about_nodes(world, disconnect, "x"))
    world.now_ms += 500


SCENARIOS: dict[str, Callable[[World], Awaitable[Step]]] = {}


def scenario(make: Callable[[World], Awaitable[Step]]) -> Callable[[World], Awaitable[Step]]:
    SCENARIOS[make.__name__] = make
    return make


@scenario
async def jobs_are_sent_again(world: World) -> Step:
    return [dispatch(world.engine, job_id, "s1", "en", "zh", seed=1) for job_id in [*JOBS, "c0.y", "c0.y"]]


@scenario
async def jobs_come_while_others_are_overdue(world: World) -> Step:
    world.now_ms += 100
    return [dispatch(world.engine, job_id, "s1", "en", "zh", seed=1) for job_id in ("c0.y", "c0.z")]


@scenario
async def everything_is_delivered(world: World) -> Step:
    return await about_attempts(world, deliver)


@scenario
async def nothing_can_be_delivered(world: World) -> Step:
    return await about_attempts(world, undeliver)


@scenario
async def everything_is_acknowledged(world: World) -> Step:
    return await about_attempts(world, ack)


@scenario
async def everything_starts(world: World) -> Step:
    return await about_attempts(world, started)


@scenario
async def everything_stops(world: World) -> Step:
    return await about_attempts(world, stopped)


@scenario
async def everything_is_done(world: World) -> Step:
    return await about_attempts(world, done, result="text")


@scenario
async def everything_fails(world: World) -> Step:
    return await about_attempts(world, fail, reason="broken")


@scenario
async def everything_fails_for_the_last_time(world: World) -> Step:
    await asyncio.gather(*await about_attempts(world, fail, reason="broken"))
    return await about_attempts(world, fail, reason="broken")


@scenario
async def everybody_is_overloaded(world: World) -> Step:
    return await about_attempts(world, fail, reason="", overloaded=True, retry_after_ms=50)


@scenario
async def everything_is_cancelled(world: World) -> Step:
    return await about_jobs(world, cancel)


@scenario
async def late_words_about_cancelled_attempts(world: World) -> Step:
    attempts = await holders(world)
    await asyncio.gather(*await about_jobs(world, cancel))
    flows = (done, stopped, ack)
    return [flow(world.engine, *attempt) for n, attempt in enumerate(attempts) for flow in [flows[n % 3]]]


@scenario
async def everything_is_released(world: World) -> Step:
    attempts = await holders(world)
    await asyncio.gather(*(done(world.engine, *attempt) for attempt in attempts[::2]))
    return await about_jobs(world, release)


@scenario
async def everybody_is_drained(world: World) -> Step:
    return await about_nodes(world, drain)


@scenario
async def everybody_is_evicted(world: World) -> Step:
    return await about_nodes(world, evict)


@scenario
async def everybody_is_resumed(world: World) -> Step:
    await asyncio.gather(*await about_nodes(world, evict))
    return await about_nodes(world, resume)


@scenario
async def everybody_leaves(world: World) -> Step:
    await run_all(world)
    return await about_nodes(world, leave)


@scenario
async def everybody_hangs_up(world: World) -> Step:
    return await about_nodes(world, disconnect, "x")


@scenario
async def everybody_beats(world: World) -> Step:
    world.now_ms += 10
    return await about_nodes(world, heartbeat, tts_langs=["zh"], max_concurrent_jobs=1, running=[])


@scenario
async def everybody_confirms_by_number(world: World) -> Step:
    await asyncio.gather(*await about_jobs(world, cancel))
    world.now_ms += 2_000
    return await about_nodes(world, heartbeat, running_jobs=1)


@scenario
async def everybody_registers_anew(world: World) -> Step:
    await run_all(world)
    return [join(world, node_id, process_id="p", running=[(f"c0.{node_id}", 1)]) for node_id in NODES]


@scenario
async def everybody_comes_back_without_its_work(world: World) -> Step:
    await run_all(world)
    return [join(world, node_id, running=[], connection="y") for node_id in [*NODES, "n0"]]


@scenario
async def everybody_comes_back_too_late(world: World) -> Step:
    await lose_all(world)
    return [join(world, node_id, connection="y") for node_id in NODES]


@scenario
async def reapers_find_late_acks(world: World) -> Step:
    world.now_ms += 100
    return [reap(world.engine, CELL, limit) for limit in (2, 3, 100)]


@scenario
async def reapers_find_everybody_lost(world: World) -> Step:
    await lose_all(world)
    return [reap(world.engine, CELL, limit) for limit in (1, 1, 100)]


@scenario
async def reapers_find_limbo_over(world: World) -> Step:
    await asyncio.gather(*await about_jobs(world, cancel))
    for _ in range(2):
        world.now_ms += 30_000
        await asyncio.gather(*await about_nodes(world, heartbeat))
    return [reap(world.engine, CELL, limit) for limit in (2, 3, 100)]


@scenario
async def reapers_find_a_year_gone_by(world: World) -> Step:
    world.now_ms += 365 * 86_400_000
    return [reap(world.engine, CELL, limit) for limit in (3, 3, 100, 100)]


@scenario
async def relays_take_everything(world: World) -> Step:
    await asyncio.gather(*await about_jobs(world, cancel))
    return [relay(world.engine, CELL, limit=limit) for limit in (2, 0, 3, 100)]


async def some_wait(world: World) -> None:
    await wait(world, {f"{CELL}.w{number}": 900 - number for number in range(4)})


@scenario
async def everything_is_done_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_attempts(world, done)


@scenario
async def everything_fails_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_attempts(world, fail, reason="broken")


@scenario
async def everything_fails_while_some_wait_and_some_of_it_for_the_last_time(world: World) -> Step:
    for attempt in (await holders(world))[:2]:
        await fail(world.engine, *attempt, reason="broken")
    await some_wait(world)
    return await about_attempts(world, fail, reason="broken")


@scenario
async def everything_stops_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_attempts(world, stopped)


@scenario
async def nothing_can_be_delivered_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_attempts(world, undeliver)


@scenario
async def everybody_is_evicted_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_nodes(world, evict)


@scenario
async def everybody_leaves_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_nodes(world, leave)


@scenario
async def everybody_is_resumed_while_some_wait(world: World) -> Step:
    await asyncio.gather(*await about_attempts(world, done))
    await asyncio.gather(*await about_nodes(world, drain))
    await some_wait(world)
    return await about_nodes(world, resume)


@scenario
async def everybody_has_another_slot_while_some_wait(world: World) -> Step:
    await some_wait(world)
    return await about_nodes(world, heartbeat, max_concurrent_jobs=4)


@scenario
async def everybody_comes_back_without_its_work_while_some_wait(world: World) -> Step:
    await run_all(world)
    await some_wait(world)
    return [join(world, node_id, running=[], connection="y") for node_id in [*NODES, "n0"]]


@scenario
async def everybody_registers_anew_while_some_wait(world: World) -> Step:
    await run_all(world)
    await some_wait(world)
    return [join(world, node_id, process_id="p", running=[(f"c0.{node_id}", 1)]) for node_id in NODES]


@scenario
async def reapers_find_late_acks_while_some_wait(world: World) -> Step:
    await some_wait(world)
    world.now_ms += 100
    return [reap(world.engine, CELL, limit) for limit in (2, 3, 100)]


async def play(world: World, make: Callable[[World], Awaitable[Step]]) -> tuple[list[Any], Cell]:
    await start(world)
    answers = await asyncio.gather(*await make(world))
    return answers, await world.cell()


#: Those who wait are served once at the end of a folded run, not after each of its calls.


@pytest.mark.parametrize("name", SCENARIOS)
async def test_folded_or_one_by_one_the_cell_ends_up_the_same(make_world: MakeWorld, name: str) -> None:
    rules = Rules(max_undelivered=2)
    one_by_one = await play(await make_world(rules, max_batch=1), SCENARIOS[name])
    folded = await play(await make_world(rules, max_batch=64), SCENARIOS[name])
    assert one_by_one[0] == folded[0]
    assert changed(one_by_one[1], folded[1]) == {}
