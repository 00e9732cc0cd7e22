"""Who waits stands in line for everybody who could serve him, and for nobody else, as nodes come, change and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Waiting
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.resume import resume
from tests.support.cells import GONE, watch
from tests.support.stage import T0, A, B, C, bring, calls, join, nodes_of, place, queued, sweep, wait
from tests.support.wishes import SPOKEN, ask
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

BUSY = f"{CELL}.busy"
DEADLINE = T0 + 60_000
BOTH: list[list[str]] = [["en", "zh"], ["zh", "en"]]
SOON = Limits(timeout_ms=50_000)


async def ill(world: World, node_id: str = "n1", **said: Any) -> None:
    """A node that could serve, and cannot now."""
    await join(world, node_id, health="degraded", **said)


async def well(world: World, *node_ids: str) -> None:
    """They can."""
    await asyncio.gather(*(heartbeat(world.engine, CELL, node_id, health="ready") for node_id in node_ids))


async def waits(world: World, job_id: str = A, pair: str = "en:zh", **what: Any) -> None:
    answer = await ask(world, job_id, pair, **({"wait_ms": 20_000} | what))
    assert isinstance(answer, Waiting), answer


async def lines(world: World, job_id: str = A) -> list[str]:
    """In which lines a job stands."""
    places = [place.rsplit(":", 2) for place in (await world.cell()).queue]
    return [line for line, _, name in places if name == job_id]


class TestGroups:
    """Nodes of one capability have a line in common."""

    @pytest.mark.parametrize(
        ("said", "wanted"),
        [
            ({"tts_langs": ["zh"]}, {}),
            ({"tts_langs": ["zh"]}, {"services": SPOKEN}),
            ({"nmt_pairs": BOTH}, {}),
            ({"nmt_pairs": BOTH}, {"two_way": True}),
            ({"labels": {"region": "eu", "tier": "1"}}, {"labels": {"region": "eu"}}),
            ({"services": {"asr": False}}, {"services": ["nmt"]}),
            ({"nmt_pairs": "any"}, {}),
            ({"nmt_pairs": "any"}, {"two_way": True}),
            ({"nmt_pairs": "any", "tts_langs": ["zh"]}, {"services": SPOKEN}),
            ({"semantic_langs": ["en"], "nmt_pairs": [["*", "*"]]}, {}),
        ],
    )
    async def test_a_new_group_inherits_those_whom_it_could_serve(
        self, world: World, said: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        everything: dict[str, Any] = {"tts_langs": ["en", "zh", "fr"], "nmt_pairs": BOTH, "labels": {"region": "eu"}}
        await ill(world, **everything)
        await waits(world, **wanted)
        await ill(world, "n2", **said)
        assert await lines(world) == ["g1", "g2", "wen:zh"]
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n2", health="ready"))
        assert changes["queue"] == {queued(A, DEADLINE): GONE}
        cell = await world.cell()
        assert (nodes_of(cell, A), cell.queue) == (["n2"], [])

    @pytest.mark.parametrize(
        ("said", "wanted"),
        [
            ({"tts_langs": ["en"]}, {"services": SPOKEN}),
            ({}, {"services": SPOKEN}),
            ({"nmt_pairs": "any", "tts_langs": ["en", "fr"]}, {"services": SPOKEN}),
            ({"semantic_langs": ["zh"], "nmt_pairs": "any"}, {}),
            ({"nmt_pairs": [["en", "fr"]]}, {}),
            ({"nmt_pairs": [["zh", "en"]]}, {}),
            ({}, {"two_way": True}),
            ({"nmt_pairs": [["zh", "en"]]}, {"two_way": True}),
            ({"semantic_langs": ["en"], "nmt_pairs": "any"}, {"two_way": True}),
            ({"nmt_pairs": BOTH, "tts_langs": ["zh"]}, {"services": SPOKEN, "two_way": True}),
            ({}, {"labels": {"region": "eu"}}),
            ({"labels": {"region": "us"}}, {"labels": {"region": "eu"}}),
            ({"labels": {"region": "eu"}}, {"labels": {"region": "eu", "tier": "1"}}),
            ({"services": {"asr": False}}, {}),
            ({"accept_public_jobs": False}, {}),
            ({"nmt_pairs": []}, {}),
        ],
    )
    async def test_a_new_group_that_could_not_serve_them_leaves_them_alone(
        self, world: World, said: dict[str, Any], wanted: dict[str, Any]
    ) -> None:
        everything: dict[str, Any] = {
            "tts_langs": ["en", "zh"],
            "nmt_pairs": BOTH,
            "labels": {"region": "eu", "tier": "1"},
        }
        await ill(world, **everything)
        await waits(world, **wanted)
        _, changes = await watch(world, join(world, "n2", **said))
        assert not changes.keys() & {"jobs", "queue", "leases", "outbox"}
        await waits(world, B, **wanted)
        assert [await lines(world), await lines(world, B)] == [["g1", "wen:zh"]] * 2
        await well(world, "n1")
        assert nodes_of(await world.cell(), A, B) == ["n1", "n1"]

    async def test_a_new_group_asks_for_nobody_where_nobody_waits(self, world: World) -> None:
        before = await calls(world)
        await join(world, "n1")
        assert (await calls(world) - before)["zrangebylex"] == 0

    async def test_a_node_for_any_target_inherits_those_of_all_targets(self, world: World) -> None:
        for number, pair in enumerate(("en:zh", "en:fr", "zh:fr")):
            await wait(world, {f"{CELL}.{number}": 60_000}, pair)
        await join(world, "n1", semantic_langs=["en"], nmt_pairs="any", max_concurrent_jobs=9)
        assert nodes_of(await world.cell(), *(f"{CELL}.{number}" for number in range(3))) == ["n1", "n1", ""]

    async def test_a_language_whose_name_begins_like_another_has_a_line_of_its_own(self, world: World) -> None:
        await wait(world, {A: 60_000}, "fil:en")
        await wait(world, {B: 60_000}, "fi:en")
        await join(world, "n1", semantic_langs=["fi"], nmt_pairs="any")
        assert nodes_of(await world.cell(), A, B) == ["", "n1"]

    async def test_a_group_whose_number_begins_like_another_has_a_line_of_its_own(self, world: World) -> None:
        for number in range(1, 11):
            await ill(world, f"n{number}", labels={"number": str(number)})
        await waits(world, labels={"number": "10"})
        await waits(world, B, labels={"number": "1"})
        assert [await lines(world), await lines(world, B)] == [["g10", "wen:zh"], ["g1", "wen:zh"]]
        await leave(world.engine, CELL, "n1")
        assert [await lines(world), await lines(world, B)] == [["g10", "wen:zh"], ["wen:zh"]]
        await well(world, "n10")
        assert nodes_of(await world.cell(), A, B) == ["n10", ""]

    async def test_a_group_that_ends_takes_its_lines_with_it(self, world: World) -> None:
        """Its last node leaves, or goes over to another."""
        await ill(world, "n1")
        await ill(world, "n2", tts_langs=["zh"])
        await waits(world)
        await waits(world, B, exclude_node_ids=["n9"])
        assert [await lines(world), await lines(world, B)] == [["g1", "g2", "wen:zh"], ["wen:zh", "x1", "x2"]]
        _, changes = await watch(world, leave(world.engine, CELL, "n1"))
        assert "queue" not in changes
        assert [await lines(world), await lines(world, B)] == [["g2", "wen:zh"], ["wen:zh", "x2"]]
        await heartbeat(world.engine, CELL, "n2", tts_langs=["en", "zh"])
        assert [await lines(world), await lines(world, B)] == [["g3", "wen:zh"], ["wen:zh", "x3"]]
        await heartbeat(world.engine, CELL, "n2", nmt_pairs=[])
        assert [await lines(world), await lines(world, B)] == [["wen:zh"], ["wen:zh"]]
        await heartbeat(world.engine, CELL, "n2", nmt_pairs=[["en", "zh"]], health="ready")
        assert nodes_of(await world.cell(), A, B) == ["n2", "n2"]

    async def test_one_who_waits_no_longer_leaves_every_line(self, world: World) -> None:
        await ill(world, "n1")
        await ill(world, "n2", tts_langs=["zh"])
        for job_id, wanted in ((A, {}), (B, {"exclude_node_ids": ["n1"]}), (C, {"preferred_node_id": "n1"})):
            await waits(world, job_id, **wanted)
        assert await lines(world, C) == ["g1", "g2", "nn1", "wen:zh"]
        await asyncio.gather(*(cancel(world.engine, job_id) for job_id in (A, B)))
        assert {line for line in (await world.cell()).queue if not line.endswith(C)} == set()
        world.now_ms += 20_000
        await sweep(world)
        assert (await world.cell()).queue == []


class TestExclusions:
    """A job does not go to a node that it excludes; whoever waits behind it may."""

    async def test_the_node_takes_another_job_and_another_node_takes_this_one(self, world: World) -> None:
        await ill(world, "n1", max_concurrent_jobs=1)
        await ill(world, "n2", max_concurrent_jobs=1)
        await waits(world, A, exclude_node_ids=["n1"], limits=SOON)
        await waits(world, B)
        assert await lines(world) == ["wen:zh", "x1"]
        await well(world, "n1")
        assert nodes_of(await world.cell(), A, B) == ["", "n1"]
        await well(world, "n2")
        assert nodes_of(await world.cell(), A, B) == ["n2", "n1"]

    async def test_those_of_different_exclusions_are_asked_one_after_the_other(self, world: World) -> None:
        await ill(world, "n1", max_concurrent_jobs=1)
        await waits(world, A, exclude_node_ids=["n1"], limits=SOON)
        await waits(world, B, exclude_node_ids=["n0", "n1"], limits=SOON)
        await waits(world, C, exclude_node_ids=["n2"])
        await well(world, "n1")
        assert nodes_of(await world.cell(), A, B, C) == ["", "", "n1"]

    @pytest.mark.parametrize("excluded", [0, 1])
    async def test_both_lines_of_a_group_go_by_deadline(self, world: World, excluded: int) -> None:
        await ill(world, "n1", max_concurrent_jobs=1)
        wanted: list[dict[str, Any]] = [{}, {"exclude_node_ids": ["n9"]}]
        await waits(world, A, limits=SOON, **wanted[excluded])
        await waits(world, B, **wanted[1 - excluded])
        await well(world, "n1")
        assert nodes_of(await world.cell(), A, B) == ["n1", ""]

    async def test_a_node_with_room_for_more_takes_only_those_that_may_come(self, world: World) -> None:
        await ill(world, "n1", max_concurrent_jobs=9)
        for job_id, excluded in ((A, ["n9"]), (B, ["n1"]), (C, ["n9"])):
            await waits(world, job_id, exclude_node_ids=excluded)
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
        assert changes["queue"] == {queued(A, DEADLINE): GONE, queued(C, DEADLINE): GONE}

    async def test_a_job_that_failed_excludes_them_still(self, world: World) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await ask(world, A, exclude_node_ids=["n2"])
        await drain(world.engine, CELL, "n1")
        await join(world, "n2")
        await fail(world.engine, A, 1, "n1", reason="broken")
        assert await lines(world) == ["wen:zh", "x1"]
        await resume(world.engine, CELL, "n1")
        assert nodes_of(await world.cell(), A) == ["n1"]


class TestNames:
    """A job that names a node stands in the line of that node too; one that insists on it in no other."""

    async def test_who_insists_waits_for_his_node_alone(self, world: World) -> None:
        await ill(world, "n1")
        await waits(world, preferred_node_id="n1", strict=True)
        assert await lines(world) == ["nn1", "wen:zh"]
        for node_id, said in (("n2", {}), ("n3", {"tts_langs": ["zh"]})):
            _, changes = await watch(world, join(world, node_id, **said))
            assert not changes.keys() & {"jobs", "queue", "leases", "outbox"}
        assert await lines(world) == ["nn1", "wen:zh"]
        _, changes = await watch(world, heartbeat(world.engine, CELL, "n1", health="ready"))
        assert changes["jobs"][A]["node"] == "n1"
        assert changes["queue"] == {queued(A, DEADLINE): GONE}

    async def test_his_node_takes_him_only_if_it_still_serves_him(self, world: World) -> None:
        await ill(world, "n1", tts_langs=["zh"])
        await waits(world, preferred_node_id="n1", strict=True, services=SPOKEN)
        await heartbeat(world.engine, CELL, "n1", tts_langs=["en"], health="ready")
        assert (nodes_of(await world.cell(), A), await lines(world)) == ([""], ["nn1", "wen:zh"])
        await heartbeat(world.engine, CELL, "n1", tts_langs=["zh"])
        assert nodes_of(await world.cell(), A) == ["n1"]

    async def test_his_node_may_leave_and_come_back(self, world: World) -> None:
        await ill(world, "n1")
        await waits(world, preferred_node_id="n1", strict=True)
        await leave(world.engine, CELL, "n1")
        assert await lines(world) == ["nn1", "wen:zh"]
        await join(world, "n1")
        assert nodes_of(await world.cell(), A) == ["n1"]

    async def test_who_names_a_node_without_insisting_takes_any(self, world: World) -> None:
        await ill(world, "n1")
        await waits(world, preferred_node_id="n1")
        assert await lines(world) == ["g1", "nn1", "wen:zh"]
        await join(world, "n2", tts_langs=["zh"])
        cell = await world.cell()
        assert (nodes_of(cell, A), cell.queue) == (["n2"], [])

    async def test_a_private_node_takes_those_who_name_it_and_no_others(self, world: World) -> None:
        await ill(world, "n0", accept_public_jobs=False, max_concurrent_jobs=9)
        await ill(world, "n1")
        await waits(world, A)
        await waits(world, B, preferred_node_id="n0")
        assert [await lines(world), await lines(world, B)] == [["g2", "wen:zh"], ["g2", "nn0", "wen:zh"]]
        await well(world, "n0")
        assert nodes_of(await world.cell(), A, B) == ["", "n0"]

    @pytest.mark.parametrize("insists", [A, B])
    async def test_those_who_name_a_node_and_those_who_do_not_go_by_deadline(self, world: World, insists: str) -> None:
        await join(world, "n1", max_concurrent_jobs=1)
        await bring(world, "RUNNING", BUSY)
        for job_id, limits in ((A, SOON), (B, Limits())):
            wanted: dict[str, Any] = {"preferred_node_id": "n1", "strict": True} if job_id == insists else {}
            await waits(world, job_id, limits=limits, **wanted)
        await done(world.engine, BUSY, 1, "n1")
        assert nodes_of(await world.cell(), A, B) == ["n1", ""]
        await done(world.engine, A, 1, "n1")
        assert nodes_of(await world.cell(), B) == ["n1"]


async def test_a_job_that_fails_chooses_another_node_than_one_that_others_are_yet_to_fill(world: World) -> None:
    """n1 is promised to those who wait for zh:en, more than are served at once; n2 is free."""
    await join(world, "n3", max_concurrent_jobs=1)
    await place(world, A)
    await join(world, "n2", max_concurrent_jobs=2)
    await place(world, B)
    await wait(world, {f"{CELL}.j{n:03}": 50_000 for n in range(160)}, "zh:en")
    await join(world, "n1", nmt_pairs=BOTH, max_concurrent_jobs=150)
    await drain(world.engine, CELL, "n3")
    await watch(world, fail(world.engine, A, 1, "n3", reason=""))
    assert nodes_of(await world.cell(), A) == ["n2"]
