"""What two schedulers write down of a whole life, and what never."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import LINGUA, Scheduler, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

TOKENS = {"node": "n0de-t0ken-7hat-n0body-sees", "session": "c4ller-t0ken-7hat-n0body", "admin": "0perator-t0ken-7hat"}
#: What was heard, said, answered and sounded: none of it is anybody's business.
WORDS = (
    "the quick brown fox",
    "le vif renard brun",
    "a partial of a fox",
    "fox in a payload",
    "fox is why",
    "fox said",
)
SOUND = base64.b64encode(b"sound of a fox " * 300).decode()
FORGED = 'x\n{"event": "forged"}'
ACKS = ("job_ack", "job_started", "job_stopped")


def bearer(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[who]}"}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Each line, which must be an object."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
async def two(store: Server, tmp_path: Path) -> AsyncIterator[tuple[Scheduler, Scheduler]]:
    """Two that write down all they can, each into a file."""
    settings = {
        "LINGUA_LOGS__LEVEL": "debug",
        "LINGUA_AUTH__NODE_TOKENS": f"berlin:{TOKENS['node']}",
        "LINGUA_AUTH__SESSION_TOKENS": f"one:{TOKENS['session']}",
        "LINGUA_AUTH__ADMIN_TOKENS": f"ops:{TOKENS['admin']}",
    }
    here, there = Scheduler(store.url, **settings), Scheduler(store.url, **settings)
    here.log, there.log = tmp_path / "here.log", tmp_path / "there.log"
    async with here, there:
        yield here, there


async def live(here: Scheduler, there: Scheduler) -> list[str]:
    """An utterance that fails first, a job over HTTP, trouble, and names that would like to be lines."""
    node, client = there.node(), here.client()
    await node.connect(additional_headers=bearer("node"))
    await node.register(
        features=ACKS, labels={"region": FORGED}, version=FORGED, installed_models=[{"model_id": FORGED}]
    )
    await client.connect(additional_headers=bearer("session"))
    await client.init(client_version=FORGED, token=TOKENS["session"])

    async def is_ready() -> bool:
        found = await here.http.get("/v1/nodes/node-1", headers=bearer("admin"))
        return bool(found.json()["reported"] == "ready")

    await eventually(is_ready)
    await client.utter(0, audio=SOUND)
    job = await node.job()
    named = {"job_id": job["job_id"], "attempt_id": job["attempt_id"], "node_id": "node-1"}
    await node.say("job_ack", **named)
    await node.say("job_started", **named)
    await node.say("asr_partial", **named, text=WORDS[2], utterance_index=0)
    await node.say("node_error", node_id="node-1", code="HOT", message=f"{WORDS[0]} {FORGED}")
    await node.say("nonsense", text=WORDS[0])
    await node.result(job, text_asr=WORDS[0], text_translated=WORDS[1], tts_audio=SOUND)
    await client.end_of(0)
    sent = {"session_id": "room", "src_lang": "en", "tgt_lang": "zh", "payload": {"text": WORDS[3]}}
    placed = (await here.http.post("/v1/dispatch/f2f", json=sent, headers=bearer("session"))).json()
    failed = await node.job(job_id=placed["job_id"])
    error = {"code": "MODEL_LOAD_FAILED", "message": f"{WORDS[4]} {FORGED}"}
    await node.result(failed, success=False, error=error)
    again = {"job_id": placed["job_id"], "reason": f"{WORDS[5]} {FORGED}"}
    await here.http.post("/v1/job/cancel", json=again, headers=bearer("session"))
    await here.http.get(
        f"/v1/{FORGED.encode().hex()}%0a{{%22event%22}}", headers={"authorization": "Bearer not-a-token-of-ours"}
    )
    await client.close()
    await node.close()
    return [job["job_id"], job["trace_id"], placed["job_id"], placed["trace_id"]]


async def test_what_happened_is_there_and_what_was_said_is_not(two: tuple[Scheduler, Scheduler]) -> None:
    here, there = two
    first, first_trace, second, second_trace = await live(here, there)
    assert (await here.stop(), await there.stop()) == (0, 0)
    assert here.log is not None
    assert there.log is not None
    lines = [*lines_of(here.log), *lines_of(there.log)]
    assert all({"ts", "level", "event", "module"} <= set(line) for line in lines)
    placed = [line for line in lines if line["event"] == "dispatch" and line["job_id"] in {first, second}]
    assert {(line["node_id"], line["attempt"], line["trace_id"]) for line in placed} >= {
        ("node-1", 1, first_trace),
        ("node-1", 1, second_trace),
    }
    of_first = {line["event"] for line in lines if line.get("job_id") == first}
    assert of_first >= {"dispatch", "deliver", "ack", "started", "done"}
    (failed,) = [line for line in lines if line["event"] == "fail" and line["job_id"] == second]
    assert (failed["detail"], failed["attempt"], failed["node_id"]) == ("MODEL_LOAD_FAILED", 1, "node-1")
    text = here.log.read_text() + there.log.read_text()
    secrets = [*WORDS, *TOKENS.values(), SOUND[:24], "sound of a fox", "not-a-token-of-ours"]
    assert [secret for secret in secrets if secret in text] == []
    assert "forged" not in {line["event"] for line in lines}


async def test_an_operator_sets_a_level_for_all_and_a_signal_takes_it_back(
    two: tuple[Scheduler, Scheduler],
) -> None:
    here, there = two

    def lingua(*words: str) -> dict[str, Any]:
        env = os.environ | {"LINGUA_URL": here.url, "LINGUA_TOKEN": TOKENS["admin"]}
        ran = subprocess.run([LINGUA, "log-level", *words, "--json"], capture_output=True, env=env, check=True)
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    async def levels(scheduler: Scheduler) -> dict[str, str]:
        found = (await scheduler.http.get("/v1/log-levels", headers=bearer("admin"))).json()
        return {one["module"]: one["level"] for one in found["modules"]}

    async def is_told(wanted: dict[str, str]) -> None:
        async def is_so() -> bool:
            return await levels(here) == await levels(there) == wanted

        await eventually(is_so)

    ours = "lingua_scheduler"
    said = lingua("front.door", "error")
    assert (said["module"], len(said["instances"])) == (f"{ours}.front.door", 2)
    await is_told({ours: "debug", f"{ours}.front.door": "error"})
    lingua("loops", "error", "--for", "0.2")
    await is_told({ours: "debug", f"{ours}.front.door": "error"})
    assert [one["module"] for one in lingua()["modules"]] == [ours, f"{ours}.front.door"]
    for scheduler in two:
        os.kill(scheduler.pid, signal.SIGHUP)
    await is_told({ours: "debug"})
    for wrong in ({"module": "websockets", "level": "debug"}, {"module": "front", "level": "loud"}):
        answer = await here.http.post("/v1/log-level", json=wrong, headers=bearer("admin"))
        assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_MESSAGE")
    answer = await here.http.post("/v1/log-level", json={"module": "front", "level": "info"}, headers=bearer("session"))
    assert answer.status_code == 403
    assert there.log is not None
    changes = [(line["module_set"], line["who"]) for line in lines_of(there.log) if "who" in line]
    assert changes[0] == (f"{ours}.front.door", "ops")
