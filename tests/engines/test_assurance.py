"""What is promised is on a replica, or nobody was told so: WAIT, and what it must not hold up."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Final

import pytest

from lingua_scheduler.app import open_engine
from lingua_scheduler.config import load
from lingua_scheduler.core.errors import EngineUnfit, OutcomeUnknown
from lingua_scheduler.store import assurance
from lingua_scheduler.store.assurance import Replication
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.slots import slot_of
from tests.support.ports import free_ports
from tests.support.sentinels import Member
from tests.support.tallies import ENTER
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.clusters import Node, Sixpack
    from tests.support.sentinels import Trio

CELL: Final = "c0"
#: Whatever else this machine does, a replica that lives has it by then; and one that is frozen does not.
LONG: Final = Replication(1, 30_000)
SHORT: Final = Replication(1, 300)


class Pair:
    """A primary and its replica, and nobody who watches them."""

    def __init__(self, directory: Path) -> None:
        members = []
        for name, port in zip("ab", free_ports(2), strict=True):
            (directory / name).mkdir()
            members.append(Member(directory / name, port))
        self.primary, self.replica = members

    def start(self) -> None:
        self.primary.start()
        self.replica.start("--replicaof", f"127.0.0.1 {self.primary.port}")
        wait_until(lambda: self.replica.has_its_primary, what="the replica has its primary")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.primary.port}"

    def waits(self) -> int:
        """How often it was asked to WAIT."""
        found = re.search(r"cmdstat_wait:calls=(\d+)", self.primary.ask("INFO", "commandstats"))
        return int(found[1]) if found else 0


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    pair.start()
    yield pair
    for member in (pair.primary, pair.replica):
        member.server.thaw()
        member.server.stop()


@pytest.fixture
async def engine(pair: Pair) -> AsyncIterator[Engine]:
    async with await connect(pair.url, LONG) as engine:
        yield engine


async def connect(url: str, replication: Replication | None) -> Engine:
    return await Engine.connect(url, secrets.token_hex(4), timeout_ms=30_000, replication=replication)


async def enter(engine: Engine, item: str, cell: str = CELL) -> None:
    """Write something, and return when it is promised."""
    era = engine.era
    await engine.run(ENTER, cell, (item.encode(),))
    await engine.assured(cell, era)


def entered(member: Member, engine: Engine, cell: str = CELL) -> list[str]:
    found: list[str] = member.ask("LRANGE", cell_key(engine.prefix, cell, "outbox"), 0, -1)
    return found


async def test_what_is_promised_is_on_the_replica(pair: Pair, engine: Engine) -> None:
    for number in range(20):
        await enter(engine, str(number))
        assert entered(pair.replica, engine)[-1] == str(number)


async def test_all_of_one_tick_have_one_wait(pair: Pair, engine: Engine) -> None:
    await enter(engine, "first")
    before = pair.waits()
    await asyncio.gather(*(enter(engine, str(number)) for number in range(50)))
    assert pair.waits() == before + 1
    assert len(entered(pair.replica, engine)) == 51


async def test_nobody_waits_where_nothing_is_promised(pair: Pair) -> None:
    async with await connect(pair.url, None) as engine:
        pair.replica.server.freeze()
        await enter(engine, "x")
    assert pair.waits() == 0
    assert not pair.primary.ask("EXISTS", cell_key(engine.prefix, CELL, "witness"))


async def test_without_the_replica_the_outcome_is_unknown_and_it_was_done(pair: Pair) -> None:
    async with await connect(pair.url, SHORT) as engine:
        await enter(engine, "1")
        pair.replica.server.freeze()
        with pytest.raises(OutcomeUnknown, match=r"0 of 1 replicas .* had it within 300 ms"):
            await enter(engine, "2")
        assert entered(pair.primary, engine) == ["1", "2"]
        pair.replica.server.thaw()
        # A server that heard nothing for a while asks for what it missed; until then it has not got it.
        await asyncio.to_thread(wait_until, lambda: pair.replica.has_its_primary)
        await asyncio.to_thread(wait_until, lambda: entered(pair.replica, engine) == ["1", "2"])
        await enter(engine, "3")
        assert entered(pair.replica, engine) == ["1", "2", "3"]


async def test_more_replicas_than_there_are_promise_nothing(pair: Pair) -> None:
    async with await connect(pair.url, Replication(2, 50)) as engine:
        with pytest.raises(OutcomeUnknown, match="1 of 2 replicas"):
            await enter(engine, "x")


async def test_what_promises_nothing_is_not_held_up(pair: Pair, engine: Engine) -> None:
    pair.replica.server.freeze()
    promised = asyncio.ensure_future(enter(engine, "promised"))
    waits = lambda: "flags=b" in pair.primary.ask("CLIENT", "LIST")  # noqa: E731 - it is blocked
    await asyncio.to_thread(wait_until, waits)
    for number in range(3):
        assert await engine.run(ENTER, CELL, (b"%d" % number,)) == b"%d" % number
    assert not promised.done()
    pair.replica.server.thaw()
    await promised


async def test_what_somebody_else_did_can_be_promised_too(pair: Pair) -> None:
    """The same request, sent twice: the second writes nothing, and must not be told too much."""
    async with await connect(pair.url, None) as first, await connect(pair.url, SHORT) as second:
        await enter(second, "x")
        pair.replica.server.freeze()
        await enter(first, "job")
        with pytest.raises(OutcomeUnknown):
            await second.assured(CELL, second.era)


async def test_scripts_that_somebody_flushed_cost_nothing(pair: Pair, engine: Engine) -> None:
    await enter(engine, "1")
    pair.primary.ask("SCRIPT", "FLUSH")
    await enter(engine, "2")
    assert entered(pair.replica, engine) == ["1", "2"]


async def test_a_primary_that_gives_way_meanwhile_promises_nothing(pair: Pair, engine: Engine) -> None:
    pair.replica.server.freeze()
    promised = asyncio.ensure_future(enter(engine, "1"))
    waits = lambda: "flags=b" in pair.primary.ask("CLIENT", "LIST")  # noqa: E731
    await asyncio.to_thread(wait_until, waits)
    pair.primary.ask("REPLICAOF", "127.0.0.1", pair.replica.port)
    with pytest.raises(OutcomeUnknown, match="UNBLOCKED"):
        await promised


async def test_a_primary_that_was_none_for_a_while_promises_nothing_of_before(pair: Pair) -> None:
    """Its sockets may live on, and its replica has all that it has; but that may not be what was written."""
    async with await connect(pair.url, LONG) as engine:
        await enter(engine, "1")
        era = engine.era
        await engine.run(ENTER, CELL, (b"2",))
        pair.primary.ask("REPLICAOF", "127.0.0.1", free_ports(1)[0])
        pair.primary.ask("REPLICAOF", "NO", "ONE")
        await asyncio.to_thread(wait_until, lambda: pair.replica.has_its_primary)
        with pytest.raises(OutcomeUnknown, match="is not the primary that it was"):
            await engine.assured(CELL, era)


async def test_another_server_in_its_place_promises_nothing_of_before(pair: Pair) -> None:
    async with await connect(pair.url, LONG) as engine:
        await enter(engine, "1")
        era = engine.era
        await engine.run(ENTER, CELL, (b"2",))
        pair.primary.server.stop()
        pair.primary.start()
        await asyncio.to_thread(wait_until, lambda: engine.era != era)
        with pytest.raises(OutcomeUnknown, match="another server may serve by now"):
            await engine.assured(CELL, era)
        await asyncio.to_thread(wait_until, lambda: pair.replica.has_its_primary)
        await enter(engine, "3")


async def test_whoever_waits_when_the_client_is_closed_is_told_that_nobody_knows(pair: Pair) -> None:
    engine = await connect(pair.url, LONG)
    pair.replica.server.freeze()
    promised = asyncio.ensure_future(enter(engine, "1"))
    waits = lambda: "flags=b" in pair.primary.ask("CLIENT", "LIST")  # noqa: E731
    await asyncio.to_thread(wait_until, waits)
    await engine.close()
    with pytest.raises(OutcomeUnknown):
        await promised


@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
async def test_it_is_so_behind_sentinels_and_on_each_primary_of_a_cluster(
    request: pytest.FixtureRequest, kind: str
) -> None:
    place: Trio | Sixpack = request.getfixturevalue(kind)
    async with await connect(place.url, LONG) as engine:
        cells = list(engine.one_cell_each(CELL).values())
        await asyncio.gather(*(enter(engine, "x", cell) for cell in cells))
        members = place.servers if kind == "sentinel" else place.nodes  # type: ignore[union-attr]
        found = [member.ask("KEYS", f"{engine.prefix}:*:outbox") for member in members if not member.is_primary]
        assert sorted(key for keys in found for key in keys) == sorted(
            cell_key(engine.prefix, cell, "outbox") for cell in cells
        )


async def test_nobody_stays_connected_to_a_server_that_has_no_cell_any_more(
    own_cluster: Sixpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assurance, "_IDLE_S", 1.0)
    home = own_cluster.primary_of(slot_of(CELL))
    heir, others = own_cluster.replica_of(home), [one for one in own_cluster.primaries() if one is not home]
    async with await connect(own_cluster.url, LONG) as engine:
        cells = list(engine.one_cell_each(CELL).values())
        await asyncio.gather(*(enter(engine, "x", cell) for cell in cells))
        assert [_waits_at(one) for one in (home, *others)] == [1, 1, 1]
        heir.ask("CLUSTER", "FAILOVER")
        await asyncio.to_thread(wait_until, lambda: heir.is_primary)
        async with asyncio.timeout(60):
            # Those that have cells are asked all the time.
            while [_waits_at(one) for one in (home, heir, *others)] != [0, 1, 1, 1]:
                await asyncio.gather(*(enter(engine, "y", cell) for cell in cells), return_exceptions=True)


def _waits_at(server: Node) -> int:
    """How many wait for the replicas of this server."""
    return str(server.ask("CLIENT", "LIST")).count("name=lingua-waits")


async def test_it_is_said_at_the_start_if_there_are_too_few_replicas(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    flags = {"engine.url": pair.url, "engine.durability": "replicated", "engine.key_prefix": secrets.token_hex(4)}
    async with open_engine(load(env={}, flags=flags).settings):
        assert "replicas" not in caplog.text
    async with open_engine(load(env={}, flags=flags | {"engine.replicas": 2}).settings):
        assert "has 1 replicas, and 2 must have what is acknowledged" in caplog.text


async def test_a_user_who_may_not_wait_or_look_is_refused(pair: Pair) -> None:
    for right, advice in (("-wait", "+wait"), ("-info", "+info")):
        pair.primary.ask("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "&*", "+@all", right)
        url = pair.url.replace("//", "//guest:pw@")
        with pytest.raises(EngineUnfit) as caught:
            async with open_engine(load(env={}, flags={"engine.url": url, "engine.durability": "replicated"}).settings):
                raise AssertionError
        assert advice in str(caught.value)
