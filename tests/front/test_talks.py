"""Sessions over real sockets, with nodes that are real sockets too."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.pairing import offer_pairing
from lingua_scheduler.front.upgrade import SocketProtocol
from lingua_scheduler.protocol.frames import AudioFrame, FinalFrame, encode_frame
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.cell import read_cell
from tests.support.doors import PATIENCE_S, Open
from tests.support.talks import TENTH, client, eventually, job_of, keep, node, open_instance, outcomes, translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def instance(server: Server) -> AsyncIterator[Open]:
    async with open_instance(server.url, sessions__gap_ms=500, sessions__pause_ms=300) as opened:
        yield opened


async def waiting(instance: Open) -> None:
    """Until some job waits for a slot."""
    async with asyncio.timeout(PATIENCE_S):
        while "WAITING" not in await states(instance):  # noqa: ASYNC110 - only the engine knows
            await asyncio.sleep(0.01)


async def states(instance: Open) -> set[str]:
    cell = await read_cell(instance.desk.engine, instance.desk.directory.first)
    assert isinstance(cell, Cell)
    return {job.state for job in cell.jobs.values()}


async def test_an_utterance_goes_to_a_node_and_its_meaning_comes_back(instance: Open) -> None:
    speech = b"speech " * 100

    def speak(job: dict[str, Any]) -> dict[str, Any]:
        return translate(job) | {
            "tts_audio": base64.b64encode(speech).decode(),
            "tts_format": "opus",
            "extra": {"asr_ms": 7},
        }

    async with node(instance, answer=speak) as n1, client(instance) as ann:
        ack = await ann.begin(trace_id="t-1")
        assert ack["assigned_node_id"] is None
        assert (ack["negotiated_codec"], ack["negotiated_sample_rate"], ack["use_binary_frame"]) == (
            "pcm16",
            16_000,
            False,
        )
        assert ack["limits"] == {
            "max_message_bytes": 4_194_304,
            "max_utterance_bytes": 2_097_152,
            "pause_ms": 300,
            "max_duration_ms": 10_000,
        }
        await ann.utter(0, manual_cut=True, pipeline={"use_tts": True})
        result = await ann.until("translation_result")
        job = await n1.job()
        assert base64.b64decode(job["audio"]) == TENTH
        assert job["is_manual_cut"] is True
        assert job["pipeline"] == {
            "use_asr": True,
            "use_nmt": True,
            "use_tts": True,
            "use_semantic": True,
            "use_tone": False,
        }
        assert (result["text_asr"], result["text_translated"]) == ("said 0", "meant 0")
        assert base64.b64decode(result["tts_audio"]) == speech
        assert (result["event_id"], result["trace_id"], result["job_id"]) == (1, "t-1", job["job_id"])
        assert result["service_timings"] == {"asr_ms": 7, "total_ms": 1}
        assert set(result["network_timings"]) == {
            "web_to_scheduler_ms",
            "scheduler_to_node_ms",
            "node_to_scheduler_ms",
            "scheduler_to_web_ms",
        }
        shown = [event["event"] for event in ann.all("ui_event")]
        assert shown == ["DISPATCHED", "NODE_ACCEPTED", "NMT_DONE"]


async def test_a_way_that_nobody_measures_is_half_of_a_ping_s_round_trip(
    instance: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SocketProtocol, "round_trip_ms", lambda _: 25.0)
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        now_ms = instance.desk.clock()
        for index, stamp in enumerate((None, now_ms - 40, now_ms + 3_600_000)):
            await ann.utter(index, client_timestamp_ms=stamp)
            job = await n1.job()
            await n1.result(job, **translate(job) | {"processing_time_ms": None})
        ways = [answer["network_timings"] for answer in await ann.answers(3)]
        stamped = ways[1].pop("web_to_scheduler_ms")
        assert stamped >= 40
        guessed = dict.fromkeys(("scheduler_to_node_ms", "node_to_scheduler_ms", "scheduler_to_web_ms"), 12)
        assert ways == [guessed | {"web_to_scheduler_ms": 12}, guessed, guessed | {"web_to_scheduler_ms": 12}]


async def test_text_and_audio_are_erased_when_the_client_has_confirmed(instance: Open) -> None:
    async with node(instance), client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        result = await ann.until("translation_result")
        ref = f"{result['job_id']}.said"
        assert not isinstance(await read_audio(instance.desk.engine, ref), Refusal)
        await ann.say("client_heartbeat", session_id=ann.session_id, timestamp=1, last_event_id=1)
        assert (await ann.until("server_heartbeat"))["session_id"] == ann.session_id
        job = await eventually(instance, result["job_id"])
        assert (job.payload, job.result) == ("", "")
        assert isinstance(await read_audio(instance.desk.engine, ref), Refusal)


async def test_results_come_in_order_however_the_nodes_answer(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        for index in range(3):
            await ann.utter(index)
        jobs = {job["utterance_index"]: job for job in [await n1.job() for _ in range(3)]}
        for index in (2, 1, 0):
            await n1.result(jobs[index], **translate(jobs[index]))
        assert outcomes(await ann.answers(3)) == [(0, "meant 0"), (1, "meant 1"), (2, "meant 2")]


async def test_an_end_that_the_engine_has_forgotten_is_no_end(instance: Open) -> None:
    """It was told of by a primary that is none any more: the job goes on, and ends again."""
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        job = await n1.job()
        await instance.desk.sessions.ended(Event("ended", job["job_id"], 1, "n1", "", "it failed", 0))
        await n1.result(job, **translate(job))
        assert outcomes(await ann.answers(1)) == [(0, "meant 0")]


async def test_a_refused_utterance_is_told_at_once_and_missing_in_its_turn(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        job = await n1.job()
        await ann.utter(1, tgt_lang="fr")
        error = await ann.until("error")
        assert (error["error"], error["code"], error["retryable"]) == ("NO_CAPABLE_NODE", "NO_CAPABLE_NODE", False)
        await n1.result(job, text_translated="meant 0")
        assert outcomes(await ann.answers(2)) == [(0, "meant 0"), (1, "no_capable_node")]


async def test_a_gap_is_announced_and_its_job_cancelled(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        slow = await n1.job()
        await ann.utter(1)
        await n1.result(await n1.job(), text_translated="meant 1")
        assert outcomes(await ann.answers(2)) == [(0, "gap_timeout"), (1, "meant 1")]
        async with asyncio.timeout(PATIENCE_S):
            assert (await n1.cancelled.get())["job_id"] == slow["job_id"]
        assert (await job_of(instance, slow["job_id"])).record.state == "CANCELLED"
        await n1.say("job_stopped", job_id=slow["job_id"], attempt_id=1, node_id="n1")


async def test_a_stream_is_cut_by_the_client_by_a_pause_and_by_its_length(instance: Open) -> None:
    async with node(instance) as n1, client(instance) as ann:
        await ann.begin(supports_binary_frame=True)
        await ann.chunk(0, TENTH)
        await ann.chunk(1, is_final=True)
        manual = await n1.job()
        frame = AudioFrame(ann.session_id, 2, 0, is_final=False, audio=TENTH)
        await ann.socket.send(encode_frame(frame))
        paused = await n1.job()
        await ann.socket.send(encode_frame(AudioFrame(ann.session_id, 3, 0, is_final=False, audio=TENTH * 101)))
        long = await n1.job()
        await ann.socket.send(encode_frame(FinalFrame(ann.session_id, 4, 0)))
        rest = await n1.job()
        assert outcomes(await ann.answers(4)) == [(index, f"meant {index}") for index in range(4)]
    cuts = ("is_manual_cut", "is_timeout_triggered", "is_max_duration_triggered")
    jobs = (manual, paused, long, rest)
    assert [tuple(job[cut] for cut in cuts) for job in jobs] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, False, False),
    ]
    assert long["turn_id"] == rest["turn_id"]
    assert len({job["turn_id"] for job in jobs}) == 3
    shown = [(event["event"], event["utterance_index"]) for event in ann.all("ui_event") if "INPUT" in event["event"]]
    assert shown[:4] == [("INPUT_STARTED", 0), ("INPUT_ENDED", 0), ("INPUT_STARTED", 1), ("INPUT_ENDED", 1)]


async def test_the_pieces_of_a_turn_go_to_one_node(instance: Open) -> None:
    async with node(instance, "n1", slots=8) as n1, node(instance, "n2", slots=8) as n2, client(instance) as ann:
        await ann.begin()
        for seq in range(6):
            await ann.chunk(seq, TENTH * 101, is_final=seq == 5)
        assert len(await ann.answers(7)) == 7
        assert {n1.jobs.qsize(), n2.jobs.qsize()} == {0, 7}


async def test_both_directions_need_a_node_that_serves_both(instance: Open) -> None:
    async with node(instance) as n1, client(instance) as ann:
        await ann.begin(
            src_lang="auto", tgt_lang="zh", mode="two_way_auto", lang_a="en", lang_b="zh-Hans", auto_langs=["en", "zh"]
        )
        await ann.utter(0)
        job = await n1.job()
        assert (job["src_lang"], job["tgt_lang"], job["mode"]) == ("auto", "zh", "two_way_auto")
        assert job["lid"] == {"candidates": ["en", "zh"]}
        await ann.utter(1, src_lang="auto", mode="two_way_auto")
        job = await n1.job()
        assert (job["lang_a"], job["lang_b"], job["lid"]) == ("en", "zh-Hans", {"candidates": ["en", "zh"]})
        await ann.answers(2)


async def test_what_a_node_has_understood_so_far_is_passed_on(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        job = await n1.job()
        await n1.partial(job, "sa")
        partial = await ann.until("asr_partial")
        assert (partial["text"], partial["is_final"], partial["job_id"]) == ("sa", False, job["job_id"])
        await n1.partial(job, "said", is_final=True)
        assert (await ann.until("asr_partial"))["is_final"] is True
        await n1.result(job)
        await ann.answers(1)
        shown = [
            event["event"] for event in ann.all("ui_event") if event["event"] not in {"DISPATCHED", "NODE_ACCEPTED"}
        ]
        assert shown == ["ASR_PARTIAL", "ASR_FINAL", "NMT_DONE"]


async def test_a_paired_session_takes_its_node_and_no_other(instance: Open) -> None:
    async with node(instance, "n1"), node(instance, "n2") as n2, client(instance) as ann:
        code = await offer_pairing(instance.desk.directory, "n2")
        assert (await ann.begin(pairing_code="000000" if code != "000000" else "000001"))[
            "error"
        ] == "INVALID_PAIRING_CODE"
        assert (await ann.begin(pairing_code=code))["assigned_node_id"] == "n2"
        for index in range(6):
            await ann.utter(index, options={"preferred_node_id": "n1", "strict": False})
        await ann.answers(6)
        async with client(instance) as again:
            bad = await again.begin(resume_token=ann.token, src_lang="xx-bad!!")
            assert (bad["error"], bool(bad["trace_id"])) == ("INVALID_MESSAGE", True)
            ack = await again.begin(resume_token=ann.token, last_event_id=6, options={"require_tts": True})
            assert ack["assigned_node_id"] == "n2"
            for index in range(6, 12):
                await again.utter(index)
            await again.answers(6)
        assert n2.jobs.qsize() == 12


async def test_utterances_wait_while_every_node_is_full_and_the_client_hears_of_it(instance: Open) -> None:
    async with node(instance, answer=keep, slots=1) as n1, client(instance) as ann:
        await ann.begin()
        await ann.utter(0)
        first = await n1.job()
        await ann.utter(1)
        await waiting(instance)
        await n1.result(first, **translate(first))
        await n1.result(await n1.job(), text_translated="meant 1")
        assert outcomes(await ann.answers(2)) == [(0, "meant 0"), (1, "meant 1")]
        await ann.say("client_heartbeat", session_id=ann.session_id)
        await ann.until("server_heartbeat")
        assert [one["action"] for one in ann.all("backpressure")] == ["BUSY"]


async def test_whoever_floods_is_told_to_slow_down_and_every_utterance_still_ends_once(instance: Open) -> None:
    async with node(instance, slots=64), client(instance) as ann:
        await ann.begin()
        for index in range(60):
            await ann.utter(index)
        answers = outcomes(await ann.answers(60))
        assert [index for index, _ in answers] == list(range(60))
        refused = [index for index, what in answers if what == "rate_limited"]
        assert 5 <= len(refused) <= 20
        assert {one["error"] for one in ann.all("error")} == {"RATE_LIMITED"}
        assert len(ann.all("error")) == len(refused)
        assert "SLOW_DOWN" in {one["action"] for one in ann.all("backpressure")}


async def test_a_client_that_does_not_read_loses_partials_first_and_never_results(instance: Open) -> None:
    async with node(instance, answer=keep, slots=32) as n1, client(instance, max_queue=1) as ann:
        await ann.begin()
        for index in range(20):
            await ann.utter(index)
        for _ in range(20):
            job = await n1.job()
            for _ in range(40):
                await n1.partial(job, "so far " * 3_000)
            await n1.result(job, text_translated="x" * 500_000)
        answers = await ann.answers(20)
        assert [answer["utterance_index"] for answer in answers] == list(range(20))
        assert all(len(answer["text_translated"]) == 500_000 for answer in answers)
        assert len(ann.all("asr_partial")) < 800


async def test_closing_brings_what_is_left_and_then_the_end(instance: Open) -> None:
    async with node(instance, answer=keep) as n1, client(instance) as ann:
        await ann.begin()
        await ann.chunk(0, TENTH)
        await ann.say("session_close", session_id=ann.session_id, reason="bye")
        job = await n1.job()
        await ann.utter(5)
        assert (await ann.until("error"))["error"] == "SESSION_CLOSED"
        await n1.result(job, **translate(job))
        assert outcomes(await ann.answers(1)) == [(0, "meant 0")]
        assert (await ann.next())["type"] in {"session_close_ack", "ui_event"}
        assert await ann.closed() == 1000
        assert ann.heard[-1] == {"type": "session_close_ack", "session_id": ann.session_id}
        assert (await eventually(instance, job["job_id"])).result == ""
    async with client(instance) as late:
        assert (await late.begin(resume_token=ann.token))["error"] == "INVALID_SESSION"


async def test_rooms_are_not_served_and_three_bad_messages_end_the_connection(instance: Open) -> None:
    async with client(instance) as ann:
        await ann.begin()
        for _ in range(4):
            await ann.say("room_create")
            assert (await ann.until("error"))["code"] == "UNSUPPORTED_FEATURE"
        await ann.say("nonsense")
        await ann.socket.send(b"\xff")
        await ann.say("utterance")
        assert await ann.closed() == 4400
        assert [one["code"] for one in ann.all("error")[4:]] == ["INVALID_MESSAGE"] * 3


async def test_a_close_has_its_code_however_long_its_reason_would_be(instance: Open) -> None:
    async with client(instance) as ann:
        await ann.begin()
        for _ in range(3):
            await ann.say("💬" * 50)
        assert await ann.closed() == 4400
        assert ann.all("error")[2]["message"].startswith(ann.socket.close_reason or "?")


async def test_who_says_nothing_is_sent_away(server: Server) -> None:
    async with open_instance(server.url, sessions__opening_ms=100, sessions__idle_ms=1_000) as instance:
        async with client(instance) as ann:
            assert await ann.closed() == 4408
        async with client(instance) as idle:
            await idle.begin()
            assert await idle.closed() == 4408


async def test_what_is_played_is_shown(instance: Open) -> None:
    async with node(instance), client(instance) as ann:
        await ann.begin()
        await ann.utter(0, trace_id="t-0")
        await ann.answers(1)
        await ann.say("tts_started", trace_id="t-0", group_id="g", ts_start_ms=1)
        await ann.say("tts_play_ended", trace_id="t-0", group_id="g", ts_end_ms=1)
        await ann.shown("TTS_PLAY_ENDED")
        assert (ann.heard[-1]["utterance_index"], ann.heard[-1]["trace_id"]) == (0, "t-0")


async def test_who_opens_too_many_sessions_is_sent_away(server: Server) -> None:
    """They are told when there is room again, as the bucket knows it."""
    async with open_instance(server.url, rates__submits_per_s=2, rates__submits_burst=2) as instance:
        told: dict[str, Any] = {"type": "session_init_ack"}
        opened = -1
        while told["type"] == "session_init_ack":
            opened += 1
            async with client(instance) as ann:
                told = await ann.begin()
                closed = await ann.closed() if told["type"] == "error" else None
        assert opened >= 2
        assert (told["error"], closed) == ("RATE_LIMITED", 4429)
        assert 0 < told["retry_after_ms"] <= 500


async def test_a_new_session_takes_no_utterances_place(server: Server) -> None:
    async with (
        open_instance(server.url, rates__submits_per_s=1, rates__submits_burst=1) as instance,
        node(instance),
        client(instance) as ann,
    ):
        await ann.begin()
        await ann.utter(0)
        assert outcomes(await ann.answers(1)) == [(0, "meant 0")]


async def test_who_guesses_too_many_pairing_codes_is_not_told_the_right_one(server: Server) -> None:
    as_ann, as_bob = {"token": "ann-has-this-token"}, {"token": "bob-has-this-token"}
    tokens = (f"ann:{as_ann['token']}", f"bob:{as_bob['token']}")
    flags = {"auth__session_tokens": tokens, "auth__nodes": "open", "rates__pairings_burst": 2}
    async with open_instance(server.url, **flags) as instance, node(instance, "n1"):
        code = await offer_pairing(instance.desk.directory, "n1")
        wrong = "000000" if code != "000000" else "000001"
        async with client(instance) as ann:
            for _ in range(2):
                told = await ann.begin(pairing_code=wrong, **as_ann)
                assert told["error"] == "INVALID_PAIRING_CODE"
            assert (await ann.begin(pairing_code=code, **as_ann))["error"] == "RATE_LIMITED"
            assert await ann.closed() == 4429
        async with client(instance) as ann:
            assert (await ann.begin(**as_ann))["type"] == "session_init_ack"
        async with client(instance) as bob:
            assert (await bob.begin(pairing_code=code, **as_bob))["assigned_node_id"] == "n1"


async def test_guesses_without_a_credential_are_counted_by_address(server: Server) -> None:
    async with open_instance(server.url, rates__pairings_burst=1) as instance:
        desk = instance.desk
        tries = [await desk.buckets.admit_guess("", client) for client in ("10.0.0.1", "10.0.0.1", "fe80::1%eth0")]
        assert [isinstance(one, Refusal) for one in tries] == [False, True, False]
