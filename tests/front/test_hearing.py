"""What the outbox brings reaches whom it concerns, over real events of a real engine."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
import pytest

from lingua_scheduler.core.owner import mark_of
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.disconnect import disconnect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.release import release
from lingua_scheduler.front.hearing import Finished, Hearing
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.views.job import Job
from tests.support.guests import THERE, check, join_in, mail, settle_in, strand
from tests.support.nodes import TRACE, Stage
from tests.support.stage import A, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World


class Scene(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.hearing = Hearing(world.engine, self.directory, self.links, self.delivery, self.listeners, self.neighbours)

    async def relay(self, *, twice: bool = True) -> list[str]:
        """Hand over everything there is; all of it twice, as a relayer may do."""
        taken = await relay(self.world.engine, CELL, [], 32)
        assert isinstance(taken, Taken)
        for event in taken.events * (1 + twice):
            await self.hearing.hear(event)
        await relay(self.world.engine, CELL, taken.events, 0)
        return [event.kind for event in taken.events]


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


async def test_a_job_that_failed_is_carried_to_its_next_node_once(scene: Scene) -> None:
    first, second = await scene.join("n1"), await scene.join("n2")
    job_id = await scene.put(preferred_node_id="n1")
    await fail(scene.world.engine, job_id, 1, "n1", reason="broken")
    assert await scene.relay() == ["reserved"]
    assert (len(first.messages()), len(second.messages("job_assign"))) == (1, 1)


async def test_who_has_a_fenced_attempt_is_told_to_stop(scene: Scene) -> None:
    tape = await scene.join()
    job_id = await scene.put()
    await cancel(scene.world.engine, job_id, "nobody listens")
    assert sorted(await scene.relay(twice=False)) == ["ended", "fenced"]
    assert tape.messages("job_cancel") == [
        {
            "type": "job_cancel",
            "job_id": job_id,
            "attempt_id": 1,
            "trace_id": TRACE,
            "reason": "nobody listens",
        }
    ]
    assert len(scene.delivery.errands) == 0


@pytest.mark.parametrize("is_gone", [False, True])
async def test_it_is_told_so_also_where_nobody_said_why(scene: Scene, is_gone: bool) -> None:
    tape = await scene.join()
    job_id = await scene.put()
    await cancel(scene.world.engine, job_id)
    if is_gone:
        await release(scene.world.engine, job_id)
        scene.world.now_ms += 3_600_000
        await sweep(scene.world)
        assert isinstance(await scene.hearing.wait_end(job_id, 0), Refusal)
    await scene.hearing.hear(Event("fenced", job_id, 1, "n1", "", "cancelled", 0))
    (said,) = tape.messages("job_cancel")
    assert (said["reason"], said["trace_id"]) == ("cancelled", "the socket's" if is_gone else TRACE)


async def test_any_other_cause_is_told_by_its_name(scene: Scene) -> None:
    tape = await scene.join()
    job_id = await scene.put()
    scene.world.now_ms += 60_000
    await sweep(scene.world)
    assert "fenced" in await scene.relay(twice=False)
    assert [said["job_id"] for said in tape.messages("job_cancel")] == [job_id]
    assert [said["reason"] for said in tape.messages("job_cancel")] == ["expired"]


async def test_the_end_reaches_the_session(scene: Scene) -> None:
    await scene.join()
    job_id = await scene.put()
    await done(scene.world.engine, job_id, 1, "n1")
    await scene.relay(twice=False)
    assert [event.job for event in scene.listeners.of("ended")] == [job_id]
    assert scene.delivery.errands.get(job_id, "n1") is None


async def test_a_late_word_of_an_old_attempt_leaves_the_new_errand(scene: Scene) -> None:
    await scene.join("n1")
    await scene.join("n2")
    job_id = await scene.put(preferred_node_id="n1")
    await fail(scene.world.engine, job_id, 1, "n1", reason="broken")
    await scene.relay()
    await scene.hearing.hear(Event("fenced", job_id, 1, "n1", "", "run_timeout", 0))
    assert scene.delivery.errands.get(job_id, "n2") is not None


async def test_a_refusal_after_a_wait_reaches_the_session(scene: Scene) -> None:
    event = Event("refused", A, 0, "", "", "10 NO_CAPABLE_NODE 0 0", 0)
    await scene.hearing.hear(event)
    assert scene.listeners.of("refused") == [event]


class TestWhoIsGivenUp:
    async def test_a_node_whose_socket_is_open_is_hung_up_on(self, scene: Scene) -> None:
        tape = await scene.join()
        link = scene.links.get("n1")
        assert link is not None
        await disconnect(scene.world.engine, CELL, "n1", link.known.connection)
        scene.world.now_ms += 501
        await sweep(scene.world)
        assert await scene.relay() == ["lost"]
        await asyncio.sleep(0)
        assert tape.closed_with == CloseCode.TIMEOUT

    async def test_one_that_has_come_back_is_not(self, scene: Scene) -> None:
        """It registered before anybody heard that it was lost, as the same life."""
        await scene.join()
        link = scene.links.get("n1")
        assert link is not None
        await disconnect(scene.world.engine, CELL, "n1", link.known.connection)
        scene.world.now_ms += 501
        await sweep(scene.world)
        scene.links.remove(link)
        tape = await scene.join(epoch=link.epoch)
        assert await scene.relay() == ["lost"]
        await asyncio.sleep(0)
        assert tape.closed_with is None

    async def test_one_that_did_not_confirm_must_register(self, scene: Scene) -> None:
        tape = await scene.join()
        job_id = await scene.put()
        await cancel(scene.world.engine, job_id)
        await scene.relay()
        scene.world.now_ms += 60_000
        await sweep(scene.world)
        assert "cut_off" in await scene.relay()
        await asyncio.sleep(0)
        assert tape.closed_with == CloseCode.TIMEOUT


class TestWaitingForTheEnd:
    async def test_who_waits_hears_of_it(self, scene: Scene) -> None:
        await scene.join()
        job_id = await scene.put()
        waits = asyncio.ensure_future(scene.hearing.wait_end(job_id, 30_000))
        await done(scene.world.engine, job_id, 1, "n1", result="{}")
        await scene.relay()
        async with asyncio.timeout(0.9):
            job = await waits
        assert isinstance(job, Job)
        assert (job.record.state, job.result) == ("FINISHED", "{}")

    async def test_who_waits_in_vain_is_told_how_it_is(self, scene: Scene) -> None:
        await scene.join()
        job_id = await scene.put()
        await scene.noted()
        job = await scene.hearing.wait_end(job_id, 20)
        assert isinstance(job, Job)
        assert job.record.state == "DISPATCHED"

    async def test_who_waits_for_a_result_is_told_it_without_asking_the_engine(self, scene: Scene) -> None:
        await scene.join()
        job_id = await scene.put()
        waiting = asyncio.create_task(scene.hearing.wait_result(job_id, 30_000))
        await asyncio.sleep(0)
        scene.hearing.finished(Event("ended", job_id, 1, "n1", "", "", 0), "done")
        # Of the end the engine knows nothing here: whoever asked it would wait on.
        assert await waiting == Finished(1, "n1", "done")

    async def test_who_waits_for_the_job_itself_reads_it_then(self, scene: Scene) -> None:
        await scene.join()
        job_id = await scene.put()
        waiting = asyncio.create_task(scene.hearing.wait_end(job_id, 30_000))
        await asyncio.sleep(0)
        await done(scene.world.engine, job_id, 1, "n1", result="done")
        scene.hearing.finished(Event("ended", job_id, 1, "n1", "", "", 0), "done")
        job = await waiting
        assert isinstance(job, Job)
        assert (job.record.state, job.result) == ("FINISHED", "done")

    async def test_an_end_that_only_those_who_wait_here_must_hear_is_handed_over_with_that(self, scene: Scene) -> None:
        await scene.join()
        job_id = await scene.put()
        elsewhere = job_id[:-8] + mark_of("another")
        assert [scene.hearing.finished(Event("ended", one, 1, "n1", "", "", 0), "") for one in (job_id, elsewhere)] == [
            True,
            False,
        ]

    async def test_of_no_job_there_is_nothing_to_wait_for(self, scene: Scene) -> None:
        refusal = await scene.hearing.wait_end(A, 30_000)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "UNKNOWN_JOB"


@pytest.mark.parametrize("kind", ["mass_silence", "forgiven", "something new"])
async def test_what_concerns_the_operator_is_in_the_log(
    scene: Scene, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    event = Event("", A, 3, "n1", "", "2", 0)
    with caplog.at_level(logging.WARNING):
        await scene.hearing.hear(msgspec.structs.replace(event, kind=kind))
    assert len(caplog.records) == 1


async def test_other_cells_hear_of_their_guests_and_homes_of_theirs(scene: Scene) -> None:
    world = scene.world
    news: list[str] = []
    scene.delivery.has_news = news.append
    await join_in(world, THERE, "far")
    await strand(world)
    await settle_in(world)
    await leave(world.engine, THERE, "far")
    for event in await mail(world, THERE):
        await scene.hearing.hear(event)
    assert (await check(world))[CELL].jobs[A].state == "RETRYING"
    assert news == [A]
    await join_in(world, THERE, "far")
    await settle_in(world)
    await cancel(world.engine, A)
    for event in await mail(world, CELL):
        if event.kind == "let_go":
            await scene.hearing.hear(event)
    assert list((await check(world))[THERE].limbo) == [f"far:{A}:3"]
