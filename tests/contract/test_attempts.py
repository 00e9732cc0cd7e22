"""`/v1/job/ack`, `started`, `stopped`, `done` and `fail`, to the letter."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.house import House

WORDS = ("ack", "started", "stopped", "done", "fail")


async def enrol(house: House, *node_ids: str) -> None:
    for node_id in node_ids:
        await house.post("/v1/node/register", {"node_id": node_id, "semantic_langs": ["en", "zh"]})


async def place(house: House, **said: Any) -> dict[str, Any]:
    """A job; how its node names it."""
    placed = await house.dispatch(**said)
    return {"job_id": placed["job_id"], "attempt_id": placed["attempt_id"], "node_id": placed["node_id"]}


async def test_each_word_moves_the_job_on_and_implies_the_earlier_ones(house: House) -> None:
    await enrol(house, "n1")
    attempt = await place(house)
    assert await house.post("/v1/job/started", attempt) == {"ok": True, "state": "RUNNING"}
    assert await house.post("/v1/job/ack", attempt) == {"ok": True, "state": "RUNNING"}
    done = attempt | {"status": "ok", "result": {"text": "早"}}
    for _ in range(2):
        assert await house.post("/v1/job/done", done) == {"ok": True, "state": "FINISHED", "attempt_id": 1}
    for word in ("ack", "started"):
        assert await house.post(f"/v1/job/{word}", attempt) == {"ok": True, "state": "FINISHED"}
    assert (await house.get(f"/v1/job/{attempt['job_id']}"))["result"] == {"text": "早"}


@pytest.mark.parametrize("by", ["fail", "done"])
async def test_a_failure_goes_on_elsewhere_with_its_next_number(house: House, by: str) -> None:
    await enrol(house, "n1", "n2")
    attempt = await place(house)
    said = attempt | {"status": "error", "reason": "CUDA out of memory"}
    failed = {"ok": True, "state": "RETRYING", "attempt_id": 2}
    assert await house.post(f"/v1/job/{by}", said) == failed
    assert await house.post(f"/v1/job/{by}", said) == failed
    job = await house.get(f"/v1/job/{attempt['job_id']}")
    assert job["node_id"] != attempt["node_id"]
    assert [one["end"] for one in job["attempts"]] == ["failed", ""]
    second = {"job_id": attempt["job_id"], "attempt_id": 2, "node_id": job["node_id"]}
    assert (await house.post("/v1/job/done", second | {"status": "ok"}))["state"] == "FINISHED"


async def test_an_overloaded_node_costs_no_try_and_rests(house: House) -> None:
    await enrol(house, "n1", "n2")
    attempt = await place(house)
    said = attempt | {"status": "error", "reason": "NODE_OVERLOADED", "retry_after_ms": 60_000}
    assert (await house.post("/v1/job/fail", said))["state"] == "RETRYING"
    assert (await house.get(f"/v1/nodes/{attempt['node_id']}"))["standing"] == "resting"
    await house.post("/v1/job/cancel", {"job_id": attempt["job_id"]})


@pytest.mark.parametrize("word", WORDS)
async def test_a_node_that_never_held_it_is_a_mismatch(house: House, word: str) -> None:
    await enrol(house, "n1", "n2")
    attempt = await place(house)
    other = attempt | {"node_id": "n2" if attempt["node_id"] == "n1" else "n1"}
    refused = await house.post(f"/v1/job/{word}", other, 409)
    assert (refused["error"], refused["retryable"]) == ("NODE_MISMATCH", False)
    assert (await house.get(f"/v1/job/{attempt['job_id']}"))["state"] == "DISPATCHED"
    await house.post("/v1/job/cancel", {"job_id": attempt["job_id"]})


@pytest.mark.parametrize("word", WORDS)
async def test_an_attempt_that_is_over_is_stale(house: House, word: str) -> None:
    await enrol(house, "n1", "n2")
    attempt = await place(house)
    await house.post("/v1/job/stopped", attempt)
    if word == "stopped":
        assert (await house.post("/v1/job/stopped", attempt))["state"] == "RETRYING"
    else:
        refused = await house.post(f"/v1/job/{word}", attempt, 409)
        assert refused["error"] == "STALE_ATTEMPT"
    await house.post("/v1/job/cancel", {"job_id": attempt["job_id"]})


@pytest.mark.parametrize("word", WORDS)
async def test_an_old_epoch_is_stale(house: House, word: str) -> None:
    await enrol(house, "n1")
    attempt = await place(house)
    refused = await house.post(f"/v1/job/{word}", attempt | {"epoch": "0-old"}, 409)
    assert refused["error"] == "STALE_ATTEMPT"
    await house.post("/v1/job/cancel", {"job_id": attempt["job_id"]})


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"job_id": "c0.nobody"}, 404, "UNKNOWN_JOB"),
        ({"job_id": "nobody"}, 400, "INVALID_MESSAGE"),
        ({"attempt_id": 0}, 400, "INVALID_MESSAGE"),
        ({"attempt_id": "1"}, 400, "INVALID_MESSAGE"),
        ({"node_id": None}, 400, "INVALID_MESSAGE"),
    ],
)
async def test_what_names_no_attempt_is_refused(
    house: House, word: str, said: dict[str, Any], status: int, code: str
) -> None:
    attempt = {"job_id": "c0.a", "attempt_id": 1, "node_id": "n1"} | said
    assert (await house.post(f"/v1/job/{word}", attempt, status))["error"] == code


async def test_nobody_replaces_what_a_node_has_said(house: House) -> None:
    await enrol(house, "n1", "n2")
    attempt = await place(house)
    other = attempt | {"node_id": "n2" if attempt["node_id"] == "n1" else "n1"}
    spoken, wrong = (base64.b64encode(sound).decode() for sound in (b"spoken", b"wrong"))
    path = f"/v1/job/{attempt['job_id']}"
    refused = await house.post("/v1/job/done", other | {"result": {"tts_audio": wrong}}, 409)
    assert refused["error"] == "NODE_MISMATCH"
    stale = await house.post("/v1/job/done", attempt | {"epoch": "0-old", "result": {"tts_audio": wrong}}, 409)
    assert stale["error"] == "STALE_ATTEMPT"
    assert (await house.get(f"/v1/audio/{attempt['job_id']}.1.tts", 404))["error"] == "UNKNOWN_AUDIO"
    await house.post("/v1/job/done", attempt | {"result": {"tts_audio": spoken}})
    await house.post("/v1/job/done", other | {"result": {"tts_audio": wrong}}, 409)
    await house.post("/v1/job/done", attempt | {"result": {"tts_audio": wrong}})
    assert (await house.get(path))["result"] == {"tts_audio": spoken}


async def test_what_a_result_calls_a_ref_is_data(house: House) -> None:
    await enrol(house, "n1")
    first, second, third = [await place(house) for _ in range(3)]
    spoken = base64.b64encode(b"spoken").decode()
    await house.post("/v1/job/done", first | {"result": {"tts_audio": spoken}})
    foreign = {"tts_ref": f"{first['job_id']}.1.tts"}
    nested = {"extra": {"tts_ref": f"{third['job_id']}.1.tts"}}
    for attempt, result in ((second, foreign), (third, nested)):
        await house.post("/v1/job/done", attempt | {"result": result})
        assert (await house.get(f"/v1/job/{attempt['job_id']}"))["result"] == result


async def test_a_result_of_any_size_up_to_the_bound(house: House) -> None:
    await enrol(house, "n1")
    attempt = await place(house)
    large = attempt | {"status": "ok", "result": {"text": "x" * (4 * 1024 * 1024)}}
    refused = await house.post("/v1/job/done", large, 413)
    assert (refused["error"], refused["retryable"]) == ("PAYLOAD_TOO_LARGE", False)
    assert (await house.post("/v1/job/done", attempt | {"result": {"text": "x" * 1_000_000}}))["state"] == "FINISHED"
