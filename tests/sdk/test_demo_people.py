"""The demo's nodes and callers, written with the SDKs, at the doors of a scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lingua_scheduler.operate.demo import host
from lingua_scheduler.operate.demo.callers import Caller
from lingua_scheduler.operate.demo.host import Life
from lingua_scheduler.operate.demo.plan import Conversation, Member
from lingua_scheduler.operate.demo.simulation import Died
from lingua_scheduler.operate.demo.tally import Tally
from lingua_scheduler.sdk import JobError
from tests.support.house import eventually
from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    import pytest

    from lingua_scheduler.sdk import Job
    from tests.support.house import House

MEMBER = Member("sim-0", ("en", "zh"), 2, 1.0)
TALK = Conversation("caller-0", ("en", "zh"), "a seed")


async def test_what_callers_count(house: House) -> None:
    said: list[dict[str, object]] = []
    heard: list[tuple[str, str]] = []

    async def translate(job: Job, *, slowness: float) -> dict[str, Any]:
        assert slowness == 1.0
        heard.append((job.src_lang, job.tgt_lang))
        if len(heard) <= 3:
            raise JobError("BAD_AUDIO")
        return {"text_asr": "hello", "text_translated": "你好", "tts_audio": b"RIFF"}

    url, tally, over = f"http://127.0.0.1:{house.port}", Tally(), asyncio.Event()
    life = Life(MEMBER, url, translate, lambda **what: said.append(what))
    living = asyncio.create_task(life.live(0.0))
    caller = Caller(TALK, tally, over)
    talking = asyncio.create_task(caller.talk(url, 0.0))
    caller.meets(("en", "fr"))
    assert not caller.may_begin.is_set()
    caller.meets(MEMBER.languages)
    async with asyncio.timeout(PATIENCE_S):
        await eventually(lambda: _is(tally.done >= 2))
        over.set()
        await talking
        life.drain()
        await living
    # The first utterance was tried three times.
    assert tally.failed_by == {"JOB_FAILED": 1}
    assert tally.submitted == tally.done + 1 == len(heard) - 2
    assert set(heard[3:]) <= {("en", "zh"), ("zh", "en")}
    assert said == [{"event": "joined", "node_id": "sim-0"}]


async def test_a_node_that_died_is_back_and_its_job_is_done(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_DEAD_S", (0.0, 0.0))
    events: list[object] = []
    calls = 0

    async def translate(_job: Job, *, slowness: float) -> dict[str, Any]:
        nonlocal calls
        calls += slowness == 1.0
        if calls == 1:
            raise Died
        return {"text_translated": "你好"}

    life = Life(MEMBER, f"http://127.0.0.1:{house.port}", translate, lambda **what: events.append(what))
    living = asyncio.create_task(life.live(0.0))
    await eventually(lambda: _is(len(events) == 1))
    placed = await house.dispatch(wait_ms=10_000)
    job = await house.ended(placed["job_id"])
    assert (job["state"], calls) == ("FINISHED", 2)
    assert events == [
        {"event": "joined", "node_id": "sim-0"},
        {"event": "died", "node_id": "sim-0", "jobs": 1},
        {"event": "joined", "node_id": "sim-0"},
    ]
    life.drain()
    await asyncio.wait_for(living, PATIENCE_S)


async def test_a_phone_that_is_not_connected_is_tried_again() -> None:
    tries, enough = 0, asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        writer.close()
        if tries == 2:
            enough.set()

    tally, over = Tally(), asyncio.Event()
    caller = Caller(TALK, tally, over)
    caller.meets(MEMBER.languages)
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as door, asyncio.timeout(PATIENCE_S):
        talking = asyncio.create_task(caller.talk(f"http://127.0.0.1:{door.sockets[0].getsockname()[1]}", 0.0))
        await enough.wait()
        over.set()
        await talking
    assert tally.submitted == 0


async def _is(so: bool) -> bool:
    return so
