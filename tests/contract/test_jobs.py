"""Dispatch, cancel and the job itself over HTTP, to the letter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.store.keys import audio_tag, cell_key
from lingua_scheduler.views.pools import served_in
from tests.support.house import House
from tests.support.people import PATIENCE_S

if TYPE_CHECKING:
    from lingua_scheduler.views.pools import Served
    from tests.support.servers import Server


async def enrol(house: House, *node_ids: str, **said: Any) -> None:
    for node_id in node_ids:
        await house.post("/v1/node/register", {"node_id": node_id, "semantic_langs": ["en", "zh"]} | said)


async def finish(house: House, placed: dict[str, Any], **result: Any) -> None:
    attempt = {name: placed[name] for name in ("job_id", "attempt_id", "node_id")}
    await house.post("/v1/job/done", attempt | {"status": "ok", "result": result})


class TestDispatch:
    async def test_the_answer(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch(trace_id="t-1")
        job_id = placed.pop("job_id")
        assert job_id.startswith("c0.")
        assert placed == {"node_id": "n1", "attempt_id": 1, "trace_id": "t-1"}
        await finish(house, placed | {"job_id": job_id})

    async def test_the_trace_of_the_caller_goes_all_the_way(self, house: House) -> None:
        await enrol(house, "n1")
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        said = {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"}
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        answer = await house.http.post("/v1/dispatch/f2f", json=said, headers=headers)
        assert answer.headers["traceparent"].split("-")[1] == trace
        placed = answer.json()
        assert placed["trace_id"] == trace
        (job,) = (await house.post("/v1/node/poll", {"node_id": "n1"}))["jobs"]
        assert job["trace_id"] == trace
        await finish(house, placed)

    async def test_the_same_request_is_the_same_job_also_at_once(self, house: House) -> None:
        await enrol(house, "n1")
        asked = [house.dispatch(request_id="r1", payload={"a": 1, "b": 2}) for _ in range(8)]
        answers = await asyncio.gather(*asked)
        again = await house.dispatch(request_id="r1", payload={"b": 2, "a": 1})
        assert {answer["job_id"] for answer in answers} == {again["job_id"]}
        await finish(house, again)

    async def test_what_exists_costs_nothing_and_answers_with_its_own_trace(self, server: Server) -> None:
        spare = {"rates.submits_per_s": 1, "rates.submits_burst": 2}
        async with House(server.url, **spare).open() as house:
            await enrol(house, "n1")
            upload = await house.http.post("/v1/audio", content=b"sound")
            asked = {"request_id": "r1", "audio_ref": upload.json()["audio_ref"]}
            placed = await house.dispatch(**asked, trace_id="t-1")
            await house.serving.desk.engine.command("UNLINK", audio_key(house, asked["audio_ref"]))
            for trace in ("t-2", "t-3", None):
                assert await house.dispatch(**asked, trace_id=trace) == placed
            conflict = await house.dispatch(status=409, **asked, payload={})
            assert conflict["error"] == "IDEMPOTENCY_CONFLICT"
            await finish(house, placed)
            # Of the two that may come at once, and of the numbers, only the first have been spent.
            second = await house.dispatch()
            assert (await house.get(f"/v1/job/{second['job_id']}"))["utterance_index"] == 1
            await finish(house, second)

    async def test_only_the_language_of_a_tag_counts(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch(request_id="r1", src_lang="en-GB", tgt_lang="zh-Hans-CN")
        assert await house.dispatch(request_id="r1", src_lang="EN", tgt_lang="zh_TW") == placed
        (job,) = (await house.post("/v1/node/poll", {"node_id": "n1"}))["jobs"]
        assert (job["src_lang"], job["tgt_lang"]) == ("en", "zh")
        await finish(house, placed)

    async def test_another_body_under_the_same_id_is_a_conflict(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch(request_id="r1")
        refused = await house.dispatch(status=409, request_id="r1", payload={"a": 2})
        assert (refused["error"], refused["retryable"]) == ("IDEMPOTENCY_CONFLICT", False)
        await finish(house, placed)

    async def test_a_refusal_is_not_remembered(self, house: House) -> None:
        assert (await house.dispatch(status=422, request_id="r1"))["error"] == "NO_CAPABLE_NODE"
        await enrol(house, "n1")
        await finish(house, await house.dispatch(request_id="r1"))

    async def test_nor_is_the_number_that_it_would_have_had(self, house: House) -> None:
        for _ in range(2):
            assert (await house.dispatch(status=422, utterance_index=3))["error"] == "NO_CAPABLE_NODE"
        await enrol(house, "n1")
        await finish(house, await house.dispatch(utterance_index=3))
        assert (await house.dispatch(status=400, utterance_index=3))["error"] == "INVALID_MESSAGE"
        await finish(house, await house.dispatch(utterance_index=1))

    async def test_full_says_why_and_when(self, house: House) -> None:
        await enrol(house, "n1", max_concurrent_jobs=1)
        placed = await house.dispatch()
        answer = await house.http.post("/v1/dispatch/f2f", json={"session_id": "s", "src_lang": "en", "tgt_lang": "zh"})
        refused = answer.json()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert (refused["error"], refused["retryable"], refused["retry_after_ms"]) == (
            "ALL_CANDIDATES_FULL_OR_FAILED",
            True,
            250,
        )
        assert (refused["breakdown"]["pool"], refused["breakdown"]["full"]) == (1, 1)
        assert refused["trace_id"]
        await finish(house, placed)

    async def test_it_may_wait_for_a_slot(self, house: House) -> None:
        await enrol(house, "n1", max_concurrent_jobs=1)
        first = await house.dispatch()
        waiting = asyncio.create_task(house.dispatch("other", options={"wait_ms": 15_000}))
        await finish(house, first)
        second = await waiting
        assert second["node_id"] == "n1"
        await finish(house, second)

    @pytest.mark.parametrize(
        ("options", "status", "code"),
        [
            ({"preferred_node_id": "n9"}, 422, "PREFERRED_NODE_NOT_CAPABLE"),
            ({"require_tts": True}, 422, "NO_CAPABLE_NODE"),
            ({"labels": {"region": "mars"}}, 422, "NO_CAPABLE_NODE"),
            ({"strict": True}, 400, "INVALID_MESSAGE"),
            ({"policy": "best"}, 400, "INVALID_MESSAGE"),
            ({"wait_ms": -1}, 400, "INVALID_MESSAGE"),
            ({"exclude_node_ids": [f"n{n}" for n in range(17)]}, 400, "INVALID_MESSAGE"),
            ({"timeout_ms": 0}, 400, "INVALID_MESSAGE"),
        ],
    )
    async def test_what_cannot_be_done_as_asked(
        self, house: House, options: dict[str, Any], status: int, code: str
    ) -> None:
        await enrol(house, "n1", nmt_pairs=[["en", "zh"]], tts_langs=["en"])
        assert (await house.dispatch(status=status, options=options))["error"] == code

    async def test_a_strict_preference_that_is_full(self, house: House) -> None:
        await enrol(house, "n1", "n2", max_concurrent_jobs=1)
        wish = {"preferred_node_id": "n1"}
        first = await house.dispatch(options=wish)
        assert first["node_id"] == "n1"
        refused = await house.dispatch(status=409, options=wish | {"strict": True})
        assert (refused["error"], refused["retryable"]) == ("PREFERRED_NODE_UNAVAILABLE", True)
        second = await house.dispatch(options=wish)
        assert second["node_id"] == "n2"
        explained = await house.get(f"/v1/job/{second['job_id']}/explain")
        assert "preferred full" in explained["attempts"][0]["reasons"]
        for placed in (first, second):
            await finish(house, placed)

    @pytest.mark.parametrize("missing", ["session_id", "src_lang", "tgt_lang"])
    async def test_what_is_missing_is_named(self, house: House, missing: str) -> None:
        refused = await house.post(
            "/v1/dispatch/f2f", {"session_id": "s", "src_lang": "en", "tgt_lang": "zh"} | {missing: None}, 400
        )
        assert missing in refused["detail"]

    async def test_an_unknown_language_is_refused(self, house: House) -> None:
        for field in ("src_lang", "tgt_lang"):
            refused = await house.dispatch(status=400, **{field: "xx-unknown"})
            assert (refused["error"], refused["detail"]) == (
                "INVALID_MESSAGE",
                f"{field}: 'xx-unknown' is not a known language",
            )

    async def test_utterances_are_numbered_within_their_session(self, house: House) -> None:
        await enrol(house, "n1", max_concurrent_jobs=8)
        for index in (None, 5, None):
            await house.dispatch(utterance_index=index)
        jobs = (await house.post("/v1/node/poll", {"node_id": "n1"}))["jobs"]
        assert sorted(job["utterance_index"] for job in jobs) == [0, 5, 6]
        for job in jobs:
            await finish(house, job | {"node_id": "n1"})


async def somebody_waits(house: House) -> None:
    """Until a job waits for a slot."""
    waiting: list[Served] = []
    async with asyncio.timeout(PATIENCE_S):
        while not waiting:
            waiting = [pool for pool in await served_in(house.serving.desk.engine, "c0") if pool.waiting]


def audio_key(house: House, ref: str) -> str:
    return cell_key(house.settings.engine.key_prefix, audio_tag(ref), "audio")


class TestALiveSession:
    """Somebody submits a job for a session that is open: its answer comes there, too."""

    @pytest.mark.parametrize("waits", [False, True])
    async def test_it_hears_the_answer_also_of_a_job_that_waited(self, house: House, waits: bool) -> None:
        async with house.client() as client, house.node("n1") as node:
            await client.init()
            await node.register(slots=1)
            first = await house.dispatch("other") if waits else None
            asked = house.dispatch(client.session_id, trace_id="t-1", options={"wait_ms": 15_000})
            asking = asyncio.create_task(asked)
            if first is not None:
                await somebody_waits(house)
                await node.result(await node.job(job_id=first["job_id"]))
            placed = await asking
            await node.result(await node.job(job_id=placed["job_id"]), text_translated="早")
            result = await client.next("translation_result")
            assert (result["utterance_index"], result["text_translated"], result["trace_id"]) == (0, "早", "t-1")

    async def test_a_job_has_its_turn_from_the_moment_of_its_number_on(self, house: House) -> None:
        """It waits for a node of its own while a later utterance is translated."""
        async with house.client() as client, house.node("busy") as busy, house.node("free") as free:
            await busy.register(slots=1)
            await free.register()
            only = {"preferred_node_id": "busy", "strict": True, "wait_ms": 15_000}
            first = await house.dispatch("other", options=only)
            await client.init()
            asking = asyncio.create_task(house.dispatch(client.session_id, options=only))
            await somebody_waits(house)
            await client.utter(1)
            await free.result(await free.job())
            await client.next("ui_event", event="NMT_DONE", utterance_index=1)
            await busy.result(await busy.job(job_id=first["job_id"]))
            placed = await asking
            await busy.result(await busy.job(job_id=placed["job_id"]))
            ends = [await client.next("translation_result", "missing_result") for _ in range(2)]
            assert [(end["utterance_index"], end["type"]) for end in ends] == [
                (0, "translation_result"),
                (1, "translation_result"),
            ]
            assert ends[0]["job_id"] == placed["job_id"]

    async def test_what_is_refused_has_no_turn_and_may_come_again(self, house: House) -> None:
        async with house.client() as client, house.node("busy") as busy, house.node("free") as free:
            await busy.register(slots=1)
            await free.register()
            only = {"preferred_node_id": "busy", "strict": True}
            first = await house.dispatch("other", options=only)
            await client.init()
            asked = house.dispatch(client.session_id, 409, utterance_index=5, options=only | {"wait_ms": 500})
            asking = asyncio.create_task(asked)
            await somebody_waits(house)
            await client.utter(6)
            await free.result(await free.job())
            await client.next("ui_event", event="NMT_DONE", utterance_index=6)
            assert not [said for said in client.heard if said["type"] == "translation_result"]
            assert (await asking)["error"] == "PREFERRED_NODE_UNAVAILABLE"
            assert (await client.next("translation_result", "missing_result"))["utterance_index"] == 6
            await house.dispatch(client.session_id, 409, utterance_index=7, options=only)
            await busy.result(await busy.job(job_id=first["job_id"]))
            await house.ended(first["job_id"])
            placed = await house.dispatch(client.session_id, utterance_index=7, options=only)
            await busy.result(await busy.job(job_id=placed["job_id"]))
            end = await client.next("translation_result", "missing_result")
            assert (end["utterance_index"], end["job_id"]) == (7, placed["job_id"])

    async def test_whoever_is_refused_before_his_job_is_made_may_come_again_with_his_number(self, house: House) -> None:
        await enrol(house, "n1")
        gone = await house.dispatch(status=404, utterance_index=7, audio_ref="audio-" + "0" * 32)
        assert gone["error"] == "UNKNOWN_AUDIO"
        await finish(house, await house.dispatch(utterance_index=7))

    async def test_it_hears_the_answer_of_a_job_whose_caller_had_to_ask_again(self, house: House) -> None:
        settings = house.settings.engine
        async with (
            House(settings.url, **{"engine.key_prefix": settings.key_prefix}).open() as other,
            house.client() as client,
        ):
            await client.init()
            await enrol(house, "n1")
            placed = await other.dispatch(client.session_id, request_id="r1")
            assert (await house.dispatch(client.session_id, request_id="r1"))["job_id"] == placed["job_id"]
            await finish(house, placed, text_translated="早")
            assert (await client.next("translation_result"))["text_translated"] == "早"


@pytest.mark.parametrize("what", ["utterances", "submits"])
async def test_more_than_may_be_said_in_a_second(server: Server, what: str) -> None:
    async with House(server.url, **{f"rates.{what}_per_s": 1, f"rates.{what}_burst": 2}).open() as house:
        for _ in range(2):
            await house.dispatch(status=422)
        answer = await house.http.post(
            "/v1/dispatch/f2f", json={"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}
        )
        refused = answer.json()
        assert (answer.status_code, refused["error"], refused["retryable"]) == (429, "RATE_LIMITED", True)
        assert 0 < refused["retry_after_ms"] <= 1_000
        assert answer.headers["retry-after"] == "1"
        other = await house.dispatch("another", status=422 if what == "utterances" else 429)
        assert other["error"] == ("NO_CAPABLE_NODE" if what == "utterances" else "RATE_LIMITED")


class TestTheJob:
    async def test_everything_known(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch(utterance_index=3, trace_id="t-1")
        await finish(house, placed, text="早")
        job = await house.get(f"/v1/job/{placed['job_id']}")
        timings = job.pop("timings")
        assert timings["created_at_ms"] <= timings["dispatched_at_ms"] <= timings["ended_at_ms"]
        (attempt,) = job.pop("attempts")
        assert (attempt["attempt_id"], attempt["node_id"], attempt["end"]) == (1, "n1", "FINISHED")
        assert job == {
            "job_id": placed["job_id"],
            "session_id": "room-888",
            "utterance_index": 3,
            "src_lang": "en",
            "tgt_lang": "zh",
            "state": "FINISHED",
            "attempt_id": 1,
            "result": {"text": "早"},
            "trace_id": "t-1",
            "node_id": "n1",
        }

    async def test_whoever_waits_hears_of_the_end(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch()
        assert (await house.get(f"/v1/job/{placed['job_id']}?wait_ms=30"))["state"] == "DISPATCHED"
        waiting = asyncio.create_task(house.ended(placed["job_id"]))
        await finish(house, placed)
        assert (await waiting)["state"] == "FINISHED"

    async def test_cancel_is_an_end_and_can_be_said_again(self, house: House) -> None:
        await enrol(house, "n1")
        placed = await house.dispatch()
        for _ in range(2):
            cancelled = await house.post("/v1/job/cancel", {"job_id": placed["job_id"], "reason": "changed my mind"})
            assert cancelled == {"ok": True, "state": "CANCELLED"}
        job = await house.get(f"/v1/job/{placed['job_id']}")
        assert (job["state"], job["reason"]) == ("CANCELLED", "changed my mind")
        beat = await house.post(
            "/v1/node/heartbeat", {"node_id": "n1", "running": [{"job_id": placed["job_id"], "attempt_id": 1}]}
        )
        assert beat["cancel"] == [{"job_id": placed["job_id"], "attempt_id": 1}]

    @pytest.mark.parametrize(
        ("path", "status", "code"),
        [
            ("/v1/job/c0.nobody", 404, "UNKNOWN_JOB"),
            ("/v1/job/nobody", 400, "INVALID_MESSAGE"),
            ("/v1/job/c0.nobody?wait_ms=x", 400, "INVALID_MESSAGE"),
            ("/v1/job/c0.nobody/explain", 404, "UNKNOWN_JOB"),
        ],
    )
    async def test_refusals(self, house: House, path: str, status: int, code: str) -> None:
        assert (await house.get(path, status))["error"] == code

    async def test_nobody_can_cancel_what_is_not_there(self, house: House) -> None:
        assert (await house.post("/v1/job/cancel", {"job_id": "c0.nobody"}, 404))["error"] == "UNKNOWN_JOB"


class TestTheList:
    async def test_pages_have_each_job_once_the_newest_first(self, house: House) -> None:
        assert await house.get("/v1/jobs") == {"jobs": []}
        await enrol(house, "n1", max_concurrent_jobs=8)
        made = [await house.dispatch(f"room-{n}") for n in range(4)]
        for one in made[:2]:
            await finish(house, one)
        found = list[str]()
        cursor: str | None = ""
        while cursor is not None:
            page = await house.get(f"/v1/jobs?limit=1&cursor={cursor}")
            found += [one["job_id"] for one in page["jobs"]]
            cursor = page.get("cursor")
        assert found == [made[n]["job_id"] for n in (3, 2, 1, 0)]
        (shown,) = (await house.get("/v1/jobs?session=room-1"))["jobs"]
        assert shown.pop("ended_at_ms") >= shown.pop("created_at_ms") > 0
        assert shown == {
            "job_id": made[1]["job_id"],
            "session_id": "room-1",
            "utterance_index": 0,
            "src_lang": "en",
            "tgt_lang": "zh",
            "state": "FINISHED",
            "attempts": 1,
            "node_id": "n1",
        }
        for one in made[2:]:
            await finish(house, one)

    @pytest.mark.parametrize(
        "wanted",
        ["q=room-1", "q=room-1 n1 en:zh dispatched", "session=room-1", "job={job_id}", "q={begins}&state=DISPATCHED"],
    )
    async def test_what_is_asked_for_is_found(self, house: House, wanted: str) -> None:
        await enrol(house, "n1")
        made = [await house.dispatch(f"room-{n}") for n in range(2)]
        job_id = made[1]["job_id"]
        answer = await house.get(f"/v1/jobs?{wanted.format(job_id=job_id, begins=job_id[:-1])}")
        assert ([one["job_id"] for one in answer["jobs"]], answer.get("cursor")) == ([job_id], None)
        for one in made:
            await finish(house, one)

    @pytest.mark.parametrize("wrong", ["state=DONE", "pair=en", "q={}", "cursor=x", "limit=0", "session=a b"])
    async def test_what_cannot_be_asked_for(self, house: House, wrong: str) -> None:
        assert (await house.get(f"/v1/jobs?{wrong}", status=400))["error"] == "INVALID_MESSAGE"


async def test_a_job_that_falls_back_to_another_language_says_its_own(house: House) -> None:
    await house.post("/v1/node/register", {"node_id": "mandarin", "semantic_langs": ["en", "zh"]})
    placed = await house.dispatch(src_lang="zh-yue", tgt_lang="en")
    assert placed["node_id"] == "mandarin"
    (job,) = (await house.post("/v1/node/poll", {"node_id": "mandarin"}))["jobs"]
    assert (job["src_lang"], job["tgt_lang"]) == ("yue", "en")
    shown = await house.get(f"/v1/job/{placed['job_id']}")
    assert (shown["src_lang"], shown["tgt_lang"]) == ("yue", "en")
    await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
