"""Whatever the settings and the messages may say, the flows take: an instance that starts also serves."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from lingua_scheduler.config.load import LEAVES
from lingua_scheduler.core.ticket import MAX_INDEX
from lingua_scheduler.flows import sessions
from lingua_scheduler.front.audio import speech_ref
from lingua_scheduler.store.keys import audio_tag, cell_key
from tests.support.house import House
from tests.support.logs import told
from tests.support.people import SILENCE

if TYPE_CHECKING:
    import pytest

    from tests.support.servers import Server

#: How long things take and are kept, all at once as long as may be.
LONGEST: Final = (
    "jobs.timeout_ms",
    "jobs.run_timeout_ms",
    "jobs.reservation_ttl_ms",
    "jobs.claim_lease_ms",
    "jobs.result_ttl_ms",
    "jobs.job_record_ttl_ms",
    "jobs.released_ttl_ms",
    "jobs.binding_ttl_ms",
    "sessions.resume_window_ms",
    "sessions.gap_ms",
    "sessions.wait_ms",
    "sessions.idle_ms",
)
SPEECH: Final = base64.b64encode(b"speech" * 100).decode()


def longest() -> dict[str, int]:
    """Each of them at its upper bound."""
    return {name: next(rule.le for rule in LEAVES[name].metadata if hasattr(rule, "le")) for name in LONGEST}


async def test_the_longest_times_are_served(server: Server) -> None:
    async with (
        House(server.url, **longest()).open() as house,
        house.node("n1") as node,
        house.client() as client,
    ):
        await node.register()
        await client.init()
        await client.utter(0)
        await node.result(await node.job(), tts_audio=SPEECH)
        assert (await client.next("translation_result"))["tts_audio"] == SPEECH
        sound = (await house.http.post("/v1/audio", content=b"sound")).json()["audio_ref"]
        placed = await house.dispatch(audio_ref=sound, request_id="r1")
        await node.result(await node.job(), tts_audio=SPEECH)
        assert (await house.ended(placed["job_id"]))["result"]["tts_audio"] == SPEECH


async def test_numbers_are_served_up_to_their_bound_and_go_on_behind_it(house: House) -> None:
    async with house.node("n1") as node, house.client() as client:
        await node.register()
        await client.init()
        for index in (MAX_INDEX - 1, MAX_INDEX):
            await client.utter(index)
            await node.result(await node.job())
            assert (await client.end_of(index))["type"] == "translation_result"
        for index in (MAX_INDEX + 1, 2**53 - 1, 2**53, 2**53 + 1):
            await client.utter(index)
            error = await client.next("error")
            assert (error["code"], "utterance_index" in error["message"]) == ("INVALID_MESSAGE", True)
            refused = await house.dispatch("other", status=400, utterance_index=index)
            assert (refused["error"], "utterance_index" in refused["detail"]) == ("INVALID_MESSAGE", True)
            await client.say("client_heartbeat")
        await client.say("audio_chunk", seq=0, payload=SILENCE, is_final=True)
        await node.result(await node.job())
        assert (await client.end_of(MAX_INDEX + 1))["type"] == "translation_result"
        placed = await house.dispatch("other", utterance_index=MAX_INDEX)
        await node.result(await node.job())
        await house.ended(placed["job_id"])


async def test_a_state_that_cannot_be_saved_is_no_session_of_another(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is a bug of ours: it is said here and there, nothing is placed, and the client can come back."""
    async with house.node("n1") as node, house.client() as client, house.client() as again:
        await node.register()
        await client.init()
        monkeypatch.setattr(sessions, "MAX_STATE_BYTES", 10)
        await client.utter(0)
        assert (await client.next("error"))["code"] == "INTERNAL"
        assert (await client.gone())[0] == 1011
        found = [(one["session_id"], one["reason"]) for one in told(caplog, "save_session")]
        assert (client.session_id, "state must be at most 10 bytes") in found
        monkeypatch.undo()
        await again.init(resume_token=client.ack["resume_token"], last_event_id=0)
        assert (await again.end_of(0))["reason"] == "internal"
        await again.utter(1)
        await node.result(await node.job(utterance_index=1))
        assert (await again.end_of(1))["type"] == "translation_result"


async def test_what_a_node_calls_the_place_of_its_speech_is_not_kept_for_long_names(house: House) -> None:
    await house.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
    async with house.client() as client:
        await client.init()
        await client.utter(0)
        (job,) = (await house.post("/v1/node/poll", {"node_id": "n1", "wait_ms": 10_000}))["jobs"]
        done = {"job_id": job["job_id"], "attempt_id": 1, "node_id": "n1", "status": "ok"}
        await house.post("/v1/job/done", done | {"result": {"tts_ref": f"{job['job_id']}.{'x' * 30_000}"}})
        assert (await client.end_of(0))["type"] == "translation_result"
        session = house.serving.desk.sessions.get(client.session_id)
        assert session is not None
        assert session.talk.ledger.sent[0].speech_ref == ""


async def test_speech_is_kept_as_long_as_its_result(server: Server) -> None:
    async with House(server.url, **{"jobs.result_ttl_ms": 1_000_000}).open() as house:
        await house.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})
        async with house.node("n2") as node:
            await node.register()
            for node_id in ("n1", "n2"):
                placed = await house.dispatch(options={"preferred_node_id": node_id, "strict": True})
                if node_id == "n1":
                    attempt = {name: placed[name] for name in ("job_id", "attempt_id", "node_id")}
                    await house.post("/v1/job/done", attempt | {"status": "ok", "result": {"tts_audio": SPEECH}})
                else:
                    await node.result(await node.job(), tts_audio=SPEECH)
                await house.ended(placed["job_id"])
                engine, ref = house.serving.app.engine, speech_ref(placed["job_id"], placed["attempt_id"])
                left_ms = await engine.command("PTTL", cell_key(engine.prefix, audio_tag(ref), "audio"))
                assert 900_000 < left_ms <= 1_000_000
