"""Several instances over HTTP, and the letters that none of them could use."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.letter import Letter, Parcel
from lingua_scheduler.core.new_ids import new_instance_id
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.flows.post import Sent, post
from tests.support.house import House, eventually
from tests.support.logs import told
from tests.support.mail import arrive, die, look, presence_of, send

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def two(server: Server) -> AsyncIterator[list[House]]:
    """Two instances over one engine. Neither looks for who is gone while a test looks."""
    flags: dict[str, Any] = {"loops.inherit_interval_ms": 60_000, "instance.letter_pause_ms": 1}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(House(server.url, **flags, **{"instance.id": "first"}).open())
        prefix = first.settings.engine.key_prefix
        more = {"instance.id": "second", "engine.key_prefix": prefix, "instance.presence_beat_ms": 50}
        yield [first, await stack.enter_async_context(House(server.url, **flags, **more).open())]


async def bury_one(house: House, number: int, instance_id: str = "gone") -> str:
    parcel = Parcel(instance_id, f"{number}-0", 10, Letter("news", "c0.a", 2, "n1", "s1", "what", "t1"))
    await bury(house.serving.app.engine, parcel, "nobody reads it")
    return parcel.id


async def test_every_instance_sees_every_other(two: list[House]) -> None:
    for house in two:
        page = await house.get("/v1/instances")
        assert [one["instance_id"] for one in page["instances"]] == ["first", "second"]
        assert "cursor" not in page
        found = {one["instance_id"]: one["url"] for one in page["instances"]}
        assert found == {"first": two[0].url, "second": two[1].url}
        assert (await house.stats())["instances"] == 2
    page = await two[0].get("/v1/instances?limit=1")
    assert ([one["instance_id"] for one in page["instances"]], page["cursor"]) == (["first"], "first")
    (rest,) = (await two[0].get("/v1/instances?cursor=first"))["instances"]
    assert rest["instance_id"] == "second"


async def test_what_another_holds_is_seen_with_its_next_beat(two: list[House]) -> None:
    first, second = two
    async with second.node("n1") as node, second.client() as client:
        await node.register()
        await client.init()

        async def is_seen() -> bool:
            shown = (await first.get("/v1/instances?draining=false"))["instances"]
            return [(one["nodes"], one["sessions"]) for one in shown] == [(0, 0), (1, 1)]

        await eventually(is_seen)
        stats = await first.stats()
        assert stats["sessions"] == 1
    second.serving.desk.drain()

    async def is_draining() -> bool:
        shown = (await first.get("/v1/instances?draining=true"))["instances"]
        return [one["instance_id"] for one in shown] == ["second"]

    await eventually(is_draining)


async def test_after_the_engine_was_emptied_an_instance_is_there_again_before_its_next_beat(store: Server) -> None:
    flags: dict[str, Any] = {"instance.presence_ttl_ms": 1_800_000, "instance.presence_beat_ms": 600_000}
    flags |= {"nodes.offline_ms": 2_400_000}
    async with House(store.url, **flags, **{"instance.id": "first"}).open() as house:
        engine = house.serving.app.engine
        await engine.command("FLUSHALL")
        assert not (await look(engine, "first"))[0]

        async def is_there() -> bool:
            return (await look(engine, "first"))[0]

        await eventually(is_there)


async def test_the_cluster_in_numbers(two: list[House]) -> None:
    first = two[0]
    engine = first.serving.app.engine
    await arrive(engine, "gone", "forgotten")
    await send(engine, "gone", "one", "two")
    await die(engine, "gone", "forgotten")
    await bury_one(first, 1)
    cluster = await first.get("/api/v1/cluster")
    assert cluster["dead_letters"] == 1
    shown = {one["instance_id"]: one for one in cluster["instances"]}
    assert list(shown) == ["first", "gone", "second"]
    gone = shown["gone"]
    assert gone.pop("seen_at_ms") > 0
    assert gone == {"instance_id": "gone", "alive": False, "inbox": {"letters": 2, "pending": 0}}
    one = shown["second"]
    assert 0 <= one.pop("uptime_ms") < 60_000
    assert one.pop("seen_at_ms") <= cluster["generated_at_ms"]
    assert one.pop("version")
    assert one == {
        "instance_id": "second",
        "alive": True,
        "inbox": {"letters": 0, "pending": 0},
        "draining": False,
        "nodes": 0,
        "sessions": 0,
    }
    assert [one["instance_id"] for one in (await first.get("/v1/instances"))["instances"]] == ["first", "second"]


async def test_the_level_of_a_module_that_another_release_has_is_said_once_and_no_dead_letter(
    two: list[House], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = two
    for module in ("front.newest", "front.hints"):
        letter = Letter("log_level", detail=f"lingua_scheduler.{module} error 0 ops")
        assert isinstance(await post(first.serving.app.engine, "second", letter), Sent)

    async def is_read() -> bool:
        return (await look(first.serving.app.engine, "second")) == (True, 0, 0)

    await eventually(is_read)
    assert list(second.serving.desk.levels.changed) == ["lingua_scheduler.front.hints"]
    said = [(one["module_set"], one.get("reason", "")[:19]) for one in told(caplog, "log_level")]
    assert sorted(said) == [
        ("lingua_scheduler.front.hints", ""),
        ("lingua_scheduler.front.newest", "module must be one "),
    ]
    assert told(caplog, "postman") == []
    assert (await first.get("/v1/dlq"))["total"] == 0


async def test_a_letter_that_nobody_knows_is_a_dead_letter_and_is_told(two: list[House]) -> None:
    first, second = two
    assert isinstance(await post(first.serving.app.engine, "second", Letter("riddle", "c0.a", detail="?")), Sent)

    async def is_dead() -> bool:
        return bool((await first.get("/v1/dlq"))["total"])

    await eventually(is_dead)
    (letter,) = (await second.get("/v1/dlq"))["letters"]
    assert letter["id"].endswith(".second")
    shown = {name: letter[name] for name in ("instance_id", "reason", "deliveries", "kind", "job_id", "detail")}
    assert shown == {
        "instance_id": "second",
        "reason": "this release knows no letters of the kind riddle",
        "deliveries": 10,
        "kind": "riddle",
        "job_id": "c0.a",
        "detail": "?",
    }
    assert "1 dead letter: see /v1/dlq" in (await first.stats())["health"]["problems"]


async def test_pages_of_dead_letters_have_each_of_them(house: House) -> None:
    assert await house.get("/v1/dlq") == {"letters": [], "total": 0}
    ids = [await bury_one(house, number) for number in (1, 2, 3)]
    first = await house.get("/v1/dlq?limit=2")
    assert ([letter["id"] for letter in first["letters"]], first["total"], first["cursor"]) == (ids[:2], 3, ids[1])
    last = await house.get(f"/v1/dlq?limit=2&cursor={first['cursor']}")
    assert ([letter["id"] for letter in last["letters"]], "cursor" in last) == (ids[2:], False)
    assert last["letters"][0] == {
        "id": ids[2],
        "instance_id": "gone",
        "reason": "nobody reads it",
        "deliveries": 10,
        "buried_at_ms": last["letters"][0]["buried_at_ms"],
        "kind": "news",
        "job_id": "c0.a",
        "attempt_id": 2,
        "node_id": "n1",
        "session_id": "s1",
        "detail": "what",
        "trace_id": "t1",
    }
    assert (await house.get("/v1/dlq?limit=0", 400))["error"] == "INVALID_MESSAGE"


async def test_a_dead_letter_is_deleted_once(house: House) -> None:
    letter_id = await bury_one(house, 1)
    answer = await house.http.delete(f"/v1/dlq/{letter_id}")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "id": letter_id})
    answer = await house.http.delete(f"/v1/dlq/{letter_id}")
    assert (answer.status_code, answer.json()["error"]) == (404, "UNKNOWN_LETTER")


async def test_a_dead_letter_is_sent_again_to_whom_it_was_sent(two: list[House]) -> None:
    first = two[0]
    engine = first.serving.app.engine
    await arrive(engine, "third")
    letter_id = await bury_one(first, 1, "third")
    assert await first.post(f"/v1/dlq/{letter_id}/replay", {}) == {
        "ok": True,
        "id": letter_id,
        "instance_id": "third",
    }
    assert await look(engine, "third") == (True, 1, 0)
    assert (await first.get("/v1/dlq"))["total"] == 0
    assert (await first.post(f"/v1/dlq/{letter_id}/replay", {}, 404))["error"] == "UNKNOWN_LETTER"


async def test_a_dead_letter_to_who_is_gone_is_sent_to_who_was_asked(two: list[House]) -> None:
    first = two[0]
    letter_id = await bury_one(first, 1)
    assert (await first.post(f"/v1/dlq/{letter_id}/replay", {}))["instance_id"] == "first"

    async def is_dead_again() -> bool:
        """Nobody knows its kind, still; it is another dead letter now."""
        letters = (await first.get("/v1/dlq"))["letters"]
        return [letter["instance_id"] for letter in letters] == ["first"] and letters[0]["id"] != letter_id

    await eventually(is_dead_again)


async def test_a_dead_letter_stays_one_while_the_inbox_is_full(server: Server) -> None:
    async with House(server.url, **{"instance.inbox_max": 1}).open() as house:
        engine = house.serving.app.engine
        await arrive(engine, "third")
        await send(engine, "third", "one")
        letter_id = await bury_one(house, 1, "third")
        refused = await house.post(f"/v1/dlq/{letter_id}/replay", {}, 503)
        assert (refused["error"], refused["retryable"]) == ("INBOX_FULL", True)
        assert (await house.get("/v1/dlq"))["total"] == 1


async def test_who_ends_is_not_there_any_more(server: Server) -> None:
    async with House(server.url).open() as house:
        (mine,) = (await house.get("/v1/instances"))["instances"]
        more = {"engine.key_prefix": house.settings.engine.key_prefix}
        async with House(server.url, **more).open():
            assert len((await house.get("/v1/instances"))["instances"]) == 2
        (left,) = (await house.get("/v1/instances"))["instances"]
        assert left["instance_id"] == mine["instance_id"]


@pytest.mark.parametrize(
    ("host", "begins"),
    [("web-1", "web-1-7-"), ("my host.local", "my-host.local-7-"), ("_x", "x-7-"), ("ü", "host-7-"), ("", "host-7-")],
)
def test_an_instance_is_named_after_its_host_and_its_process(host: str, begins: str) -> None:
    made = new_instance_id(host, 7)
    assert made.startswith(begins)
    assert made != new_instance_id(host, 7)


def test_the_name_of_an_instance_is_an_id_whatever_its_host_is_called() -> None:
    for host in ("x" * 500, "{}:", "-.-", "a" * 64 + "{"):
        presence = msgspec.structs.replace(presence_of("a"), instance=new_instance_id(host, 2**31))
        assert len(presence.instance) <= 128
        assert not set(presence.instance) - set("abcdefghijklmnopqrstuvwxyz0123456789-.")


async def test_how_long_a_dispatch_takes_is_told_of_all_instances_together(two: list[House]) -> None:
    first, second = two
    node = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
    await first.post("/v1/node/register", node)
    assert (await first.stats())["dispatch_ms"] == {"p50": None, "p95": None, "p99": None}
    # Nobody asks the first one for anything: what it shows is how the second does.
    placed = await second.dispatch()
    slow = second.serving.desk.delivery.durations
    for _ in range(20):
        slow.add(700.0)

    async def is_told() -> bool:
        return ((await first.stats())["dispatch_ms"]["p95"] or 0) > 600

    await eventually(is_told)
    quick = first.serving.desk.delivery.durations
    for _ in range(979):
        quick.add(1.0)

    async def is_together() -> bool:
        seen = [(await house.stats())["dispatch_ms"] for house in two]
        return all(one["p95"] < 2 and one["p99"] > 600 for one in seen)

    await eventually(is_together)
    await first.post("/v1/job/cancel", {"job_id": placed["job_id"]})
