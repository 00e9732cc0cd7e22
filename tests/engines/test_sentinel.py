"""A primary that Sentinels watch: it is found, lost, and found again where it is then."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key
from tests.support.ports import free_ports
from tests.support.sentinels import NAME, Member
from tests.support.tallies import ENTER, Tally, script
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.sentinels import Trio

    Start = Callable[..., Member]

CELL = "c0"


async def until(predicate: Callable[[], object]) -> None:
    """A server whose role is changed hangs up on everybody, also on whoever asks for it."""

    def holds() -> object:
        with suppress(ConnectionError):
            return predicate()
        return False

    await asyncio.to_thread(wait_until, holds, 20)


async def test_calls_go_to_the_primary(sentinel: Trio) -> None:
    async with await Engine.connect(sentinel.url, secrets.token_hex(4)) as engine:
        assert await engine.run(ENTER, CELL, (b"x",)) == b"x"
        assert sentinel.primary().ask("LRANGE", cell_key(engine.prefix, CELL, "outbox"), 0, -1) == ["x"]


async def test_sentinels_that_are_not_there_are_passed_over(sentinel: Trio) -> None:
    nobody = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    url = f"redis+sentinel://{nobody},127.0.0.1:{sentinel.sentinels[1].port}/{NAME}"
    async with await Engine.connect(url) as engine:
        assert await engine.command("PING") == b"PONG"


async def test_a_primary_that_dies_is_replaced_and_nothing_that_a_replica_has_is_lost(own_trio: Trio) -> None:
    home, heir = own_trio.primary(), own_trio.replica()
    async with await Engine.connect(own_trio.url, secrets.token_hex(4)) as engine:
        tally, over = Tally(engine, CELL), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(tally.go_on_until(over.is_set, replicated=True))
            await until(lambda: len(tally.confirmed) > 50)
            home.server.stop()
            await until(lambda: tally.unknown)
            await until(lambda: heir.is_primary)
            over.set()
        # There is no replica any more that could have anything.
        before = len(tally.confirmed)
        await tally.go_on_until(lambda: len(tally.confirmed) > before)
        await tally.check()
        assert "errorstat_NOSCRIPT" not in heir.ask("INFO", "errorstats")


async def test_an_old_primary_that_was_not_told_yet_is_left_before_it_is(own_trio: Trio) -> None:
    home, heir = own_trio.primary(), own_trio.replica()
    # It is only told after four such times, which are eight seconds usually; and the other Sentinels after one.
    own_trio.talk_every(60_000)
    leader = own_trio.sentinels[0]
    async with await Engine.connect(f"redis+sentinel://127.0.0.1:{leader.port}/{NAME}", secrets.token_hex(4)) as engine:
        tally, over = Tally(engine, CELL), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(tally.go_on_until(over.is_set, replicated=True))
            await until(lambda: len(tally.confirmed) > 50)
            leader.ask("SENTINEL", "FAILOVER", NAME)
            await until(lambda: "name=lingua" in heir.ask("CLIENT", "LIST"))
            over.set()
        before = len(tally.confirmed)
        await tally.go_on_until(lambda: len(tally.confirmed) > before)
        assert await tally.entered() == heir.ask("LRANGE", cell_key(engine.prefix, CELL, "outbox"), 0, -1)
        assert home.is_primary
        await tally.check()


async def test_all_sentinels_gone_harm_nobody_who_is_connected_and_are_needed_for_the_next(own_trio: Trio) -> None:
    home = own_trio.primary()
    async with await Engine.connect(own_trio.url, secrets.token_hex(4)) as engine:
        tally = Tally(engine, CELL)
        await tally.enter()
        for one in own_trio.sentinels:
            one.server.stop()
        await tally.enter()
        assert len(tally.confirmed) == 2
        home.server.stop()
        home.start()
        await until(lambda: not home.ask("INFO", "persistence").count("loading:1"))
        outcomes = await asyncio.gather(*(tally.enter() for _ in range(3)))
        assert not tally.confirmed & set(outcomes)
        for one in own_trio.sentinels:
            one.watch(home.port)
        await tally.go_on_until(lambda: len(tally.confirmed) > 2)
        await tally.check()


# One Sentinel, set up as the test wants it.


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A server with these options; it goes with the test."""
    members: list[Member] = []

    def begin(*options: str, watches: int = 0) -> Member:
        own = tmp_path / f"m{len(members)}"
        own.mkdir()
        members.append(Member(own, free_ports(1)[0]))
        if watches:
            members[-1].watch(watches, *options)
        else:
            members[-1].start(*options)
        return members[-1]

    yield begin
    for member in members:
        member.server.stop()


async def test_servers_and_sentinels_have_passwords_of_their_own(start: Start) -> None:
    primary = start("--requirepass", "inner")
    watcher = start(f"sentinel auth-pass {NAME} inner", "requirepass outer", watches=primary.port)
    there = f"127.0.0.1:{watcher.port}/{NAME}"
    async with await Engine.connect(f"redis+sentinel://:inner@{there}/0?sentinel_password=outer") as engine:
        assert await engine.run(script("ack", "return { 'in' }"), CELL, (b"x",)) == b"in"
    wrong = (f":inner@{there}", f"{there}?sentinel_password=outer", f":inner@{there}?sentinel_password=inner")
    said = await refusals(*(f"redis+sentinel://{url}" for url in wrong))
    assert [("NOAUTH" in one or "WRONGPASS" in one, "inner" in one) for one in said] == [(True, False)] * 3


async def refusals(*urls: str) -> list[str]:
    """What is said instead of a connection, of each."""
    outcomes = await asyncio.gather(*(Engine.connect(url) for url in urls), return_exceptions=True)
    assert all(isinstance(outcome, DependencyDown | EngineUnfit) for outcome in outcomes)
    return [f"{type(outcome).__name__}: {outcome}" for outcome in outcomes]


async def test_a_server_that_is_no_primary_is_not_believed(start: Start) -> None:
    """The Sentinels may be late; this one was told wrong."""
    primary = start()
    replica = start("--replicaof", f"127.0.0.1 {primary.port}")
    watcher = start(watches=replica.port)
    with pytest.raises(DependencyDown, match=r"READONLY.* it is a slave"):
        await Engine.connect(f"redis+sentinel://127.0.0.1:{watcher.port}/{NAME}")


async def test_a_name_that_no_sentinel_knows_and_who_is_no_sentinel_are_refused_for_good(start: Start) -> None:
    primary = start()
    watcher = start(watches=primary.port)
    seeds = f"127.0.0.1:{watcher.port}"
    unknown, no_sentinel, one_of_each = await refusals(
        f"redis+sentinel://{seeds}/other",
        f"redis+sentinel://127.0.0.1:{primary.port}/{NAME}",
        f"redis+sentinel://127.0.0.1:{primary.port},{seeds}/other",
    )
    assert unknown == f"EngineUnfit: the Sentinel {seeds} knows no primary called other"
    assert no_sentinel.startswith(f"EngineUnfit: redis://127.0.0.1:{primary.port}/0 is no Sentinel: give redis")
    assert "is no Sentinel" in one_of_each
    assert "knows no primary" in one_of_each
