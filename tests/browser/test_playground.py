"""The playground in a real browser, against a real scheduler."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import re
import struct
import sys
import wave
from contextlib import asynccontextmanager
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from lingua_scheduler.operate.demo.simulation import translate
from tests.browser.conftest import TONE_HZ, frequency
from tests.support.house import House, is_away
from tests.support.people import PATIENCE_S
from tests.support.programs import find, ran
from tests.support.sdk_nodes import node_at, running
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page, WebSocketRoute

    from lingua_scheduler.sdk import Job
    from tests.browser.conftest import Visitor
    from tests.support.people import Node
    from tests.support.proxy import Proxy
    from tests.support.servers import Server

TOKEN = "a-token-for-sessions"  # noqa: S105 - of this test
NODE: dict[str, Any] = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]]}
HOSTILE = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'
#: Every sound that the page makes: for how long, and how loud.
EAR = """() => {
    window.heard = [];
    const start = AudioBufferSourceNode.prototype.start;
    AudioBufferSourceNode.prototype.start = function (...given) {
        const samples = this.buffer.getChannelData(0);
        const peak = samples.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
        heard.push({seconds: this.buffer.duration, peak});
        return start.apply(this, given);
    };
}"""


def tone(seconds: float, rate: int) -> bytes:
    """A wav file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        samples = (round(16_000 * math.sin(2 * math.pi * TONE_HZ * at / rate)) for at in range(round(seconds * rate)))
        writer.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


async def say_sentence(page: Page) -> None:
    await page.get_by_role("button", name="Say it").click()


async def has_spoken(page: Page, frames: int) -> None:
    """Until there were more binary frames than so many."""
    await page.wait_for_function(
        """most => [...document.querySelectorAll('.frame b')].map(one => parseInt(one.textContent) || 0)
            .reduce((sum, one) => sum + one, 0) > most""",
        arg=frames,
    )


async def partial(node: Node, job: Any, text: str) -> None:
    about = {name: job[name] for name in ("job_id", "session_id", "utterance_index")}
    await node.say("asr_partial", **about, node_id=node.node_id, text=text, is_final=False)


async def test_a_microphone_gets_captions_and_sound_and_every_frame_is_shown(house: House, visitor: Visitor) -> None:
    async with house.node() as node:
        await node.register(slots=4)
        page = await visitor.open(f"{house.url}/playground")
        await page.evaluate(EAR)
        talk = page.get_by_role("button", name=re.compile("Talk|Stop"))
        await talk.click()
        await expect(talk).to_have_text("Stop")
        await has_spoken(page, 12)
        await talk.click()
        job = await node.job(utterance_index=0)
        assert (job["src_lang"], job["tgt_lang"], job["is_manual_cut"]) == ("en", "zh", True)
        assert frequency(base64.b64decode(job["audio"])) == pytest.approx(TONE_HZ, rel=0.1)

        caption = page.locator(".utterance")
        await partial(node, job, "good mor")
        await expect(caption.locator(".heard")).to_have_text("good mor")
        timings = {"asr_ms": 111, "nmt_ms": 22, "tts_ms": 33}
        await node.result(
            job,
            text_asr="good morning",
            text_translated="早上好",
            tts_audio=base64.b64encode(tone(0.25, 24_000)).decode(),
            tts_format="wav",
            extra={"service_timings": timings},
        )
        await expect(caption.locator(".heard")).to_have_text("good morning")
        await expect(caption.locator(".meant")).to_have_text("早上好")
        await expect(caption.locator(".legend")).to_contain_text("recognise 111 ms")
        await expect(caption.locator(".legend")).to_contain_text("scheduler → node")
        await expect(caption.locator(".moments summary")).to_contain_text(
            re.compile(r"answer \d+ ms after the last word")
        )
        await expect(caption.locator(".moments")).to_contain_text("NODE_ACCEPTED")
        await page.wait_for_function("() => heard.length === 1")
        heard = (await page.evaluate("heard"))[0]
        assert heard["seconds"] == pytest.approx(0.25, rel=0.05)
        assert heard["peak"] == pytest.approx(0.49, rel=0.1)
        await caption.get_by_role("button", name="Play").click()
        await page.wait_for_function("() => heard.length === 2")

        result = page.locator(".frame", has_text="translation_result")
        await result.locator("summary").click()
        shown = json.loads(await result.locator("pre").inner_text())
        assert shown["text_translated"] == "早上好"
        assert shown["tts_audio"].endswith(" bytes of audio›")
        await page.locator(".frame", has_text="session_init_ack").locator("summary").click()
        assert "‹hidden›" in await page.locator(".frames").inner_text()
        # What the microphone heard at last is behind no cut.
        assert await page.locator(".utterance").count() == 1


@asynccontextmanager
async def simulated(house: House) -> AsyncIterator[list[bytes]]:
    """A node of the demo, and what it was given to hear."""
    given: list[bytes] = []

    async def simulate(job: Job) -> dict[str, Any]:
        given.append(job.audio)
        return await translate(job, seed=1, failure_rate=0, slowness=0.2)

    langs: dict[str, Any] = {"semantic": ["en", "zh"], "asr": ["en", "zh"], "tts": ["en", "zh"]}
    async with running(node_at(house.port, simulate, pairs=[("en", "zh"), ("zh", "en")], **langs)):
        yield given


async def test_a_microphone_gets_captions_and_speech_from_a_simulated_node(house: House, visitor: Visitor) -> None:
    async with simulated(house) as given:
        page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh")
        await page.evaluate(EAR)
        for number in (1, 2):
            await page.locator(".talk").click()
            await expect(page.locator(".talk.on")).to_be_visible()
            await has_spoken(page, 12 * number)
            await page.locator(".talk").click()
            await expect(page.locator("[data-end=result]")).to_have_count(number)
        # A microphone that was just opened begins with silence.
        assert [frequency(audio[-3_200:]) for audio in given] == pytest.approx([TONE_HZ] * 2, rel=0.1)
        for at in range(2):
            caption = page.locator(".utterance").nth(at)
            await expect(caption.locator(".heard")).to_have_text(re.compile("[a-z]{2}"))
            await expect(caption.locator(".meant")).to_have_text(re.compile("[\u4e00-\u9fff]"))
            await expect(caption.locator("[data-simulated]")).to_be_visible()
            await expect(caption.locator(".legend")).to_contain_text(re.compile(r"speak \d+ ms"))
        await expect(page.locator(".frame", has_text="asr_partial")).to_have_count(2)
        await page.wait_for_function("() => heard.length === 2 && heard.every(one => one.peak > 0.1)")


async def test_a_sentence_goes_through_a_simulated_node_and_comes_back_as_speech(
    house: House, visitor: Visitor
) -> None:
    async with simulated(house):
        page = await visitor.open(f"{house.url}/playground?src=zh&tgt=en")
        await page.evaluate(EAR)
        await expect(page.get_by_label("Or a sentence")).to_have_value("早上好，你今天怎么样？")
        await page.get_by_role("button", name="en → zh").click()
        assert "src=en&tgt=zh" in page.url
        for number in (1, 2):
            await say_sentence(page)
            await expect(page.locator("[data-end=result]")).to_have_count(number)
        assert await page.locator(".utterance .meant").first.inner_text() != ""
        # It says other things than were typed, and the page says so of each.
        await expect(page.locator("[data-simulated]")).to_have_count(2)
        await expect(page.locator("[data-simulated]").first).to_contain_text("not what was said")
        await page.wait_for_function("() => heard.length >= 1 && heard[0].peak > 0.1")
        await expect(page.locator(".state")).to_contain_text("Connected")
        await page.get_by_role("button", name="Leave the session").click()
        await expect(page.locator(".state")).to_contain_text("Not connected")
        await page.get_by_label("Play it at once").uncheck()
        await page.get_by_label("Or an audio file").set_input_files(
            {"name": "tone.wav", "mimeType": "audio/wav", "buffer": tone(0.5, 44_100)}
        )
        await expect(page.locator("[data-end=result]")).to_have_count(3)
        await page.get_by_label("Or an audio file").set_input_files(
            {"name": f"{HOSTILE}.wav", "mimeType": "audio/wav", "buffer": b"no sound"}
        )
        await expect(page.get_by_role("alert")).to_contain_text("cannot read that as audio")
        assert await page.evaluate("window.hacked") is None


async def test_space_is_enough_to_talk_but_not_while_somebody_writes(house: House, visitor: Visitor) -> None:
    async with house.node() as node:
        await node.register(slots=4)
        page = await visitor.open(f"{house.url}/playground")
        await page.get_by_label("Or a sentence").press("Space")
        assert await page.locator(".talk.off").count() == 1
        await page.locator("h1").click()
        await page.keyboard.down("Space")
        await expect(page.locator(".talk.on")).to_be_visible()
        await has_spoken(page, 4)
        await page.keyboard.up("Space")
        await expect(page.locator(".talk.off")).to_be_visible()
        await node.result(await node.job())
        await expect(page.locator(".meant")).to_have_text("said 0")
        await page.locator(".talk").focus()
        await page.keyboard.down("Space")
        await expect(page.locator(".talk.on")).to_be_visible()
        await page.keyboard.up("Space")
        await expect(page.locator(".talk.off")).to_be_visible()


async def test_other_languages_are_another_session_and_the_microphone_is_off(house: House, visitor: Visitor) -> None:
    async with house.node() as node:
        await node.register(slots=4)
        page = await visitor.open(f"{house.url}/playground")
        await page.locator(".talk").click()
        await expect(page.locator(".talk.on")).to_be_visible()
        await has_spoken(page, 9)
        await page.get_by_role("button", name="Swap the languages").click()
        await expect(page.locator(".talk.off")).to_be_visible()
        await expect(page.locator(".state")).to_contain_text("Not connected")
        first = await node.job()
        await say_sentence(page)
        second = await node.job()
        assert [first["src_lang"], second["src_lang"]] == ["en", "zh"]
        assert first["session_id"] != second["session_id"]
        await node.result(second, text_translated="good morning")
        await node.result(first, text_translated="早上好")
        await expect(page.locator(".meant")).to_have_text(["good morning", "早上好"])
        await expect(page.locator(".troubles")).to_be_empty()


async def test_a_lost_network_is_shown_and_what_was_said_is_answered_once(
    house: House, visitor: Visitor, network: Proxy
) -> None:
    visitor.forgiven = ("WebSocket connection to", "ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE")
    async with house.node() as node:
        await node.register(slots=4)
        page = await visitor.open(f"http://127.0.0.1:{network.port}/playground")
        await say_sentence(page)
        await node.result(await node.job(utterance_index=0))
        await expect(page.locator(".meant")).to_have_text("said 0")
        session_id = await page.locator(".state code").inner_text()
        await say_sentence(page)
        job = await node.job(utterance_index=1)
        network.sever()
        await is_away(house, session_id)
        await expect(page.locator(".state")).to_contain_text("Connection lost")
        await node.result(job)
        network.heal()
        await expect(page.locator(".state")).to_contain_text("resumed after a loss: 1")
        await expect(page.locator(".meant").first).to_have_text("said 1")
        assert await page.locator(".utterance").count() == 2
        resumed = page.locator(".frame", has_text="resume after event 1")
        await expect(resumed).to_be_visible()


async def test_errors_are_words_with_a_code_and_whether_to_try_again(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/playground")
    await expect(page.locator(".hint")).to_contain_text("lingua demo")
    await say_sentence(page)
    trouble = page.locator(".utterance .trouble").first
    await expect(trouble).to_contain_text("No node can do this pair as asked. Trying again will not help.")
    await expect(trouble).to_contain_text("NO_CAPABLE_NODE")
    async with house.node() as node:
        await node.register(slots=1)
        await house.dispatch()
        page = await visitor.open(f"{house.url}/playground?speech=no")
        await say_sentence(page)
        trouble = page.locator(".utterance .trouble").first
        await expect(trouble).to_contain_text(re.compile(r"busy\. Try again in [\d.]+ s\."))
    page = await visitor.open(f"{house.url}/playground?src=klingonish")
    await say_sentence(page)
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("INVALID_MESSAGE")
    await alert.get_by_role("button", name="Dismiss").click()
    await expect(page.locator(".troubles")).to_be_empty()


async def test_all_pairs_that_are_served_can_be_chosen(house: House, visitor: Visitor) -> None:
    langs = ("de", "en", "es", "fr", "zh")
    await house.post(
        "/v1/node/register", {"node_id": "n1", "semantic_langs": langs, "nmt_pairs": list(permutations(langs, 2))}
    )
    page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh")
    pairs = page.get_by_role("group", name="Served now")
    choices = pairs.get_by_role("button", name="→")
    await expect(choices).to_have_count(12)
    more = pairs.get_by_role("button", name="Show 8 more")
    await expect(more).to_have_text("+8")
    await more.press("Enter")
    await expect(choices).to_have_count(20)
    await choices.filter(has_text="zh → fr").click()
    await expect(page.get_by_label("From")).to_have_value("zh")
    await expect(page.get_by_label("To", exact=True)).to_have_value("fr")
    await pairs.get_by_role("button", name="Show fewer").click()
    await expect(choices).to_have_count(12)
    await page.get_by_role("button", name="中文").click()
    await expect(page.get_by_role("button", name="再显示 8 个")).to_be_visible()


async def test_pairs_are_asked_for_again_after_the_engine_was_away_and_what_was_known_stays(
    visitor: Visitor, tmp_path: Path
) -> None:
    engine = start_server(tmp_path)
    visitor.forgiven = ("status of 503",)
    try:
        async with House(engine.url).open() as house:
            await house.post("/v1/node/register", NODE)
            page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh")
            choice = page.get_by_role("group", name="Served now").get_by_role("button", name="en → zh")
            await expect(choice).to_be_visible()
            engine.freeze()
            # Whoever changes his token has it asked for at once.
            await page.locator(".token summary").click()
            async with page.expect_response(re.compile("/v1/pools")) as asked:
                await page.locator("#token").fill(TOKEN)
                await page.locator("#token").press("Enter")
            assert (await asked.value).status == 503
            await expect(choice).to_be_visible()
            async with page.expect_response(re.compile("/v1/pools")) as asked:
                await page.reload()
            assert (await asked.value).status == 503
            await expect(choice).to_have_count(0)
            engine.thaw()
            await expect(choice).to_be_visible()
            await page.goto("about:blank")
    finally:
        engine.thaw()
        engine.stop()


async def test_of_very_many_pairs_all_are_known(house: House, visitor: Visitor) -> None:
    langs = ["en", "ko", "zh", *(f"a{letter}" for letter in "afkmnrsvyz"), *(f"b{letter}" for letter in "aeghimnors")]
    pairs = list(permutations(langs, 2))
    await house.post("/v1/node/register", NODE | {"semantic_langs": langs, "nmt_pairs": pairs})
    page = await visitor.open(f"{house.url}/playground?src=zh&tgt=ko")
    more = page.get_by_role("group", name="Served now").locator("[data-more]")
    await expect(more).to_have_text(f"+{len(pairs) - 12}")
    await expect(page.locator(".hint")).to_have_count(0)
    await expect(page.locator("#src-known option")).to_have_count(len(langs))


async def test_a_pair_whose_nodes_take_no_jobs_is_not_offered_and_the_page_says_why(
    house: House, visitor: Visitor
) -> None:
    await house.post("/v1/node/register", NODE)
    await house.post("/v1/node/register", NODE | {"node_id": "n2", "nmt_pairs": [["zh", "en"]]})
    await house.post("/v1/nodes/n1/drain", {})
    page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh")
    choices = page.get_by_role("group", name="Served now").get_by_role("button")
    await expect(choices).to_have_text(["zh → en"])
    await expect(page.locator(".hint")).to_contain_text("No node takes jobs for en → zh now")
    await choices.click()
    await expect(page.locator(".hint")).to_have_count(0)
    # Nobody at all: there is nothing to choose from.
    await house.post("/v1/nodes/n2/drain", {})
    page = await visitor.open(f"{house.url}/playground?src=zh&tgt=en&lang=zh")
    await expect(page.locator(".hint")).to_contain_text("目前没有节点接收 zh → en 的任务")
    await expect(page.locator(".pairs")).to_have_count(0)


async def test_a_token_stays_in_its_tab(visitor: Visitor, server: Server) -> None:
    visitor.forgiven = ("status of 401", "status of 403")
    settings = {"auth.session_tokens": [TOKEN], "auth.pages": "open", "auth.nodes": "open"}
    async with House(server.url, **settings).open() as house, house.node() as node:
        await node.register(slots=4)
        page = await visitor.open(f"{house.url}/playground")
        await say_sentence(page)
        await expect(page.get_by_role("alert")).to_contain_text("This scheduler needs a token")
        await page.locator(".token summary").click()
        await page.locator("#token").fill(TOKEN)
        await page.locator("#token").press("Enter")
        await say_sentence(page)
        await node.result(await node.job())
        await expect(page.locator(".meant")).to_have_text("said 0")
        assert TOKEN not in page.url
        assert TOKEN not in await page.locator("main").inner_text()
        assert TOKEN not in await page.evaluate("JSON.stringify(localStorage)")
        assert TOKEN in await page.evaluate("JSON.stringify(sessionStorage)")
        await page.reload()
        await page.wait_for_selector("main")
        await say_sentence(page)
        await node.job()


async def test_whatever_others_say_stays_text(house: House, visitor: Visitor) -> None:
    """A hostile node, and, put in on the way, a hostile scheduler."""
    routes: list[WebSocketRoute] = []

    def between(route: WebSocketRoute) -> None:
        routes.append(route)
        server = route.connect_to_server()
        route.on_message(server.send)
        server.on_message(route.send)

    async with house.node() as node:
        await node.register(slots=4)
        query = "?src=en%3Cimg%20src%3Dx%3E&lang=%3Cimg%20src%3Dx%3E"
        page = await visitor.open(f"{house.url}/playground{query}")
        await expect(page.get_by_label("From")).to_have_value("enimgsrcx")
        await page.get_by_label("From").fill("en")
        await page.get_by_label("From").press("Tab")
        await page.route_web_socket(re.compile("/ws/session"), between)
        await say_sentence(page)
        job = await node.job()
        await partial(node, job, HOSTILE)
        await expect(page.locator(".heard")).to_have_text(HOSTILE)
        extra = {"service_timings": {"asr_ms": HOSTILE, "nmt_ms": 5}}
        await node.result(
            job, text_asr=HOSTILE, text_translated=HOSTILE, tts_format=HOSTILE, tts_audio="AAAA", extra=extra
        )
        await expect(page.locator(".meant")).to_have_text(HOSTILE)
        about = {"type": "ui_event", "trace_id": "t", "session_id": HOSTILE, "job_id": HOSTILE, "utterance_index": 0}
        routes[0].send(json.dumps(about | {"event": HOSTILE, "status": HOSTILE, "elapsed_ms": HOSTILE}))
        error = {"type": "error", "error": "NO_AVAILABLE_NODE", "detail": HOSTILE, "retryable": True, "trace_id": "t"}
        routes[0].send(json.dumps(error | {"breakdown": {"pool": HOSTILE, HOSTILE: 1, "full": 3}, "retry_after_ms": 5}))
        missing = {"type": "missing_result", "utterance_index": 1, "reason": "no_available_node", "event_id": 99}
        routes[0].send(json.dumps(missing | {"trace_id": "t"}))
        routes[0].send(json.dumps({"type": HOSTILE, "text": HOSTILE}))
        await expect(page.locator(".utterance .trouble")).to_contain_text(HOSTILE)
        await expect(page.locator(".utterance .trouble")).to_contain_text("Nodes: 3 full")
        await expect(page.locator(".moments").last).to_contain_text(HOSTILE)
        for summary in await page.locator("main summary").all():
            await summary.click()
        assert await page.locator("img, main script").count() == 0
        assert await page.evaluate("window.hacked") is None


async def test_it_speaks_chinese_and_remembers_what_was_chosen(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh", color_scheme="light")
    await expect(page.locator("h1")).to_have_text("Playground")
    await page.get_by_role("button", name="中文").click()
    await expect(page.locator("h1")).to_have_text("试验场")
    assert "lang=zh" in page.url
    assert await page.evaluate("document.documentElement.lang") == "zh-Hans"
    await page.get_by_role("button", name=re.compile("主题")).click()
    await page.get_by_role("button", name=re.compile("主题")).click()
    dark = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(dark) == "rgb(17, 19, 23)"
    await page.goto(f"{house.url}/playground")
    await expect(page.locator("h1")).to_have_text("试验场")
    assert await page.evaluate(dark) == "rgb(17, 19, 23)"
    await page.goto(f"{house.url}/playground?lang=en")
    await expect(page.locator("h1")).to_have_text("Playground")
    fresh = await visitor.open(f"{house.url}/playground", locale="zh-CN", color_scheme="dark")
    await expect(fresh.locator("h1")).to_have_text("试验场")
    assert await fresh.evaluate(dark) == "rgb(17, 19, 23)"


async def snippet(page: Page, name: str) -> str:
    await page.get_by_role("tab", name=name).click()
    await page.get_by_role("button", name=f"Copy: {name}").click()
    await expect(page.get_by_role("button", name=f"Copy: {name}")).to_have_text("Copied")
    copied = str(await page.evaluate("navigator.clipboard.readText()"))
    assert copied == await page.locator("#snippet").text_content()
    return copied


@pytest.mark.parametrize("token", ["", TOKEN])
async def test_what_is_copied_runs_as_it_stands(visitor: Visitor, page: Page, server: Server, token: str) -> None:
    find("curl", "curl")
    visitor.forgiven = ("status of 401", "status of 403")
    settings = {"auth.session_tokens": [token], "auth.pages": "open", "auth.nodes": "open"} if token else {}
    short = {"sessions.max_duration_ms": 1_000}
    async with House(server.url, **(short | settings)).open() as house, house.node() as node:
        await node.register(slots=8)

        async def work() -> None:
            while True:
                await node.result(await node.job(timeout_s=60), text_translated="早上好")

        working = asyncio.create_task(work())
        playground = await visitor.open(f"{house.url}/playground?src=en-GB&tgt=zh")
        if token:
            await playground.locator(".token summary").click()
            await playground.locator("#token").fill(token)
            await playground.locator("#token").press("Enter")
        env = {"LINGUA_TOKEN": token}
        for program in (
            (sys.executable, "-c", await snippet(playground, "Python")),
            ("sh", "-euc", await snippet(playground, "curl")),
        ):
            code, said, errors = await ran(*program, **env)
            assert (code, errors) == (0, "")
            assert "早上好" in said
        shown = asyncio.Event()
        page.on("console", lambda message: shown.set() if "result 早上好" in message.text else None)
        page.on("dialog", lambda dialog: dialog.accept(token))
        await page.set_content(await snippet(playground, "JavaScript"))
        async with asyncio.timeout(PATIENCE_S):
            await shown.wait()
        await page.goto("about:blank")
        working.cancel()
        assert token == "" or token not in await snippet(playground, "Python")
