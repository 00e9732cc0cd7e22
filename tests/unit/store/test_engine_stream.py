"""The stream is spoiled at every position: no caller ever gets another caller's reply."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from typing import TYPE_CHECKING, Final

import hiredis
import pytest

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.store.address import parse_address
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.scripts import compose
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.proxy import Direction, Fault, Kind
    from tests.support.servers import Server

    Futures = dict[bytes, asyncio.Future[bytes]]
    Outcomes = dict[bytes, bytes | BaseException]

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

#: Nothing here is about time, so nobody runs out of it by himself: see `run_out`.
LONG_MS: Final = 60_000
HANG_S: Final = 30.0
#: More than passes in any test.
NEVER: Final = 10**9


@pytest.fixture
async def direct(server: Server) -> AsyncIterator[Engine]:
    # In a database of its own, so that a greeting has to say so; every byte of the prefix is a position.
    async with await Engine.connect(f"{server.url}?db=3", secrets.token_hex(4), timeout_ms=LONG_MS) as engine:
        await engine.command("ACL", "SETUSER", "ops", "on", ">pw", "~*", "+@all")
        yield engine


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.path) as proxy:
        yield proxy


@pytest.fixture
async def connection(proxy: Proxy, direct: Engine) -> Connection:  # noqa: ARG001 - it makes the user
    address = parse_address(f"redis://ops:pw@127.0.0.1:{proxy.port}/3")
    return Connection(address, timeout_ms=LONG_MS, patience_ms=LONG_MS, backoff_ms=(0, 0))


@pytest.fixture
async def engine(connection: Connection, direct: Engine) -> AsyncIterator[Engine]:
    async with Engine(connection, direct.prefix) as engine:
        await asyncio.gather(engine.run(ACK, "warm", (b"x",)), engine.run(DONE, "warm", (b"x",)))
        yield engine


async def calls(engine: Engine, cell: str) -> Futures:
    """A few ticks of calls, one after the other without waiting for replies; each has a token of its own."""
    futures: Futures = {}
    for tick in range(TICKS):
        for call in range(CALLS):
            for name, script in (("ack", ACK), ("done", DONE)):
                token = f"{cell}-{tick}{call}{name}".encode()
                futures[token] = engine.run(script, cell, (token,))
        token = f"{cell}-{tick}echo".encode()
        futures[token] = engine.command("ECHO", token)
        await asyncio.sleep(0)
    return futures


async def verify(direct: Engine, cell: str, futures: Futures) -> Outcomes:
    """Everybody got the own token, or an error that tells the truth."""
    async with asyncio.timeout(HANG_S):
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
    return dict(zip(futures, outcomes, strict=True))


def kinds(outcomes: Outcomes) -> set[type]:
    return {type(outcome) for outcome in outcomes.values()}


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", ["cut", "reset"])
async def test_wherever_the_stream_ends_no_caller_gets_anothers_reply(
    proxy: Proxy, engine: Engine, direct: Engine, kind: Kind, direction: Direction
) -> None:
    """One client, at every byte in turn."""
    seen: set[type] = set()
    for position in itertools.count():
        cell, before = f"c{position}", proxy.accepted
        fault = proxy.arm(kind, direction, position)
        seen |= kinds(await verify(direct, cell, await calls(engine, cell)))
        if not fault.struck.is_set():
            break  # that is more than all calls and replies together
        assert len(fault.passed) == position
        async with asyncio.timeout(HANG_S):
            await proxy.accepted_more_than(before)
        assert await engine.run(ACK, cell, (b"after",)) == b"after"
    assert position > (1000 if direction == "up" else 300)
    assert {bytes, OutcomeUnknown} <= seen


# Fewer callers, and at each byte it is known who of them can have a reply.


async def few(engine: Engine, cell: str) -> list[Futures]:
    """Four callers in two ticks, by the replies that they wait for; all of it is on its way, if there is one."""
    echo, one, two, three = (f"{cell}-{name}".encode() for name in ("echo", "one", "two", "three"))
    first: list[Futures] = [
        {echo: engine.command("ECHO", echo)},
        {token: engine.run(ACK, cell, (token,)) for token in (one, two)},
    ]
    await asyncio.sleep(0)
    second = {three: engine.run(DONE, cell, (three,))}
    await asyncio.sleep(0)
    return [*first, second]


def together(replies: list[Futures]) -> Futures:
    return {token: future for reply in replies for token, future in reply.items()}


def whole(stream: bytearray) -> int:
    """How many calls or replies are wholly in it."""
    nothing = object()
    reader = hiredis.Reader(notEnoughData=nothing)
    reader.feed(bytes(stream))
    return sum(1 for _ in iter(reader.gets, nothing))


async def struck(fault: Fault) -> None:
    """Wait until it has happened, at its very byte."""
    async with asyncio.timeout(HANG_S):
        await fault.struck.wait()
    assert len(fault.passed) == fault.after


def run_out(connection: Connection) -> None:
    """Let the time of everybody who waits be over."""
    now = asyncio.get_running_loop().time()
    for waiter in (*connection._queue, *(connection._wire.waiters if connection._wire else ())):
        waiter.born = now - LONG_MS / 1000
    connection._watch()


async def positions(proxy: Proxy, engine: Engine, direction: Direction) -> range:
    """From before the first byte of the few callers, or their replies, to after the last. All cells are as long."""
    fault = proxy.arm("stall", direction, NEVER)
    await asyncio.gather(*together(await few(engine, "c999")).values())
    proxy.fault = None
    assert len(fault.passed) > (250 if direction == "up" else 50)
    return range(len(fault.passed) + 1)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_wherever_the_stream_is_delayed_each_reply_is_its_callers_as_soon_as_it_is_whole(
    proxy: Proxy, engine: Engine, direct: Engine, direction: Direction
) -> None:
    for position in await positions(proxy, engine, direction):
        cell = f"c{position:03}"
        fault = proxy.arm("stall", direction, position)
        replies = await few(engine, cell)
        await struck(fault)
        early, futures = together(replies[: whole(fault.passed)]), together(replies)
        async with asyncio.timeout(HANG_S):
            await asyncio.gather(*early.values())
        assert {token for token, future in futures.items() if future.done()} == early.keys()
        fault.release()
        assert kinds(await verify(direct, cell, futures)) == {bytes}
    assert proxy.accepted == 1


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", ["stall", "black_hole"])
async def test_wherever_the_stream_stands_still_for_too_long_no_caller_gets_anothers_reply(
    proxy: Proxy, connection: Connection, engine: Engine, direct: Engine, kind: Kind, direction: Direction
) -> None:
    for position in await positions(proxy, engine, direction):
        cell = f"c{position:03}"
        fault = proxy.arm(kind, direction, position)
        replies = await few(engine, cell)
        await struck(fault)
        # No reply comes back out of a hole on the way up.
        early = together(replies[: 0 if (kind, direction) == ("black_hole", "up") else whole(fault.passed)])
        async with asyncio.timeout(HANG_S):
            await asyncio.gather(*early.values())
        run_out(connection)
        outcomes = await verify(direct, cell, together(replies))
        assert {token for token, outcome in outcomes.items() if isinstance(outcome, bytes)} == early.keys()
        assert kinds(outcomes) <= {bytes, OutcomeUnknown}
        more = engine.run(ACK, cell, (b"more",))
        if kind == "stall":  # what was waited for in vain comes now
            fault.release()
            assert await more == b"more"
        else:  # a client that missed no reply learns of the hole by this one
            await asyncio.sleep(0)
            run_out(connection)
            expected = DependencyDown if OutcomeUnknown in kinds(outcomes) else OutcomeUnknown
            assert isinstance(await outcome(more), expected)
            proxy.heal()
        assert await engine.run(ACK, cell, (b"after",)) == b"after"


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("kind", ["stall", "cut", "reset", "black_hole"])
async def test_whatever_happens_to_a_greeting_leaves_no_outcome_unknown(
    proxy: Proxy, connection: Connection, engine: Engine, direct: Engine, kind: Kind, direction: Direction
) -> None:
    """Log in, select, be named, load the scripts: until that is over no call is written."""
    fault = proxy.arm("stall", direction, NEVER)
    await lose(proxy, connection)
    await connection.ready()
    assert len(fault.passed) > (400 if direction == "up" else 100)
    # After its last byte down a greeting is over.
    for position in range(len(fault.passed) + (direction == "up")):
        cell = f"c{position:03}"
        fault = proxy.arm(kind, direction, position)
        await lose(proxy, connection)
        futures = together(await few(engine, cell))
        await struck(fault)
        assert not any(future.done() for future in futures.values())
        if kind == "stall":
            fault.release()
        if kind == "black_hole":
            run_out(connection)
        outcomes = await verify(direct, cell, futures)
        assert kinds(outcomes) == {DependencyDown if kind == "black_hole" else bytes}
        proxy.heal()
        assert await engine.run(ACK, cell, (b"after",)) == b"after"


async def lose(proxy: Proxy, connection: Connection) -> None:
    """Cut the connection; return when the client knows."""
    wire = connection._wire
    assert wire is not None
    proxy.cut()
    async with asyncio.timeout(HANG_S):
        await wire.closed.wait()


@pytest.mark.parametrize("spoil", ["dribble", "delay"])
async def test_a_slow_stream_only_takes_longer(proxy: Proxy, engine: Engine, direct: Engine, spoil: str) -> None:
    if spoil == "dribble":
        proxy.dribble = 1
    else:
        proxy.delay_s = 0.01
    assert kinds(await verify(direct, "c0", await calls(engine, "c0"))) == {bytes}


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
        seen |= kinds(await verify(direct, cell, futures))
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
