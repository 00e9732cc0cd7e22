"""The presence keeper: an instance is there while it beats, says when it was taken for gone, and ends its presence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, NameTaken
from lingua_scheduler.flows.close_inbox import Closed, close_inbox
from lingua_scheduler.flows.enlist import enlist
from lingua_scheduler.loops.presence import PresenceKeeper
from lingua_scheduler.views.instance import read_instance
from tests.support.house import eventually
from tests.support.logs import told
from tests.support.mail import arrive, die, listed, look, presence_of, send

if TYPE_CHECKING:
    from lingua_scheduler.core.letter import Presence
    from tests.support.world import World


def keeper_of(world: World, instance_id: str = "a", interval_ms: int = 3_600_000) -> Keeper:
    return Keeper(world, presence_of(instance_id), interval_ms)


class Keeper(PresenceKeeper):
    """One that holds nothing, and keeps what it says of its end."""

    def __init__(self, world: World, presence: Presence, interval_ms: int = 3_600_000) -> None:
        self.usurped = 0
        self.left: list[str] = []
        super().__init__(
            world.engine, interval_ms, lambda: presence, self._nothing, usurped=self._lost, left=self._leave
        )

    async def _nothing(self) -> None:
        pass

    def _lost(self) -> None:
        self.usurped += 1

    async def _leave(self, instance_id: str) -> None:
        self.left.append(instance_id)


async def test_it_is_there_while_it_runs_and_leaves_nothing_but_a_note(world: World) -> None:
    async with keeper_of(world, interval_ms=1) as keeper:
        await eventually(lambda: beats(world, 3))
        assert await look(world.engine, "a") == (True, 0, 0)
    assert keeper.missed_turns == 0
    assert await look(world.engine, "a") == (False, 0, 0)
    assert await listed(world) == {}
    assert await world.keys() == 1, "that its inbox was closed"


async def beats(world: World, number: int) -> bool:
    """Time stands still here, so each beat is one more."""
    return (await listed(world)).get("a", 0) >= world.now_ms + number


@pytest.mark.parametrize("step", ["enlist", "appear"])
async def test_it_ends_in_the_middle_of_a_beat_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from lingua_scheduler.loops import presence as module  # noqa: PLC0415 - what is held up here

    real, reached = getattr(module, step), asyncio.Event()

    async def stay(*args: object) -> object:
        answer = await real(*args)
        if (await listed(world))["a"] > world.now_ms and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return answer

    monkeypatch.setattr(module, step, stay)
    async with keeper_of(world, interval_ms=1), asyncio.timeout(10):
        await reached.wait()
    assert await look(world.engine, "a") == (False, 0, 0)
    assert await listed(world) == {}


async def test_what_lies_in_its_inbox_at_the_end_stays_there(world: World) -> None:
    keeper = keeper_of(world)
    await keeper.turn()
    await send(world.engine, "a", "one")
    await keeper.__aexit__(None, None, None)
    assert await look(world.engine, "a") == (False, 1, 0)
    assert list(await listed(world)) == ["a"]
    assert keeper.left == ["a"], "so that others need not find it out"


async def test_an_end_takes_nobody_else_s_presence_away(world: World) -> None:
    """Another process goes by the same name by now."""
    keeper = keeper_of(world)
    await keeper.turn()
    keeper._said = presence_of("a", nodes=7)
    await keeper.__aexit__(None, None, None)
    assert (await look(world.engine, "a"))[0]
    assert list(await listed(world)) == ["a"]


async def test_who_was_taken_for_gone_says_so_and_is_there_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = keeper_of(world)
    await keeper.turn()
    await keeper.turn()
    assert caplog.text == ""
    await die(world.engine, "a")
    await keeper.turn()
    assert [one["instance_id"] for one in told(caplog, "presence")] == ["a"]
    assert (await look(world.engine, "a"))[0]


async def test_who_is_struck_out_between_two_steps_of_a_beat_beats_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keeper_of(world)

    async def enlist_and_be_closed(*args: object) -> object:
        answer = await enlist(*args)  # type: ignore[arg-type]  # as it was called
        assert await close_inbox(world.engine, "a", answer.beat) == Closed()  # type: ignore[union-attr]
        return answer

    with monkeypatch.context() as patched:
        patched.setattr("lingua_scheduler.loops.presence.enlist", enlist_and_be_closed)
        assert await keeper.turn()
        assert not (await look(world.engine, "a"))[0]
    assert not await keeper.turn()
    assert (await look(world.engine, "a"))[0]


async def test_an_end_without_the_engine_says_so_and_harms_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object) -> object:
        raise DependencyDown("UNREACHABLE", "gone")

    monkeypatch.setattr("lingua_scheduler.loops.presence.vanish", away)
    async with keeper_of(world):
        await eventually(lambda: beats(world, 0))
    assert told(caplog, "vanish")


async def test_one_that_never_beat_has_nothing_to_end(world: World) -> None:
    await arrive(world.engine, "a")
    await keeper_of(world).__aexit__(None, None, None)
    assert (await look(world.engine, "a"))[0]


def another(**said: Any) -> Presence:
    return msgspec.structs.replace(presence_of("a"), **said)


class TestANameThatAnotherProcessHas:
    async def test_whoever_comes_second_is_refused_in_the_end(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        await arrive(world.engine, "a")
        keeper = Keeper(world, another(pid=8))
        with pytest.raises(NameTaken, match=r"process 7 on here, http://127.0.0.1:5010"):
            await keeper.begin(0.3, lambda _: False)
        assert [one["seconds"] for one in told(caplog, "presence")] == [0.3]
        assert keeper.usurped == 0

    async def test_it_is_waited_for(self, world: World) -> None:
        await arrive(world.engine, "a")
        beginning = asyncio.create_task(Keeper(world, another(pid=8)).begin(60, lambda _: False))
        await asyncio.sleep(0)
        await die(world.engine, "a")
        await beginning
        assert (await read_instance(world.engine, "a")).presence == another(pid=8)  # type: ignore[union-attr]

    async def test_not_if_the_other_is_known_to_be_gone(self, world: World) -> None:
        await arrive(world.engine, "a")
        asked: list[Presence] = []

        def is_gone(other: Presence) -> bool:
            asked.append(other)
            return True

        await Keeper(world, another(started_at_ms=2_000)).begin(0, is_gone)
        assert asked == [presence_of("a")]
        assert (await read_instance(world.engine, "a")).presence == another(started_at_ms=2_000)  # type: ignore[union-attr]

    async def test_whoever_had_it_first_and_slept_ends(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        first, second = keeper_of(world), Keeper(world, another(host="there"))
        await first.turn()
        await die(world.engine, "a")
        await second.begin(0, lambda _: False)
        assert not await first.turn()
        assert (first.usurped, second.usurped) == (1, 0)
        assert "process 7 on there" in caplog.text
        assert not await second.turn()
        await first.__aexit__(None, None, None)
        assert (await look(world.engine, "a"))[0]


async def test_a_presence_without_a_name_says_so(world: World) -> None:
    with pytest.raises(LinguaError, match="instance_id must be"):
        await keeper_of(world, "no body").turn()
