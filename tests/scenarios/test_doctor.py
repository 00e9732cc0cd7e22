"""`lingua doctor`, as an operator runs it: what it sees, that its advice helps, and that only what is old goes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.letter import Parcel
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.store.checks import used_commands
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.tables import SCHEMA
from tests.support.clusters import Sixpack
from tests.support.house import Scheduler
from tests.support.mail import arrive, die, letter, send
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.sentinels import Trio
    from tests.support.servers import HasUrl, Server

LINGUA = str(Path(sys.executable).parent / "lingua")
CHECKS = {
    *("version", "kind", "memory", "persistence", "rights", "round trip", "clock", "hints"),
    *("schema", "instances", "dead letters", "old keys"),
}

#: What the original wrote, as its documents have it.
OLD = [
    "node:gpu-1",
    "node:gpu-1:pools",
    "nodes:all",
    "nodes:last_seen",
    "nodes:owner:{node:gpu-1}",
    "pool:zh:en:0:nodes",
    "job:job-7",
    "sessions:owner:{session:s1}",
    "streams:{instance:a}:inbox",
    "{session:s1}:state",
]


async def doctor(url: str, *words: str, answer: str = "", **env: str) -> tuple[int, str, str]:
    """Its exit code, what it said, and its errors; whatever is wrong, a traceback never is."""
    ran = await asyncio.to_thread(
        subprocess.run,
        [LINGUA, "doctor", "--store", url, *words],
        input=answer,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | env,
    )
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


async def told(url: str, *words: str, **env: str) -> dict[str, Any]:
    code, out, _ = await doctor(url, "--json", *words, **env)
    said: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert said["exit_code"] == code
    return said


def wrong(said: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What is not well, by the name of the check."""
    return {one["check"]: one for one in said["findings"] if one["level"] != "ok"}


@pytest.fixture
async def engine(store: Server) -> AsyncIterator[Engine]:
    async with await Engine.connect(store.url, "lingua:v1", msgspec.msgpack.encode(Rules())) as engine:
        yield engine


async def obey(url: str, fix: str) -> None:
    async with await Engine.connect(url) as engine:
        await engine.command(*shlex.split(fix))


async def test_where_all_is_well_every_check_says_so_and_nothing_is_written(store: Server, engine: Engine) -> None:
    said = await told(store.url)
    assert (said["exit_code"], wrong(said), said["old_keys"], said["removed"]) == (0, {}, {}, 0)
    assert {one["check"] for one in said["findings"]} == CHECKS
    assert await engine.command("DBSIZE") == 0
    code, out, err = await doctor(store.url)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "all well"
    assert all(line.startswith("ok ") for line in out.splitlines()[:-1])


async def test_beside_a_scheduler_that_serves(store: Server) -> None:
    async with Scheduler(store.url):
        said = await told(store.url)
    assert wrong(said) == {}
    shown = {one["check"]: one["said"] for one in said["findings"]}
    assert shown["instances"] == "serves so many instances: 1"
    assert shown["schema"] == f"has records of schema {SCHEMA}, as this release writes them"


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
async def test_of_a_cluster_every_primary_is_looked_at_and_of_sentinels_the_one_that_they_name(
    request: pytest.FixtureRequest, kind: str
) -> None:
    place: Sixpack | Trio = request.getfixturevalue(kind)
    said = await told(place.url, LINGUA_ENGINE__KEY_PREFIX="doctored")
    assert wrong(said) == {}
    asked = place.primaries() if isinstance(place, Sixpack) else [place.primary()]
    for check in ("version", "kind", "memory", "persistence", "rights", "round trip", "clock"):
        looked_at = [one["where"] for one in said["findings"] if one["check"] == check]
        assert len(looked_at) == len(asked)
        assert all(any(f"127.0.0.1:{one.port}" in where for where in looked_at) for one in asked)


async def test_its_advice_helps(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    try:
        said = await told(server.url)
        assert said["exit_code"] == 2
        assert {name: one["level"] for name, one in wrong(said).items()} == {
            "memory": "unfit",
            "persistence": "warning",
        }
        await obey(server.url, wrong(said)["memory"]["fix"])
        code, out, _ = await doctor(server.url)
        assert code == 1
        assert out.splitlines()[-1].startswith("it works, but")
        assert f"fix: {wrong(said)['persistence']['fix']}" in out
        await obey(server.url, wrong(said)["persistence"]["fix"])
        assert (await told(server.url))["exit_code"] == 0
    finally:
        server.stop()


async def test_where_nobody_is_it_says_so(tmp_path: Path) -> None:
    said = await told(f"unix://{tmp_path}/nobody")
    assert (said["exit_code"], list(wrong(said))) == (2, ["connection"])
    assert "engine.url" in wrong(said)["connection"]["fix"]
    code, out, _ = await doctor("redis://u:secret@127.0.0.1:1")
    assert code == 2
    assert "secret" not in out


async def test_a_url_and_a_setting_that_make_no_sense_are_told(tmp_path: Path) -> None:
    code, _, err = await doctor("http://127.0.0.1")
    assert (code, len(err.splitlines())) == (2, 1)
    config = tmp_path / "config.toml"
    config.write_text("[engine]\nurll = 'x'\n")
    code, _, err = await doctor("redis://127.0.0.1:1", "--config", str(config))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "urll" in err


async def test_another_kind_of_server_is_named_with_its_url(cluster: Sixpack, sentinel: Trio) -> None:
    said = wrong(await told(f"redis://127.0.0.1:{cluster.primaries()[0].port}", LINGUA_ENGINE__KEY_PREFIX="doctored"))
    assert said["kind"]["fix"].startswith("give its URL as redis+cluster://")
    said = wrong(await told(f"redis://127.0.0.1:{sentinel.sentinels[0].port}"))
    assert said["kind"]["fix"].startswith("give redis+sentinel://")


async def test_the_shape_of_every_cell_is_looked_at(store: Server, engine: Engine) -> None:
    await engine.command("HSET", cell_key("lingua:v1", "c9", "counts"), "schema", SCHEMA + 1)
    said = await told(store.url)
    assert said["exit_code"] == 2
    found = wrong(said)["schema"]
    assert found["where"] == "cell c9 under lingua:v1"
    assert f"schema {SCHEMA + 1}" in found["said"]


async def test_letters_that_nobody_reads_and_dead_letters_are_told(store: Server, engine: Engine) -> None:
    await arrive(engine, "a", "b", "c")
    await send(engine, "a", "one", "two")
    await die(engine, "a", "b")
    await bury(engine, Parcel("c", "1-0", 10, letter()), "nobody could")
    said = await told(store.url)
    assert said["exit_code"] == 1
    assert {name: (one["where"], one["said"]) for name, one in wrong(said).items()} == {
        "instances": ("instance a", "is gone, and letters lie in its inbox: 2"),
        "dead letters": (store.url, "has dead letters: 1"),
    }


async def test_what_somebody_else_wrote_under_our_keys_is_told(store: Server, engine: Engine) -> None:
    await engine.command("SET", cell_key("lingua:v1", "dlq", "dead_ids"), "x")
    said = await told(store.url)
    assert (said["exit_code"], list(wrong(said))) == (2, ["the rest"])
    assert "WRONGTYPE" in wrong(said)["the rest"]["said"]
    assert "engine.key_prefix" in wrong(said)["the rest"]["fix"]


async def test_what_a_user_may_not_do_and_need_not_is_a_hint(store: Server) -> None:
    rights = ["+evalsha", "+script|load", "+ping", "+client|setname", "+info", "+config|get"]
    rights += [f"+{command.lower()}" for command in used_commands()]
    await obey(store.url, shlex.join(["ACL", "SETUSER", "guest", "reset", "on", ">pw", "~lingua:v1:*", *rights]))
    url = f"unix://guest:pw@{store.path}"
    said = await told(url)
    assert said["exit_code"] == 0
    assert {name: one["level"] for name, one in wrong(said).items()} == {"hints": "hint", "old keys": "hint"}
    for one in wrong(said).values():
        await obey(store.url, one["fix"])
    assert wrong(await told(url)) == {}
    # That is enough to remove what is old.
    await obey(store.url, "SET lingua:v1:nodes:all 1")
    assert (await told(url, "--remove-old-keys", "--yes"))["removed"] == 1


async def test_a_user_without_the_rights_of_the_scripts_gets_the_command_that_gives_them(store: Server) -> None:
    await obey(store.url, "ACL SETUSER guest reset on >pw ~* &* +@all -hset")
    url = f"unix://guest:pw@{store.path}"
    said = await told(url)
    assert (said["exit_code"], list(wrong(said))) == (2, ["rights"])
    await obey(store.url, wrong(said)["rights"]["fix"])
    assert (await told(url))["exit_code"] == 0


# What the original left.


async def lay(engine: Engine) -> tuple[set[str], set[str]]:
    """Old keys, and some that are ours or somebody else's."""
    prefix = engine.prefix
    old = {f"{prefix}:{rest}" for rest in OLD}
    ours = {cell_key(prefix, "c0", "nodes"), cell_key(prefix, "sess:s1", "memory"), f"{prefix}x:node:n1", "sched:job:1"}
    # A fleet whose prefix reads like a key of the original.
    ours.add(cell_key(f"{prefix}:node", "c0", "jobs"))
    for name in (*old, *ours):
        # Without its cell it is sent on by whoever is asked.
        await engine.command("SET", name, 1)
    return old, ours


async def left(engine: Engine, names: set[str]) -> set[str]:
    return {name for name in names if await engine.command("EXISTS", name)}


@pytest.mark.parametrize("kind", ["store", "cluster"])
async def test_old_keys_are_counted_and_only_they_are_removed(request: pytest.FixtureRequest, kind: str) -> None:
    place: HasUrl = request.getfixturevalue(kind)
    prefix = {"LINGUA_ENGINE__KEY_PREFIX": "moving"}
    async with await Engine.connect(place.url, "moving") as engine:
        old, ours = await lay(engine)
        said = await told(place.url, **prefix)
        assert (said["exit_code"], list(wrong(said)), said["removed"]) == (1, ["old keys"], 0)
        assert sum(said["old_keys"].values()) == len(OLD)
        assert said["old_keys"]["node:<node>:pools"] == 1
        assert await left(engine, old | ours) == old | ours
        # Who says no, or nothing, keeps them.
        for answer in ("n\n", ""):
            code, out, err = await doctor(place.url, "--remove-old-keys", answer=answer, **prefix)
            assert code == 1
            assert f"Remove {len(OLD)} keys of the original scheduler under moving?" in err
        assert await left(engine, old | ours) == old | ours
        code, out, _ = await doctor(place.url, "--remove-old-keys", answer="y\n", **prefix)
        assert code == 0
        assert f"had {len(OLD)} keys of the original scheduler; they are removed" in out
        assert await left(engine, old | ours) == ours
        # There is nothing left to ask for.
        said = await told(place.url, "--remove-old-keys", "--yes", **prefix)
        assert (said["exit_code"], said["removed"]) == (0, 0)
        await lay(engine)
        said = await told(place.url, "--remove-old-keys", "--yes", **prefix)
        assert (said["exit_code"], said["removed"]) == (0, len(OLD))
        assert await left(engine, old | ours) == ours
        for name in ours:
            await engine.command("DEL", name)


async def test_an_original_that_may_still_run_is_told(store: Server, engine: Engine) -> None:
    await engine.command("SET", "lingua:v1:schedulers:presence:host-1", 1)
    found = wrong(await told(store.url))["old keys"]
    assert "one may still be running" in found["said"]
    assert found["fix"].startswith("stop it, then ")


async def test_the_engine_of_our_own_is_looked_at_too(tmp_path: Path) -> None:
    said = await told("", LINGUA_ENGINE__DATA_DIR=str(tmp_path / "engine"))
    assert (said["store"], said["exit_code"], wrong(said)) == ("the embedded engine", 0, {})
    said = await told("", LINGUA_ENGINE__DATA_DIR="/dev/null/engine")
    assert (said["exit_code"], list(wrong(said))) == (2, ["connection"])
    assert "engine.data_dir" in wrong(said)["connection"]["fix"]
