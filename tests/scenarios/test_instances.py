"""Several `lingua serve` over one engine: whoever is killed, stopped or ended, no letter is lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.collect import collect_again, collect_pending
from lingua_scheduler.flows.post import Sent, post
from lingua_scheduler.store.engine import Engine
from tests.support.house import Scheduler, eventually
from tests.support.mail import arrive, pending, read, send
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support.servers import Server

LINGUA = str(Path(sys.executable).parent / "lingua")
#: Nobody knows the letters of these tests, so each of them is soon a dead one.
CALM = {"LINGUA_INSTANCE__LETTER_PAUSE_MS": "1"}
#: Who is silent for a second is gone, and soon missed.
QUICK = CALM | {
    "LINGUA_INSTANCE__PRESENCE_TTL_MS": "1000",
    "LINGUA_INSTANCE__PRESENCE_BEAT_MS": "200",
    "LINGUA_LOOPS__INHERIT_INTERVAL_MS": "50",
}


@asynccontextmanager
async def several(
    store: Server, *instance_ids: str, settings: dict[str, str] = QUICK
) -> AsyncIterator[dict[str, Scheduler]]:
    async with AsyncExitStack() as stack:
        yield {
            instance_id: await stack.enter_async_context(
                Scheduler(store.url, **settings, LINGUA_INSTANCE__ID=instance_id)
            )
            for instance_id in instance_ids
        }


@asynccontextmanager
async def writer(store: Server) -> AsyncIterator[Engine]:
    """Whoever writes letters here has no instance."""
    async with await Engine.connect(store.url, "lingua:v1", msgspec.msgpack.encode(Rules())) as engine:
        yield engine


async def dead_letters(doors: Scheduler) -> set[str]:
    """What the dead letters say: here every letter becomes one, and that is how it is known that it was handled."""
    found: set[str] = set()
    cursor: str | None = ""
    while cursor is not None:
        page = await doors.get(f"/v1/dlq?cursor={cursor}")
        found |= {letter["detail"] for letter in page["letters"]}
        cursor = page.get("cursor")
    return found


async def seen_by(doors: Scheduler) -> dict[str, Any]:
    return {one["instance_id"]: one for one in (await doors.get("/api/v1/cluster"))["instances"]}


async def write(engine: Engine, to: str, *details: str) -> set[str]:
    """Those that were sent."""
    answers = [await post(engine, to, Letter("riddle", f"c0.{detail}", detail=detail)) for detail in details]
    return {detail for detail, answer in zip(details, answers, strict=True) if isinstance(answer, Sent)}


async def test_the_letters_of_an_instance_that_is_killed_are_handled_by_another(store: Server) -> None:
    async with several(store, "a", "b") as running, writer(store) as engine:
        # It takes nothing out of its inbox any more, and is still there for a while.
        os.kill(running["a"].pid, signal.SIGSTOP)
        sent = await write(engine, "a", *(str(number) for number in range(200)))
        assert sent
        await running["a"].stop(signal.SIGKILL)

        async def are_handled() -> bool:
            return await dead_letters(running["b"]) == sent

        await eventually(are_handled)

        async def is_forgotten() -> bool:
            return list(await seen_by(running["b"])) == ["b"]

        await eventually(is_forgotten)
        assert await write(engine, "a", "late") == set()


async def test_whenever_instances_are_killed_every_letter_that_was_sent_is_handled(store: Server) -> None:
    """They are killed while they collect, hand over, bury and settle; and so is an heir."""
    async with several(store, "a", "b", "c") as running, writer(store) as engine:
        sent: set[str] = set()

        async def keep_writing(to: str) -> None:
            for number in range(600):
                found = await write(engine, to, f"{to}{number}")
                if not found:
                    return
                sent.update(found)

        writing = [asyncio.create_task(keep_writing(to)) for to in ("a", "b")]
        for victim in ("a", "b"):

            async def is_at_work(victim: str = victim) -> bool:
                return sum(detail.startswith(victim) for detail in sent) > 100

            await eventually(is_at_work)
            await running[victim].stop(signal.SIGKILL)
        await asyncio.gather(*writing)

        async def are_handled() -> bool:
            return (await seen_by(running["c"])).keys() == {"c"}

        await eventually(are_handled)
        assert await dead_letters(running["c"]) == sent
        assert {detail[0] for detail in sent} == {"a", "b"}


async def test_an_instance_that_only_slept_is_there_again_and_says_what_happened(
    store: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    async with several(store, "a", "b") as running, writer(store) as engine:
        os.kill(running["a"].pid, signal.SIGSTOP)
        sent = await write(engine, "a", *(str(number) for number in range(50)))

        async def is_gone() -> bool:
            return list(await seen_by(running["b"])) == ["b"]

        await eventually(is_gone)
        assert await dead_letters(running["b"]) == sent
        os.kill(running["a"].pid, signal.SIGCONT)

        async def is_back() -> bool:
            return (await seen_by(running["b"])).get("a", {}).get("alive") is True

        await eventually(is_back)
        more = await write(engine, "a", "again")
        assert more

        async def is_handled() -> bool:
            return await dead_letters(running["b"]) == sent | more

        await eventually(is_handled)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert "a" in [line["instance_id"] for line in lines if line["event"] == "presence"]


async def test_an_instance_that_ends_says_so_and_is_gone_at_once(store: Server) -> None:
    async with several(store, "a", "b") as running, writer(store) as engine:
        assert list(await seen_by(running["b"])) == ["a", "b"]
        assert await running["a"].stop(signal.SIGTERM) == 0
        assert list(await seen_by(running["b"])) == ["b"]
        assert await write(engine, "a", "late") == set()


async def test_that_an_instance_drains_is_told_at_once(store: Server) -> None:
    seldom = {"LINGUA_INSTANCE__PRESENCE_TTL_MS": "1800000", "LINGUA_INSTANCE__PRESENCE_BEAT_MS": "600000"}
    seldom |= {"LINGUA_NODES__OFFLINE_MS": "2400000"}
    async with Scheduler(store.url) as doors, Scheduler(store.url, **seldom) as other:
        await doors.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
        job_id = (await doors.dispatch())["job_id"]
        # Whoever waits for the end of a job holds up the stop, for a while. He has asked when the first is answered.
        answers, asking = await asyncio.open_connection("127.0.0.1", other.port)
        for path in ("/livez", f"/v1/job/{job_id}?wait_ms=15000"):
            asking.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await answers.readuntil(b'{"ok":true}')
        os.kill(other.pid, signal.SIGTERM)

        async def is_told() -> bool:
            return [one["url"] for one in (await doors.get("/v1/instances?draining=true"))["instances"]] == [other.url]

        await eventually(is_told)
        await doors.post("/v1/job/cancel", {"job_id": job_id})
        assert b"CANCELLED" in await answers.read()
        asking.close()
        await asking.wait_closed()


async def test_an_instance_that_starts_again_under_its_name_reads_what_it_had_taken(store: Server) -> None:
    async with several(store, "a") as running, writer(store) as engine:
        os.kill(running["a"].pid, signal.SIGSTOP)
        sent = await write(engine, "a", "one", "two")
        await running["a"].stop(signal.SIGKILL)
        await running["a"].start()

        async def are_handled() -> bool:
            return await dead_letters(running["a"]) == sent

        await eventually(are_handled)


async def test_how_often_a_letter_was_delivered_outlives_the_engine(store: Server) -> None:
    """Or one that brings its readers down, and the engine with them, would come for ever."""
    async with writer(store) as engine:
        await arrive(engine, "a")
        await send(engine, "a", "one", "two")
        await read(engine, "a")
        number = (await collect_pending(engine, "a", "a", "", 1)).letters[0][0]  # type: ignore[union-attr]
        await collect_again(engine, "a", "a", number)
        before = await pending(engine, "a")
    assert sorted(before.values()) == [("a", 1), ("a", 3)]
    store.stop()
    again = start_server(Path(store.path).parent, "--appendonly", "yes", "--appendfsync", "no")
    try:
        async with writer(again) as engine:
            assert await pending(engine, "a") == before
    finally:
        again.stop()


def ask(doors: Scheduler, *words: str, code: int = 0) -> str:
    """What the command says to whoever runs it: on standard output, or, refused, in one line of the other."""
    ran = subprocess.run([LINGUA, *words, "--url", doors.url], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout if code == 0 else ran.stderr


async def test_the_operator_sees_instances_and_dead_letters_and_decides(store: Server) -> None:
    """Every command is a process that starts: on a machine with much to do, nobody may be missed for that."""
    async with several(store, "a", "b", settings=CALM) as running, writer(store) as engine:
        doors = running["b"]
        found = json.loads(await asyncio.to_thread(ask, doors, "instances", "--json"))["instances"]
        assert [(one["instance_id"], one["pid"]) for one in found] == [(name, running[name].pid) for name in "ab"]
        assert doors.url in {one["url"] for one in found}
        shown = (await asyncio.to_thread(ask, doors, "instances")).splitlines()
        assert (shown[0], shown[3], shown[6:]) == ("a", "b", ["dead letters: 0"])
        assert re.fullmatch(rf"  serving   up \d+ s   version \S+   {doors.url}", shown[4])
        assert shown[5] == "  nodes 0   sessions 0   letters 0   pending 0"
        await write(engine, "a", "one", "two")

        async def are_dead() -> bool:
            return await dead_letters(doors) == {"one", "two"}

        await eventually(are_dead)
        assert "dead letters: 2 (lingua dlq list)" in await asyncio.to_thread(ask, doors, "instances")
        letters = json.loads(await asyncio.to_thread(ask, doors, "dlq", "list", "--json"))["letters"]
        first, second = (letter["id"] for letter in letters)
        assert "riddle" in await asyncio.to_thread(ask, doors, "dlq", "list")
        assert await asyncio.to_thread(ask, doors, "dlq", "delete", first) == f"{first} is deleted\n"
        said = await asyncio.to_thread(ask, doors, "dlq", "replay", second)
        assert said == f"{second} was sent again, to a\n"
        refused = await asyncio.to_thread(ask, doors, "dlq", "delete", first, code=2)
        assert refused.startswith(f"lingua: {doors.url} refused: UNKNOWN_LETTER: There is no dead letter {first}")
    nobody = await asyncio.to_thread(ask, doors, "instances", code=2)
    assert nobody.startswith(f"lingua: no scheduler answers at {doors.url}: ")
