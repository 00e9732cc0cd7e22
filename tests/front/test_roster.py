"""Which nodes are here, and what keeps them alive, on virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.owner import instance_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.doubt import doubt
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.started import started
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.assignment import Assignment
from lingua_scheduler.front.nodes.orphans import hand_over_nodes
from lingua_scheduler.front.nodes.phases import Beat, Live
from lingua_scheduler.front.nodes.roster import Roster
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.fields import RunningAttempt
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.store.checks import check_schema
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.views.node import Node, read_node
from tests.support.nodes import Stage
from tests.support.stage import T0, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.front.nodes.links import Link
    from tests.support.world import World

PLAIN: Final = Assignment(src_lang="en", tgt_lang="zh", pipeline=Pipeline())


class Scene(Stage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.roster = Roster(world.engine, self.directory, self.links, self.delivery.errands)

    def link(self, node_id: str = "n1") -> Link:
        link = self.links.get(node_id)
        assert link is not None
        return link

    async def node(self, node_id: str = "n1") -> Node:
        node = await read_node(self.world.engine, CELL, node_id)
        assert isinstance(node, Node), node
        return node

    async def try_put(self) -> Submitted | Refusal:
        return await self.delivery.place(Ask("s1", "en", "zh"), PLAIN)

    async def empty(self) -> None:
        """The engine comes back with nothing."""
        keys = [cell_key(self.world.engine.prefix, CELL, name) for name in CELL_KEY_NAMES]
        await self.world.engine.command("UNLINK", *keys)


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


async def test_an_open_socket_is_a_sign_of_life(scene: Scene) -> None:
    """However seldom the node itself beats."""
    await scene.join()
    for _ in range(12):
        scene.world.now_ms += 10_000
        await scene.roster.keep_all()
        await sweep(scene.world)
    assert isinstance(await scene.try_put(), Submitted)
    assert (await scene.node()).record.seen_at_ms == T0 + 120_000


async def test_the_beats_of_all_are_one_tick(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        await scene.join(f"n{number}")
    ticks: list[int] = []
    flush = scene.world.engine._flush

    def counted() -> None:
        ticks.append(1)
        flush()

    monkeypatch.setattr(scene.world.engine, "_flush", counted)
    await scene.roster.keep_all()
    assert len(ticks) == 1


async def test_one_that_must_register_is_sent_to_do_so(scene: Scene) -> None:
    tape = await scene.join()
    submitted = await scene.try_put()
    assert isinstance(submitted, Submitted)
    await cancel(scene.world.engine, submitted.job_id)
    scene.world.now_ms += 60_000
    await scene.roster.keep_all()
    await sweep(scene.world)
    assert tape.closed_with is None
    await scene.roster.keep_all()
    await asyncio.sleep(0)
    assert tape.closed_with == CloseCode.TIMEOUT


async def test_one_that_began_a_new_life_elsewhere_is_replaced(scene: Scene) -> None:
    tape = await scene.join()
    answer = await register(scene.world.engine, CELL, "n1", semantic_langs=["en"], process_id="new")
    assert isinstance(answer, Registered)
    await scene.roster.keep_all()
    await asyncio.sleep(0)
    assert tape.closed_with == CloseCode.REPLACED


async def test_one_that_goes_on_elsewhere_is_replaced_and_its_socket_is_no_sign_of_life(scene: Scene) -> None:
    tape = await scene.join()
    scene.world.now_ms += 1
    await Stage(scene.world, "elsewhere").join(epoch=scene.link().epoch)
    scene.world.now_ms += 1_000
    await scene.roster.keep_all()
    await asyncio.sleep(0)
    assert tape.closed_with == CloseCode.REPLACED
    node = await scene.node()
    assert (node.record.seen_at_ms, instance_of(node.profile.connection)) == (T0 + 1, "elsewhere")


async def test_an_engine_that_is_away_hears_the_next_beat(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.join()

    def away(*_args: Any) -> Any:
        raise DependencyDown("TEST", "away")

    with monkeypatch.context() as patched:
        patched.setattr(scene.world.engine, "run", away)
        await scene.roster.keep_all()
    scene.world.now_ms += 1_000
    await scene.roster.keep_all()
    assert (await scene.node()).record.seen_at_ms == T0 + 1_000


async def test_what_a_node_says_while_it_is_taken_in_again_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first beat makes a field node ready: it is not undone by a registration that was made before."""
    await scene.join(health=None)
    link, register = scene.link(), scene.roster.register
    live = Live(link.known)
    (beat,) = live.hear('{"type": "node_heartbeat"}')
    assert isinstance(beat, Beat)

    async def after_its_first_beat(*enters: Any, **how: Any) -> Registered | Refusal:
        monkeypatch.undo()
        live.beaten(beat, await heartbeat(scene.world.engine, CELL, "n1", beat.epoch, **beat.words))
        return await register(*enters, **how)

    monkeypatch.setattr(scene.roster, "register", after_its_first_beat)
    await scene.roster.renew(link)
    assert (await scene.node()).record.reported == "ready"
    assert isinstance(await scene.try_put(), Submitted)


class TestAnEngineThatCameBackEmpty:
    async def test_its_nodes_serve_again_after_one_beat(self, scene: Scene) -> None:
        tape = await scene.join()
        scene.link().known.words["health"] = "ready"
        before = scene.link().known.connection
        await scene.empty()
        await scene.roster.keep_all()
        node = await scene.node()
        assert (node.profile.connection, node.pairs) == (before, ["en:zh"])
        assert scene.link().epoch == node.record.epoch
        (welcome,) = tape.messages("node_register_ack")
        assert (welcome["epoch"], welcome["pools"], welcome["status"]) == (node.record.epoch, ["en:zh"], "ready")
        submitted = await scene.try_put()
        assert isinstance(submitted, Submitted)
        assert [job["job_id"] for job in tape.messages("job_assign")] == [submitted.job_id]

    async def test_what_they_still_work_on_takes_its_slots_until_they_stop(self, scene: Scene) -> None:
        tape = await scene.join()
        submitted = await scene.try_put()
        assert isinstance(submitted, Submitted)
        await scene.empty()
        await scene.roster.keep_all()
        assert [message["job_id"] for message in tape.messages("job_cancel")] == [submitted.job_id]
        assert (await scene.node()).record.used == 1
        late = await done(scene.world.engine, submitted.job_id, 1, "n1")
        assert isinstance(late, Refusal)
        assert late.code == "UNKNOWN_JOB"
        assert (await scene.node()).record.used == 0

    async def test_a_socket_that_was_replaced_does_not_speak_for_the_node(self, scene: Scene) -> None:
        await scene.join()
        old = scene.link()
        await scene.join()
        await scene.empty()
        await scene.roster.renew(old)
        assert isinstance(await read_node(scene.world.engine, CELL, "n1"), Refusal)

    async def test_two_who_notice_it_at_once_do_it_once(self, scene: Scene) -> None:
        await scene.join()
        await scene.empty()
        await asyncio.gather(scene.roster.renew(scene.link()), scene.roster.renew(scene.link()))
        node = await scene.node()
        assert (node.record.epoch, node.record.flaps) == (scene.link().epoch, 0)


class TestAServerThatHasForgotten:
    """Another one serves, and did not hear the last words of the one before it."""

    @pytest.mark.parametrize(("features", "state"), [((), "ACCEPTED"), (("job_ack",), "DISPATCHED")])
    async def test_what_was_written_to_a_node_stays_with_it(
        self, scene: Scene, features: tuple[str, ...], state: str
    ) -> None:
        world = scene.world
        await check_schema(world.engine, CELL)
        await doubt(world.engine, CELL, "first")
        await scene.join(advanced_features=list(features))
        submitted = await scene.try_put()
        assert isinstance(submitted, Submitted)
        # A moment later the engine has heard that it was written.
        await scene.noted()
        await scene.roster.keep_all()
        job = (await world.cell()).jobs[submitted.job_id]
        assert job.state == state
        forgotten = replace(job, state="RESERVED", dispatched_at_ms=0, accepted_at_ms=0)
        await world.engine.command(
            "HSET", cell_key(world.engine.prefix, CELL, "jobs"), submitted.job_id, msgspec.msgpack.encode(forgotten)
        )
        world.now_ms += 6_000
        await doubt(world.engine, CELL, "second")
        await scene.roster.renew_all([CELL])
        job = (await world.cell()).jobs[submitted.job_id]
        assert (job.state, job.attempt, job.node) == (state, 1, "n1")


class TestAnInstanceThatWasTakenForGone:
    async def test_its_nodes_keep_what_they_brought_from_elsewhere(self, scene: Scene) -> None:
        elsewhere = Stage(scene.world, "elsewhere")
        await elsewhere.join()
        job_id = await elsewhere.put()
        assert not isinstance(await started(scene.world.engine, job_id, 1, "n1"), Refusal)
        held = elsewhere.links.get("n1")
        assert held is not None
        tape = await scene.join(epoch=held.epoch, running=[RunningAttempt(job_id=job_id, attempt_id=1)])

        assert await hand_over_nodes(scene.world.engine, [CELL], "here") == 1
        await scene.roster.renew_all()
        node = await scene.node()
        assert (node.record.used, node.record.away_until_ms, node.fenced) == (1, 0, [])
        assert (await scene.world.cell()).jobs[job_id].state == "RUNNING"
        assert tape.messages("job_cancel") == []

    async def test_they_are_told_to_stop_what_others_were_given(self, scene: Scene) -> None:
        tape = await scene.join()
        submitted = await scene.try_put()
        assert isinstance(submitted, Submitted)
        await cancel(scene.world.engine, submitted.job_id)
        await scene.roster.renew_all()
        assert [message["job_id"] for message in tape.messages("job_cancel")] == [submitted.job_id]
        assert (await scene.node()).record.used == 1

    async def test_those_that_went_elsewhere_stay_there(self, scene: Scene) -> None:
        """Nobody has read yet that their sockets here are closed."""
        tape = await scene.join()
        elsewhere = Stage(scene.world, "elsewhere")
        await elsewhere.join(epoch=scene.link().epoch)
        await scene.roster.renew_all()
        await asyncio.sleep(0)
        assert tape.closed_with == CloseCode.REPLACED
        assert instance_of((await scene.node()).profile.connection) == "elsewhere"

    async def test_whoever_comes_meanwhile_elsewhere_stays_there(self, scene: Scene) -> None:
        tape = await scene.join()
        elsewhere = Stage(scene.world, "elsewhere")
        await asyncio.gather(elsewhere.join(epoch=scene.link().epoch), scene.roster.renew_all())
        await scene.roster.renew_all()
        await asyncio.sleep(0)
        assert tape.closed_with == CloseCode.REPLACED
        assert instance_of((await scene.node()).profile.connection) == "elsewhere"

    async def test_one_that_closes_meanwhile_is_not_taken_in_again(self, scene: Scene) -> None:
        await scene.join()
        renewing = asyncio.create_task(scene.roster.renew_all())
        await asyncio.sleep(0)
        await scene.roster.leave(scene.link(), "closed")
        await renewing
        assert (await scene.node()).record.away_until_ms == T0 + 500

    async def test_one_that_was_handed_over_after_that_is_back_with_the_next_beat(self, scene: Scene) -> None:
        """Whoever found the instance gone was slower than its return."""
        await scene.join()
        await scene.roster.renew_all()
        assert await hand_over_nodes(scene.world.engine, [CELL], "here") == 1
        await scene.roster.keep_all()
        assert (await scene.node()).record.away_until_ms == 0
        assert isinstance(await scene.try_put(), Submitted)


class TestLeaving:
    async def test_a_closed_socket_begins_a_short_grace(self, scene: Scene) -> None:
        await scene.join()
        await scene.roster.leave(scene.link(), "closed")
        assert scene.links.get("n1") is None
        assert (await scene.node()).record.away_until_ms == T0 + 500

    async def test_one_that_we_closed_a_long_one(self, scene: Scene) -> None:
        await scene.join()
        await scene.roster.leave(scene.link(), "handover")
        assert (await scene.node()).record.away_until_ms == T0 + 10_000

    async def test_the_close_of_a_replaced_socket_changes_nothing(self, scene: Scene) -> None:
        old = await scene.join()
        replaced = scene.link()
        await scene.join()
        await asyncio.sleep(0)
        assert old.closed_with == CloseCode.REPLACED
        await scene.roster.leave(replaced, "closed")
        assert scene.links.get("n1") is not None
        assert (await scene.node()).record.away_until_ms == 0

    async def test_an_engine_that_is_away_hears_of_it_later(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await scene.join()
        run, calls = scene.world.engine.run, 0

        def away(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise DependencyDown("TEST", "away")
            return run(*args)

        with monkeypatch.context() as patched:
            patched.setattr(scene.world.engine, "run", away)
            await scene.roster.leave(scene.link(), "closed")
        assert (await scene.node()).record.away_until_ms == T0 + 500


async def test_the_operators_word_reaches_the_node(scene: Scene) -> None:
    tape = await scene.join()
    assert scene.link().control("drain", "new version")
    assert tape.messages() == [{"type": "node_control", "command": "drain", "reason": "new version"}]
