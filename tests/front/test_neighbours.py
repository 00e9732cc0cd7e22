"""Two instances on one engine: each job finds its node, and its end whoever waits for it, wherever they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from lingua_scheduler.core.letter import Letter, UnknownKind
from lingua_scheduler.core.owner import instance_of, mark_in, mark_of, new_connection
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.ack import ack
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.collect import Letters as Taken
from lingua_scheduler.flows.collect import collect
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.flows.started import started
from lingua_scheduler.front.ask import Ask
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.hearing import Hearing
from lingua_scheduler.front.letters import Letters
from lingua_scheduler.front.neighbours import Neighbours
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.views.job import Job, read_job
from tests.support.mail import arrive, die
from tests.support.meddling import meddled
from tests.support.nodes import PLAIN, TRACE, Stage
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.core.records import Event
    from lingua_scheduler.front.desk import Desk
    from tests.support.world import World


class Instance(Stage):
    """One of several: what it has, and its inbox."""

    def __init__(self, world: World, instance: str) -> None:
        super().__init__(world, instance)
        self.hearing = Hearing(world.engine, self.directory, self.links, self.delivery, self.listeners, self.neighbours)
        self.sessions = self.listeners
        self.told: list[Event] = []
        self.kept = 0
        self.letters = Letters(cast("Desk", self), self.told.append, self._keep)

    def _keep(self) -> None:
        self.kept += 1

    async def relay(self) -> list[str]:
        """Hand over what is in the outbox, as the relayer of this instance does."""
        taken = await relay(self.world.engine, CELL, [], 32)
        assert not isinstance(taken, Refusal)
        for event in taken.events:
            await self.hearing.hear(event)
        await relay(self.world.engine, CELL, taken.events, 0)
        return [event.kind for event in taken.events]

    async def read(self) -> list[str]:
        """Do what the letters to this instance say; their kinds."""
        taken = await collect(self.world.engine, self.instance, self.instance, 100)
        assert isinstance(taken, Taken)
        found = [letter for _, _, letter in taken.letters]
        for letter in found:
            await self.letters.hear(letter)
        return [letter.kind for letter in found]

    async def state(self, job_id: str) -> tuple[str, int, str]:
        job = await read_job(self.world.engine, job_id)
        assert isinstance(job, Job)
        return job.record.state, job.record.attempt, job.record.node


@pytest.fixture
async def here(world: World) -> Instance:
    await arrive(world.engine, "here", "there")
    return Instance(world, "here")


@pytest.fixture
def there(world: World, here: Instance) -> Instance:
    del here
    return Instance(world, "there")


async def test_where_a_node_was_before_it_moved_is_not_remembered(world: World) -> None:
    """Whoever was asked for it had read that a moment ago, when he heard that it has moved."""
    await register(world.engine, CELL, "n1", connection=new_connection("before"), semantic_langs=["en", "zh"])
    read, moves = asyncio.Event(), asyncio.Event()

    async def later(run: Callable[[], Awaitable[object]]) -> object:
        answer = await run()
        read.set()
        await moves.wait()
        return answer

    here = Neighbours(meddled(world.engine, node=later), Directory(world.engine, CELL), "here")
    asking = asyncio.create_task(here.holder("n1"))
    await read.wait()
    await register(world.engine, CELL, "n1", connection=new_connection("after"), semantic_langs=["en", "zh"])
    here.has_moved("n1", "")
    moves.set()
    assert await asking == "before"
    assert await here.holder("n1") == "after"


async def test_names_say_whose_they_are() -> None:
    assert instance_of(new_connection("gpu.host-7-abcd")) == "gpu.host-7-abcd"
    assert instance_of("") == instance_of("x") == ""


async def test_a_job_for_a_node_elsewhere_is_carried_there(here: Instance, there: Instance) -> None:
    tape = await there.join()
    job_id = await here.put()
    assert await here.state(job_id) == ("RESERVED", 1, "n1")
    assert tape.written == []

    assert await there.read() == ["carry"]
    (assigned,) = tape.messages("job_assign")
    assert (assigned["job_id"], assigned["attempt_id"], assigned["trace_id"]) == (job_id, 1, TRACE)
    assert await here.state(job_id) == ("DISPATCHED", 1, "n1")


async def test_a_letter_that_comes_twice_writes_once(here: Instance, there: Instance) -> None:
    tape = await there.join()
    job_id = await here.put()
    for _ in range(2):
        await there.letters.hear(Letter("carry", job_id, 1, "n1"))
    assert len(tape.messages("job_assign")) == 1


async def test_a_node_whose_instance_is_gone_costs_one_refusal(here: Instance, there: Instance, world: World) -> None:
    await there.join("n1")
    await die(world.engine, "there")
    tape = await here.join("n2")
    job_id = await here.put(preferred_node_id="n1")
    assert await here.state(job_id) == ("DISPATCHED", 2, "n2")
    assert len(tape.messages("job_assign")) == 1


async def test_a_full_inbox_is_passed_by(here: Instance, there: Instance, world: World) -> None:
    await there.join("n1")
    for number in range(world.rules.inbox_max):
        world.engine.command("XADD", f"{world.engine.prefix}:{{inst:there}}:inbox", "*", "letter", number)
    await world.engine.command("PING")
    job_id = await here.put()
    assert (await here.state(job_id))[0] == "RETRYING"


async def test_a_node_that_moved_is_found(here: Instance, there: Instance, world: World) -> None:
    await there.join()
    await here.put()
    third = Instance(world, "third")
    await arrive(world.engine, "third")
    node = there.links.get("n1")
    assert node is not None
    there.links.remove(node)
    tape = await third.join(epoch=node.epoch)
    # Here it is still believed to be there: that instance sends the letter on.
    second = await here.put()
    assert await there.read() == ["carry", "carry"]
    assert await third.read() == ["carry", "carry"]
    assert second in [message["job_id"] for message in tape.messages("job_assign")]


async def test_a_node_that_outlived_its_instance_is_found_and_not_blamed(
    here: Instance, there: Instance, world: World
) -> None:
    await there.join()
    await here.put()
    node = there.links.get("n1")
    assert node is not None
    await die(world.engine, "there")
    third = Instance(world, "third")
    await arrive(world.engine, "third")
    tape = await third.join(epoch=node.epoch)
    # Here it is still believed to be with the one that is gone.
    job_id = await here.put()
    assert await here.state(job_id) == ("RESERVED", 1, "n1")
    assert await third.read() == ["carry"]
    assert [message["job_id"] for message in tape.messages("job_assign")] == [job_id]


async def test_a_node_that_polled_is_found_on_the_socket_that_it_took(here: Instance, there: Instance) -> None:
    polls = {"semantic_langs": ["en", "zh"], "nmt_pairs": [("en", "zh")], "max_concurrent_jobs": 4}
    answer = await register(here.world.engine, CELL, "n1", **polls)  # type: ignore[arg-type]  # of many kinds
    assert isinstance(answer, Registered)
    await here.put()
    assert here.listeners.of("mailed") == ["n1"]
    tape = await there.join(epoch=answer.epoch, max_concurrent_jobs=4)
    job_id = await here.put()
    assert await there.read() == ["carry"]
    assert [message["job_id"] for message in tape.messages("job_assign")] == [job_id]


async def test_a_node_that_comes_here_while_others_are_asked_is_told_here(
    here: Instance, there: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    await there.join()
    node = there.links.get("n1")
    assert node is not None
    tell_holder, tapes = here.neighbours.tell_holder, []

    async def slowly(node_id: str, epoch: str, letter: Letter) -> bool:
        tapes.append(await here.join(epoch=epoch))
        here.neighbours.forget_holder(node_id, epoch)
        return await tell_holder(node_id, epoch, letter)

    monkeypatch.setattr(here.neighbours, "tell_holder", slowly)
    job_id = await here.put()
    assert await here.state(job_id) == ("DISPATCHED", 1, "n1")
    assert [message["job_id"] for message in tapes[0].messages("job_assign")] == [job_id]


async def test_what_a_node_brings_along_is_its_errand_where_it_is_now(
    here: Instance, there: Instance, world: World
) -> None:
    await here.join(max_concurrent_jobs=4)
    accepted, begun, only_told = [await here.put() for _ in range(3)]
    await ack(world.engine, accepted, 1, "n1")
    await started(world.engine, begun, 1, "n1")
    node = here.links.get("n1")
    assert node is not None
    await there.join(epoch=node.epoch, max_concurrent_jobs=4)
    there.delivery.recall_soon(CELL, "n1")
    await there.delivery.close()
    assert there.delivery.errands.of_node("n1") == [here.delivery.errands.get(job, "n1") for job in (accepted, begun)]
    assert only_told not in there.delivery.errands._by_job

    await there.neighbours.tell_replaced("n1", node.known.connection)
    assert await here.read() == ["replaced"]
    assert here.delivery.errands.of_node("n1") == []


async def test_the_end_is_told_where_the_job_was_made(here: Instance, there: Instance, world: World) -> None:
    await there.join()
    job_id = await here.put()
    assert mark_in(job_id) == mark_of("here")
    await there.read()
    waiting = asyncio.create_task(here.hearing.wait_end(job_id, 10_000))
    await asyncio.sleep(0)
    await done(world.engine, job_id, 1, "n1", result="{}")
    assert await there.relay() == ["ended"]
    assert await here.read() == ["ended"]
    ended = await waiting
    assert isinstance(ended, Job)
    assert ended.record.state == "FINISHED"
    assert [event.job for event in here.listeners.of("ended")] == [job_id]
    assert [event.job for event in here.told] == [job_id]


async def test_what_ends_at_home_is_told_nobody_else(here: Instance, there: Instance, world: World) -> None:
    await here.join()
    job_id = await here.put()
    await done(world.engine, job_id, 1, "n1", result="{}")
    await here.relay()
    assert await there.read() == []


async def test_the_end_follows_a_session_that_moved(here: Instance, there: Instance, world: World) -> None:
    await here.join()
    job_id = await here.put()
    await save_session(world.engine, "s1", new_connection("there"), b"", 60_000, create=True)
    here.listeners.moved.add(job_id)
    await done(world.engine, job_id, 1, "n1", result="{}")
    await here.relay()
    assert await there.read() == ["ended"]


async def test_the_end_of_a_dead_instance_s_job_goes_to_its_session(
    here: Instance, there: Instance, world: World
) -> None:
    await here.join()
    job_id = await there.put()
    await save_session(world.engine, "s1", new_connection("third"), b"", 60_000, create=True)
    await arrive(world.engine, "third")
    await die(world.engine, "there")
    await done(world.engine, job_id, 1, "n1", result="{}")
    await here.relay()
    assert await Instance(world, "third").read() == ["ended"]


async def test_a_node_elsewhere_is_told_to_stop(here: Instance, there: Instance, world: World) -> None:
    tape = await there.join()
    job_id = await here.put()
    await there.read()
    await cancel(world.engine, job_id, "no longer wanted")
    await here.relay()
    assert "fenced" in await there.read()
    (told,) = tape.messages("job_cancel")
    assert (told["job_id"], told["reason"], told["trace_id"]) == (job_id, "no longer wanted", TRACE)


async def test_an_older_socket_elsewhere_is_closed(here: Instance, there: Instance, world: World) -> None:
    tape = await there.join()
    older = there.links.get("n1")
    assert older is not None
    answer = await register(
        world.engine, CELL, "n1", connection=new_connection("here"), epoch=older.epoch, semantic_langs=["en", "zh"]
    )
    assert not isinstance(answer, Refusal)
    await here.neighbours.tell_replaced("n1", answer.replaced)
    assert await there.read() == ["replaced"]
    await asyncio.sleep(0)
    assert tape.closed_with is CloseCode.REPLACED
    assert there.links.get("n1") is None


async def test_a_late_letter_closes_no_newer_socket(there: Instance) -> None:
    tape = await there.join()
    await there.letters.hear(Letter("replaced", node="n1", detail=new_connection("there")))
    await asyncio.sleep(0)
    assert tape.closed_with is None


async def test_who_is_there_although_its_nodes_were_handed_over_beats_for_them(
    here: Instance, there: Instance, world: World
) -> None:
    await here.neighbours.tell_orphaned("there")
    assert (await there.read(), there.kept) == (["orphaned"], 1)
    await die(world.engine, "there")
    await here.neighbours.tell_orphaned("there")
    assert await there.read() == []


@pytest.mark.parametrize("command", ["drain", "resume"])
async def test_an_operator_is_heard_everywhere(here: Instance, there: Instance, command: str) -> None:
    tape = await there.join()
    assert await here.neighbours.tell_holder("n1", "", Letter("control", node="n1", detail=command))
    await there.read()
    assert [message["command"] for message in tape.messages("node_control")] == [command]


async def test_a_letter_of_an_unknown_kind_is_for_another_release(here: Instance) -> None:
    with pytest.raises(UnknownKind, match="riddle"):
        await here.letters.hear(Letter("riddle"))


async def test_whoever_waits_with_a_job_hears_that_it_has_its_node(
    here: Instance, there: Instance, world: World
) -> None:
    await there.join(max_concurrent_jobs=1)
    first = await here.put()
    waits = asyncio.Event()
    asking = here.delivery.place(Ask("s2", "en", "zh", wanted=Wanted(wait_ms=10_000)), PLAIN, waits=waits.set)
    waiting = asyncio.create_task(asking)
    await waits.wait()
    await there.read()
    await done(world.engine, first, 1, "n1", result="{}")
    await there.relay()
    kinds = await here.read()
    assert sorted(kinds) == ["ended", "reserved"]
    assert [event.kind for event in here.told] == kinds
    waiting.cancel()
