"""An engine that somebody else set up: what is refused, what is only said, and that the advice helps."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import lingua_scheduler
from lingua_scheduler.app import open_engine
from lingua_scheduler.config import Settings
from lingua_scheduler.core.errors import EngineUnfit
from lingua_scheduler.store.address import Address, parse_address
from lingua_scheduler.store.checks import check_engine, findings_in, used_commands
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.finding import Level
from lingua_scheduler.store.keys import DIRECTORY, cell_key
from lingua_scheduler.store.tables import SCHEMA
from lingua_scheduler.views.audit import audit_whole
from tests.support.logs import told
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server

    Start = Callable[..., Server]

PACKAGE: Final = Path(lingua_scheduler.__file__).parent


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A server with these options; it goes with the test."""
    servers: list[Server] = []

    def begin(*options: str) -> Server:
        servers.append(start_server(tmp_path, *options))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


async def check(url: str) -> None:
    async with await Engine.connect(url) as engine:
        await check_engine(engine, parse_address(url), "c0")


async def refusal(url: str) -> str:
    with pytest.raises(EngineUnfit) as caught:
        await check(url)
    assert parse_address(url).path in str(caught.value)
    return str(caught.value)


async def obey(server: Server, advice: str) -> None:
    """Give the command that a message ends with."""
    async with await Engine.connect(server.url) as engine:
        await engine.command(*shlex.split(advice))


@pytest.mark.parametrize(
    "info",
    [
        {"valkey_version": "8.0.0", "redis_version": "7.2.4"},
        {"valkey_version": "255.255.255", "redis_version": "7.2.4"},
        {"redis_version": "7.0.0"},
        {"redis_version": "8.2.1"},
        {},
    ],
)
def test_a_version_from_the_oldest_on_is_fit(info: dict[str, str]) -> None:
    assert {finding.level for finding in findings_in(info, Address())} == {Level.OK}


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"valkey_version": "7.2.11", "redis_version": "7.2.4"}, "is Valkey 7.2.11: Valkey 8.0 or newer, or Redis"),
        ({"redis_version": "6.2.14"}, "is Redis 6.2.14: "),
        ({"redis_version": "7.2.4", "redis_mode": "sentinel"}, "is a Sentinel"),
        ({"valkey_version": "9.0.0", "server_mode": "sentinel"}, "is a Sentinel"),
    ],
)
def test_an_older_version_and_a_sentinel_are_not(info: dict[str, str], why: str) -> None:
    wrong = [str(finding.at("it")) for finding in findings_in(info, Address()) if finding.level is Level.UNFIT]
    assert [one[: len(f"it {why}")] for one in wrong] == [f"it {why}"]


async def test_an_engine_that_keeps_everything_is_taken_without_a_word(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    await check(start("--appendonly", "yes").url)
    assert not caplog.records


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "keeps nothing on disk"), (("--save", "3600 1"), "keeps snapshots only")],
)
async def test_without_an_append_only_file_it_is_said_what_that_costs(
    start: Start, caplog: pytest.LogCaptureFixture, options: tuple[str, ...], said: str
) -> None:
    server = start(*options)
    await check(server.url)
    ((level, reason),) = [(one["level"], one["reason"]) for one in told(caplog, "check")]
    assert (level, said in reason) == ("WARNING", True)
    await obey(server, reason.rpartition("; ")[2])
    caplog.clear()
    await check(server.url)
    assert not caplog.records


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_an_engine_that_drops_keys_is_refused_with_the_command_that_mends_it(start: Start, policy: str) -> None:
    server = start("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", policy)
    why = await refusal(server.url)
    assert f"maxmemory-policy is {policy}" in why
    await obey(server, why.rpartition(": ")[2])
    await check(server.url)


async def test_a_policy_for_a_memory_without_bounds_harms_nobody(start: Start) -> None:
    await check(start("--maxmemory-policy", "allkeys-lru").url)


async def test_a_replica_is_refused_with_the_name_of_its_primary(start: Start) -> None:
    assert "give the URL of its primary, 127.0.0.1:1" in await refusal(start("--replicaof", "127.0.0.1 1").url)


# Users who may not do everything.


async def guest(server: Server, *rights: str) -> str:
    await obey(server, shlex.join(["ACL", "SETUSER", "guest", "reset", "on", ">pw", "~*", *rights]))
    return f"unix://guest:pw@{server.path}"


async def test_where_config_is_forbidden_that_is_said_and_no_reason_to_refuse(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start()
    await check(await guest(server, "+@all", "-config"))
    assert ["forbids CONFIG GET" in record.message for record in caplog.records] == [True]


async def test_where_info_is_forbidden_that_is_said_and_no_reason_to_refuse(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    await check(await guest(server, "+@all", "-@dangerous"))
    assert ["forbids INFO" in record.message for record in caplog.records] == [True]


async def test_a_command_that_the_service_has_taken_away_is_as_good_as_forbidden(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    await check(start("--rename-command", "CONFIG", "").url)
    assert ["forbids CONFIG GET" in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("rights", "why"),
    [
        (("+@all", "-evalsha"), "'evalsha' command"),
        (("+@all", "-script"), "'script|load' command"),
        (("+@all", "-script|load"), "'script|load' command"),
        (("+@all", "-hset", "-zadd"), "may not run the command HSET, ZADD"),
        (("+@all", "-@write"), "may not run the command APPEND, DEL, HDEL, "),
        (("+@all", "-time"), "may not run the command TIME"),
        (("+@all", "-xgroup|create", "-xread"), "may not run the command XGROUP|CREATE, XREAD"),
        (("+@all", "resetkeys", "~other:*"), "access a key"),
        (("+@all", "resetkeys", "%R~*"), "access a key"),
    ],
)
async def test_a_user_without_the_rights_of_the_scripts_is_refused_with_the_command_that_gives_them(
    start: Start, rights: tuple[str, ...], why: str
) -> None:
    server = start()
    url = await guest(server, *rights)
    said = await refusal(url)
    assert why in said
    await obey(server, said[said.index("ACL SETUSER guest ") :])
    await check(url)


def test_every_command_of_every_script_is_asked_for() -> None:
    scripts = [path.read_text() for room in ("flows", "views", "store") for path in (PACKAGE / room).rglob("*.lua")]
    called = [call for script in scripts for call in script.split("redis.call(")[1:]]
    assert len(called) > 100
    names = {call.partition(",")[0].strip("\"'()").partition('"')[0] for call in called}
    parts = {"XGROUP|CREATE", "XGROUP|DELCONSUMER", "XINFO|CONSUMERS"}
    assert names - {"XGROUP", "XINFO"} | parts | {"XREAD"} == set(used_commands())


# Where the app opens it.


async def test_the_app_refuses_an_unfit_engine_and_takes_it_when_it_is_mended(start: Start) -> None:
    server = start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    settings = Settings.model_validate({"engine": {"url": server.url}})
    with pytest.raises(EngineUnfit, match="drops keys"):
        async with open_engine(settings):
            pass
    await obey(server, "CONFIG SET maxmemory-policy noeviction")
    async with open_engine(settings) as (engine, embedded):
        assert embedded is None
        assert await engine.command("PING") == b"PONG"


async def written_schema(engine: Engine, cell: str) -> bytes | None:
    found: bytes | None = await engine.command("HGET", cell_key(engine.prefix, cell, "counts"), "schema")
    return found


async def test_the_app_marks_a_new_cell_with_its_schema_and_takes_it_again(server: Server) -> None:
    settings = Settings.model_validate({"engine": {"url": server.url, "key_prefix": "schema"}})
    for _ in range(2):
        async with open_engine(settings) as (engine, _embedded):
            assert await written_schema(engine, settings.cell.name) == b"%d" % SCHEMA
            assert await engine.command("GET", cell_key("schema", DIRECTORY, "shape")) == b"%d" % SCHEMA
            assert await audit_whole(engine, settings.cell.name) == []


@pytest.mark.parametrize("where", ["cell", "directory"])
@pytest.mark.parametrize(
    ("written", "advice"),
    [(SCHEMA + 1, "by a newer release"), (SCHEMA - 1, "by an older release")],
    ids=["newer", "older"],
)
async def test_the_app_refuses_what_another_release_laid_out_differently_and_leaves_it_as_it_is(
    server: Server, where: str, written: int, advice: str
) -> None:
    prefix = f"{where}-{written}"
    settings = Settings.model_validate({"engine": {"url": server.url, "key_prefix": prefix}})
    cell = settings.cell.name
    async with await Engine.connect(server.url, prefix) as engine:
        if where == "cell":
            await engine.command("HSET", cell_key(prefix, cell, "counts"), "schema", written)
        else:
            await engine.command("SET", cell_key(prefix, DIRECTORY, "shape"), written)
        before = sorted(await engine.command("KEYS", f"{prefix}:*"))
        with pytest.raises(EngineUnfit) as caught:
            async with open_engine(settings):
                pass
        assert sorted(await engine.command("KEYS", f"{prefix}:*")) == before
        assert await written_schema(engine, cell) == (b"%d" % written if where == "cell" else None)
    said = str(caught.value)
    assert said.startswith(f"cell {cell} under {prefix}" if where == "cell" else f"the directory under {prefix}")
    assert f"schema {written} {advice}, and this release knows only schema {SCHEMA}: " in said
    assert "another engine.key_prefix" in said
    # What the advice says helps.
    other = Settings.model_validate({"engine": {"url": server.url, "key_prefix": f"{prefix}.too"}})
    async with open_engine(other):
        pass


async def test_a_cell_is_marked_even_when_the_memory_is_full(start: Start) -> None:
    server = start("--maxmemory", "1")
    async with open_engine(Settings.model_validate({"engine": {"url": server.url}})) as (engine, _):
        assert await written_schema(engine, "c0") == b"%d" % SCHEMA
