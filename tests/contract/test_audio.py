"""Audio over HTTP: it comes before its job, and goes with it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from tests.support.servers import Server

SOUND = bytes(range(256)) * 40


async def upload(house: House, media: str = "audio/wav") -> str:
    answer = await house.http.post("/v1/audio", content=SOUND, headers={"content-type": media})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["audio_ref"])


async def test_it_comes_back_as_it_was(house: House) -> None:
    ref = await upload(house)
    answer = await house.http.get(f"/v1/audio/{ref}")
    assert (answer.content, answer.headers["content-type"]) == (SOUND, "audio/wav")


async def test_it_is_in_the_assignment_of_a_node_that_does_not_fetch(house: House) -> None:
    ref = await upload(house)
    async with house.node("plain") as plain, house.node("fetches") as fetches, house.node("binary") as binary:
        await plain.register()
        await fetches.register(features=("audio_ref",))
        await binary.register(features=("binary_audio",))
        for node in (plain, fetches, binary):
            await house.dispatch(audio_ref=ref, options={"preferred_node_id": node.node_id, "strict": True})
        job = await plain.job()
        assert base64.b64decode(job["audio"]) == SOUND
        assert "audio_ref" not in job
        await plain.result(job)
        job = await fetches.job()
        assert (job["audio"], job["audio_ref"]) == ("", ref)
        assert (await house.http.get(f"/v1/audio/{job['audio_ref']}")).content == SOUND
        await fetches.result(job)
        job = await binary.job()
        assert job["audio"] == ""
        frame = await binary.next_bytes()
        assert frame.endswith(SOUND)
        await binary.result(job)


async def test_a_retry_gets_the_same_audio(house: House) -> None:
    ref = await upload(house)
    async with house.node("a") as first, house.node("b") as second:
        nodes = {"a": first, "b": second}
        for node in nodes.values():
            await node.register()
        placed = await house.dispatch(audio_ref=ref)
        failing = nodes.pop(placed["node_id"])
        other = nodes.popitem()[1]
        job = await failing.job()
        await failing.result(job, success=False, error={"code": "INTERNAL", "message": "broken"})
        job = await other.job()
        assert (job["attempt_id"], base64.b64decode(job["audio"])) == (2, SOUND)
        await other.result(job)
        assert (await house.ended(placed["job_id"]))["state"] == "FINISHED"


async def test_what_the_node_speaks_is_in_the_result_and_not_in_the_record(house: House) -> None:
    spoken = base64.b64encode(SOUND).decode()
    async with house.node() as node:
        await node.register()
        placed = await house.dispatch()
        await node.result(await node.job(), tts_audio=spoken)
        job = await house.ended(placed["job_id"])
        assert job["result"]["tts_audio"] == spoken


@pytest.mark.parametrize(
    ("said", "served"),
    [
        ("audio/webm;codecs=opus", "audio/webm;codecs=opus"),
        ("audio/L16; rate=16000", "audio/L16; rate=16000"),
        ("text/html", "application/octet-stream"),
        ("audio/svg", "application/octet-stream"),
        ("audio/wav\ttext/html", "application/octet-stream"),
        ("pcm16", "application/octet-stream"),
    ],
)
async def test_nothing_is_served_as_what_it_cannot_be(house: House, said: str, served: str) -> None:
    ref = await upload(house, said)
    answer = await house.http.get(f"/v1/audio/{ref}")
    assert (answer.content, answer.headers["content-type"]) == (SOUND, served)
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_node_that_says_who_it_is_gets_what_its_jobs_name(house: House) -> None:
    ref, other = await upload(house), await upload(house)
    await house.post("/v1/node/register", {"node_id": "n1", "semantic_langs": ["en", "zh"]})

    async def ask(what: str, node_id: str) -> int:
        return (await house.http.get(f"/v1/audio/{what}", headers={"x-node-id": node_id})).status_code

    assert await ask(ref, "n1") == 404
    placed = await house.dispatch(audio_ref=ref)
    assert [await ask(ref, "n1"), await ask(other, "n1"), await ask(ref, "n9"), await ask(ref, "a:b")] == [
        200,
        404,
        404,
        400,
    ]
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
    assert await ask(ref, "n1") == 404


async def test_refusals(house: House) -> None:
    assert (await house.get("/v1/audio/audio-" + "0" * 32, 404))["error"] == "UNKNOWN_AUDIO"
    too_much = await house.http.post("/v1/audio", content=bytes(2 * 1024 * 1024 + 1))
    assert (too_much.status_code, too_much.json()["error"]) == (413, "PAYLOAD_TOO_LARGE")
    nothing = await house.http.post("/v1/audio", content=b"")
    assert (nothing.status_code, nothing.json()["error"]) == (400, "INVALID_MESSAGE")
    gone = await house.dispatch(status=404, audio_ref="audio-" + "0" * 32)
    assert gone["error"] == "UNKNOWN_AUDIO"


async def test_an_upload_takes_no_jobs_place(server: Server) -> None:
    """One upload and one job at once: each has a bucket of its own, as large as the other."""
    async with House(server.url, **{"rates.submits_per_s": 1, "rates.submits_burst": 1}).open() as house:
        ref = await upload(house)
        await house.dispatch(status=422, audio_ref=ref)
        answer = await house.http.post("/v1/audio", content=SOUND)
        assert (answer.status_code, answer.json()["error"]) == (429, "RATE_LIMITED")
        for limited in (answer.json(), await house.dispatch(status=429)):
            assert 0 < limited["retry_after_ms"] <= 1_000
