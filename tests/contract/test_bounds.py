"""Whatever the settings may be, the flows take: an instance that starts also serves."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from lingua_scheduler.config.load import LEAVES
from lingua_scheduler.front.audio import speech_ref
from lingua_scheduler.store.keys import audio_tag, cell_key
from tests.support.house import House

if TYPE_CHECKING:
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
