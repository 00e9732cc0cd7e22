"""A client that lost its connection, however, goes on by itself: every result once, in order."""

from __future__ import annotations

import asyncio
import base64
import signal
from typing import TYPE_CHECKING, cast

import pytest

from lingua_scheduler.front.socket import RETURN_MS
from lingua_scheduler.sdk import Client, client_idle
from lingua_scheduler.sdk.client_errors import SessionLost, Unreachable
from lingua_scheduler.sdk.client_items import Result
from tests.support.house import House, Scheduler, empty, eventually, is_away, no_session_is_left
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy
from tests.support.sdk_clients import TENTH, all_of, ends, rest, shown, translated, utter
from tests.support.silent import Silent

if TYPE_CHECKING:
    from tests.support.servers import Server


async def test_results_that_came_while_it_was_away_come_once_in_order(house: House, network: Proxy) -> None:
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        for number in range(4):
            await utter(stream, number)
        jobs = [await node.job(utterance_index=number) for number in range(4)]
        await node.result(jobs[0])
        assert shown(await ends(stream, 1)) == [(0, "said 0")]
        network.sever()
        await is_away(house, stream.session_id)
        for job in reversed(jobs[1:]):
            await node.result(job)
        network.heal()
        assert shown(await ends(stream, 3)) == [(1, "said 1"), (2, "said 2"), (3, "said 3")]
        assert await rest(stream) == []


@pytest.mark.parametrize("after", [1, 40, 300, 3_000, 300_000])
async def test_a_connection_that_breaks_in_the_middle_of_a_result(house: House, network: Proxy, after: int) -> None:
    """Whether it breaks before, within or behind it: the result is handed over once."""
    speech = base64.b64encode(bytes(300_000)).decode()
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        await utter(stream, 0)
        job = await node.job()
        fault = network.arm("reset", "down", after)
        await node.result(job, tts_audio=speech)
        async with asyncio.timeout(PATIENCE_S):
            await fault.struck.wait()
        (result,) = await ends(stream, 1)
        assert isinstance(result, Result)
        assert result.tts_audio == bytes(300_000)
        await utter(stream, 1)
        await node.result(await node.job(utterance_index=1))
        assert shown(await rest(stream)) == [(1, "said 1")]


@pytest.mark.parametrize("after", [0, 300, 3_000, 4_300])
async def test_a_connection_that_breaks_in_the_last_result_of_a_stream_that_has_ended(
    house: House, network: Proxy, after: int
) -> None:
    """The scheduler has said that this was all, and closed; whether that is read or not, the result is handed over."""
    speech = base64.b64encode(bytes(3_000)).decode()
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        await utter(stream, 0)
        job = await node.job()
        await stream.end()
        session = house.serving.desk.sessions.get(stream.session_id)
        assert session is not None

        async def is_closing() -> bool:
            return session.talk.save().is_closing

        await eventually(is_closing)
        fault = network.arm("cut", "down", after)
        await node.result(job, tts_audio=speech)
        assert shown(await all_of(stream)) == [(0, "said 0")]
        assert fault.struck.is_set()
    await no_session_is_left(house)


@pytest.mark.parametrize("after", [1, 2_000, 3_300, 6_000])
async def test_audio_that_was_under_way_is_said_again_and_heard_once(house: House, network: Proxy, after: int) -> None:
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        fault = network.arm("cut", "up", after)
        for number in range(4):
            await stream.send(bytes([number]) * 3_200)
        await stream.cut()
        job = await node.job()
        assert fault.struck.is_set()
        assert base64.b64decode(job["audio"]) == b"".join(bytes([number]) * 3_200 for number in range(4))
        await node.result(job)
        assert shown(await rest(stream)) == [(0, "said 0")]


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_an_utterance_that_was_under_way_is_translated_once(house: House, network: Proxy, direction: str) -> None:
    """It breaks while the utterance is written, or before its first answer is read."""
    async with house.node() as node, Client(network.http) as client:
        await node.register(slots=8)
        fault = network.arm("cut", "up" if direction == "up" else "down", 1)
        saying = asyncio.create_task(translated(client))
        await node.result(await node.job())
        assert shown(await saying) == [(0, "said 0")]
        assert fault.struck.is_set()
        again = asyncio.create_task(translated(client))
        await node.result(await node.job())
        assert shown(await again) == [(1, "said 1")]
        assert [message for message in node.heard if message["type"] == "job_assign"] == []


async def test_a_result_that_the_network_swallowed_comes_again(house: House, network: Proxy) -> None:
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        await utter(stream, 0)
        job = await node.job()
        fault = network.arm("black_hole", "down", 0)
        await node.result(job)
        async with asyncio.timeout(PATIENCE_S):
            await fault.struck.wait()
        network.heal()
        assert shown(await ends(stream, 1)) == [(0, "said 0")]


async def test_a_network_that_breaks_again_and_again(house: House, network: Proxy) -> None:
    """Every piece is heard once, and answered once, in order."""
    number = 24
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        heard: list[bytes] = []

        async def work() -> None:
            for index in range(number):
                job = await node.job(utterance_index=index)
                heard.append(base64.b64decode(job["audio"]))
                await node.result(job)
                if index % 3 == 0:
                    network.cut()

        working = asyncio.create_task(work())
        iterating = asyncio.create_task(ends(stream, number))
        for index in range(number):
            await utter(stream, index)
            if index % 5 == 0:
                network.arm("reset", "up", 1_000)
        items = await iterating
        await working
        assert shown(items) == [(index, f"said {index}") for index in range(number)]
        assert heard == [bytes([index]) * 3_200 for index in range(number)]
        assert await rest(stream) == []


async def test_whoever_is_away_while_it_ends_gets_the_rest(house: House, network: Proxy) -> None:
    async with house.node() as node, Client(network.http) as client, client.stream("en", "zh") as stream:
        await node.register(slots=8)
        await utter(stream, 0)
        job = await node.job()
        network.sever()
        await is_away(house, stream.session_id)
        await stream.send(bytes([1]) * 3_200)
        await stream.end()
        network.heal()
        await node.result(job)
        await node.result(await node.job(utterance_index=1))
        async with asyncio.timeout(PATIENCE_S):
            assert shown([item async for item in stream]) == [(0, "said 0"), (1, "said 1")]


async def test_a_session_that_is_kept_no_longer_is_an_error_and_a_translation_begins_anew(
    server: Server,
) -> None:
    house = House(server.url, **{"sessions.resume_window_ms": 1_000})
    async with house.open(), Proxy(house.port) as network, house.node() as node, Client(network.http) as client:
        await node.register()
        async with client.stream("en", "zh") as stream:
            network.sever()
            await no_session_is_left(house)
            network.heal()
            with pytest.raises(SessionLost) as caught:
                await rest(stream)
            assert caught.value.retryable
            with pytest.raises(SessionLost):
                await stream.send(TENTH)
        saying = asyncio.create_task(translated(client))
        await node.result(await node.job())
        assert shown(await saying) == [(0, "said 0")]


async def test_whoever_cannot_come_back_gives_up(house: House, network: Proxy) -> None:
    del house
    async with Client(network.http, resume_for_s=0.3) as client, client.stream("en", "zh") as stream:
        network.sever()
        with pytest.raises(Unreachable) as caught:
            await anext(stream)
        assert caught.value.retryable


async def test_whoever_has_nothing_in_hand_leaves_a_scheduler_that_is_gone_at_once(
    house: House, network: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    del house
    monkeypatch.setattr(client_idle, "_LEAVE_S", 10 * PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S), Client(network.http):
        network.sever()
        await network.refused_more_than(0)


async def test_a_scheduler_that_restarts_costs_no_result(store: Server) -> None:
    """It is told to end, and started again at the same place. What is said meanwhile is said then."""
    async with Scheduler(store.url) as scheduler, scheduler.node() as node:
        await node.register(slots=8)
        async with Client(scheduler.url) as client, client.stream("en", "zh") as stream:
            await utter(stream, 0)
            await node.result(await node.job(utterance_index=0))
            assert shown(await ends(stream, 1)) == [(0, "said 0")]
            await utter(stream, 1)
            await node.result(await node.job(utterance_index=1))
            await eventually(lambda: is_idle(scheduler))
            assert await scheduler.stop() == 0
            await utter(stream, 2)
            await scheduler.start()
            async with scheduler.node("another") as another:
                await another.register(slots=8)
                job = await another.job(utterance_index=2)
                assert base64.b64decode(job["audio"]) == bytes([2]) * 3_200
                await another.result(job)
                assert shown(await rest(stream)) == [(1, "said 1"), (2, "said 2")]


async def is_idle(scheduler: Scheduler) -> bool:
    stats = await scheduler.stats()
    return bool(stats["jobs"]["in_flight"] == 0)


async def test_a_translation_after_everything_was_forgotten_begins_anew(store: Server) -> None:
    """The session in which it would have been said is gone, and nobody had anything open in it."""
    async with Scheduler(store.url) as scheduler, Client(scheduler.url) as client:
        await scheduler.stop()
        await empty(store)
        await scheduler.start()
        async with scheduler.node() as node:
            await node.register(slots=8)
            saying = asyncio.create_task(translated(client))
            await node.result(await node.job())
            assert shown(await saying) == [(0, "said 0")]


async def test_a_scheduler_that_is_killed_costs_no_utterance(store: Server) -> None:
    """Its node had it. Another does it again, when its time on the first is over."""
    settings = {"LINGUA_JOBS__RUN_TIMEOUT_MS": "3000", "LINGUA_JOBS__RESERVATION_TTL_MS": "2000"}
    async with Scheduler(store.url, **settings) as scheduler, scheduler.node() as node:
        await node.register(slots=8)
        async with Client(scheduler.url) as client:
            saying = asyncio.create_task(translated(client))
            job = await node.job()
            await scheduler.stop(signal.SIGKILL)
            await scheduler.start()
            async with scheduler.node("another") as another:
                await another.register(slots=8)
                again = await another.job()
                # The first one's time may be over before the other has come: then it was the next one, too, in vain.
                assert again["job_id"] == job["job_id"]
                assert again["attempt_id"] > job["attempt_id"]
                await another.result(again)
                assert shown(await saying) == [(0, "said 0")]


async def test_apps_that_all_lost_their_sockets_get_their_results_once(house: House, network: Proxy) -> None:
    number = 20
    async with house.node() as node, Client(network.http) as client:
        await node.register(slots=number)
        saying = [asyncio.create_task(translated(client)) for _ in range(number)]
        jobs = [await node.job() for _ in range(number)]
        network.sever()
        for job in jobs:
            await node.result(job, text_translated=job["session_id"])
        network.heal()
        found = [shown(await one) for one in saying]
    assert sorted(found) == sorted([(0, job["session_id"])] for job in jobs)


async def test_an_app_comes_back_no_earlier_than_it_was_told(store: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lingua_scheduler.sdk.client_link")
    async with (
        Scheduler(store.url) as scheduler,
        Client(scheduler.url) as client,
        client.stream("en", "zh") as stream,
    ):
        await scheduler.stop()
        await scheduler.start()
        async with scheduler.node() as node:
            await node.register(slots=8)
            await utter(stream, 0)
            await node.result(await node.job())
            assert shown(await rest(stream)) == [(0, "said 0")]
    # Whether the scheduler is there again by then, or has to be tried once more, depends on the machine.
    first = next(record.args for record in caplog.records if "is lost" in record.msg)
    assert cast("tuple[object, object, float]", first)[2] >= RETURN_MS / 1000


async def test_an_app_that_does_not_iterate_comes_back_all_the_same(house: House, network: Proxy) -> None:
    """It holds as much as it may, and reads no more; its session is its own again before it has room."""
    speech = base64.b64encode(bytes(300_000)).decode()
    async with house.node() as node, Client(network.http, max_held_bytes=1) as client:
        await node.register(slots=8)
        async with client.stream("en", "zh") as stream:
            for number in range(3):
                await utter(stream, number)
                await node.result(await node.job(utterance_index=number), tts_audio=speech)
            session = house.serving.desk.sessions.get(stream.session_id)
            assert session is not None

            async def is_full() -> bool:
                return not stream._link.conversation.may_hear

            before = session.connection
            await eventually(is_full)
            network.cut()

            async def is_back() -> bool:
                return stream._link.conversation.is_open and session.connection not in {None, before}

            await eventually(is_back)
            assert shown(await ends(stream, 3)) == [(0, "said 0"), (1, "said 1"), (2, "said 2")]
            assert await rest(stream) == []


async def test_somebody_who_takes_the_socket_and_says_nothing_is_not_waited_for() -> None:
    async with Silent() as silent:
        client = Client(f"http://127.0.0.1:{silent.port}", connect_timeout_s=0.1)
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s") as nobody:
            await asyncio.wait_for(client.__aenter__(), PATIENCE_S)
        assert nobody.value.retryable
