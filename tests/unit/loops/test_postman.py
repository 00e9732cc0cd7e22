"""The postman: every letter is handled or a dead letter, whoever fails, and in whatever step somebody dies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.core.letter import MAX_DELIVERIES, Letter, UnknownKind
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.flows.collect import collect
from lingua_scheduler.flows.mail import parcels
from lingua_scheduler.flows.post import Sent, post
from lingua_scheduler.loops.postman import MAX_CARRIED
from lingua_scheduler.views.dead_letters import DeadLetters, read_dead_letters
from tests.support.house import eventually
from tests.support.logs import told
from tests.support.mail import arrive, key, letter, look, read, rest, send
from tests.support.post_office import Addressee, bell_of, kill, postman_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.store.engine import Engine
    from tests.support.servers import Server
    from tests.support.world import World


@pytest.fixture
async def bell(server: Server, world: World) -> AsyncIterator[Engine]:
    await arrive(world.engine, "a")
    async with bell_of(server.url, world.engine) as bell:
        yield bell


async def is_empty(world: World, instance_id: str = "a") -> bool:
    return (await look(world.engine, instance_id))[1] == 0


async def dead(world: World) -> dict[str, tuple[str, int]]:
    """By what a dead letter says, its reason and how often it was handed out."""
    found = await read_dead_letters(world.engine)
    assert isinstance(found, DeadLetters)
    return {one.letter.detail: (one.reason, one.deliveries) for _, one in found.page}


async def about(world: World, job_id: str, *details: str) -> None:
    for detail in details:
        assert isinstance(await post(world.engine, "a", Letter("news", job_id, detail=detail)), Sent)


async def test_letters_are_handed_over_in_their_order_and_settled(world: World, bell: Engine) -> None:
    addressee = Addressee()
    await send(world.engine, "a", "one", "two")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
        # It waits at its bell now, longer than this test.
        await send(world.engine, "a", "three")
        await eventually(lambda: is_empty(world))
    assert addressee.read == ["one", "two", "three"]
    assert await look(world.engine, "a") == (True, 0, 0)


async def test_what_was_taken_before_a_restart_comes_first(world: World, bell: Engine) -> None:
    addressee = Addressee()
    details = [f"{number:03}" for number in range(MAX_CARRIED + 10)]
    await send(world.engine, "a", *details)
    await read(world.engine, "a", limit=MAX_CARRIED + 5)
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert addressee.read == details


async def test_one_slow_letter_holds_up_only_those_about_the_same(world: World, bell: Engine) -> None:
    addressee = Addressee()
    addressee.gates["slow"] = asyncio.Event()
    await about(world, "c0.a", "slow", "next")
    await about(world, "c0.b", "other")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: read_is(addressee, ["other"]))
        assert addressee.begun == ["slow", "other"]
        addressee.gates["slow"].set()
        await eventually(lambda: is_empty(world))
    assert addressee.read == ["other", "slow", "next"]


async def read_is(addressee: Addressee, details: list[str]) -> bool:
    return addressee.read == details


async def test_only_so_many_are_handled_at_once_and_all_are(world: World, bell: Engine) -> None:
    addressee = Addressee()
    details = [str(number) for number in range(MAX_CARRIED + 8)]
    gate = asyncio.Event()
    addressee.gates = dict.fromkeys(details, gate)
    for detail in details:
        await about(world, f"c0.{detail}", detail)

    async def are_begun() -> bool:
        return len(addressee.begun) == MAX_CARRIED

    async with postman_of(world.engine, bell, "a", addressee) as postman:
        await eventually(are_begun)
        assert (postman.room, (await look(world.engine, "a"))[2]) == (0, MAX_CARRIED)
        gate.set()
        await eventually(lambda: is_empty(world))
    assert sorted(addressee.read) == sorted(details)


async def test_a_letter_that_fails_comes_again_and_holds_up_no_other(
    world: World, bell: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    addressee = Addressee()
    addressee.failures["bad"] = [OSError("the node's socket is gone") for _ in range(MAX_DELIVERIES - 1)]
    await send(world.engine, "a", "bad", "good")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert addressee.read == ["good", "bad"]
    assert addressee.begun.count("bad") == MAX_DELIVERIES
    assert await dead(world) == {}
    assert (MAX_DELIVERIES - 1, MAX_DELIVERIES) in [(one["number"], one["most"]) for one in told(caplog, "postman")]


async def test_letters_that_hang_are_given_up_one_try_after_the_other_and_stop_nobody(
    world: World, bell: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """As many as are handled at once, and one more behind each of them."""
    addressee = Addressee()
    addressee.gates["hangs"] = asyncio.Event()
    for number in range(MAX_CARRIED):
        await about(world, f"c0.{number}", "hangs", "next")
    await about(world, "c0.x", "other")
    async with postman_of(world.engine, bell, "a", addressee, patience_ms=50):
        await eventually(lambda: is_empty(world))
    assert sorted(addressee.read) == ["next"] * MAX_CARRIED + ["other"]
    assert addressee.begun.count("hangs") == MAX_CARRIED * MAX_DELIVERIES
    assert await dead(world) == {"hangs": ("TimeoutError: it was not over after 0.05 s", MAX_DELIVERIES)}
    assert (1, MAX_DELIVERIES) in [(one["number"], one["most"]) for one in told(caplog, "postman")]


async def test_a_letter_that_always_fails_is_a_dead_letter_with_reason_and_count(
    world: World, bell: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    addressee = Addressee()
    addressee.failures["bad"] = [OSError("the node's socket is gone") for _ in range(MAX_DELIVERIES)]
    await send(world.engine, "a", "bad")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert await dead(world) == {"bad": ("OSError: the node's socket is gone", MAX_DELIVERIES)}
    assert addressee.begun.count("bad") == MAX_DELIVERIES
    assert told(caplog, "bury")


async def test_how_often_a_letter_was_tried_outlives_whoever_tried(world: World, bell: Engine) -> None:
    (number,) = await send(world.engine, "a", "bad")
    await read(world.engine, "a")
    inbox = key(world.engine, "a", "inbox")
    await world.engine.command("XCLAIM", inbox, "readers", "a", 0, number, "RETRYCOUNT", MAX_DELIVERIES - 1, "JUSTID")
    addressee = Addressee()
    addressee.failures["bad"] = [OSError("gone")]
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert await dead(world) == {"bad": ("OSError: gone", MAX_DELIVERIES)}


async def test_a_letter_that_this_release_does_not_know_waits_for_one_that_does(world: World, bell: Engine) -> None:
    """As in an upgrade: it came from a newer release. Who reads it next, here after a restart, may know it."""
    old, new = Addressee(), Addressee()
    old.failures["odd"] = [UnknownKind("riddle")]
    await send(world.engine, "a", "odd", "good")
    async with postman_of(world.engine, bell, "a", old, pauses_ms=(1, 10_000)):
        await eventually(lambda: read_is(old, ["good"]))
    assert await look(world.engine, "a") == (True, 1, 1)
    async with postman_of(world.engine, bell, "a", new):
        await eventually(lambda: is_empty(world))
    assert (old.begun, new.read, await dead(world)) == (["odd", "good"], ["odd"], {})


async def test_a_letter_that_no_release_knows_is_a_dead_letter_in_the_end(world: World, bell: Engine) -> None:
    addressee = Addressee()
    addressee.failures["odd"] = [UnknownKind("riddle") for _ in range(MAX_DELIVERIES)]
    await send(world.engine, "a", "odd")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert await dead(world) == {"odd": ("riddle", MAX_DELIVERIES)}


async def test_pauses_grow_up_to_a_bound(world: World, bell: Engine) -> None:
    postman = postman_of(world.engine, bell, "a", Addressee(), pauses_ms=(100, 10_000))
    (number,) = await send(world.engine, "a", "one")
    pauses = [
        postman._pause_s(*parcels("a", [(number, deliveries, letter())])) for deliveries in range(1, MAX_DELIVERIES)
    ]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


async def test_a_letter_that_another_settled_meanwhile_is_not_tried_again(world: World, bell: Engine) -> None:
    addressee = Addressee()
    inbox = key(world.engine, "a", "inbox")
    await send(world.engine, "a", "bad")

    class CutOut(Addressee):
        async def hand_over(self, letter: Letter) -> None:
            self.begun.append(letter.detail)
            await world.engine.command("XTRIM", inbox, "MAXLEN", 0)
            raise OSError("gone")

    addressee = CutOut()
    async with postman_of(world.engine, bell, "a", addressee) as postman:

        async def is_forgotten() -> bool:
            return bool(addressee.begun) and not postman._held

        await eventually(is_forgotten)
    assert (addressee.begun, await dead(world)) == (["bad"], {})


async def test_what_a_lost_answer_named_is_found_again(
    world: World, bell: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gave the letters out, and nobody heard: they are this reader's all the same."""
    await send(world.engine, "a", "one", "two")
    lost = 0

    async def deaf(*args: object) -> object:
        nonlocal lost
        answer = await collect(*args)  # type: ignore[arg-type]  # as it was called
        if lost < 2:
            lost += 1
            raise OutcomeUnknown("no reply came")
        return answer

    monkeypatch.setattr("lingua_scheduler.loops.postman.collect", deaf)
    addressee = Addressee()
    async with postman_of(world.engine, bell, "a", addressee) as postman:

        async def has_missed_both() -> bool:
            return postman.missed_turns == 2

        await eventually(has_missed_both)
        await eventually(lambda: is_empty(world))
    assert addressee.read == ["one", "two"]


@pytest.mark.parametrize("step", ["settle", "bury", "collect_again"])
async def test_an_engine_that_is_away_for_a_moment_loses_nothing(
    world: World, bell: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    from lingua_scheduler.loops import postman as module  # noqa: PLC0415 - what is broken here

    real, outages = getattr(module, step), [DependencyDown("LOADING", "not yet"), OutcomeUnknown("no reply came")]

    async def away(*args: object) -> object:
        if outages:
            raise outages.pop()
        return await real(*args)

    monkeypatch.setattr(module, step, away)
    addressee = Addressee()
    addressee.failures = {"again": [OSError("gone")], "odd": [OSError("gone") for _ in range(MAX_DELIVERIES)]}
    await send(world.engine, "a", "again", "odd", "good")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: is_empty(world))
    assert outages == []
    assert sorted(addressee.read) == ["again", "good"]
    assert await dead(world) == {"odd": ("OSError: gone", MAX_DELIVERIES)}


async def test_a_bell_that_is_broken_is_made_up_for_by_looking(world: World, bell: Engine) -> None:
    addressee = Addressee()
    await bell.close()
    async with postman_of(world.engine, bell, "a", addressee) as postman:
        await send(world.engine, "a", "one")
        await eventually(lambda: is_empty(world))
        assert postman.missed_turns > 0
    assert addressee.read == ["one"]


async def test_a_stop_settles_what_is_handled_and_leaves_what_is_not(world: World, bell: Engine) -> None:
    addressee = Addressee()
    addressee.gates["slow"] = asyncio.Event()
    await about(world, "c0.a", "slow")
    await about(world, "c0.b", "quick")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: read_is(addressee, ["quick"]))
    assert await look(world.engine, "a") == (True, 1, 1)
    async with postman_of(world.engine, bell, "a", again := Addressee()):
        await eventually(lambda: is_empty(world))
    assert again.read == ["slow"]


async def test_a_stop_without_the_engine_says_what_comes_again(
    world: World, bell: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object) -> object:
        raise DependencyDown("UNREACHABLE", "gone")

    monkeypatch.setattr("lingua_scheduler.loops.postman.settle", away)
    addressee = Addressee()
    await send(world.engine, "a", "one")
    async with postman_of(world.engine, bell, "a", addressee):
        await eventually(lambda: read_is(addressee, ["one"]))
    assert told(caplog, "settle")
    assert await look(world.engine, "a") == (True, 1, 1)


async def test_a_postman_for_nobody_says_so(world: World, bell: Engine) -> None:
    postman = postman_of(world.engine, bell, "no body", Addressee())
    with pytest.raises(LinguaError, match="instance_id must be"):
        await postman.turn()


async def test_what_goes_wrong_beyond_that_is_told_and_the_letter_comes_again(
    world: World, bell: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("lingua_scheduler.loops.postman.settle", broken)
        addressee = Addressee()
        (number,) = await send(world.engine, "a", "one")
        async with postman_of(world.engine, bell, "a", addressee) as postman:

            async def is_given_up() -> bool:
                return bool(addressee.read) and not postman._held

            await eventually(is_given_up)
    assert "comes again when its lease is over" in caplog.text
    await rest(world.engine, "a", "a", number, 60_000)
    assert await look(world.engine, "a") == (True, 1, 1)


@pytest.mark.parametrize("step", ["collected", "handing over", "handed over", "buried"])
async def test_whoever_is_killed_in_whatever_step_the_letter_is_handled_after_a_restart(
    world: World, bell: Engine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first, reached = Addressee(), asyncio.Event()

    async def stay(*_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    async def bury_and_stay(*args: object) -> None:
        await bury(*args)  # type: ignore[arg-type]  # as it was called
        await stay()

    if step == "collected":
        monkeypatch.setattr("lingua_scheduler.loops.postman.Postman.take", lambda *_: reached.set())
    elif step == "handing over":
        first.hand_over = stay  # type: ignore[assignment, method-assign]  # its step is this one
    elif step == "handed over":
        monkeypatch.setattr("lingua_scheduler.loops.postman.settle", stay)
    else:
        first.failures["one"] = [OSError("gone") for _ in range(MAX_DELIVERIES)]
        monkeypatch.setattr("lingua_scheduler.loops.postman.bury", bury_and_stay)
    await send(world.engine, "a", "one")
    postman = await postman_of(world.engine, bell, "a", first).__aenter__()
    async with asyncio.timeout(10):
        await reached.wait()
    await kill(postman)
    assert await look(world.engine, "a") == (True, 1, 1)
    monkeypatch.undo()
    second = Addressee()
    if step == "buried":
        second.failures["one"] = [OSError("gone")]
    async with postman_of(world.engine, bell, "a", second):
        await eventually(lambda: is_empty(world))
    assert second.begun == ["one"]
    assert (second.read, len(await dead(world))) == (([], 1) if step == "buried" else (["one"], 0))
