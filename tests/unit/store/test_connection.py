from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
import uvloop

from lingua_scheduler.core.errors import DependencyDown, LinguaError, OutcomeUnknown
from lingua_scheduler.store.address import parse_address
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.resp import encode
from lingua_scheduler.store.wire import Call
from tests.support.proxy import Proxy
from tests.support.servers import Server, start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

#: A call fails by itself while the engine is away, and not because somebody else's patience is over. (Its own is a
#: setting, 900 ms; how long this busy machine takes to say so is no part of it.)
LIMIT_S = 5.0


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.path) as proxy:
        yield proxy


@pytest.fixture
async def connection(proxy: Proxy) -> AsyncIterator[Connection]:
    connection = Connection(parse_address(proxy.url))
    await connection.ready()
    yield connection
    await connection.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = start_server(tmp_path)
    yield server
    server.stop()


async def failure(connection: Connection) -> LinguaError:
    """The error of a call that must fail in time."""
    started = time.monotonic()
    with pytest.raises(LinguaError) as caught:
        await connection.call("PING")
    assert time.monotonic() - started < LIMIT_S
    return caught.value


async def serves(connection: Connection) -> None:
    async with asyncio.timeout(5):
        await connection._ready.wait()
    assert await connection.call("PING") == b"PONG"


async def interrupt(proxy: Proxy, connection: Connection) -> None:
    """Cut the connection and let no new one in; return when the client knows."""
    wire = connection._wire
    assert wire is not None
    proxy.refusing = True
    proxy.cut()
    async with asyncio.timeout(5):
        await wire.closed.wait()


async def test_replies_come_in_the_order_of_the_calls(connection: Connection) -> None:
    replies = await asyncio.gather(*(connection.call("ECHO", i) for i in range(200)))
    assert replies == [b"%d" % i for i in range(200)]


async def test_a_large_call_passes_while_the_engine_reads_slowly(proxy: Proxy) -> None:
    """More than socket buffers hold: writing pauses, and what is called meanwhile follows in order."""
    # It is order that is tested, not time.
    connection = Connection(parse_address(proxy.url), timeout_ms=30_000, patience_ms=30_000)
    await connection.ready()
    proxy.delay_s = 0.005
    big = connection.call("ECHO", b"x" * 16_000_000)
    await asyncio.sleep(0)
    assert connection._wire is not None
    assert not connection._wire.writable
    small = connection.call("ECHO", b"small")
    assert len(await big) == 16_000_000
    assert await small == b"small"
    await connection.close()


class Picky(Connection):
    """As a Sentinel's connection is: where nothing can be written, somebody else must be looked for."""

    leaves_on = "READONLY"


async def test_whoever_answers_readonly_is_left_when_everything_was_answered(own_server: Server) -> None:
    async with Proxy(own_server.path) as proxy:
        connection = Picky(parse_address(proxy.url), timeout_ms=30_000, patience_ms=30_000)
        await connection.ready()
        await connection.call("SET", "a", 1)
        await connection.call("REPLICAOF", "127.0.0.1", 1)
        calls = [connection.call("SET", "a", 2), connection.call("GET", "a"), connection.call("INCR", "a")]
        refused, read, too = await asyncio.gather(*calls, return_exceptions=True)
        for error in (refused, too):
            assert isinstance(error, DependencyDown)
            assert error.reason == "READONLY"
        assert read == b"1"
        await proxy.accepted_more_than(1)
        await connection.call("REPLICAOF", "NO", "ONE")
        assert await connection.call("INCR", "a") == 2
        assert proxy.accepted == 2
        await connection.close()


async def test_a_stopped_engine_fails_calls_in_time_and_serves_again_by_itself(
    own_server: Server, tmp_path: Path
) -> None:
    connection = Connection(parse_address(own_server.url))
    await connection.ready()
    own_server.stop()
    for _ in range(2):
        error = await failure(connection)
        assert isinstance(error, DependencyDown | OutcomeUnknown)
    assert isinstance(error, DependencyDown)
    assert error.reason == "UNREACHABLE"
    again = start_server(tmp_path)
    try:
        await serves(connection)
    finally:
        await connection.close()
        again.stop()


async def test_a_frozen_engine_is_an_unknown_outcome_then_down_then_serves_again(own_server: Server) -> None:
    connection = Connection(parse_address(own_server.url))
    await connection.ready()
    own_server.freeze()
    try:
        assert isinstance(await failure(connection), OutcomeUnknown)
        down = await failure(connection)
        assert isinstance(down, DependencyDown)
        assert down.reason == "UNREACHABLE"
    finally:
        own_server.thaw()
    await serves(connection)
    await connection.close()


async def test_a_black_hole_fails_calls_in_time_and_they_work_again_after(proxy: Proxy, connection: Connection) -> None:
    proxy.arm("black_hole", "up", 0)
    assert isinstance(await failure(connection), OutcomeUnknown)
    assert isinstance(await failure(connection), DependencyDown)
    proxy.heal()
    await serves(connection)


async def test_a_call_that_waited_for_the_connection_has_no_second_full_time_for_its_reply(
    proxy: Proxy, connection: Connection
) -> None:
    loop = asyncio.get_running_loop()
    await interrupt(proxy, connection)
    first = connection.call("ECHO", "first")
    await asyncio.sleep(0)  # from now on somebody looks at the clock
    call = Call(loop.create_future(), loop.time() - 0.3)
    connection.send(encode("ECHO", "late"), call)
    proxy.refusing = False
    assert (await first, await call.future) == (b"first", b"late")
    assert loop.time() - call.born >= 0.3


@pytest.mark.parametrize("paused_s", [0.25, 0.6], ids=["almost its patience", "longer"])
async def test_a_pause_of_this_process_is_not_taken_for_one_of_the_engine(proxy: Proxy, paused_s: float) -> None:
    connection = Connection(parse_address(proxy.url), timeout_ms=300)
    await connection.ready()
    fault = proxy.arm("stall", "down", 0)
    reply = connection.call("ECHO", "here")
    await asyncio.sleep(0)
    time.sleep(paused_s)  # noqa: ASYNC251 - the pause itself
    asyncio.get_running_loop().call_later(0.1, fault.release)
    assert await reply == b"here"
    await connection.close()


async def test_a_pause_before_the_first_call_of_a_tick_was_sent_is_none_of_the_engine(proxy: Proxy) -> None:
    connection = Connection(parse_address(proxy.url), timeout_ms=300)
    await connection.ready()
    reply = connection.call("ECHO", "here")
    time.sleep(0.4)  # noqa: ASYNC251
    assert await reply == b"here"
    await connection.close()


async def test_a_short_interruption_is_waited_for(proxy: Proxy, connection: Connection) -> None:
    await interrupt(proxy, connection)
    waiting = connection.call("ECHO", "patient")
    await asyncio.sleep(0)
    proxy.refusing = False
    assert await waiting == b"patient"


async def test_a_call_whose_caller_left_before_it_was_sent_is_not_sent(proxy: Proxy, connection: Connection) -> None:
    await interrupt(proxy, connection)
    left, stayed = (connection.call("INCR", "test_connection:left") for _ in range(2))
    await asyncio.sleep(0)
    left.cancel()
    proxy.refusing = False
    assert await stayed == 1


async def test_too_many_waiting_calls_are_refused_and_the_others_served(server: Server) -> None:
    connection = Connection(parse_address(server.url), max_pending=10)
    await connection.ready()
    outcomes = await asyncio.gather(*(connection.call("ECHO", i) for i in range(12)), return_exceptions=True)
    assert outcomes[:10] == [b"%d" % i for i in range(10)]
    assert [error.reason for error in outcomes[10:] if isinstance(error, DependencyDown)] == ["OVERLOADED"] * 2
    assert await connection.call("ECHO", "room again") == b"room again"
    await connection.close()


async def test_the_url_logs_in_and_selects(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--requirepass", "secret")
    try:
        for login in (":secret@", "ops:pw@"):
            connection = Connection(parse_address(f"unix://{login}{server.path}?db=3"), name="lingua-test")
            await connection.ready()
            await connection.call("ACL", "SETUSER", "ops", "on", ">pw", "~*", "+@all")
            information = (await connection.call("CLIENT", "INFO")).decode()
            assert " name=lingua-test " in information
            assert " db=3 " in information
            await connection.close()
    finally:
        server.stop()


@pytest.mark.parametrize(("login", "reason"), [("", "NOAUTH"), (":wrong@", "WRONGPASS"), (":secret@?db=99", "REFUSED")])
async def test_a_refused_login_is_an_engine_away_with_that_reason(tmp_path: Path, login: str, reason: str) -> None:
    server = start_server(tmp_path, "--requirepass", "secret")
    user, _, query = login.partition("?")
    connection = Connection(parse_address(f"unix://{user}{server.path}?{query or 'db=0'}"))
    try:
        error = await failure(connection)
        assert isinstance(error, DependencyDown)
        assert error.reason == reason
    finally:
        await connection.close()
        server.stop()


async def test_an_engine_without_room_for_clients_is_away_until_it_has(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--maxclients", "1")
    first = Connection(parse_address(server.url))
    await first.ready()
    second = Connection(parse_address(server.url))
    try:
        error = await failure(second)
        assert isinstance(error, DependencyDown)
        # On a Unix socket our greeting may break on the closed end before the engine's word was read.
        assert error.reason in {"MAXCLIENTS", "UNREACHABLE"}
        await first.close()
        await serves(second)
    finally:
        await first.close()
        await second.close()
        server.stop()


@pytest.mark.parametrize(
    ("speech", "why"),
    [(b"$5\r\nhello\r\n$5\r\nworld\r\n", "nobody asked for"), (b"+hello\r\nHTTP/1.1 400\r\n", "no reply")],
)
async def test_a_server_that_speaks_out_of_turn_is_left(tmp_path: Path, speech: bytes, why: str) -> None:
    """A reply too many would be the next caller's; so the connection ends, and nobody gets it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PING\r\n")
        writer.write(b"+OK\r\n+PONG\r\n")
        await reader.readuntil(b"hello\r\n")
        writer.write(speech)
        await reader.read()
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(answer, path):
        connection = Connection(parse_address(f"unix://{path}"))
        await connection.ready()
        wire = connection._wire
        assert wire is not None
        assert await connection.call("ECHO", "hello") == b"hello"
        async with asyncio.timeout(5):
            await wire.closed.wait()
        assert why in wire.why
        await connection.close()


async def test_closing_while_the_engine_is_away_ends_the_waiting_calls(tmp_path: Path) -> None:
    connection = Connection(parse_address(f"unix://{tmp_path}/nobody"))
    waiting = connection.call("PING")
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(DependencyDown, match="CLOSED"):
        await waiting
    with pytest.raises(DependencyDown, match="CLOSED"):
        await connection.call("PING")


async def test_an_engine_that_was_never_there_is_reported_by_ready(tmp_path: Path) -> None:
    connection = Connection(parse_address(f"unix://{tmp_path}/nobody"), timeout_ms=50)
    with pytest.raises(DependencyDown, match=r"UNREACHABLE.*nobody"):
        await connection.ready()
    await connection.close()


def test_a_call_whose_time_is_almost_over_fails_in_time_on_the_loop_that_serves(tmp_path: Path) -> None:
    """To uvloop what is due within half a millisecond is due now, and what it gives for that is no timer."""

    async def fail_in_time() -> None:
        address = parse_address(f"unix://{tmp_path}/nobody")
        connection = Connection(address, timeout_ms=900, patience_ms=50, backoff_ms=(5_000, 5_000))
        loop = asyncio.get_running_loop()
        for left_s in (0.0002, 0.0, 0.02):
            future = loop.create_future()
            connection.send(encode("PING"), Call(future, loop.time() - 0.05 + left_s))
            connection.flush()
            with pytest.raises(DependencyDown):
                async with asyncio.timeout(5):
                    await future
        await connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(fail_in_time())
