"""The fleet, live: everything first, then what has changed, for whoever may see it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.front import auth, live
from lingua_scheduler.front import stats as stats_module
from lingua_scheduler.front.socket import Socket
from lingua_scheduler.views.fleet import fleet_everywhere
from tests.contract.test_signing import FLAGS, OPS, Browser, browser, guarded
from tests.support.house import House, eventually
from tests.support.people import Peer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

__all__ = ["browser", "guarded"]

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 2}
QUICK: dict[str, Any] = {"loops.live_interval_ms": 20}


class Viewer(Peer):
    """Somebody who watches; he comes back with the last version that he had."""

    path = "/api/v1/live"

    def again(self, after: str) -> Viewer:
        """The same, after he lost his socket."""
        viewer = Viewer(self._port)
        viewer.path = f"{self.path}?after={after}"
        return viewer


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    async with House(server.url, **QUICK).open() as house:
        yield house


def feed_looks(house: House) -> int:
    """How often the feed was read."""
    meter = house.serving.app.engine.meters.get("feed")
    return 0 if meter is None else sum(count for _, count in meter.seconds.up_to()[-1:])


async def delta_with(viewer: Viewer, name: str) -> Any:
    while name not in (delta := await viewer.next("delta")):
        pass
    return delta


async def test_first_everything_is_told_and_then_what_has_changed(house: House) -> None:
    await house.post("/v1/node/register", NODE)
    stats = await house.stats()
    async with Viewer(house.port) as viewer:
        whole = await viewer.next("snapshot")
        assert [node["node_id"] for node in whole["nodes"]] == ["n1"]
        assert whole["nodes_total"] == 1
        assert whole["stats"]["slots"] == stats["slots"] == {"total": 2, "used": 0, "free": 2}
        assert {event["kind"] for event in whole["events"]} == {"instance_came", "node_joined"}
        await house.post("/v1/node/register", NODE | {"node_id": "n2"})
        told = await delta_with(viewer, "nodes_total")
        assert told["nodes_total"] == 2
        assert {node["node_id"] for node in told["nodes"]} == {"n2"}
        await house.post("/v1/node/offline", {"node_id": "n1"})
        assert (await delta_with(viewer, "gone"))["gone"] == ["n1"]


async def test_a_node_is_told_with_all_that_is_shown_of_it(house: House) -> None:
    async with house.node("n1") as node:
        await node.register(version='<img src=x onerror="alert(1)">' + "v" * 90, slots=3)
        await node.is_ready()
        await house.stats()
        async with Viewer(house.port) as viewer:
            (shown,) = (await viewer.next("snapshot"))["nodes"]
    assert (shown["standing"], shown["intent"], shown["used"], shown["max"]) == ("available", "active", 0, 3)
    assert shown["instance_id"] == house.serving.desk.instance_id
    assert shown["semantic_langs"] == ["en", "zh"]
    assert shown["version"].startswith("<img src=x")
    assert len(shown["version"]) == 64
    assert (shown["failures"], shown["marks"], shown["pools"]) == (0, [], 4)


async def test_whoever_comes_back_goes_on_where_he_was(house: House) -> None:
    async with Viewer(house.port) as viewer:
        version = (await viewer.next("snapshot"))["version"]
        await house.post("/v1/node/register", NODE)
        await delta_with(viewer, "events")
    async with viewer.again(version) as again:
        told = await delta_with(again, "events")
        assert "node_joined" in {event["kind"] for event in told["events"]}
        last = (await again.next("still"))["version"]
        assert [one for one in again.heard if one["type"] == "snapshot"] == []
    async with viewer.again(last) as again:
        assert (await again.next("still", "delta", "snapshot"))["type"] != "snapshot"


@pytest.mark.parametrize("part", ["numbers", "nodes"])
async def test_nothing_is_lost_that_was_found_before_a_look_broke_off(
    server: Server, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    broken = asyncio.Event()

    async def breaks_off(*_: object) -> None:
        broken.set()
        raise DependencyDown("UNREACHABLE", "the engine is away")

    # Whoever watches has the numbers made, and nobody else.
    async with House(server.url, **QUICK, **{"loops.snapshot_interval_ms": 600_000}).open() as house:
        stats = house.serving.desk.stats

        async def are_old() -> bool:
            return (stats.age_ms(house.serving.desk) or 0) >= 500

        async with Viewer(house.port) as viewer:
            await viewer.next("snapshot")
            await eventually(are_old)
            if part == "numbers":
                monkeypatch.setattr(stats, "make", breaks_off)
            else:
                monkeypatch.setattr(live, "read_node", breaks_off)
            await house.post("/v1/node/register", NODE)
            told = await delta_with(viewer, "events")
            assert "node_joined" in {event["kind"] for event in told["events"]}
            await broken.wait()
            assert ("stats" in told) == (part == "nodes")
            monkeypatch.undo()
            (shown,) = (await delta_with(viewer, "nodes"))["nodes"]
    assert shown["node_id"] == "n1"


async def test_what_happened_while_somebody_looked_is_shown_by_another_look(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def look_slowly(*given: Any) -> Any:
        seen = await fleet_everywhere(*given)
        began.set()
        await goes_on.wait()
        return seen

    # Whoever watches has the numbers made, and nobody else.
    async with House(server.url, **QUICK, **{"loops.snapshot_interval_ms": 600_000}).open() as house:
        desk = house.serving.desk

        async def are_old() -> bool:
            return (desk.stats.age_ms(desk) or 0) >= live._AGAIN_MS

        async def has_heard_of_it() -> bool:
            return desk.live._is_moved

        async with Viewer(house.port) as viewer:
            await viewer.next("snapshot")
            await eventually(are_old)
            monkeypatch.setattr(stats_module, "fleet_everywhere", look_slowly)
            looking = asyncio.create_task(desk.stats.make(desk))
            await began.wait()
            await house.post("/v1/node/register", NODE)
            await eventually(has_heard_of_it)
            goes_on.set()
            await looking
            assert (await delta_with(viewer, "stats"))["stats"]["slots"]["total"] == 0
            (shown,) = (await delta_with(viewer, "nodes"))["nodes"]
    assert shown["node_id"] == "n1"


@pytest.mark.parametrize("after", ["x", "x.1", "00000000.0", "", "%ff.1"])
async def test_whoever_comes_with_a_version_that_nobody_knows_begins_anew(house: House, after: str) -> None:
    viewer = Viewer(house.port).again(after)
    async with viewer:
        assert (await viewer.next("snapshot", "delta", "still"))["type"] == "snapshot"


async def test_a_version_that_is_too_long_ago_or_has_not_come_begins_anew(house: House) -> None:
    async with Viewer(house.port) as viewer:
        version = (await viewer.next("snapshot"))["version"]
        for _ in range(live._REMEMBERED + 5):
            await viewer.next("delta")
    name, _, number = version.partition(".")
    for one in (version, f"{name}.{int(number) + 10_000}"):
        async with viewer.again(one) as again:
            assert (await again.next("snapshot", "delta", "still"))["type"] == "snapshot"


async def test_nobody_looks_while_nobody_watches_and_one_look_is_enough_for_all(house: House) -> None:
    await house.stats()
    assert feed_looks(house) == 0
    async with AsyncExitStack() as stack:
        viewers = [await stack.enter_async_context(Viewer(house.port)) for _ in range(5)]
        for viewer in viewers:
            await viewer.next("snapshot")
        # However many they are, there is one build: the same version is the same for all.
        told = [[await viewer.next("delta") for _ in range(5)] for viewer in viewers]
        by_version = {delta["version"]: delta for deltas in told for delta in deltas}
        assert all(by_version[delta["version"]] == delta for deltas in told for delta in deltas)
        assert len(by_version) < 25

    async def is_quiet() -> bool:
        return len(house.serving.desk.live) == 0

    await eventually(is_quiet)
    seen = feed_looks(house)
    await house.stats()
    assert feed_looks(house) == seen


async def test_one_who_does_not_read_is_sent_away_and_the_others_hear_on(house: House) -> None:
    sent: list[Any] = []
    gone = asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "websocket.disconnect"}

    async def send(event: Any) -> None:
        sent.append(event)
        if event["type"] == "websocket.close":
            gone.set()

    stuck = asyncio.Event()
    stuck.set()
    slow = Socket(receive, send, put=sent.append, writable=stuck, round_trip_ms=lambda: None, max_messages=2)
    desk = house.serving.desk
    anybody = auth.Peer(auth.Principal("", frozenset()), "", None, "")
    serving = asyncio.create_task(desk.live.serve(desk, slow, anybody))
    async with Viewer(house.port) as viewer:
        await viewer.next("snapshot")
        stuck.clear()

        async def is_alone() -> bool:
            return len(desk.live) == 1

        await eventually(is_alone)
        await viewer.next("delta")
        stuck.set()
        await serving
    assert sent[-1]["code"] == 1013


async def close_of(viewer: Viewer, **how: Any) -> int:
    await viewer.connect(**how)
    try:
        return (await viewer.gone())[0]
    finally:
        await viewer.close()


async def test_only_an_operator_watches(server: Server) -> None:
    async with House(server.url, **FLAGS, **QUICK).open() as house:
        viewer = Viewer(house.port)
        assert await close_of(viewer) == 4401
        assert await close_of(viewer, subprotocols=["lingua.v1", "token.caller-one-token"]) == 4403
        await viewer.connect(subprotocols=["lingua.v1", f"token.{OPS}"])
        await viewer.next("snapshot")
        await viewer.close()


async def test_whoever_is_signed_in_watches_from_a_page_of_ours_also_one_who_may_only_look(browser: Browser) -> None:
    await browser.sign_in(read_only=True)
    viewer = Viewer(browser.house.port)
    cookie = {"cookie": f"lingua_seat={browser.http.cookies['lingua_seat']}"}
    await viewer.connect(additional_headers=cookie, origin=browser.house.url)
    await viewer.next("snapshot")
    await viewer.close()
    for origin in (None, "http://127.0.0.1:1"):
        assert await close_of(viewer, additional_headers=cookie, origin=origin) == 4403


async def test_whoever_signs_out_watches_no_longer(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_RECHECK_S", 0.05)
    await browser.sign_in()
    viewer = Viewer(browser.house.port)
    cookie = {"cookie": f"lingua_seat={browser.http.cookies['lingua_seat']}"}
    await viewer.connect(additional_headers=cookie, origin=browser.house.url)
    await viewer.next("snapshot")
    await browser.call("POST", "/api/v1/sign-out")
    assert (await viewer.gone())[0] == 4401
    await viewer.close()


async def test_an_instance_that_stops_tells_its_viewers_to_come_again(server: Server) -> None:
    async with House(server.url, **QUICK).open() as house:
        viewer = Viewer(house.port)
        await viewer.connect()
        await viewer.next("snapshot")
    assert (await viewer.gone())[0] == 1012
    await viewer.close()
