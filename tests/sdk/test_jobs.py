"""What a handler is given, and what becomes of what it returns or raises."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.sdk import JobError
from lingua_scheduler.sdk.nodes import runner
from tests.support.house import House, eventually
from tests.support.people import PATIENCE_S, SILENCE
from tests.support.sdk_nodes import RESULT, Held, good, node_at, running

if TYPE_CHECKING:
    from lingua_scheduler.sdk import Job
    from tests.support.servers import Server

NO_RETRY = {"jobs.max_retry": 0}


class Odd(BaseException):
    """What some libraries raise past everybody."""


async def done(house: House, **said: Any) -> Any:
    """A job that was submitted over HTTP, when it has ended."""
    return await house.ended((await house.dispatch(**said))["job_id"])


async def test_a_job_is_done_and_its_result_arrives(house: House) -> None:
    async def translate(job: Job) -> dict[str, Any]:
        return {"text_asr": "good morning", "text_translated": f"{job.src_lang}:{job.tgt_lang}", "extra": {"a": 1}}

    async with running(node_at(house.port, translate)):
        job = await done(house)
    assert (job["state"], job["node_id"], job["attempt_id"]) == ("FINISHED", "sdk-1", 1)
    result = job["result"]
    assert (result["text_asr"], result["text_translated"], result["extra"]) == ("good morning", "en:zh", {"a": 1})
    assert result["processing_time_ms"] >= 0
    assert {"accepted_at_ms", "started_at_ms"} <= set(job["timings"])


async def test_a_node_without_an_id_keeps_the_one_that_it_is_given(house: House) -> None:
    node = node_at(house.port, Held(), None)
    async with running(node):
        (listed,) = (await house.get("/v1/nodes"))["nodes"]
    assert listed["node_id"].startswith("node-")
    assert node.node_id == listed["node_id"]


@pytest.mark.parametrize("way", ["frame", "inline", "fetch"])
async def test_audio_is_bytes_however_it_came(house: House, way: str) -> None:
    async def hear(job: Job) -> dict[str, Any]:
        return {"text_asr": f"{len(job.audio)} {job.audio_format} {job.sample_rate}", "tts_audio": job.audio[::-1]}

    said = bytes(range(256)) * 8
    async with running(node_at(house.port, hear, audio=way)), house.client() as client:
        await client.init()
        await client.utter(0, audio=base64.b64encode(said).decode())
        result = await client.end_of(0)
        assert (result["text_asr"], result["tts_format"]) == ("2048 pcm16 16000", "pcm16")
        assert base64.b64decode(result["tts_audio"]) == said[::-1]


@pytest.mark.parametrize("way", ["frame", "inline", "fetch"])
async def test_a_job_without_audio_of_ours_begins_too(house: House, way: str) -> None:
    """With frames it cannot be known before a pong whether one follows."""

    async def hear(job: Job) -> dict[str, Any]:
        return {"text_asr": f"{job.audio!r} {job.audio_ref} {job.payload}"}

    async with running(node_at(house.port, hear, audio=way)):
        bare = await done(house, audio_ref=None, payload={"words": "hi"})
        foreign = await done(house, audio_ref="blob://theirs")
    assert bare["result"]["text_asr"] == "b'' None {'words': 'hi'}"
    assert foreign["result"]["text_asr"] == "b'' blob://theirs {}"


async def test_with_tokens_the_node_shows_its_own_and_fetches_audio_with_it(server: Server) -> None:
    ours, theirs = "0123456789abcdef", "fedcba9876543210"
    tokens = {"auth.node_tokens": [f"fleet:{ours}"], "auth.session_tokens": [f"app:{theirs}"]}

    async def hear(job: Job) -> dict[str, Any]:
        return {"text_asr": str(len(job.audio))}

    async with House(server.url, **tokens).open() as house:
        node = node_at(house.port, hear, audio="fetch", token=ours)
        async with running(node), house.client() as client:
            await client.init(token=theirs)
            await client.utter(0)
            assert (await client.end_of(0))["text_asr"] == str(len(base64.b64decode(SILENCE)))


async def test_what_was_understood_so_far_arrives_before_the_result(house: House) -> None:
    async def hear(job: Job) -> dict[str, Any]:
        job.partial("good")
        job.partial("good mor", is_final=True)
        return RESULT

    async with running(node_at(house.port, hear)), house.client() as client:
        await client.init()
        await client.utter(0)
        first, second = await client.next("asr_partial"), await client.next("asr_partial")
        assert [(one["text"], one["is_final"]) for one in (first, second)] == [("good", False), ("good mor", True)]
        assert (await client.end_of(0))["text_asr"] == "good morning"


async def test_a_handler_that_blocks_runs_in_a_thread_and_may_speak_from_there(house: House) -> None:
    """The loop goes on: while one job blocks, another one is acknowledged and done."""
    go, began = threading.Event(), threading.Event()

    def block(job: Job) -> dict[str, Any]:
        job.partial(f"began {job.utterance_index}")
        if job.utterance_index == 0:
            began.set()
            assert go.wait(PATIENCE_S)
        return {"text_asr": threading.current_thread().name}

    async with running(node_at(house.port, block)), house.client() as client:
        await client.init()
        await client.utter(0)
        await asyncio.to_thread(began.wait, PATIENCE_S)
        await client.utter(1)
        await client.next("ui_event", event="NODE_ACCEPTED", utterance_index=1)
        await client.next("asr_partial", text="began 1")
        go.set()
        assert (await client.end_of(0))["text_asr"].startswith("job c0.")
        assert (await client.end_of(1))["text_asr"].startswith("job c0.")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (ValueError("no such model"), "HANDLER_FAILED: ValueError: no such model"),
        (SystemExit(3), "HANDLER_FAILED: SystemExit: 3"),
        (asyncio.CancelledError(), "HANDLER_FAILED: CancelledError"),
        (JobError("BAD_AUDIO", "too short"), "BAD_AUDIO: too short"),
        (Odd("no Exception at all"), "HANDLER_FAILED: Odd: no Exception at all"),
        (GeneratorExit(), "HANDLER_FAILED: GeneratorExit"),
    ],
)
@pytest.mark.parametrize("blocks", [False, True])
async def test_a_handler_that_raises_fails_its_job(
    server: Server, raised: BaseException, reason: str, blocks: bool
) -> None:
    async def fail(_: Job) -> None:
        raise raised

    def fail_blocking(_: Job) -> None:
        raise raised

    house = House(server.url, **NO_RETRY)
    handler = fail_blocking if blocks else fail
    async with house.open(), running(node_at(house.port, handler)):
        job = await done(house)
    assert (job["state"], job["reason"]) == ("FAILED", reason)


async def test_nobody_is_at_the_terminal_of_a_thread(server: Server) -> None:
    def fail(_: Job) -> None:
        raise KeyboardInterrupt("by a library")

    async with House(server.url, **NO_RETRY).open() as house, running(node_at(house.port, fail)) as (serving,):
        job = await done(house)
        assert not serving.done()
    assert (job["state"], job["reason"]) == ("FAILED", "HANDLER_FAILED: KeyboardInterrupt: by a library")


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (None, "the handler returned nothing; return {"),
        ("早上好", "the handler returned str; return {"),
        ({}, "the handler returned none of text_asr, text_translated, tts_audio; return {"),
        ({"translated": "x"}, "returned 'translated', which is not part of a result (did you mean 'text_translated'?)"),
        ({"text_asr": 7}, "returned text_asr as int, not str"),
        ({"text_asr": "x", "rerun_count": "two"}, "does not fit (rerun_count: expected"),
        ({"tts_audio": "bytes as text"}, "returned tts_audio as str, not bytes"),
        ({"text_asr": "x", "extra": {"a": object()}}, "something that JSON cannot say"),
        ({"tts_audio": bytes(4 * 1024 * 1024)}, "and 4194304 fit into a message"),
    ],
)
async def test_rubbish_fails_its_job_and_says_what_to_return(server: Server, returned: object, what: str) -> None:
    async def rubbish(_: Job) -> object:
        return returned

    async with House(server.url, **{"jobs.max_retry": 0}).open() as house, running(node_at(house.port, rubbish)):
        job = await done(house)
    assert job["state"] == "FAILED"
    assert job["reason"].startswith("INVALID_RESULT: the handler returned")
    assert what in job["reason"]
    assert 'return {"text_asr"' in job["reason"]


async def test_a_failed_job_goes_to_the_next_node_and_an_overloaded_node_costs_it_no_try(server: Server) -> None:
    async def overloaded(_: Job) -> None:
        raise JobError("NODE_OVERLOADED", "the GPU is full", retry_after_ms=60_000)

    house = House(server.url, **NO_RETRY)
    async with house.open(), running(node_at(house.port, overloaded, "full")):
        placed = await house.dispatch()
        async with running(node_at(house.port, good, "free")):
            job = await house.ended(placed["job_id"])
    assert (job["state"], job["node_id"]) == ("FINISHED", "free")
    assert [one["end"] for one in job["attempts"]] == ["overloaded", "FINISHED"]


@pytest.mark.parametrize("rest_ms", [None, 10])
async def test_a_service_that_is_missing_is_marked_and_no_other(house: House, rest_ms: int | None) -> None:
    async def lacks(_: Job) -> None:
        raise JobError("MODEL_NOT_AVAILABLE", "no voice", details={"service_type": "tts"}, retry_after_ms=rest_ms)

    async with running(node_at(house.port, lacks, tts=["zh"])):
        assert (await done(house))["state"] == "FAILED"
        said = await house.dispatch(status=503, options={"require_tts": True})
        assert said["breakdown"]["marked"] == 1
        await house.dispatch()


async def test_that_no_other_node_will_succeed_is_only_the_node_s_word(server: Server) -> None:
    """The protocol has no word for it: the job is tried elsewhere like any other, until its tries are spent."""

    async def fail(_: Job) -> None:
        raise JobError("BAD_AUDIO", "no samples", retryable=False)

    house = House(server.url, **{"jobs.max_retry": 1})
    async with house.open(), running(*(node_at(house.port, fail, f"sdk-{at}") for at in range(2))):
        job = await done(house)
    assert (job["state"], job["reason"]) == ("FAILED", "BAD_AUDIO: no samples")
    assert sorted(one["node_id"] for one in job["attempts"]) == ["sdk-0", "sdk-1"]


async def test_a_handler_that_holds_up_the_loop_is_told_of(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner, "_HELD_UP_S", 0.05)

    async def hold_up(_: Job) -> dict[str, str]:
        time.sleep(0.3)  # noqa: ASYNC251 - that is what it does wrong
        return RESULT

    async with running(node_at(house.port, hold_up)):
        assert (await done(house))["state"] == "FINISHED"
        await eventually(lambda: is_logged(caplog, "the handler held up the event loop"))


async def is_logged(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_every_heartbeat_says_how_busy_the_machine_is(house: House) -> None:
    async with running(node_at(house.port, Held(), load_fn=lambda: {"gpu": 0.5, "mem": 0.25})):
        await eventually(lambda: has_load(house, {"gpu": 0.5, "mem": 0.25}))


async def has_load(house: House, load: dict[str, float]) -> bool:
    said: dict[str, float] = (await house.get("/v1/nodes/sdk-1"))["current_load"]
    return said == load


@pytest.mark.parametrize("raised", [OSError("no such device"), SystemExit(4), KeyboardInterrupt(), GeneratorExit()])
async def test_a_load_that_cannot_be_told_keeps_no_node_from_working(
    house: House, caplog: pytest.LogCaptureFixture, raised: BaseException
) -> None:
    def broken() -> float:
        raise raised

    async with running(node_at(house.port, good, load_fn=broken)):
        await eventually(lambda: is_logged(caplog, "load_fn failed"))
        assert (await done(house))["state"] == "FINISHED"


async def test_a_load_that_is_never_told_keeps_no_node_from_working(house: House) -> None:
    asked, go = threading.Event(), threading.Event()

    def never() -> float:
        asked.set()
        go.wait(PATIENCE_S)
        return 0.5

    async with running(node_at(house.port, good, load_fn=never)):
        assert await asyncio.to_thread(asked.wait, PATIENCE_S)
        assert (await done(house, options={"wait_ms": 10_000}))["state"] == "FINISHED"
        go.set()
