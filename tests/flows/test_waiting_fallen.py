"""A zh node has a slot free while yue jobs wait: it is theirs when no yue node lives, and else they cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.pasts import FAILED, live
from tests.support.stage import T0, A, B, C, D, calls, join, keep_alive, nodes_of, sweep, waiting
from tests.support.wishes import choice
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections import Counter

    from tests.support.world import World

YUE: dict[str, Any] = {"semantic_langs": ["yue"], "nmt_pairs": [["yue", "en"], ["yue", "fr"]]}
ZH: dict[str, Any] = {"semantic_langs": ["zh", "en"], "nmt_pairs": [["zh", "en"], ["en", "zh"]]}
BUSY = f"{CELL}.busy"
LONG = Limits(ack_ms=600_000, run_ms=600_000, timeout_ms=600_000)


async def occupy(world: World, node_id: str, pair: str, job_id: str = "") -> str:
    """A node has one job more, and for long."""
    job_id = job_id or f"{CELL}.at-{node_id}"
    wanted = Wanted(preferred_node_id=node_id, strict=True)
    answer = await dispatch(world.engine, job_id, "s1", *pair.split(":"), seed=1, limits=LONG, wanted=wanted)
    assert isinstance(answer, Placed), answer
    return job_id


async def queue(world: World, job_id: str, timeout_ms: int = 60_000, pair: str = "yue:en", **wanted: Any) -> None:
    """A job waits."""
    asked, limits = Wanted(wait_ms=50_000, **wanted), Limits(timeout_ms=timeout_ms)
    answer = await dispatch(world.engine, job_id, "s1", *pair.split(":"), seed=1, limits=limits, wanted=asked)
    assert isinstance(answer, Waiting), answer


async def serve_one(world: World, node_id: str = "zh", job_id: str = BUSY, attempt: int = 1) -> str:
    """The node has done a job; whom it has next, "" if nobody."""
    await done(world.engine, job_id, attempt, node_id)
    jobs = (await world.cell()).jobs
    return next((name for name, job in jobs.items() if job.state == "RESERVED" and job.node == node_id), "")


class TestWhileAYueNodeLives:
    """Those who wait for it cost nothing where zh is served, whatever they wish, and however many they are."""

    @pytest.mark.parametrize("wanted", [{}, {"exclude_node_ids": ["n9"]}, {"labels": {"region": "eu"}}], ids=str)
    async def test_a_hundred_cost_as_much_as_one(self, world: World, wanted: dict[str, Any]) -> None:
        await join(world, "yue", **YUE, max_concurrent_jobs=1, labels={"region": "eu"})
        await join(world, "zh", **ZH, max_concurrent_jobs=1, labels={"region": "eu"})
        await occupy(world, "yue", "yue:en")
        costs: list[Counter[str]] = []
        for some in (range(1), range(1, 100)):
            for n in some:
                await queue(world, f"{CELL}.w{n:03}", **wanted)
            job_id = await occupy(world, "zh", "zh:en", f"{CELL}.z{len(costs)}")
            before = await calls(world)
            await done(world.engine, job_id, 1, "zh")
            costs.append(await calls(world) - before)
        assert len(waiting(await world.cell())) == 100
        assert costs[0] == costs[1]

    async def test_each_pair_that_is_served_is_one_look(self, world: World) -> None:
        await join(world, "yue", **YUE, max_concurrent_jobs=1)
        await join(world, "zh", **ZH, max_concurrent_jobs=1)
        await occupy(world, "yue", "yue:en")
        costs: list[Counter[str]] = []
        for pair in ("yue:en", "yue:fr"):
            for n in range(3):
                await queue(world, f"{CELL}.{pair[-2:]}{n}", 60_000, pair)
            job_id = await occupy(world, "zh", "zh:en", f"{CELL}.z{len(costs)}")
            before = await calls(world)
            await done(world.engine, job_id, 1, "zh")
            costs.append(await calls(world) - before)
        assert [cost["zrangebylex"] for cost in costs] == [5, 6]


class TestWhenNoYueNodeLives:
    """Its first slot is for the first who fits."""

    @pytest.fixture
    async def fallen(self, world: World) -> World:
        """The zh node is full, another with a label is full too, and the yue node is dead."""
        await join(world, "yue", **YUE)
        await join(world, "zh", **ZH, max_concurrent_jobs=1)
        await join(world, "eu", **ZH, max_concurrent_jobs=1, labels={"region": "eu"})
        await occupy(world, "zh", "zh:en", BUSY)
        await occupy(world, "eu", "zh:en")
        world.now_ms = T0 + 34_999
        await keep_alive(world, "zh", "eu")
        world.now_ms += 1
        await sweep(world)
        return world

    @pytest.mark.parametrize(
        "wanted",
        [
            {"labels": {"region": "eu"}},
            {"exclude_node_ids": ["zh"]},
            {"preferred_node_id": "yue", "strict": True},
            {"preferred_node_id": "eu", "strict": True},
        ],
        ids=str,
    )
    async def test_one_that_may_not_have_it_is_passed_over(self, fallen: World, wanted: dict[str, Any]) -> None:
        await queue(fallen, A, 40_000, **wanted)
        await queue(fallen, B, 50_000)
        assert await serve_one(fallen) == B
        assert await serve_one(fallen, job_id=B) == ""
        assert waiting(await fallen.cell()) == [f"wyue:en:{T0 + 75_000:015}:{A}"]

    async def test_a_node_without_a_service_that_they_need_passes_them_over(self, fallen: World) -> None:
        await join(fallen, "deaf", **ZH, max_concurrent_jobs=1, services={"asr": False})
        wanted = Wanted(preferred_node_id="deaf", strict=True, services=["nmt"])
        await dispatch(fallen.engine, D, "s1", "zh", "en", seed=1, limits=LONG, wanted=wanted)
        await queue(fallen, A)
        assert await serve_one(fallen, "deaf", D) == ""

    async def test_one_that_insists_on_it_has_it(self, fallen: World) -> None:
        await queue(fallen, B, 50_000)
        await queue(fallen, A, 40_000, preferred_node_id="zh", strict=True)
        assert await serve_one(fallen) == A
        assert (await choice(fallen)).reasons == ["preferred full", "waited", "fell back"]

    async def test_by_deadline_among_those_who_wait_for_zh(self, fallen: World) -> None:
        await queue(fallen, A, 40_000, labels={"region": "eu"})
        await queue(fallen, B, 55_000)
        await queue(fallen, C, 50_000, "zh:en")
        await queue(fallen, D, 60_000, "zh:en", exclude_node_ids=["n9"])
        assert await serve_one(fallen) == C
        assert await serve_one(fallen, job_id=C) == B
        assert (await choice(fallen, B)).reasons == ["waited", "fell back"]
        assert await serve_one(fallen, job_id=B) == D
        assert (await choice(fallen, D)).reasons == ["waited"]
        assert await serve_one(fallen, "eu", f"{CELL}.at-eu") == A

    async def test_those_of_a_pair_that_the_node_does_not_serve_are_passed_over(self, fallen: World) -> None:
        await join(fallen, "fr", **ZH | {"nmt_pairs": [["zh", "fr"]]}, max_concurrent_jobs=1)
        busy = await occupy(fallen, "fr", "zh:fr")
        await queue(fallen, A, 40_000, "yue:fr")
        await queue(fallen, B, 50_000)
        assert await serve_one(fallen) == B
        assert await serve_one(fallen, "fr", busy) == A

    async def test_a_yue_node_that_is_heard_again_has_them(self, fallen: World) -> None:
        await queue(fallen, A, 40_000)
        await heartbeat(fallen.engine, CELL, "yue", health="degraded")
        assert await serve_one(fallen) == ""
        await heartbeat(fallen.engine, CELL, "yue", health="ready")
        assert nodes_of(await fallen.cell(), A) == ["yue"]

    async def test_one_that_a_suspect_had_does_not_go_back_to_it(self, fallen: World) -> None:
        """A must hurry more than B, but the zh node failed it, and two others before."""
        await done(fallen.engine, BUSY, 1, "zh")
        await live(fallen, "zh", 2 * FAILED)
        placed = await dispatch(fallen.engine, A, "s1", "yue", "en", seed=1, limits=Limits(timeout_ms=40_000))
        assert isinstance(placed, Placed)
        await fail(fallen.engine, A, 1, "zh", reason="broken")
        await occupy(fallen, "zh", "zh:en", C)
        await queue(fallen, B, 50_000)
        await heartbeat(fallen.engine, CELL, "zh", max_concurrent_jobs=2)
        assert nodes_of(await fallen.cell(), A, B) == ["", "zh"]
        assert await serve_one(fallen, "eu", f"{CELL}.at-eu") == A
        assert (await choice(fallen, B)).reasons == ["waited", "suspect", "fell back"]
