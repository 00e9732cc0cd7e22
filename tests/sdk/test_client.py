"""The client library against a real scheduler, over real sockets."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.protocol.options import Options
from lingua_scheduler.sdk import Client, client_idle
from lingua_scheduler.sdk.client_errors import ClientError, NoResult, Refused, Unreachable
from lingua_scheduler.sdk.client_items import Missing, Partial, Result
from tests.support.house import House, eventually
from tests.support.meddling import hold_back
from tests.support.sdk_clients import TENTH, all_of, ends, translated, wav

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.people import Node
    from tests.support.servers import Server

TOKEN = "a-token-for-sessions"  # noqa: S105 - of this test


async def result_of(node: Node, **said: object) -> None:
    """Do the next job."""
    await node.result(await node.job(), **said)


# One utterance.


async def test_an_utterance_is_understood_bit_by_bit_and_then_translated(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        saying = client.translate(TENTH, src="en", tgt="zh", speak=True)
        first = asyncio.ensure_future(anext(saying))
        job = await node.job()
        assert base64.b64decode(job["audio"]) == TENTH
        assert (job["src_lang"], job["tgt_lang"], job["audio_format"], job["sample_rate"]) == (
            "en",
            "zh",
            "pcm16",
            16_000,
        )
        assert job["pipeline"]["use_tts"] is True
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index")}
        await node.say("asr_partial", **about, node_id=node.node_id, text="good mor", is_final=False)
        part = await first
        assert isinstance(part, Partial)
        assert (part.text, part.is_final) == ("good mor", False)
        speech = base64.b64encode(b"speech").decode()
        timed = {"extra": {"asr_ms": 5}}
        await node.result(job, text_asr="good morning", text_translated="早上好", tts_audio=speech, **timed)
        result = await anext(saying)
        assert isinstance(result, Result)
        assert (result.text_asr, result.text_translated) == ("good morning", "早上好")
        assert (result.tts_audio, result.tts_format) == (b"speech", "pcm16")
        assert result.job_id == job["job_id"]
        assert result.trace_id == job["trace_id"]
        assert result.service_timings is not None
        assert result.service_timings.asr_ms == 5
        assert [item async for item in saying] == []


async def test_a_wav_file_says_itself_what_it_is(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        saying = asyncio.create_task(all_of(client.translate(wav(8_000), src="en", tgt="zh")))
        job = await node.job()
        assert (job["audio_format"], job["sample_rate"]) == ("wav", 8_000)
        await node.result(job)
        assert len(await saying) == 1


async def test_a_wav_file_of_floats_says_its_rate_too_and_one_that_does_not_is_an_error(house: House) -> None:
    floats = bytearray(wav(48_000))
    floats[20:22] = b"\x03\x00"
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        saying = asyncio.create_task(all_of(client.translate(bytes(floats), src="en", tgt="zh")))
        job = await node.job()
        assert (job["audio_format"], job["sample_rate"]) == ("wav", 48_000)
        await node.result(job)
        await saying
        with pytest.raises(ValueError, match="does not say its sample rate"):
            await all_of(client.translate(bytes(floats[:12]), src="en", tgt="zh"))
        with pytest.raises(ValueError, match="sample_rate must be a whole number"):
            await all_of(client.translate(TENTH, src="en", tgt="zh", sample_rate=0))


async def test_translations_one_after_the_other_share_a_session_and_others_do_not_wait(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register(slots=4)
        slow = asyncio.create_task(all_of(client.translate(TENTH, src="en", tgt="zh")))
        slow_job = await node.job()
        for _ in range(2):
            quick = asyncio.create_task(all_of(client.translate(TENTH, src="zh", tgt="en")))
            job = await node.job()
            assert job["session_id"] != slow_job["session_id"]
            await node.result(job, text_translated="quick")
            (result,) = await quick
            assert isinstance(result, Result)
            assert result.text_translated == "quick"
        assert len(house.serving.desk.sessions) == 2
        await node.result(slow_job)
        await slow


async def test_whoever_stops_listening_leaves_no_session_in_use(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register(slots=4)
        saying = client.translate(TENTH, src="en", tgt="zh")
        first = asyncio.ensure_future(anext(saying))
        await node.job()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await saying.aclose()
        again = asyncio.create_task(all_of(client.translate(TENTH, src="en", tgt="zh")))
        await result_of(node, text_translated="mine")
        (result,) = await again
        assert isinstance(result, Result)
        assert result.text_translated == "mine"


async def one_each(house: House, client: Client, number: int) -> None:
    """So many translations at once."""
    async with house.node() as node:
        await node.register(slots=number)
        saying = [asyncio.create_task(translated(client)) for _ in range(number)]
        jobs = [await node.job() for _ in range(number)]
        for job in jobs:
            await node.result(job)
        await asyncio.gather(*saying)


async def has_sessions(house: House, number: int) -> bool:
    return len(house.serving.desk.sessions) == number


async def test_after_a_busy_moment_only_a_few_sessions_are_kept(house: House) -> None:
    async with Client(house.url) as client:
        await one_each(house, client, 10)
        await eventually(lambda: has_sessions(house, 8))
        await one_each(house, client, 8)
        assert await has_sessions(house, 8)
    assert await has_sessions(house, 0)


async def test_what_has_nothing_to_do_for_long_is_given_back_but_for_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_idle, "IDLE_S", 0)
    async with Client(house.url) as client:
        await one_each(house, client, 4)
        await eventually(lambda: has_sessions(house, 1))
        await one_each(house, client, 1)


async def test_outside_its_block_a_client_opens_no_session(house: House) -> None:
    client = Client(house.url)
    with pytest.raises(RuntimeError, match="async with"):
        await translated(client)
    async with client:
        pass
    with pytest.raises(RuntimeError, match="async with"):
        await translated(client)
    assert await has_sessions(house, 0)


# Errors.


async def test_nobody_who_could_do_it_is_an_error_that_does_not_go_away(house: House) -> None:
    async with Client(house.url) as client:
        with pytest.raises(NoResult) as caught:
            await all_of(client.translate(TENTH, src="en", tgt="zh"))
        error = caught.value
        assert (error.reason, error.code, error.retryable) == ("no_capable_node", "NO_CAPABLE_NODE", False)
        assert error.trace_id
        assert "en:zh" in error.detail


async def test_no_room_is_an_error_that_says_when_to_come_again(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register(slots=1)
        busy = asyncio.create_task(all_of(client.translate(TENTH, src="en", tgt="zh")))
        job = await node.job()
        with pytest.raises(NoResult) as caught:
            await all_of(client.translate(TENTH, src="en", tgt="zh", options=Options(wait_ms=0)))
        error = caught.value
        assert (error.reason, error.code) == ("no_available_node", "NO_AVAILABLE_NODE")
        assert error.retryable
        assert error.retry_after is not None
        assert error.retry_after > 0
        await node.result(job)
        await busy


async def test_a_job_that_failed_is_an_error(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        saying = asyncio.create_task(
            all_of(client.translate(TENTH, src="en", tgt="zh", options=Options(timeout_ms=300)))
        )
        await node.job()
        with pytest.raises(NoResult) as caught:
            await saying
        assert (caught.value.reason, caught.value.code, caught.value.retryable) == ("job_timeout", "JOB_TIMEOUT", False)


async def test_too_much_audio_is_refused_before_it_costs_the_connection(house: House) -> None:
    async with Client(house.url) as client:
        with pytest.raises(Refused) as caught:
            await all_of(client.translate(bytes(3_000_000), src="en", tgt="zh"))
        assert (caught.value.code, caught.value.retryable) == ("PAYLOAD_TOO_LARGE", False)


async def test_a_language_that_nobody_knows_is_refused(house: House) -> None:
    async with Client(house.url) as client:
        with pytest.raises(NoResult) as caught:
            await all_of(client.translate(TENTH, src="klingonish", tgt="zh"))
        assert caught.value.code == "INVALID_MESSAGE"
        with pytest.raises(Refused) as refused:
            await client.stream("klingonish", "zh").__aenter__()
        assert refused.value.code == "INVALID_MESSAGE"


async def test_a_token_is_shown_and_a_wrong_one_is_told_at_once(server: Server) -> None:
    async with House(server.url, **{"auth.session_tokens": [TOKEN]}).open() as house:
        async with Client(house.url, token=TOKEN):
            assert len(house.serving.desk.sessions) == 1
        for token, why in ((None, "This door needs a token"), ("not-a-token-of-anybody", "This token is not valid.")):
            with pytest.raises(Refused, match=why) as caught:
                await Client(house.url, token=token).__aenter__()
            assert (caught.value.code, caught.value.retryable) == ("UNAUTHENTICATED", False)
            assert caught.value.detail.endswith("(give a token as token=)")
            assert caught.value.trace_id


async def test_what_cannot_be_right_is_told_where_it_is_asked_for(house: House, tmp_path: Path) -> None:
    async with Client(house.url) as client:
        with pytest.raises(TypeError, match=r"audio is bytes, not PosixPath; .*read_bytes\(\)"):
            await all_of(client.translate(tmp_path, src="en", tgt="zh"))  # type: ignore[arg-type] # that is asked here
        with pytest.raises(ValueError, match="codec is one of pcm16, opus, not 'mp3'"):
            client.stream("en", "zh", codec="mp3")  # type: ignore[arg-type] # as above


async def test_options_are_understood_as_they_are_on_the_wire(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        options: Any = {"wait_ms": 10_000}
        saying = asyncio.create_task(all_of(client.translate(TENTH, src="en", tgt="zh", speak=True, options=options)))
        job = await node.job()
        assert job["pipeline"]["use_tts"] is True
        await node.result(job)
        await saying
        options = {"wait_ms": "long"}
        with pytest.raises(ValueError, match="wait_ms"):
            await all_of(client.translate(TENTH, src="en", tgt="zh", speak=True, options=options))


async def test_nobody_there_is_an_error_that_may_go_away() -> None:
    with pytest.raises(Unreachable) as caught:
        await Client("http://127.0.0.1:1", connect_timeout_s=0.2).__aenter__()
    assert caught.value.retryable


# Streams.


async def test_a_stream_is_cut_and_every_piece_ends_in_its_order(house: House) -> None:
    async with house.node() as node, Client(house.url) as client, client.stream("en", "zh") as stream:
        await node.register(slots=4)
        for number in range(3):
            await stream.send(bytes([number]) * 3_200)
            await stream.cut()
        jobs = [await node.job(utterance_index=number) for number in range(3)]
        assert [base64.b64decode(job["audio"]) for job in jobs] == [bytes([number]) * 3_200 for number in range(3)]
        assert {job["session_id"] for job in jobs} == {stream.session_id}
        assert all(job["is_manual_cut"] for job in jobs)
        for job in reversed(jobs):
            await node.result(job)
        await stream.end()
        items = [item async for item in stream]
        assert [(item.utterance_index, type(item)) for item in items] == [(0, Result), (1, Result), (2, Result)]


async def test_what_is_said_last_needs_no_cut(house: House) -> None:
    async with house.node() as node, Client(house.url) as client, client.stream("en", "zh") as stream:
        await node.register()
        await stream.send(bytes(200_000))
        await stream.end()
        job = await node.job()
        assert base64.b64decode(job["audio"]) == bytes(200_000)
        await node.result(job)
        assert [type(item) for item in [item async for item in stream]] == [Result]


async def test_nothing_can_be_sent_after_the_end(house: House) -> None:
    async with Client(house.url) as client, client.stream("en", "zh") as stream:
        await stream.end()
        for late in (stream.send(TENTH), stream.cut()):
            with pytest.raises(ClientError, match="STREAM_ENDED"):
                await late


async def test_a_stream_tells_what_is_missing_and_goes_on(house: House) -> None:
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        async with client.stream("en", "zh", options=Options(timeout_ms=300)) as stream:
            await stream.send(TENTH)
            await stream.cut()
            await node.job(utterance_index=0)
            (missing,) = await ends(stream, 1)
            assert isinstance(missing, Missing)
            assert (missing.utterance_index, missing.reason, missing.retryable) == (0, "job_timeout", False)
            await stream.send(TENTH)
            await stream.cut()
            await node.result(await node.job(utterance_index=1))
            (result,) = await ends(stream, 1)
            assert isinstance(result, Result)


async def test_what_was_iterated_is_confirmed_and_what_was_closed_is_forgotten(house: House) -> None:
    sessions = house.serving.desk.sessions
    async with house.node() as node, Client(house.url) as client:
        await node.register()
        async with client.stream("en", "zh") as stream:
            await stream.send(TENTH)
            await stream.cut()
            await result_of(node)
            session = sessions.get(stream.session_id)
            assert session is not None
            order = session.talk.ledger.order

            async def is_kept() -> bool:
                return bool(order.replay(0).events)

            async def is_gone() -> bool:
                return not order.replay(0).events

            await eventually(is_kept)
            await ends(stream, 1)
            await eventually(is_gone)
        assert sessions.get(session.id) is None
    assert len(sessions) == 0


async def test_whoever_still_waits_when_it_is_left_is_told_so(house: House) -> None:
    async with Client(house.url) as client:
        async with client.stream("en", "zh") as stream:
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
        with pytest.raises(StopAsyncIteration):
            await waiting
        stream = await client.stream("en", "zh").__aenter__()
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await stream.__aexit__(RuntimeError, RuntimeError("of the app"), None)
        with pytest.raises(ClientError) as caught:
            await waiting
        assert caught.value.code == "SESSION_CLOSED"


async def test_a_stream_can_be_paired_with_a_node(house: House) -> None:
    async with house.node() as node, house.node("other") as other, Client(house.url) as client:
        await node.register()
        await other.register()
        code = (await house.post("/v1/nodes/other/pairing", {}))["pairing_code"]
        async with client.stream("en", "zh", pairing_code=code) as stream:
            await stream.send(TENTH)
            await stream.cut()
            await result_of(other)
            assert [type(item) for item in await ends(stream, 1)] == [Result]


async def test_an_app_that_does_not_iterate_loses_no_result(house: House) -> None:
    """So much comes that the library reads no more: it waits at the scheduler."""
    speech = base64.b64encode(bytes(600_000)).decode()
    async with house.node() as node, Client(house.url, max_held_bytes=1_000_000) as client:
        await node.register(slots=64)
        async with client.stream("en", "zh") as stream:
            for number in range(24):
                await stream.send(TENTH)
                await stream.cut()
                job = await node.job(utterance_index=number)
                about = {name: job[name] for name in ("job_id", "session_id", "utterance_index")}
                for part in range(20):
                    text = f"part {part} " + "word " * 200
                    await node.say("asr_partial", **about, node_id=node.node_id, text=text, is_final=False)
                await node.result(job, tts_audio=speech)
            found = await ends(stream, 24)
            assert [(item.utterance_index, type(item)) for item in found] == [(n, Result) for n in range(24)]


async def test_a_scheduler_that_wants_less_makes_the_sender_wait(server: Server) -> None:
    """One a second: whoever does not wait loses utterances."""
    rates = {"rates.utterances_per_s": 1, "rates.utterances_burst": 1}
    async with House(server.url, **rates).open() as house, house.node() as node, Client(house.url) as client:
        await node.register(slots=8)
        async with client.stream("en", "zh") as stream:
            for _ in range(2):
                await stream.send(TENTH)
                await stream.cut()
            items = asyncio.create_task(ends(stream, 2))
            await node.result(await node.job(utterance_index=0))
            first, second = await items
            assert isinstance(first, Result)
            assert isinstance(second, Missing)
            assert (second.code, second.retryable) == ("RATE_LIMITED", True)
            assert second.retry_after is not None
            await stream.send(TENTH)  # Waits as long as it was told to.
            await stream.cut()
            await node.result(await node.job(utterance_index=2))
            assert [type(item) for item in await ends(stream, 1)] == [Result]


async def test_whoever_waited_as_long_as_it_was_told_is_not_refused_because_its_last_utterance_was_late(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session let that in when it was said; the engine counts it when it has its turn."""
    rates, gate = {"rates.utterances_per_s": 1, "rates.utterances_burst": 1}, asyncio.Event()
    async with House(server.url, **rates).open() as house, house.node() as node, Client(house.url) as client:
        await node.register(slots=8)
        late = hold_back(monkeypatch, house.serving.desk.engine, "enter_session", gate)
        async with client.stream("en", "zh") as stream:
            for _ in range(2):
                await stream.send(TENTH)
                await stream.cut()
            await late.wait()
            conversation = stream._link.conversation

            async def is_told() -> bool:
                return conversation.slow_until_ms > 0

            await eventually(is_told)
            await stream.send(TENTH)
            gate.set()
            await stream.cut()
            for index in (0, 2):
                await node.result(await node.job(utterance_index=index))
            assert [type(item) for item in await ends(stream, 3)] == [Result, Missing, Result]
