"""The stream is spoiled at every position: no caller ever gets another caller's reply."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.store.address import parse_address
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.scripts import compose
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.proxy import Direction, Kind
    from tests.support.servers import Server

#: Counts how often it ran for each token, and gives the token back.
_BODY: Final = """#!lua
local out = {}
for i = 3, #ARGV do
  redis.call('HINCRBY', KEY.counts, ARGV[i], 1)
  out[#out + 1] = ARGV[i]
end
return out"""

ACK: Final = compose("ack", lambda _: _BODY)
DONE: Final = compose("done", lambda _: _BODY.replace("out", "answers"))
TICKS: Final = 3
CALLS: Final = 4


@pytest.fixture
async def direct(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with await Engine.connect(server.url, prefix=request.node.name) as engine:
        yield engine


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.path) as proxy:
        yield proxy


@pytest.fixture
async def engine(proxy: Proxy, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with await Engine.connect(proxy.url, prefix=request.node.name) as engine:
        await asyncio.gather(engine.run(ACK, "warm", (b"x",)), engine.run(DONE, "warm", (b"x",)))
        yield engine


async def calls(engine: Engine, cell: str) -> dict[bytes, asyncio.Future[bytes]]:
    """A few ticks of calls, one after the other without waiting for replies; each has a token of its own."""
    futures: dict[bytes, asyncio.Future[bytes]] = {}
    for tick in range(TICKS):
        for call in range(CALLS):
            for name, script in (("ack", ACK), ("done", DONE)):
                token = f"{cell}-{tick}{call}{name}".encode()
                futures[token] = engine.run(script, cell, (token,))
        token = f"{cell}-{tick}echo".encode()
        futures[token] = engine.command("ECHO", token)
        await asyncio.sleep(0)
    return futures


async def verify(direct: Engine, cell: str, futures: dict[bytes, asyncio.Future[bytes]]) -> set[type]:
    """Everybody got the own token, or an error that tells the truth. Returns the kinds of outcome."""
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*futures.values(), return_exceptions=True)
    pairs = iter(await direct.command("HGETALL", f"{direct.prefix}:{{{cell}}}:counts"))
    runs = {token: int(times) for token, times in zip(pairs, pairs, strict=True)}
    for token, outcome in zip(futures, outcomes, strict=True):
        times = runs.get(token, 0)
        if isinstance(outcome, DependencyDown):
            assert times == 0, f"{token!r} was executed, but its caller heard {outcome}"
        elif isinstance(outcome, OutcomeUnknown | asyncio.CancelledError):
            assert times <= 1, f"{token!r} was executed {times} times"
        else:
            assert outcome == token
            assert times == 1 or token.endswith(b"echo")
    return {type(outcome) for outcome in outcomes}


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", ["cut", "reset"])
async def test_wherever_the_stream_ends_no_caller_gets_anothers_reply(
    proxy: Proxy, engine: Engine, direct: Engine, kind: Kind, direction: Direction
) -> None:
    seen: set[type] = set()
    # Every byte for the cut; the reset differs from it only in how the client hears of it.
    for position in itertools.count(0, 1 if kind == "cut" else 7):
        cell, before = f"c{position}", proxy.accepted
        proxy.arm(kind, direction, position)
        futures = await calls(engine, cell)
        seen |= await verify(direct, cell, futures)
        if proxy.fault is not None:
            break
        async with asyncio.timeout(5):
            await proxy.accepted_more_than(before)
        assert await engine.run(ACK, cell, (b"after",)) == b"after"
    assert position > (1000 if direction == "up" else 300)
    assert {bytes, OutcomeUnknown} <= seen


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_new_connection_may_break_at_any_byte_of_its_greeting(
    proxy: Proxy, engine: Engine, direction: Direction
) -> None:
    for position in itertools.count(0, 3):
        before = proxy.accepted
        proxy.arm("cut", direction, position)
        proxy.cut()
        async with asyncio.timeout(5):
            await proxy.accepted_more_than(before)
        if isinstance(await outcome(engine.run(ACK, "c0", (b"x",))), OutcomeUnknown):
            break  # the greeting was through, the cut met the call
    assert position > (300 if direction == "up" else 80)
    assert await engine.run(ACK, "c0", (b"after",)) == b"after"


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_black_hole_at_any_position_gives_no_caller_anothers_reply(
    server: Server, direct: Engine, direction: Direction
) -> None:
    async with Proxy(server.path) as proxy:
        connection = Connection(parse_address(proxy.url), timeout_ms=60, patience_ms=40)
        async with Engine(connection, prefix=direct.prefix) as engine:
            for position in range(0, 1200 if direction == "up" else 350, 50):
                cell = f"c{position}"
                # Generous for a busy machine: 60 ms may pass without any fault.
                async with asyncio.timeout(10):
                    while not isinstance(await outcome(engine.run(ACK, cell, (b"before",))), bytes):
                        pass
                proxy.arm("black_hole", direction, position)
                await verify(direct, cell, await calls(engine, cell))
                proxy.heal()


@pytest.mark.parametrize("spoil", ["dribble", "delay"])
async def test_a_slow_stream_only_takes_longer(proxy: Proxy, engine: Engine, direct: Engine, spoil: str) -> None:
    if spoil == "dribble":
        proxy.dribble = 1
    else:
        proxy.delay_s = 0.01
    assert await verify(direct, "c0", await calls(engine, "c0")) == {bytes}


async def test_a_lost_reply_is_an_unknown_outcome_and_the_call_is_not_repeated(
    proxy: Proxy, engine: Engine, direct: Engine
) -> None:
    proxy.drop_reply()
    with pytest.raises(OutcomeUnknown):
        await engine.run(ACK, "c0", (b"x",))
    assert await engine.run(DONE, "c0", (b"y",)) == b"y"
    assert await direct.command("HGETALL", f"{direct.prefix}:{{c0}}:counts") == [b"x", b"1", b"y", b"1"]


@pytest.mark.parametrize("seed", range(4))
async def test_cancelled_callers_leave_no_reply_for_others(
    proxy: Proxy, engine: Engine, direct: Engine, seed: int
) -> None:
    rng = random.Random(seed)
    seen: set[type] = set()
    for turn in range(40):
        cell, before = f"c{turn}", proxy.accepted
        proxy.dribble = rng.choice([0, 0, 1, 7, 100])
        armed = rng.random() < 0.3
        if armed:
            proxy.arm("cut", rng.choice(["up", "down"]), rng.randrange(900))
        futures = await calls(engine, cell)
        victims = rng.sample(list(futures.values()), rng.randrange(1, len(futures)))
        for victim in victims:
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
            victim.cancel()
        seen |= await verify(direct, cell, futures)
        if armed and proxy.fault is None:
            async with asyncio.timeout(5):
                await proxy.accepted_more_than(before)
        proxy.fault = None
        assert await engine.run(ACK, cell, (b"after",)) == b"after"
    assert {bytes, asyncio.CancelledError, OutcomeUnknown} <= seen


async def outcome(future: asyncio.Future[bytes]) -> bytes | LinguaError:
    try:
        return await future
    except LinguaError as error:
        return error
