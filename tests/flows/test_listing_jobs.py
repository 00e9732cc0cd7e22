"""Which jobs there are: every one of them, the newest first, whatever is asked for, and no run looks at many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.withdraw import Withdrawn, withdraw
from lingua_scheduler.front.ask import Submitted
from lingua_scheduler.views import jobs as listing
from lingua_scheduler.views.jobs import Jobs, JobsWanted, read_jobs
from tests.support.cells import watch
from tests.support.several import cells_of, several
from tests.support.stage import A, B, C, D, bring, calls, code_of, join, place, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.flows.conftest import MakeWorld
    from tests.support.world import World

TTL_MS = Rules().result_ttl_ms + 15_000


async def page(
    world: World, cells: Sequence[str] = (CELL,), *, cursor: str = "", limit: int = 50, **wanted: Any
) -> Jobs:
    found = await read_jobs(world.engine, cells, JobsWanted(**wanted), text_ttl_ms=TTL_MS, cursor=cursor, limit=limit)
    assert isinstance(found, Jobs), found
    return found


async def listed(world: World, cells: Sequence[str] = (CELL,), *, limit: int = 50, **wanted: Any) -> list[str]:
    """All of them, page by page."""
    found, cursor = list[str](), ""
    while True:
        one = await page(world, cells, cursor=cursor, limit=limit, **wanted)
        assert len(one.jobs) <= limit
        found += [job.job_id for job in one.jobs]
        if one.cursor is None:
            return found
        assert one.cursor != cursor
        cursor = one.cursor


async def finish(world: World, job_id: str) -> None:
    placed = await place(world, job_id)
    await done(world.engine, job_id, 1, placed.node_id, result="out", result_ttl_ms=TTL_MS)


async def test_what_is_under_way_comes_first_and_then_what_has_ended_of_every_kind_by_its_time(world: World) -> None:
    await join(world)
    await finish(world, f"{CELL}.erased")
    world.now_ms += TTL_MS
    await sweep(world)
    await join(world, max_concurrent_jobs=9)
    assert f"{CELL}.erased:result" not in (await world.cell()).bodies
    await finish(world, f"{CELL}.released-1")
    await release(world.engine, f"{CELL}.released-1")
    await place(world, f"{CELL}.early")
    world.now_ms += 1
    await finish(world, f"{CELL}.kept")
    world.now_ms += 1
    await finish(world, f"{CELL}.released-2")
    await release(world.engine, f"{CELL}.released-2")
    await place(world, f"{CELL}.late")
    wanted = ["late", "early", "released-2", "kept", "released-1", "erased"]
    for limit in (1, 2, 50):
        assert await listed(world, limit=limit) == [f"{CELL}.{name}" for name in wanted]


async def test_what_is_under_way_stands_by_its_age_and_not_by_when_it_is_looked_at(world: World) -> None:
    await join(world)
    placed = await place(world, A)
    await ack(world.engine, A, 1, placed.node_id)
    world.now_ms += Limits().ack_ms
    await sweep(world)
    await place(world, B)
    due = (await world.cell()).due
    assert due[f"j:{A}"] > due[f"j:{B}"]
    assert await listed(world) == [B, A]


async def test_looking_changes_nothing_and_tells_all_that_is_known(world: World) -> None:
    await join(world)
    await bring(world, "FAILED", A)
    await place(world, B)
    found, changes = await watch(world, read_jobs(world.engine, [CELL], text_ttl_ms=TTL_MS))
    assert isinstance(found, Jobs)
    cell = await world.cell()
    assert [(job.job_id, job.record, job.ticket) for job in found.jobs] == [
        (job_id, cell.jobs[job_id], cell.tickets[job_id]) for job_id in (B, A)
    ]
    assert (changes, found.cursor) == ({}, None)


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
async def test_jobs_of_one_moment_are_all_listed_once_though_a_run_looks_at_few(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(listing, "ENTRIES_PER_RUN", 2)
    await join(world, max_concurrent_jobs=9)
    names = [f"{CELL}.{name}" for name in "abcdefg"]
    for name in names[:4]:
        await finish(world, name)
    for name in names[4:]:
        await place(world, name)
    found = await listed(world, limit=limit)
    assert (sorted(found[:3]), sorted(found[3:])) == (names[4:], names[:4])


@pytest.mark.parametrize("way", ["forwards", "backwards"])
async def test_where_a_page_of_one_moment_ended_may_be_gone_and_the_next_one_goes_on_there(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The rest is listed, wherever among it the next page begins: also behind an entry that is another cell's."""
    monkeypatch.setattr(listing, "ENTRIES_PER_RUN", 2)
    await join(world, max_concurrent_jobs=9)
    names = [f"{CELL}.{name}" for name in ("a", "aa", "b", "ba", "c", "d", "e")]
    for name in names:
        await place(world, name)
    for at, name in enumerate(names):
        gone = f"{name}." if way == "forwards" else name[:-1] + chr(ord(name[-1]) - 1) + "~"
        moment = (await world.cell()).due[f"j:{name}"]
        rest = names[: at + 1] if way == "forwards" else names[:at]
        found, cursor = list[str](), f"0.{moment}.j:{gone}"
        while cursor:
            one = await page(world, cursor=cursor)
            found, cursor = found + [job.job_id for job in one.jobs], one.cursor or ""
        assert sorted(found) == rest, name


async def test_however_many_stand_at_one_moment_a_run_reads_few_of_them(world: World) -> None:
    await join(world, max_concurrent_jobs=400)
    for n in range(400):
        await place(world, f"{CELL}.{n:03}")
    first = await page(world, limit=50)
    assert first.cursor is not None
    before = await calls(world)
    second = await page(world, limit=50, cursor=first.cursor)
    # Of each that is listed its record and its ticket.
    assert (await calls(world) - before)["hget"] <= 2 * 50
    assert [job.job_id for job in (*first.jobs, *second.jobs)] == [f"{CELL}.{n:03}" for n in range(399, 299, -1)]


async def test_a_page_looks_at_a_bounded_number_and_says_where_to_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ENTRIES_PER_RUN", 2)
    monkeypatch.setattr(listing, "RUNS_PER_PAGE", 3)
    await join(world, max_concurrent_jobs=9)
    for name in "abcdefgh":
        await finish(world, f"{CELL}.{name}-1")
        world.now_ms += 1
    first = await page(world, job="c0.a-")
    assert (first.jobs, first.cursor is None) == ([], False)
    assert await listed(world, job="c0.a-") == ["c0.a-1"]


async def test_each_filter_finds_its_jobs_and_all_of_them_must_fit(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=4)
    await join(world, "n2", nmt_pairs=[["zh", "en"]], semantic_langs=["zh", "en"])
    await bring(world, "FAILED", A)
    await place(world, B)
    other = await dispatch(world.engine, C, "room-7", "zh", "en")
    assert isinstance(other, Placed)
    assert await listed(world, job="c0.") == [C, B, A]
    assert await listed(world, job="c1.") == []
    assert await listed(world, job="b") == []
    assert await listed(world, session="room-7") == await listed(world, words="room-7") == [C]
    assert await listed(world, session="room") == await listed(world, words="room") == []
    assert await listed(world, node="n2") == await listed(world, words="n2") == [C]
    assert await listed(world, pair="zh-CN:en") == await listed(world, words="ZH:en-GB") == [C]
    assert await listed(world, state="failed") == await listed(world, words="Failed") == [A]
    assert await listed(world, state="RESERVED") == [C, B]
    assert await listed(world, session="s1", state="RESERVED") == await listed(world, words="s1 reserved") == [B]
    assert await listed(world, words="s1 n2") == []
    assert await listed(world, words="n1 FAILED en:zh c0.a") == [A]


async def test_a_job_is_found_by_the_node_that_it_lost(world: World) -> None:
    await join(world, "n1")
    await place(world, A)
    await join(world, "n2")
    await fail(world.engine, A, 1, "n1", reason="broken")
    assert (await world.cell()).jobs[A].node == "n2"
    assert await listed(world, node="n1") == await listed(world, node="n2") == [A]
    assert await listed(world, node="n3") == []


@pytest.mark.parametrize("state", ["RESERVED", "DISPATCHED", "ACCEPTED", "RUNNING", *ENDS])
async def test_a_job_in_any_state_is_found_by_it_and_by_no_other(world: World, state: Any) -> None:
    await join(world)
    await bring(world, state)
    assert await listed(world, state=state) == await listed(world) == [A]
    assert await listed(world, state="RUNNING" if state != "RUNNING" else "FAILED") == []


async def test_a_whole_id_is_looked_up_and_found_where_the_job_went(make_world: MakeWorld) -> None:
    world = await make_world(Rules(cell_capacity=1))
    async with several(world) as here:
        await here.join("n1")
        await here.join("n2")
        assert await cells_of(world) == ["c0", "c1"]
        await place(world, A)
        await place_waiting(world, B)
        assert isinstance(await withdraw(world.engine, B, 0, "c1", 60_000), Withdrawn)
        moved = await dispatch(world.engine, "c1.b", "s1", "en", "zh", hop=1)
        assert isinstance(moved, Placed)
        found = await page(world, ["c0", "c1"], job=B)
        assert ([job.job_id for job in found.jobs], found.cursor) == (["c1.b"], None)
        assert [job.job_id for job in (await page(world, ["c0", "c1"], words=A)).jobs] == [A]
        assert await listed(world, ["c0", "c1"], words=f"{A} FAILED") == []


async def place_waiting(world: World, job_id: str) -> None:
    await dispatch(world.engine, job_id, "s1", "en", "zh", wanted=Wanted(wait_ms=1_000))
    assert (await world.cell()).jobs[job_id].state == "WAITING"


@pytest.mark.parametrize("limit", [1, 3, 50])
async def test_the_jobs_of_all_cells_are_one_list(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(listing, "ENTRIES_PER_RUN", 2)
    world = await make_world(Rules(cell_capacity=1, stale_ms=10**9, offline_ms=2 * 10**9))
    async with several(world) as here:
        for name in ("n1", "n2", "n3"):
            await here.join(name, max_concurrent_jobs=9)
        cells = await cells_of(world)
        ended = list[str]()
        for n in range(9):
            submitted = await here.submit()
            assert isinstance(submitted, Submitted)
            world.now_ms += n % 2
            await done(world.engine, submitted.job_id, 1, submitted.placed.node_id, result_ttl_ms=TTL_MS)
            ended.append(submitted.job_id)
        live = {one.job_id for one in [await here.submit() for _ in range(4)] if isinstance(one, Submitted)}
        assert len({job_id.partition(".")[0] for job_id in ended}) > 1
        found = await listed(world, cells, limit=limit)
        assert set(found[:4]) == live
        assert sorted(found[4:]) == sorted(ended)
        times = [one.record.ended_at_ms for one in (await page(world, cells, limit=50, state="FINISHED")).jobs]
        assert times == sorted(times, reverse=True)
        first = found[0].partition(".")[0]
        named = await listed(world, cells, job=f"{first}.")
        assert set(named) == {job_id for job_id in found if job_id.startswith(f"{first}.")}


async def test_those_who_look_at_once_are_not_mixed_up(world: World) -> None:
    await join(world, max_concurrent_jobs=9)
    for job_id in (A, B, C, D):
        await place(world, job_id)
    found = await asyncio.gather(*(listed(world, words=f"s1 {job_id}") for job_id in (A, B, C, D)))
    assert found == [[A], [B], [C], [D]]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "2"}, "cursor"),
        ({"cursor": "0.1"}, "cursor"),
        ({"cursor": "0." + "9" * 17 + ".j:a"}, "cursor"),
        ({"cursor": "x" * 1_000}, "cursor"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"text_ttl_ms": 0}, "text_ttl_ms"),
        ({"cells": ["{c0}"]}, "cell"),
        ({"wanted": None}, "wanted"),
        ({"wanted": JobsWanted(job="a b")}, "job"),
        ({"wanted": JobsWanted(session="{s}")}, "session"),
        ({"wanted": JobsWanted(node="x" * 300)}, "node"),
        ({"wanted": JobsWanted(node=None)}, "node"),  # type: ignore[arg-type] # that it is wrong is the point
        ({"wanted": JobsWanted(pair="zh")}, "pair"),
        ({"wanted": JobsWanted(state="DONE")}, "state"),
        ({"wanted": JobsWanted(words="{x}")}, "q"),
        ({"wanted": JobsWanted(words="a b c d e f g h i")}, "q"),
        ({"wanted": JobsWanted(words="tlhx:en")}, "pair"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_name(world: World, wrong: dict[str, Any], named: str) -> None:
    asked: dict[str, Any] = {"cells": [CELL], "text_ttl_ms": TTL_MS} | wrong
    refusal = await read_jobs(world.engine, **asked)
    assert code_of(refusal) == "INVALID_MESSAGE"
    assert named in refusal.detail  # type: ignore[union-attr] # it is one
