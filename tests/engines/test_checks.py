"""What is looked at before a Cluster, or what Sentinels watch, is used; and that each kind needs its own URL."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.app import open_engine
from lingua_scheduler.config import Settings
from lingua_scheduler.core.errors import DependencyDown, EngineUnfit
from lingua_scheduler.store.address import parse_place
from lingua_scheduler.store.checks import check_engine, used_commands
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.slots import slot_of
from tests.support.clusters import Sixpack
from tests.support.logs import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Node
    from tests.support.sentinels import Trio
    from tests.support.servers import HasUrl

CELL = "c0"


async def check(url: str) -> None:
    async with await Engine.connect(url) as engine:
        await check_engine(engine, parse_place(url), CELL)


async def refusal(url: str) -> str:
    with pytest.raises(EngineUnfit) as caught:
        await check(url)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
async def test_the_app_takes_what_is_well_without_a_word(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    place: HasUrl = request.getfixturevalue(kind)
    async with open_engine(Settings.model_validate({"engine": {"url": place.url}})) as (engine, embedded):
        assert embedded is None
        assert await engine.command("PING") == b"PONG"
    assert not caplog.records


async def test_a_server_of_a_cluster_is_refused_where_one_server_is_meant(cluster: Sixpack) -> None:
    url = f"redis://127.0.0.1:{cluster.nodes[0].port}"
    assert "is a server of a Cluster, which keeps only some of the cells: give its URL as redis+cluster://" in (
        await refusal(url)
    )


async def test_also_if_it_does_not_say_what_it_is(cluster: Sixpack) -> None:
    other = next(node for node in cluster.primaries() if node is not cluster.primary_of(slot_of(CELL)))
    other.ask("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "+@all", "-info")
    try:
        said = await refusal(f"redis://guest:pw@127.0.0.1:{other.port}")
    finally:
        other.ask("ACL", "DELUSER", "guest")
    assert "MOVED" in said
    assert said.endswith("give its URL as redis+cluster://host:port, with some servers of the Cluster")


async def test_one_server_is_refused_where_a_cluster_is_meant(sentinel: Trio) -> None:
    said = await refusal(f"redis+cluster://127.0.0.1:{sentinel.primary().port}")
    assert "is no server of a Cluster: give its URL as redis://" in said


async def test_a_sentinel_is_refused_where_one_server_is_meant(sentinel: Trio) -> None:
    said = await refusal(f"redis://127.0.0.1:{sentinel.sentinels[0].port}")
    assert "is a Sentinel, which keeps no data: give redis+sentinel://" in said


@pytest.mark.parametrize(("kind", "beside"), [("cluster", ("+cluster|slots", "+asking")), ("sentinel", ("+role",))])
async def test_a_user_with_the_rights_that_the_documents_name_has_enough(
    request: pytest.FixtureRequest, kind: str, beside: tuple[str, ...]
) -> None:
    place: Sixpack | Trio = request.getfixturevalue(kind)
    servers = place.nodes if isinstance(place, Sixpack) else place.servers
    rights = ["+evalsha", "+script|load", "+ping", "+client|setname", *beside]
    rights += [f"+{command.lower()}" for command in used_commands()]
    for server in servers:
        server.ask("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~lingua:v1:*", *rights)
    try:
        url = place.url.replace("://", "://guest:pw@")
        async with open_engine(Settings.model_validate({"engine": {"url": url}})):
            pass
        # And no less would do.
        for server in servers:
            server.ask("ACL", "SETUSER", "guest", beside[0].replace("+", "-"))
        with pytest.raises(DependencyDown, match="NOPERM"):
            await check(url)
    finally:
        for server in servers:
            server.ask("ACL", "DELUSER", "guest")


# Every primary is looked at, not only that of the cell.


@pytest.fixture(params=range(3))
def primary(request: pytest.FixtureRequest, cluster: Sixpack) -> Iterator[Node]:
    """Each of them in turn; at the end it is as it was."""
    node = cluster.primaries()[request.param]
    yield node
    for name, value in {"maxmemory": 0, "maxmemory-policy": "noeviction", "appendonly": "yes"}.items():
        node.ask("CONFIG", "SET", name, value)


async def test_a_primary_that_drops_keys_is_named(cluster: Sixpack, primary: Node) -> None:
    primary.ask("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    said = await refusal(cluster.url)
    assert said.startswith(f"redis://127.0.0.1:{primary.port}/0 drops keys when its memory is full")
    primary.ask(*shlex.split(said.rpartition(": ")[2]))
    await check(cluster.url)


async def test_a_primary_that_keeps_nothing_is_named(
    cluster: Sixpack, primary: Node, caplog: pytest.LogCaptureFixture
) -> None:
    primary.ask("CONFIG", "SET", "appendonly", "no")
    await check(cluster.url)
    assert [one["reason"].split(";")[0] for one in told(caplog, "check")] == [
        f"redis://127.0.0.1:{primary.port}/0 keeps nothing on disk: when it dies, every node and job is forgotten"
    ]


async def test_a_primary_that_forbids_a_command_is_named(cluster: Sixpack, primary: Node) -> None:
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", "+@all")
    try:
        url = cluster.url.replace("://", "://guest:pw@")
        await check(url)
        primary.ask("ACL", "SETUSER", "guest", "-hset")
        said = await refusal(url)
        assert said.startswith(f"redis://127.0.0.1:{primary.port}/0 gives the user guest too few rights")
        primary.ask(*shlex.split(said[said.index("ACL SETUSER guest ") :]))
        await check(url)
    finally:
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "guest")
