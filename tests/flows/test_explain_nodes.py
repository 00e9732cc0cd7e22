"""Who could take a job that is there already, and how a fleet comes in pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.explain import Explanation, Verdict
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Waiting, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.mark import mark
from lingua_scheduler.flows.resume import resume
from lingua_scheduler.views.explain import explain_job, explain_pair
from tests.support.cells import watch
from tests.support.pasts import FAILED, doubt, give, live
from tests.support.stage import A, B, calls, code_of, join, keep_alive, nodes_of, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.refusal import Refusal
    from tests.support.world import World


async def verdicts(call: Awaitable[Explanation | Refusal]) -> list[Verdict]:
    """All that is said of nodes, on one page."""
    told = await call
    assert isinstance(told, Explanation), told
    assert told.nodes is not None
    assert told.cursor == ""
    return told.nodes


async def explain(world: World, job_id: str = A) -> dict[str, str]:
    """Each node's reason not to take a job that is there; * behind those that have seen it."""
    nodes = await verdicts(explain_job(world.engine, job_id, nodes=True))
    return {node.node_id: node.reason + "*" * node.seen for node in nodes}


async def ask_to_wait(world: World, pair: str = "en:zh", hints: Hints = Hints(), **wanted: Any) -> None:  # noqa: B008 - frozen
    asked = Wanted(**wanted, wait_ms=2_000)
    answer = await dispatch(world.engine, A, "s1", *pair.split(":"), wanted=asked, hints=hints)
    assert isinstance(answer, Waiting), answer


class TestAJobsOwnNodes:
    """The dry run is that of its own ticket: what it needs, whom it excludes, whom it names, and who had it."""

    async def test_a_job_that_waits_says_why_nobody_takes_it(self, world: World) -> None:
        for node_id in ("drained", "excluded", "full"):
            await join(world, node_id, max_concurrent_jobs=1, tts_langs=["zh"])
        await join(world, "mute")
        await join(world, "private", accept_public_jobs=False, tts_langs=["zh"])
        await join(world, "other", nmt_pairs=[["zh", "en"]])
        await drain(world.engine, CELL, "drained")
        await give(world, "full")
        await ask_to_wait(world, services=("nmt", "tts"), exclude_node_ids=["excluded"])
        told, changes = await watch(world, explain(world))
        assert changes == {}
        assert told == {
            "drained": "draining",
            "excluded": "excluded",
            "full": "full",
            "mute": "no_service",
            "other": "no_pool",
            "private": "not_permitted",
        }

    async def test_it_is_one_answer_with_the_job_s_way(self, world: World) -> None:
        await join(world)
        await place(world)
        plain, whole = await explain_job(world.engine, A), await explain_job(world.engine, A, nodes=True)
        assert isinstance(plain, Explanation)
        assert isinstance(whole, Explanation)
        assert (plain.nodes, plain.cursor) == (None, "")
        assert whole.nodes == [Verdict("n1", "", used=1, max=2, health=90, suspect=False, seen=True)]
        assert (whole.job_id, whole.state, whole.attempts) == (A, "RESERVED", plain.attempts)

    async def test_nobody_asked_and_nobody_is_there_are_two_things(self, world: World) -> None:
        await join(world)
        await place(world)
        await leave(world.engine, CELL, "n1")
        assert await explain(world) == {}
        before = await calls(world)
        told = await explain_job(world.engine, A)
        assert isinstance(told, Explanation)
        assert told.nodes is None
        assert "hkeys" not in await calls(world) - before, "who does not ask for nodes does not pay for them"

    async def test_those_that_had_it_or_have_it_or_saw_its_utterance_are_told(self, world: World) -> None:
        for node_id in ("n1", "n2", "n3", "n4"):
            await join(world, node_id, max_concurrent_jobs=1)
        wanted, hints = Wanted(preferred_node_id="n1"), Hints(seen_node_ids=["n3"])
        await place(world, wanted=wanted, hints=hints, limits=Limits(max_retry=5))
        assert await explain(world) == {"n1": "full*", "n2": "", "n3": "*", "n4": ""}
        await drain(world.engine, CELL, "n4")
        await fail(world.engine, A, 1, "n1", reason="broken")
        assert await explain(world) == {"n1": "*", "n2": "full*", "n3": "*", "n4": "draining"}

    async def test_a_retry_that_waits_says_who_had_it(self, world: World) -> None:
        await join(world)
        await join(world, "n2", health="degraded")
        await place(world)
        await heartbeat(world.engine, CELL, "n1", health="degraded")
        await fail(world.engine, A, 1, "n1", reason="broken")
        assert await explain(world) == {"n1": "not_ready*", "n2": "not_ready"}

    async def lose(self, world: World, **wanted: Any) -> None:
        """n1 has a long job, and is under suspicion when it fails A; n2 and n3 have no room."""
        for node_id, slots in (("n1", 4), ("n2", 1), ("n3", 1)):
            await join(world, node_id, max_concurrent_jobs=slots)
            limits, there = Limits(ack_ms=50_000, run_ms=50_000), Wanted(preferred_node_id=node_id, strict=True)
            await place(world, f"{CELL}.at-{node_id}", limits=limits, wanted=there)
        await live(world, "n1", 2 * FAILED)
        await place(world, A, wanted=Wanted(**wanted))
        await fail(world.engine, A, 1, "n1", reason="broken")

    async def test_a_suspect_that_had_it_cannot_have_it_before_it_is_tried_again(self, world: World) -> None:
        """As it is told so it is: the sweep of that moment gives it the job."""
        await self.lose(world)
        world.now_ms += 4_999
        await keep_alive(world, "n1", "n2", "n3")
        await sweep(world)
        assert await explain(world) == {"n1": "had*", "n2": "full", "n3": "full"}
        world.now_ms += 1
        assert await explain(world) == {"n1": "*", "n2": "full", "n3": "full"}
        await sweep(world)
        assert nodes_of(await world.cell(), A) == ["n1"]

    async def test_a_suspect_that_had_it_can_have_it_where_most_are_suspect(self, world: World) -> None:
        await self.lose(world)
        await drain(world.engine, CELL, "n2")
        assert await explain(world) == {"n1": "had*", "n2": "draining", "n3": "full"}
        await drain(world.engine, CELL, "n3")
        assert await explain(world) == {"n1": "*", "n2": "draining", "n3": "draining"}

    async def test_a_suspect_that_had_it_can_have_it_where_it_insists(self, world: World) -> None:
        await self.lose(world, preferred_node_id="n1", strict=True)
        assert await explain(world) == {"n1": "*", "n2": "full", "n3": "full"}

    async def test_a_suspect_that_saw_its_utterance_or_has_it_now_can_have_it(self, world: World) -> None:
        """Only who had the job itself is barred, and of those only who is under suspicion."""
        for node_id in ("n1", "n2", "n3", "n4"):
            await join(world, node_id)
        await doubt(world, "n2")
        await place(world, wanted=Wanted(preferred_node_id="n1"), hints=Hints(seen_node_ids=["n2"]))
        await fail(world.engine, A, 1, "n1", reason="broken")
        told = await explain(world)
        assert (told["n1"], told["n2"]) == ("*", "*")

    async def test_a_job_that_insists_is_told_of_its_node(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1, accept_public_jobs=False)
        await join(world, "n2")
        await give(world, "n1")
        await ask_to_wait(world, preferred_node_id="n1", strict=True)
        assert await explain(world) == {"n1": "full", "n2": "not_named"}

    async def test_a_job_with_a_fallback_is_told_of_its_spare(self, world: World) -> None:
        await join(world, "yue", semantic_langs=["yue"], nmt_pairs=[["yue", "en"]], health="degraded")
        await join(world, "zh", semantic_langs=["zh"], nmt_pairs=[["zh", "en"]])
        await ask_to_wait(world, "yue:en")
        assert await explain(world) == {"yue": "not_ready", "zh": "fallback"}

    async def test_a_job_that_has_ended_is_told_where_it_would_go(self, world: World) -> None:
        await join(world)
        await place(world)
        await cancel(world.engine, A)
        await mark(world.engine, CELL, "n1", "", "asr")
        assert await explain(world) == {"n1": "marked*"}

    async def test_a_job_that_is_not_there_has_no_nodes(self, world: World) -> None:
        await join(world)
        assert code_of(await explain_job(world.engine, A, nodes=True)) == "UNKNOWN_JOB"

    async def test_jobs_and_pairs_of_one_tick_are_answered_each_for_itself(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await join(world, "n2")
        await place(world, A, wanted=Wanted(preferred_node_id="n1", exclude_node_ids=["n2"]))
        told = await asyncio.gather(
            verdicts(explain_job(world.engine, A, nodes=True)),
            explain_job(world.engine, B, nodes=True),
            explain_job(world.engine, A),
            verdicts(explain_pair(world.engine, [CELL], "en", "zh")),
        )
        assert [node.reason for node in told[0]] == ["full", "excluded"]
        assert code_of(told[1]) == "UNKNOWN_JOB"
        assert told[2] == await explain_job(world.engine, A)
        assert [(node.reason, node.seen) for node in told[3]] == [("full", False), ("", False)]


async def test_nobody_takes_a_job_while_something_stands_against_everybody(world: World) -> None:
    """And when the last thing against a node is gone, that very node has it."""
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "n2", max_concurrent_jobs=1)
    await drain(world.engine, CELL, "n2")
    await give(world, "n1")
    await ask_to_wait(world)
    assert await explain(world) == {"n1": "full", "n2": "draining"}
    await resume(world.engine, CELL, "n2")
    assert await explain(world) == {"n1": "full", "n2": "full*"}


async def all_of(*happenings: Awaitable[object]) -> None:
    """These things, one after the other, when it is awaited and not before."""
    for happening in happenings:
        await happening


class TestPages:
    """By name: whoever comes and goes between two pages, a node that stays is on exactly one of them."""

    @pytest.fixture(params=["pair", "job"])
    async def ask(self, request: pytest.FixtureRequest, world: World) -> Callable[..., Awaitable[Any]]:
        if request.param == "pair":
            return lambda **page: explain_pair(world.engine, [CELL], "en", "zh", **page)
        await join(world, "m", max_concurrent_jobs=1)
        await place(world)
        return lambda **page: explain_job(world.engine, A, nodes=True, **page)

    async def walk(self, ask: Callable[..., Awaitable[Any]], count: int, *between: Awaitable[object]) -> list[Verdict]:
        """Page by page; after each, one of these things happens. Every page but the last is full, and none is empty."""
        left, found, cursor = iter(between), list[Verdict](), ""
        while True:
            told = await ask(cursor=cursor, count=count)
            assert 0 < len(told.nodes) <= count
            assert told.nodes[0].node_id > cursor
            found += told.nodes
            if not told.cursor:
                break
            assert len(told.nodes) == count
            cursor = told.cursor
            if happens := next(left, None):
                await happens
        assert next(left, None) is None, "it was not all needed"
        return found

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 1_000])
    async def test_each_node_is_on_one_page(self, world: World, ask: Callable[..., Awaitable[Any]], count: int) -> None:
        """However few there are: the engine itself hands out small fleets as a whole."""
        await asyncio.gather(*(join(world, f"n{number}") for number in (3, 1, 7, 5, 2, 4, 6)))
        found = [verdict.node_id for verdict in await self.walk(ask, count)]
        assert found == sorted((await world.cell()).nodes)

    async def test_who_joins_or_leaves_between_two_pages_moves_nobody(
        self, world: World, ask: Callable[..., Awaitable[Any]]
    ) -> None:
        await asyncio.gather(*(join(world, f"n{number}0") for number in range(1, 8)))
        stay = {f"n{number}0" for number in range(1, 8)} - {"n10", "n60"}
        found = await self.walk(
            ask,
            2,
            all_of(join(world, "a"), leave(world.engine, CELL, "n10")),  # where it was looked already
            all_of(join(world, "n65"), leave(world.engine, CELL, "n60")),  # where it will be looked yet
        )
        names = [verdict.node_id for verdict in found]
        assert names == sorted(set(names))
        assert stay <= set(names)
        assert {"n65"} == set(names) - stay - {"n10", "m"}

    async def test_who_changes_between_two_pages_is_not_shown_again(
        self, world: World, ask: Callable[..., Awaitable[Any]]
    ) -> None:
        """A page is one instant: each node is as it was when its page was made."""
        names = [f"n{number}" for number in range(1, 7)]
        await asyncio.gather(*(join(world, node_id) for node_id in names))
        changes = (
            *(drain(world.engine, CELL, node_id) for node_id in ("n1", "n6")),
            heartbeat(world.engine, CELL, "n5", nmt_pairs=[["zh", "en"]]),
        )
        found = await self.walk(ask, 3, all_of(*changes))
        told = {verdict.node_id: verdict.reason for verdict in found if verdict.node_id in names}
        assert len(found) == len({verdict.node_id for verdict in found})
        assert told == dict.fromkeys(names, "") | {"n5": "no_pool", "n6": "draining"}

    async def test_the_node_at_which_a_page_ended_may_be_gone(
        self, world: World, ask: Callable[..., Awaitable[Any]]
    ) -> None:
        await asyncio.gather(*(join(world, f"n{number}") for number in range(1, 5)))
        first = await ask(count=2)
        await leave(world.engine, CELL, first.cursor)
        rest = await ask(count=10, cursor=first.cursor)
        assert [node.node_id for node in rest.nodes] == ["n2", "n3", "n4"][-len(rest.nodes) :]
        assert len(first.nodes) + len(rest.nodes) == len((await world.cell()).nodes) + 1

    async def test_after_the_last_name_there_is_nothing(self, world: World, ask: Callable[..., Awaitable[Any]]) -> None:
        await join(world)
        told = await ask(cursor="zzz")
        assert (told.nodes, told.cursor) == ([], "")
