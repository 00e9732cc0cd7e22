"""What a cell counts: nothing is decided by it, so it is compared here and by the model, and nowhere else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.deliver import deliver
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.evict import evict
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.flows.stopped import stopped
from lingua_scheduler.flows.undeliver import undeliver
from lingua_scheduler.views.counts import Counts, read_counts
from tests.support.cells import watch
from tests.support.pasts import give
from tests.support.stage import A, B, C, bring, calls, code_of, join, place, sweep
from tests.support.wishes import ask
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

FULL = "ALL_CANDIDATES_FULL_OR_FAILED"


async def counted(world: World) -> dict[str, object]:
    """What is not zero."""
    counts, changes = await watch(world, read_counts(world.engine, CELL))
    assert isinstance(counts, Counts)
    assert changes == {}
    found: dict[str, object] = {}
    for name, value in msgspec.structs.asdict(counts).items():
        found[name] = {each: number for each, number in value.items() if number} if isinstance(value, dict) else value
    return {name: number for name, number in found.items() if number}


async def test_an_empty_cell_has_counted_nothing(world: World) -> None:
    assert await counted(world) == {}


async def test_what_can_be_counted_is_there_before_it_happens(world: World) -> None:
    """So that whoever draws a line knows where it begins."""
    counts = await read_counts(world.engine, CELL)
    assert isinstance(counts, Counts)
    assert counts.refused == {
        "NO_CAPABLE_NODE": 0,
        "ALL_CANDIDATES_FULL_OR_FAILED": 0,
        "PREFERRED_NODE_NOT_CAPABLE": 0,
        "PREFERRED_NODE_UNAVAILABLE": 0,
    }
    assert counts.ended == dict.fromkeys(("FINISHED", "FAILED", "CANCELLED", "EXPIRED"), 0)
    assert counts.attempts == counts.retries == dict.fromkeys((cause.name for cause in CAUSES), 0)


class TestRefusals:
    """Each code has its number, a try was made for each, and nobody was accepted."""

    async def refused(self, world: World, code: str, pair: str = "en:zh", **wanted: Any) -> dict[str, object]:
        """What two refusals of one tick, and a third, add."""
        before = await counted(world)
        answers = await asyncio.gather(*(ask(world, f"{CELL}.{n}", pair, **wanted) for n in range(2)))
        answers.append(await ask(world, f"{CELL}.2", pair, **wanted))
        assert [code_of(answer) for answer in answers] == [code] * 3
        after = await counted(world)
        tries = after.pop("tries")
        assert tries == 3 + before.pop("tries", 0)  # type: ignore[operator] # a number
        return {name: value for name, value in after.items() if before.get(name) != value}

    async def test_nobody_serves_the_pair(self, world: World) -> None:
        await join(world, services={"asr": False})
        found = await self.refused(world, "NO_CAPABLE_NODE", "en:fr")
        assert found == {"refused": {"NO_CAPABLE_NODE": 3}, "pool_empty": 3}

    async def test_nobody_serves_the_pair_though_one_takes_it_and_one_gives_it(self, world: World) -> None:
        await join(world, "n1")
        await join(world, "n2", nmt_pairs=[["zh", "fr"]])
        found = await self.refused(world, "NO_CAPABLE_NODE", "en:fr")
        assert found == {"refused": {"NO_CAPABLE_NODE": 3}, "pool_empty": 3}

    async def test_who_serves_the_pair_lacks_something(self, world: World) -> None:
        await join(world, services={"asr": False})
        assert await self.refused(world, "NO_CAPABLE_NODE") == {"refused": {"NO_CAPABLE_NODE": 3}}
        found = await self.refused(world, "NO_CAPABLE_NODE", "en:fr")
        assert found == {"refused": {"NO_CAPABLE_NODE": 6}, "pool_empty": 3}

    async def test_nobody_has_room(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await place(world)
        assert await self.refused(world, FULL) == {"refused": {FULL: 3}}

    async def test_the_preferred_node_never_could(self, world: World) -> None:
        await join(world)
        found = await self.refused(world, "PREFERRED_NODE_NOT_CAPABLE", preferred_node_id="n9")
        assert found == {"refused": {"PREFERRED_NODE_NOT_CAPABLE": 3}}

    async def test_the_node_that_a_job_insists_on_cannot_now(self, world: World) -> None:
        await join(world)
        await drain(world.engine, CELL, "n1")
        found = await self.refused(world, "PREFERRED_NODE_UNAVAILABLE", preferred_node_id="n1", strict=True)
        assert found == {"refused": {"PREFERRED_NODE_UNAVAILABLE": 3}}

    async def test_a_refusal_of_what_cannot_be_right_is_no_try(self, world: World) -> None:
        assert code_of(await ask(world, A, "en:klingon")) == "INVALID_MESSAGE"
        assert await counted(world) == {}

    async def test_a_job_that_is_there_already_is_no_try(self, world: World) -> None:
        await join(world)
        await asyncio.gather(place(world), place(world))
        await place(world)
        assert await counted(world) == {"accepted": 1, "tries": 1, "reserved": 1}


class TestWaiting:
    async def test_a_new_job_that_waits_tried_in_vain_and_its_slot_is_another_try(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        busy = await give(world, "n1")
        await asyncio.gather(*(ask(world, job_id, wait_ms=1_000) for job_id in (A, B, A)))
        assert await counted(world) == {"accepted": 1, "tries": 3, "reserved": 1, "waited": 2}
        await done(world.engine, busy, 1, "n1")
        ended = {"ended": {"FINISHED": 1}}
        assert await counted(world) == ended | {"accepted": 2, "tries": 4, "reserved": 2, "waited": 2}

    async def test_one_that_waited_in_vain_is_refused_and_was_no_other_try(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await give(world, "n1")
        await asyncio.gather(*(ask(world, job_id, wait_ms=1_000) for job_id in (A, B)))
        world.now_ms += 1_000
        await sweep(world)
        assert isinstance(await ask(world, C), Refusal)
        assert await counted(world) == {
            "accepted": 1,
            "refused": {FULL: 3},
            "waited_in_vain": 2,
            "tries": 4,
            "reserved": 1,
            "waited": 2,
        }

    async def test_one_that_insists_and_waits_is_not_refused(self, world: World) -> None:
        await join(world)
        await drain(world.engine, CELL, "n1")
        await ask(world, preferred_node_id="n1", strict=True, wait_ms=1_000)
        assert await counted(world) == {"tries": 1, "waited": 1}

    async def test_one_that_is_cancelled_before_it_had_a_node_reserved_nothing(self, world: World) -> None:
        await join(world, max_concurrent_jobs=1)
        await give(world, "n1")
        await asyncio.gather(*(ask(world, job_id, wait_ms=1_000) for job_id in (A, B)))
        await asyncio.gather(*(cancel(world.engine, job_id) for job_id in (A, B)))
        assert await counted(world) == {
            "accepted": 3,
            "ended": {"CANCELLED": 2},
            "tries": 3,
            "reserved": 1,
            "waited": 2,
        }

    async def test_a_retry_that_waits_tried_in_vain(self, world: World) -> None:
        await join(world)
        await place(world)
        await drain(world.engine, CELL, "n1")
        await fail(world.engine, A, 1, "n1", reason="broken")
        failed = {"attempts": {"failed": 1}, "retries": {"failed": 1}}
        assert await counted(world) == failed | {"accepted": 1, "tries": 2, "reserved": 1, "waited_again": 1}
        await resume(world.engine, CELL, "n1")
        again = {"accepted": 1, "tries": 3, "reserved": 2, "waited_again": 1, "retried": 1}
        assert await counted(world) == failed | again

    async def test_a_retry_that_is_cancelled_while_it_waits_had_its_node(self, world: World) -> None:
        await join(world)
        await place(world)
        await drain(world.engine, CELL, "n1")
        await fail(world.engine, A, 1, "n1", reason="broken")
        await cancel(world.engine, A)
        found = await counted(world)
        assert (found["accepted"], found["reserved"], found["tries"]) == (1, 1, 2)


async def test_attempts_and_retries_are_counted_by_every_flow_that_ends_or_makes_them(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=9)
    await place(world, A, limits=Limits(max_retry=10))
    await fail(world.engine, A, 1, "n1", reason="broken")
    await stopped(world.engine, A, 2, "n1")
    await undeliver(world.engine, A, 3, "n1")
    world.now_ms += 500
    await sweep(world)
    ends = {"failed": 1, "stopped": 1, "undelivered": 1}
    made = {"tries": 5, "reserved": 4, "waited_again": 1, "retried": 3}
    assert await counted(world) == {"accepted": 1, "attempts": ends, "retries": ends} | made
    await deliver(world.engine, A, 4, "n1")
    for _ in range(2):
        world.now_ms += 5_000
        await sweep(world)
    await evict(world.engine, CELL, "n1")
    ends |= {"ack_timeout": 1, "unsent": 1, "evicted": 1}
    made = {"tries": 8, "reserved": 6, "waited_again": 2, "retried": 5}
    assert await counted(world) == {"accepted": 1, "attempts": ends, "retries": ends} | made
    await cancel(world.engine, A)
    assert (await counted(world))["ended"] == {"CANCELLED": 1}


async def test_an_overload_is_a_retry_with_that_reason(world: World) -> None:
    await join(world, "n1")
    await place(world)
    await join(world, "n2")
    await fail(world.engine, A, 1, "n1", reason="", overloaded=True)
    found = await counted(world)
    assert (found["attempts"], found["retries"]) == ({"overloaded": 1}, {"overloaded": 1})


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED", "EXPIRED"])
async def test_the_last_attempt_of_a_job_is_no_retry(world: World, end: Any) -> None:
    await join(world)
    await bring(world, end)
    cause = end.lower()
    assert await counted(world) == {
        "accepted": 1,
        "ended": {end: 1},
        "attempts": {cause: 1},
        "tries": 1,
        "reserved": 1,
    }


async def test_a_retry_that_waited_is_counted_when_it_is_served(world: World) -> None:
    """By a heartbeat, a resume, a registration and a result."""
    await join(world, "n1", max_concurrent_jobs=1)
    await place(world, A, limits=Limits(max_retry=10))
    await heartbeat(world.engine, CELL, "n1", health="degraded")
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert "retried" not in await counted(world)
    await heartbeat(world.engine, CELL, "n1", health="ready")
    assert (await counted(world))["retried"] == 1
    await evict(world.engine, CELL, "n1")
    await stopped(world.engine, A, 2, "n1")
    await resume(world.engine, CELL, "n1")
    assert (await counted(world))["retried"] == 2
    await leave(world.engine, CELL, "n1")
    await join(world, "n2", max_concurrent_jobs=1)
    assert (await counted(world))["retried"] == 3
    assert code_of(await done(world.engine, A, 4, "n2")) == ""


async def test_a_run_writes_each_number_once(world: World) -> None:
    """However many jobs it places or refuses. The node has room before and after, so that nothing else is counted."""
    await join(world, max_concurrent_jobs=3)
    for labels in ({}, {"nobody": "has it"}):
        before = await calls(world)
        await asyncio.gather(*(ask(world, f"{CELL}.{n}-{len(labels)}", labels=labels) for n in range(2)))
        assert (await calls(world) - before)["hincrby"] == 1
    assert await counted(world) == {"accepted": 2, "refused": {"NO_CAPABLE_NODE": 2}, "tries": 4, "reserved": 2}


async def test_a_cell_must_be_named(world: World) -> None:
    assert code_of(await read_counts(world.engine, "{c0}")) == "INVALID_MESSAGE"
