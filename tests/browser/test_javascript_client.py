"""The JavaScript client in a real browser, against a real scheduler."""

from __future__ import annotations

import asyncio
import base64
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import TONE_HZ, find_browser, frequency
from tests.scenarios.doors.conftest import serve
from tests.support.balancer import Balancer
from tests.support.collector import collecting
from tests.support.house import House, eventually, is_away, no_session_is_left
from tests.support.people import PATIENCE_S
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from playwright.async_api import Page, WebSocket

    from tests.scenarios.doors.conftest import Start
    from tests.support.servers import Server

__all__ = ["serve"]

TOKEN = "a-token-for-sessions"  # noqa: S105 - of this test

LOAD = """async ([port, token]) => {
    const sdk = await import(`http://127.0.0.1:${port}/sdk/lingua.js`);
    const client = new sdk.Client(undefined, {token, connectTimeoutMs: 3000});
    Object.assign(window, {sdk, client, items: [], ended: false, failed: null});
    window.gather = async source => {
        try {
            for await (const item of source) items.push({...item, ttsAudio: Array.from(item.ttsAudio ?? [])});
            window.ended = true;
        } catch (error) {
            window.failed = {...error};
        }
    };
}"""


SPAN = "cd" * 8
SPANS = f"""() => {{
    window.span = trace => `00-${{trace}}-{SPAN}-01`;
    window.parent_of = () => span('{2:032x}');
    window.client = new sdk.Client(client.url.replace('ws/session', ''), {{traceparent: () => parent_of()}});
}}"""


async def load(page: Page, port: int, token: str | None = None) -> None:
    await page.evaluate(LOAD, [port, token])


async def begin_stream(page: Page) -> str:
    """Somebody speaks; what comes is gathered. The id of the session."""
    said = await page.evaluate("""async () => {
        window.stream = await client.stream({src: "en", tgt: "zh"});
        gather(stream);
        return stream.sessionId;
    }""")
    return str(said)


async def utter(page: Page, value: int) -> None:
    await page.evaluate(
        """async value => {
        await stream.send(new Uint8Array(3200).fill(value));
        await stream.cut();
    }""",
        value,
    )


async def until(page: Page, condition: str) -> None:
    await page.wait_for_function(condition, timeout=PATIENCE_S * 1000)


async def ends(page: Page) -> list[tuple[int, str]]:
    """Which utterance, and what it means or why it is missing."""
    items: list[dict[str, Any]] = await page.evaluate("items.filter(item => item.type !== 'partial')")
    return [(item["utteranceIndex"], item.get("textTranslated") or item["reason"]) for item in items]


async def test_a_microphone_is_heard_and_every_result_comes_once_though_the_network_fails(
    page: Page, house: House, network: Proxy
) -> None:
    heard = asyncio.Event()
    frames: list[bytes] = []

    def watch(socket: WebSocket) -> None:
        def sent(frame: str | bytes) -> None:
            if isinstance(frame, bytes) and len(frame) > 3_000:
                frames.append(frame)
                if len(frames) >= 8:
                    heard.set()

        socket.on("framesent", sent)

    page.on("websocket", watch)
    async with house.node() as node:
        await node.register(slots=8)
        await load(page, network.port)
        session_id = await begin_stream(page)
        await page.evaluate("async () => { window.microphone = await stream.listen(); }")
        async with asyncio.timeout(PATIENCE_S):
            await heard.wait()
        await page.evaluate("microphone.stop()")
        job = await node.job(utterance_index=0)
        audio = base64.b64decode(job["audio"])
        assert (job["audio_format"], job["sample_rate"], job["is_manual_cut"]) == ("pcm16", 16_000, True)
        assert len(audio) >= 8 * 3_200
        assert frequency(audio) == pytest.approx(TONE_HZ, rel=0.1)

        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index")}
        await node.say("asr_partial", **about, node_id=node.node_id, text="good mor", is_final=False)
        await until(page, "items.some(item => item.type === 'partial' && item.text === 'good mor')")
        await node.result(job, tts_audio=base64.b64encode(b"\x01\x02").decode())
        await until(page, "items.some(item => item.type === 'result')")
        assert (await page.evaluate("items.at(-1).ttsAudio")) == [1, 2]

        await utter(page, 1)
        second = await node.job(utterance_index=1)
        network.sever()
        await is_away(house, session_id)
        await node.result(second)
        await utter(page, 2)
        network.heal()
        third = await node.job(utterance_index=2)
        assert base64.b64decode(third["audio"]) == b"\x02" * 3_200
        await node.result(third)
        await page.evaluate("stream.end()")
        await until(page, "ended")
        assert await ends(page) == [(0, "said 0"), (1, "said 1"), (2, "said 2")]


async def test_a_network_that_breaks_again_and_again(page: Page, house: House, network: Proxy) -> None:
    number = 12
    async with house.node() as node:
        await node.register(slots=8)
        await load(page, network.port)
        await begin_stream(page)
        heard = []
        for index in range(number):
            if index % 3 == 0:
                network.arm("reset", "up", 1_000)
            await utter(page, index)
            job = await node.job(utterance_index=index)
            heard.append(base64.b64decode(job["audio"]))
            await node.result(job)
            if index % 2 == 0:
                network.cut()
        await page.evaluate("stream.end()")
        await until(page, "ended")
        assert await ends(page) == [(index, f"said {index}") for index in range(number)]
        assert heard == [bytes([index]) * 3_200 for index in range(number)]


MACHINE = (Path(__file__).parent / "machine.js").read_text(encoding="utf-8")


async def test_the_machine_keeps_the_rules_of_the_one_in_python(page: Page, house: House) -> None:
    found = await page.evaluate(MACHINE, house.port)
    assert found["once"] == [0, 1]
    assert found["confirmed"] == [1, 2]
    assert found["partials"] == ["ab"]
    assert found["saidAgain"] == [0]
    assert found["lost"] == [{"reason": "lost", "retryable": True}]
    assert found["refused"] == [{"code": "RATE_LIMITED", "detail": "because", "retryAfterMs": 700}]
    assert found["slow"]
    # Audio is numbered from 64 on; below that, downwards, the beginnings for who may have heard anything.
    assert found["chunks"] == [[66, 67], [], [62, 64, 65, 66, 67]]
    assert found["withoutItsPong"] == [[61, 68], [60, 68]]
    assert found["kept"] == [59, *range(94, 109)]
    assert found["maySend"]
    assert found["closes"] == {
        "1006": None,
        "1012": None,
        "4503": None,
        "4401": ["FORBIDDEN", False],
        "4404": ["SESSION_LOST", True],
        "4409": ["SESSION_LOST", False],
    }
    assert found["refusedForANewer"] is None


@pytest.mark.parametrize("after", [1, 2_000, 3_300, 6_000])
async def test_audio_that_was_under_way_is_heard_once(page: Page, house: House, network: Proxy, after: int) -> None:
    async with house.node() as node:
        await node.register(slots=8)
        await load(page, network.port)
        await begin_stream(page)
        fault = network.arm("cut", "up", after)
        await page.evaluate("""async () => {
            for (let value = 0; value < 4; value++) await stream.send(new Uint8Array(3200).fill(value));
            await stream.cut();
            stream.end();
        }""")
        job = await node.job()
        assert fault.struck.is_set()
        assert base64.b64decode(job["audio"]) == b"".join(bytes([value]) * 3_200 for value in range(4))
        await node.result(job)
        await until(page, "ended")
        assert await ends(page) == [(0, "said 0")]


async def test_what_was_said_to_an_instance_that_is_killed_is_heard_once(page: Page, serve: Start) -> None:
    here, there = await serve(), await serve()
    ports = [there.port]
    async with here.node() as node, Balancer(ports) as balancer:
        await node.register(slots=8)
        await node.is_ready()
        await load(page, balancer.port)
        await page.evaluate("""() => {
            window.pongs = 0;
            client.onFrame = ({way, data}) => { if (way === "in" && data[0] === 0x11) window.pongs++; };
        }""")
        await begin_stream(page)
        say = "async values => { for (const value of values) await stream.send(new Uint8Array(3200).fill(value)); }"
        await page.evaluate(say, [0, 1, 2])
        await until(page, "pongs === 3")
        ports[0] = here.port
        await there.stop(signal.SIGKILL)
        await page.evaluate(say, [3, 4])
        await page.evaluate("stream.end()")
        job = await node.job()
        assert base64.b64decode(job["audio"]) == b"".join(bytes([value]) * 3_200 for value in range(5))
        await node.result(job)
        await until(page, "ended")
        assert await ends(page) == [(0, "said 0")]


@pytest.mark.parametrize("after", [1, 300, 100_000])
async def test_a_connection_that_breaks_in_the_middle_of_a_result(
    page: Page, house: House, network: Proxy, after: int
) -> None:
    speech = bytes(150_000)
    async with house.node() as node:
        await node.register(slots=8)
        await load(page, network.port)
        await page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'})) && null")
        job = await node.job()
        assert base64.b64decode(job["audio"]) == bytes(3_200)
        fault = network.arm("reset", "down", after)
        await node.result(job, tts_audio=base64.b64encode(speech).decode())
        await until(page, "ended")
        assert fault.struck.is_set()
        assert await ends(page) == [(0, "said 0")]
        assert await page.evaluate("items.at(-1).ttsAudio.length") == len(speech)


async def test_an_utterance_is_in_the_trace_of_the_app_that_asked_for_it(
    page: Page, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    traces = {number: f"{number:032x}" for number in range(1, 4)}
    with collecting() as collector:
        async with House(server.url, **{"traces.endpoint": collector.endpoint}).open() as house, house.node() as node:
            await node.register(slots=8)
            await node.is_ready()
            await load(page, house.port)
            await page.evaluate(SPANS)
            # The span of the call; that of the app; that of a stream; none, because what is given is none.
            for call in (
                f"client.translate(sdk.silence(100), {{src: 'en', tgt: 'zh', traceparent: span('{traces[1]}')}})",
                "client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'})",
                "client.translate(sdk.silence(100), {src: 'en', tgt: 'zh', traceparent: 'nonsense'})",
            ):
                await page.evaluate(f"gather({call}) && null")
                job = await node.job()
                await node.result(job)
                await until(page, "ended")
                await page.evaluate("window.ended = false")
                assert (job["trace_id"] in traces.values()) == ("nonsense" not in call)
            await page.evaluate(f"() => {{ window.parent_of = () => span('{traces[3]}'); }}")
            await begin_stream(page)
            await utter(page, 1)
            await node.result(await node.job())
            await until(page, "items.length === 4")
            # What it throws is the app's affair.
            await page.evaluate("() => { window.parent_of = () => { throw new Error('no tracer'); }; }")
            await page.evaluate("() => { window.reportError = error => { window.reported = error.message; }; }")
            await page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'})) && null")
            await node.result(await node.job())
            await until(page, "items.length === 5")
            assert await page.evaluate("reported") == "no tracer"
            await page.evaluate("stream.close()")

            async def has_come() -> bool:
                return len(collector.named("submit")) == 5

            await eventually(has_come)
    parents = {one.trace: one.parent for one in collector.named("submit")}
    assert {trace: parents[trace] for trace in traces.values()} == dict.fromkeys(traces.values(), SPAN)
    assert sorted(parents.values()) == ["", "", SPAN, SPAN, SPAN]


async def test_errors_say_whether_to_try_again_and_when(page: Page, house: House) -> None:
    await load(page, house.port)
    translate = "gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh', options: {wait_ms: 0}}))"
    await page.evaluate(translate)
    failed = await page.evaluate("failed")
    assert (failed["code"], failed["reason"], failed["retryable"]) == ("NO_CAPABLE_NODE", "no_capable_node", False)
    async with house.node() as node:
        await node.register(slots=1)
        await house.dispatch()
        await page.evaluate(translate)
        failed = await page.evaluate("failed")
        assert (failed["code"], failed["retryable"]) == ("NO_AVAILABLE_NODE", True)
        assert failed["retryAfterMs"] > 0
    failed = await page.evaluate("client.stream({src: 'klingonish', tgt: 'zh'}).catch(error => ({...error}))")
    assert (failed["code"], failed["retryable"]) == ("INVALID_MESSAGE", False)
    await page.evaluate("gather(client.translate(new Uint8Array(3e6), {src: 'en', tgt: 'zh'}))")
    assert (await page.evaluate("failed"))["code"] == "PAYLOAD_TOO_LARGE"


async def test_a_stream_tells_what_is_missing_and_sessions_are_used_again(page: Page, house: House) -> None:
    async with house.node() as node:
        await node.register(slots=4)
        await load(page, house.port)
        for number in range(2):
            translation = asyncio.create_task(
                page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'}))")
            )
            await node.result(await node.job(utterance_index=number))
            await translation
        assert len(house.serving.desk.sessions) == 1
        await page.evaluate("""async () => {
            items.length = 0;
            window.stream = await client.stream({src: "en", tgt: "zh", options: {timeout_ms: 300}});
            gather(stream);
        }""")
        await utter(page, 1)
        await node.job()
        await until(page, "items.length === 1")
        assert await ends(page) == [(0, "job_timeout")]
        assert await page.evaluate("items[0].retryable") is False


async def test_after_a_busy_moment_only_a_few_sessions_are_kept(page: Page, house: House) -> None:
    async with house.node() as node:
        await node.register(slots=10)
        await load(page, house.port)
        say = "gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'}))"
        saying = asyncio.create_task(page.evaluate(f"Promise.all(Array.from({{length: 10}}, () => {say})) && null"))
        for job in [await node.job() for _ in range(10)]:
            await node.result(job)
        await saying
        await until(page, "items.filter(item => item.type === 'result').length === 10")
        await eventually(lambda: has_sessions(house, 8))
        await page.evaluate("client.close()")
        await eventually(lambda: has_sessions(house, 0))


async def test_who_leaves_while_the_network_is_gone_does_not_come_back(
    page: Page, house: House, network: Proxy
) -> None:
    async with house.node() as node:
        await node.register(slots=1)
        await load(page, network.port)
        saying = asyncio.create_task(
            page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'}))")
        )
        await node.result(await node.job())
        await saying
        await page.evaluate("() => { client.onState = state => states.push(state.name); window.states = []; }")
        network.sever()
        await until(page, "states.includes('lost')")
        await page.evaluate("client.close()")
        assert await page.evaluate("states.at(-1)") == "closed"


async def has_sessions(house: House, number: int) -> bool:
    return len(house.serving.desk.sessions) == number


LATE = """async how => {
    await stream.listen();
    const [track] = tracks;
    stream[how]();
    const late = [stream.send(sdk.silence(100)), stream.cut(), stream.listen()];
    const codes = await Promise.all(late.map(one => one.then(() => "", error => error.code)));
    return [...codes, await until(() => track.readyState === "ended")];
}"""
TRACKS = """() => {
    const { mediaDevices } = navigator, open = mediaDevices.getUserMedia.bind(mediaDevices);
    window.tracks = [];
    mediaDevices.getUserMedia = async wanted => {
        const media = await open(wanted);
        tracks.push(...media.getTracks());
        return media;
    };
    window.until = async isSo => {
        while (!isSo()) await new Promise(again => requestAnimationFrame(again));
        return true;
    };
}"""


@pytest.mark.parametrize("how", ["end", "close"])
async def test_nothing_is_sent_after_the_end_and_no_microphone_listens(page: Page, house: House, how: str) -> None:
    await load(page, house.port)
    await begin_stream(page)
    await page.evaluate(TRACKS)
    async with asyncio.timeout(PATIENCE_S):
        assert await page.evaluate(LATE, how) == ["STREAM_ENDED", "STREAM_ENDED", "STREAM_ENDED", True]


async def test_a_token_is_shown_without_a_header(page: Page, server: Server) -> None:
    async with House(server.url, **{"auth.session_tokens": [TOKEN]}).open() as house:
        await load(page, house.port, TOKEN)
        assert (await begin_stream(page)).startswith("s-")
        await load(page, house.port, "not-a-token-of-anybody")
        failed = await page.evaluate("client.stream({src: 'en', tgt: 'zh'}).catch(error => ({...error}))")
        assert (failed["code"], failed["retryable"]) == ("UNAUTHENTICATED", False)


async def test_a_session_that_is_gone_is_an_error_and_a_translation_begins_anew(page: Page, server: Server) -> None:
    house = House(server.url, **{"sessions.resume_window_ms": 1_000})
    async with house.open(), Proxy(house.port) as network, house.node() as node:
        await node.register(slots=4)
        await load(page, network.port)
        translation = asyncio.create_task(
            page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'}))")
        )
        await node.result(await node.job())
        await translation
        await begin_stream(page)
        network.sever()
        await no_session_is_left(house)
        network.heal()
        await until(page, "failed !== null")
        failed = await page.evaluate("failed")
        assert (failed["code"], failed["retryable"]) == ("SESSION_LOST", True)
        translation = asyncio.create_task(
            page.evaluate("gather(client.translate(sdk.silence(100), {src: 'en', tgt: 'zh'}))")
        )
        await node.result(await node.job(), text_translated="anew")
        await translation
        assert (await ends(page))[-1] == (0, "anew")


async def test_whoever_watches_sees_every_frame_and_how_the_session_stands(
    page: Page, house: House, network: Proxy
) -> None:
    seen: list[str | bytes] = []

    def see(frame: str | bytes) -> None:
        seen.append(frame)

    page.on("websocket", lambda socket: socket.on("framereceived", see))
    async with house.node() as node:
        await node.register(slots=4)
        await load(page, network.port)
        await page.evaluate("""async () => {
            Object.assign(window, {frames: [], states: [], reportError: error => { window.reported = error.message; }});
            const onFrame = frame => {
                frames.push(frame);
                if (frames.length === 2) throw new Error("his own affair");
            };
            client = new sdk.Client(undefined, {onFrame, onState: state => states.push(state)});
        }""")
        session_id = await begin_stream(page)
        await utter(page, 1)
        await node.result(await node.job())
        await until(page, "items.some(item => item.type === 'result')")
        network.cut()
        await until(page, "states.at(-1).name === 'open' && states.length > 2")
        await page.evaluate("stream.end()")
        await until(page, "ended")
        states = await page.evaluate("states.map(one => [one.name, one.sessionId, one.isResumed ?? null])")
        assert states == [
            ["connecting", None, None],
            ["open", session_id, False],
            ["lost", session_id, None],
            ["connecting", session_id, None],
            ["open", session_id, True],
            ["closed", session_id, None],
        ]
        out = await page.evaluate("""frames.filter(one => one.way === 'out')
            .map(one => typeof one.data === 'string' ? JSON.parse(one.data).type : one.data[0])""")
        assert out[0] == "session_init"
        assert 1 in out
        assert out[-1] == "session_close"
        assert await page.evaluate("frames.filter(one => one.way === 'in').length") == len(seen)
        assert await page.evaluate("reported") == "his own affair"
        assert await page.evaluate("frames.every((one, at) => at === 0 || one.atMs >= frames[at - 1].atMs)")


async def test_nobody_there_is_an_error_that_may_go_away(page: Page, house: House) -> None:
    await load(page, house.port)
    failed = await page.evaluate("""() =>
        new sdk.Client("http://127.0.0.1:1", {connectTimeoutMs: 300}).stream({src: "en", tgt: "zh"})
            .catch(error => ({...error}))""")
    assert (failed["code"], failed["retryable"]) == ("UNREACHABLE", True)


@pytest.mark.parametrize("where", ["README.md", "docs/client-sdk.md"])
async def test_what_the_pages_show(page: Page, server: Server, where: str) -> None:
    """As it stands, but for the port: the microphone is heard, and the result shown."""
    text = (Path(__file__).parents[2] / where).read_text(encoding="utf-8")
    shown = asyncio.Event()
    page.on("console", lambda message: shown.set() if "said 0" in message.text else None)
    async with House(server.url, **{"sessions.max_duration_ms": 1_000}).open() as house, house.node() as node:
        await node.register(slots=8)
        (example,) = re.findall(r"```html\n(.*?)```", text, re.DOTALL)
        await page.set_content(example.replace("5010", str(house.port)))
        job = await node.job(utterance_index=0)
        assert frequency(base64.b64decode(job["audio"])) == pytest.approx(TONE_HZ, rel=0.1)
        await node.result(job)
        async with asyncio.timeout(PATIENCE_S):
            await shown.wait()
        await page.goto("about:blank")


def test_without_a_browser_these_tests_fail_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        find_browser()
