"""What happened to the fleet, as whoever asks for it is told."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from lingua_scheduler.app import ROUTES
from lingua_scheduler.core.letter import Letter
from lingua_scheduler.core.notice import ADMIN, KINDS
from lingua_scheduler.flows.post import post
from tests.support.house import House, eventually

if TYPE_CHECKING:
    from tests.support.people import Node
    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
ADMIN_TOKEN = "operator-token-1"  # noqa: S105 - of a test


async def events(house: House, *kinds: str, after: str = "") -> list[dict[str, Any]]:
    found = await house.get(f"/api/v1/events?limit=2000{'&after=' + after if after else ''}")
    return [event for event in found["events"] if not kinds or event["kind"] in kinds]


async def until(house: House, kind: str, number: int = 1) -> list[dict[str, Any]]:
    """Those of a kind, when there are so many of them."""
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        found[:] = await events(house, kind)
        return len(found) >= number

    await eventually(is_there)
    return found


async def fail(node: Node, house: House) -> str:
    """The node gets a job, and fails it; says which."""
    submitted = await house.dispatch(options={"timeout_ms": 60_000})
    job = await node.job(job_id=submitted["job_id"])
    await node.result(job, success=False, error={"code": "BROKEN", "message": "no"})
    await house.post("/v1/job/cancel", {"job_id": job["job_id"]})
    await node.next("job_cancel", job_id=job["job_id"])
    return str(job["job_id"])


async def test_a_node_that_joins_and_leaves_is_told_of(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    (joined,) = await until(house, "node_joined")
    assert (joined["about"], joined["detail"]) == ("n1", "it serves 1 pairs")
    assert joined["instance_id"] == house.serving.desk.instance_id
    assert "outcome" not in joined
    await house.post("/v1/node/offline", {"node_id": "n1"})
    (left,) = await until(house, "node_left")
    assert left["about"] == "n1"
    assert left["at_ms"] >= joined["at_ms"]


async def test_a_node_on_a_socket_that_is_killed_is_lost_and_its_pairs_are_empty_until_it_is_back(house: House) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        await until(house, "node_joined")
        await house.stats()
        node.cut()
    (lost,) = await until(house, "node_lost")
    assert lost["about"] == "n1"
    empty = await until(house, "pair_empty", 4)
    assert {event["about"] for event in empty} == {"en:en", "en:zh", "zh:en", "zh:zh"}
    async with house.node("n1") as node:
        await node.register()
        served = await until(house, "pair_served", 4)
        assert {event["about"] for event in served} == {"en:en", "en:zh", "zh:en", "zh:zh"}


async def test_of_a_node_that_is_lost_it_is_told_how_many_jobs_moved_and_how_soon(house: House) -> None:
    async with house.node("n1") as node, house.node("n2") as other:
        await node.register(slots=2)
        await node.is_ready()
        for _ in range(2):
            await node.job(job_id=(await house.dispatch())["job_id"])
        await other.register(slots=1)
        await other.is_ready()
        node.cut()
        # The second waits until there is room for it.
        await other.job()
        (moved,) = await until(house, "node_jobs_moved")
        assert moved["about"] == "n1"
        assert re.fullmatch(r"1 of its 2 jobs went to others within \d+ ms", moved["detail"])


async def test_what_comes_after_an_event_is_told_and_nothing_twice(house: House) -> None:
    for number in range(3):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
    joined = await until(house, "node_joined", 3)
    page = await house.get(f"/api/v1/events?after={joined[0]['id']}&limit=1")
    assert ([event["id"] for event in page["events"]], page["last"]) == ([joined[1]["id"]], joined[1]["id"])
    page = await house.get(f"/api/v1/events?after={joined[2]['id']}")
    assert (page["events"], page["last"]) == ([], joined[2]["id"])
    assert (await house.get("/api/v1/events?after=x", status=400))["error"] == "INVALID_MESSAGE"
    assert [event["about"] for event in (await house.get("/api/v1/events?limit=1"))["events"]] == ["n2"]


async def test_a_node_that_fails_becomes_suspect_with_its_reason_and_heals(house: House) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        await house.stats()
        for _ in range(3):
            last = await fail(node, house)
        (suspect,) = await until(house, "node_suspect")
        assert (suspect["about"], suspect["detail"]) == (
            "n1",
            f"3 of its last 5 jobs failed; the last was {last}: failed",
        )
        # All of its pairs have nobody but a suspect.
        assert len(await until(house, "pair_panic", 4)) == 4
        for _ in range(3):
            submitted = await house.dispatch()
            await node.result(await node.job(job_id=submitted["job_id"]))
            await house.ended(submitted["job_id"])
        (healed,) = await until(house, "node_healed")
        assert (healed["about"], healed["detail"]) == ("n1", "it was suspect")
        assert len(await until(house, "pair_calm", 4)) == 4


async def test_a_pair_that_gets_another_node_does_not_hang_on_a_suspect_any_more(house: House) -> None:
    async with house.node("n1") as node, house.node("n2") as other:
        await node.register()
        await node.is_ready()
        await house.stats()
        for _ in range(3):
            await fail(node, house)
        await until(house, "pair_panic", 4)
        await other.register()
        assert len(await until(house, "pair_calm", 4)) == 4


async def test_of_what_two_instances_see_there_is_one_event(server: Server) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(House(server.url, **{"instance.id": "first"}).open())
        prefix = first.settings.engine.key_prefix
        flags = {"instance.id": "second", "engine.key_prefix": prefix}
        second = await stack.enter_async_context(House(server.url, **flags).open())
        assert {event["about"] for event in await until(first, "instance_came", 2)} == {"first", "second"}
        async with first.node("n1") as node:
            await node.register()
            await node.is_ready()
            await first.stats()
            await second.stats()
            for _ in range(3):
                await fail(node, first)
            await until(first, "node_suspect")
            # Both have looked since.
            await first.stats()
            await second.stats()
            assert len(await events(second, "node_suspect")) == 1
            assert len(await events(second, "pair_panic")) == 4


async def test_an_instance_that_ends_says_so(server: Server) -> None:
    async with House(server.url, **{"instance.id": "first"}).open() as first:
        flags = {"instance.id": "second", "engine.key_prefix": first.settings.engine.key_prefix}
        async with House(server.url, **flags).open():
            pass
        (went,) = await until(first, "instance_went")
        assert (went["about"], went["detail"]) == ("second", "it was asked to stop")


async def test_a_mark_is_told_and_its_end(server: Server) -> None:
    async with House(server.url, **{"nodes.mark_ttl_ms": 300}).open() as house:
        await house.post("/v1/node/register", NODE)
        house.serving.desk.marker.saw("n1", "whisper", "asr")
        (marked,) = await until(house, "node_marked")
        assert (marked["about"], marked["detail"]) == ("n1", "whisper: MODEL_NOT_AVAILABLE, for 0 s")
        (unmarked,) = await until(house, "node_unmarked")
        assert (unmarked["about"], unmarked["detail"]) == ("n1", "whisper")


async def test_a_node_that_rests_is_told_of_for_how_long(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(features=("job_ack",))
        await node.is_ready()
        await house.stats()
        await house.dispatch()
        job = await node.job()
        ids = {name: job[name] for name in ("job_id", "attempt_id", "session_id", "trace_id")}
        await node.say("job_nack", **ids, node_id="n1", reason="NODE_OVERLOADED", retry_after_ms=60_000)
        (resting,) = await until(house, "node_resting")
        assert resting["about"] == "n1"
        assert resting["detail"] == "for 60.0 s: it said that it has too much to do"


async def test_what_happened_to_one_is_asked_for_alone_or_with_others(house: House) -> None:
    for number in range(15):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
    await house.post("/v1/nodes/n14/drain", {})

    async def are_told() -> bool:
        told = (await house.get("/api/v1/events?about=n14"))["events"]
        return [event["kind"] for event in sorted(told, key=lambda one: str(one["kind"]))] == [
            "admin_drain",
            "node_joined",
        ]

    await eventually(are_told)
    (together,) = [event for event in await events(house, "node_joined") if "each" in event]
    assert {"about": "n14", "detail": "it serves 1 pairs"} in together["each"]
    assert (await house.get("/api/v1/events?about=nobody"))["events"] == []
    assert len((await house.get("/api/v1/events?about=n14&limit=1"))["events"]) == 1


async def test_a_job_that_is_not_accepted_in_time_is_told_of_its_node(server: Server) -> None:
    async with House(server.url, **{"jobs.reservation_ttl_ms": 1_100}).open() as house:
        await house.post("/v1/node/register", NODE)
        job = await house.dispatch()
        (fenced,) = await until(house, "node_fenced")
        assert (fenced["about"], fenced["detail"]) == ("n1", f"{job['job_id']}: ack_timeout")
        await house.post("/v1/job/cancel", {"job_id": job["job_id"]})


async def test_a_letter_that_nobody_can_use_is_told_of(server: Server) -> None:
    async with House(server.url, **{"instance.letter_pause_ms": 1}).open() as house:
        desk = house.serving.desk
        await post(desk.engine, desk.instance_id, Letter("no-such-kind", node="n1"))
        (dead,) = await until(house, "dead_letter")
        assert dead["detail"].startswith("no-such-kind")
        assert [letter["id"] for letter in (await house.get("/v1/dlq"))["letters"]] == [dead["about"]]


async def test_what_an_operator_does_is_told_with_who_and_from_where_and_how_it_ended(server: Server) -> None:
    flags: dict[str, Any] = {
        "auth.admin_tokens": (f"ops:{ADMIN_TOKEN}",),
        "auth.session_tokens": ("caller:caller-one-token",),
        "auth.nodes": "open",
    }
    async with House(server.url, **flags).open() as house:
        await house.post("/v1/node/register", NODE)
        job = await house.http.post(
            "/v1/dispatch/f2f",
            json={"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "x"},
            headers={"authorization": "Bearer caller-one-token"},
        )
        job_id = job.json()["job_id"]
        acts: list[tuple[str, str, Any]] = [
            ("drain", "/v1/nodes/n1/drain", None),
            ("resume", "/v1/nodes/n1/resume", None),
            ("set_max", "/v1/nodes/n1/max", {"max_concurrent_jobs": 3}),
            ("pair", "/v1/nodes/n1/pairing", None),
            ("evict", "/v1/nodes/nobody/evict", None),
            ("cancel", "/v1/job/cancel", {"job_id": job_id}),
            ("log_level", "/v1/log-level", {"module": "front.hints", "level": "warning"}),
            ("replay", "/v1/dlq/1-0.x/replay", None),
        ]
        house.http.headers["authorization"] = f"Bearer {ADMIN_TOKEN}"
        for _, path, message in acts:
            await house.http.post(path, json=message)
        await house.http.request("DELETE", "/v1/dlq/1-0.x")
        await until(house, "admin_delete")
        told = [event for event in await events(house) if event["kind"].startswith(ADMIN)]
        assert [event["kind"].removeprefix(ADMIN) for event in told] == [*(act for act, *_ in acts), "delete"]
        assert {(event["who"], event["where"]) for event in told} == {("ops", "127.0.0.1")}
        outcomes = ["ok", "ok", "ok", "ok", "UNKNOWN_NODE", "ok", "ok", "UNKNOWN_LETTER", "UNKNOWN_LETTER"]
        assert [event["outcome"] for event in told] == outcomes
        about = ["n1", "n1", "n1", "n1", "nobody", job_id, "front.hints", "1-0.x", "1-0.x"]
        assert [event["about"] for event in told] == about
        wanted = {event["kind"].removeprefix(ADMIN): event["detail"] for event in told if event["detail"]}
        assert wanted == {"set_max": "at most 3 jobs at once", "log_level": "warning"}
        assert ADMIN_TOKEN not in (await house.http.get("/api/v1/events")).text


async def test_what_a_caller_does_with_his_own_job_is_no_act_of_an_operator(server: Server) -> None:
    flags: dict[str, Any] = {
        "auth.admin_tokens": (f"ops:{ADMIN_TOKEN}",),
        "auth.session_tokens": ("caller:caller-one-token",),
        "auth.nodes": "open",
    }
    async with House(server.url, **flags).open() as house:
        mine = {"authorization": "Bearer caller-one-token"}
        await house.http.post("/v1/job/cancel", json={"job_id": "c0.x"}, headers=mine)
        assert (await house.http.get("/api/v1/events", headers=mine)).status_code == 403
        house.http.headers["authorization"] = f"Bearer {ADMIN_TOKEN}"
        await house.http.post("/v1/nodes/nobody/drain")
        await until(house, "admin_drain")
        assert await events(house, "admin_cancel") == []


def test_everything_that_an_operator_can_change_is_told() -> None:
    changing = {route for route in ROUTES if route.scope == "admin" and route.method != "GET"}
    assert {route.path for route in changing if not route.act} == set()
    acts = {ADMIN + route.act for route in ROUTES if route.act}
    # Whoever signs in is nobody until then.
    assert acts | {"admin_sign_in"} == {kind for kind in KINDS if kind.startswith(ADMIN)}
    assert all(bool(route.acts_on) == bool(KINDS[ADMIN + route.act][0]) for route in ROUTES if route.act)


async def test_events_are_written_in_the_background(house: House) -> None:
    """An act is answered before it is in the feed: nobody waits for that."""
    chronicler = house.serving.desk.chronicler
    gate = asyncio.Event()
    turn = chronicler.turn

    async def held() -> bool:
        await gate.wait()
        return await turn()

    chronicler.turn = held  # type: ignore[method-assign] # held up as by an engine that is busy
    await house.post("/v1/nodes/nobody/drain", {}, status=404)
    gate.set()
    await until(house, "admin_drain")
