"""The dashboard in a real browser: what it shows is so, and what is pressed is done."""

from __future__ import annotations

import json
import re
from itertools import permutations
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import STATES
from lingua_scheduler.core.letter import Letter, Parcel
from lingua_scheduler.core.notice import KINDS
from lingua_scheduler.core.reasons import AGAINST, SPECIAL
from lingua_scheduler.flows.bury import bury
from lingua_scheduler.front import live
from lingua_scheduler.protocol.errors import CloseCode
from tests.browser.conftest import serve_page
from tests.browser.test_pages import WIDTHS, faults
from tests.contract.test_events import fail
from tests.contract.test_problems import fail_jobs
from tests.contract.test_snapshot import has_looked
from tests.support.house import House, eventually
from tests.support.people import PATIENCE_S
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from tests.browser.conftest import Visitor
    from tests.support.proxy import Proxy
    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 2}
EVIL = "<img src=x onerror='window.hacked=1'>"
OPS = "operator-token-1"
ATTEMPT = ("job_id", "attempt_id", "node_id")
#: What the page would do if there were something to press.
PRESSES = """async ([path, said]) => {
    const { me } = await import('/assets/dashboard/call.js');
    const headers = { 'x-lingua-csrf': me.value.csrf, 'content-type': 'application/json' };
    const answer = await fetch(path, { method: 'POST', headers, body: said && JSON.stringify(said) });
    return [answer.status, (await answer.json()).error];
}"""
QUICK: dict[str, Any] = {"loops.live_interval_ms": 50}


# Houses are named before visitors: so that whoever looks is gone before the house is.


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    async with House(server.url, **QUICK).open() as house:
        yield house


def row(page: Page, node_id: str) -> Any:
    return page.locator(f'[data-node="{node_id}"]')


async def value(page: Page, name: str) -> str:
    return await page.locator(f"[data-number={name}] [data-value]").inner_text()


async def yes(page: Page) -> None:
    await page.locator("dialog [data-yes]").click()


async def test_the_four_numbers_and_the_pools_agree_with_the_api(house: House, visitor: Visitor) -> None:
    for number in range(3):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
    await house.post("/v1/node/register", NODE | {"node_id": "alone", "nmt_pairs": [["zh", "en"]]})
    await house.dispatch()
    page = await visitor.open(f"{house.url}/dashboard")
    stats = await house.stats()
    await expect(page.locator("[data-number=in_flight] [data-value]")).to_have_text("1")
    assert await value(page, "ready_nodes") == str(stats["nodes"]["available"] + stats["nodes"]["full"]) == "4"
    assert await value(page, "free_slots") == str(stats["slots"]["free"]) == "7"
    for pool in stats["pools"]:
        cell = page.locator(f'[data-pair="{pool["pair"]}"]')
        await expect(cell).to_contain_text(f"{pool['free']} of {pool['slots']} slots free")
        assert (await cell.locator(".single").count() == 1) == (pool["pair"] == "zh:en")
    # One that drains holds up nobody's pair.
    for number in (1, 2):
        await house.post(f"/v1/nodes/n{number}/drain", {})
    await expect(page.locator('[data-pair="en:zh"] .single')).to_be_visible()
    # A curve begins with the second stretch of ten seconds.
    await expect(page.locator(".curve .line").first).to_be_attached(timeout=PATIENCE_S * 1000)


def square(page: Page, pair: str) -> Any:
    return page.locator(f'[data-pair="{pair}"] button')


def verdict(page: Page, node_id: str) -> Any:
    return page.locator(f'[data-verdict="{node_id}"]')


async def test_a_square_says_who_could_take_a_job_now_and_why_the_others_could_not(
    house: House, visitor: Visitor
) -> None:
    for node_id in ("able", "drained", "busy"):
        await house.post("/v1/node/register", NODE | {"node_id": node_id, "max_concurrent_jobs": 1})
    await house.post("/v1/node/register", NODE | {"node_id": "other", "nmt_pairs": [["zh", "en"]]})
    await house.post("/v1/nodes/drained/drain", {})
    await house.dispatch(options={"preferred_node_id": "busy", "strict": True})
    page = await visitor.open(f"{house.url}/dashboard")
    await square(page, "en:zh").click()
    await expect(page.locator("#pair-title")).to_be_focused()
    await expect(page.locator(".pair [role=status]")).to_have_text("1 of 4 nodes could take a job now")
    for node_id, why in (
        ("able", "could take a job"),
        ("busy", "its slots are taken"),
        ("drained", "it was drained or evicted"),
        ("other", "it does not serve the pair"),
    ):
        await expect(verdict(page, node_id)).to_contain_text(why)
    listed = await page.locator("[data-verdict]").evaluate_all("all => all.map(one => one.dataset.verdict)")
    assert listed == ["able", "drained", "busy", "other"]
    told = {one["node_id"]: one["reason"] for one in (await house.get("/v1/explain?src=en&tgt=zh"))["nodes"]}
    seen = await page.locator("[data-verdict]").evaluate_all("all => all.map(one => one.dataset.reason)")
    assert dict(zip(listed, seen, strict=True)) == told
    # It is as it is now, in the language of the page, and stands in the address.
    await house.post("/v1/nodes/drained/resume", {})
    await expect(page.locator(".pair [role=status]")).to_have_text("2 of 4 nodes could take a job now")
    await page.get_by_role("button", name="中文").click()
    await page.reload()
    await expect(page.locator(".pair [role=status]")).to_have_text("4 个节点中 2 个现在能接任务")
    await expect(verdict(page, "busy")).to_contain_text("槽位已满")
    await verdict(page, "busy").locator("button").click()
    await expect(page.locator("[data-page=busy]")).to_be_visible()
    await square(page, "zh:en").click()
    await expect(verdict(page, "other")).to_contain_text("能接任务")
    await page.locator(".pair .close").click()
    await expect(page.locator(".pair")).to_have_count(0)
    assert "pair=" not in page.url
    # What nobody has ever heard of is refused, in words.
    visitor.forgiven = ("400",)
    await page.goto(f"{house.url}/dashboard?pair=en:klingonish&lang=zh")
    await expect(page.locator(".pair [role=alert]")).to_contain_text("调度器无法理解这条消息")


async def test_squares_are_reached_by_arrows_and_of_every_target_one_is_named(house: House, visitor: Visitor) -> None:
    pairs = [["de", "en"], ["de", "zh"], ["en", "zh"], ["zh", "de"]]
    await house.post("/v1/node/register", NODE | {"semantic_langs": ["de", "en", "zh"], "nmt_pairs": pairs})
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(square(page, "zh:de")).to_be_visible()
    # One of them is on the way of the tabulator.
    assert await page.locator(".square[tabindex='0']").count() == 1
    await page.locator(".pools .scroll").focus()
    await page.keyboard.press("Tab")
    await expect(square(page, "de:en")).to_be_focused()
    for key, pair in (("ArrowRight", "de:zh"), ("ArrowDown", "en:zh"), ("ArrowDown", "en:zh"), ("ArrowUp", "de:zh")):
        await page.keyboard.press(key)
        await expect(square(page, pair)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#pair-title")).to_have_text("de → zh")
    await expect(page.locator("#pair-title")).to_be_focused()
    await house.post("/v1/node/register", NODE | {"node_id": "n2", "semantic_langs": ["fr"], "nmt_pairs": "any"})
    await square(page, "fr:*").click()
    await page.locator("#pair-tgt").fill("sw")
    await page.keyboard.press("Enter")
    await expect(page.locator('[data-explained="fr:sw"] [data-verdict=n2]')).to_contain_text("could take a job")


async def test_a_node_that_is_killed_turns_red_and_the_strip_and_the_feed_say_so(
    house: House, visitor: Visitor
) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(page.locator("[data-state=problems]")).to_contain_text("no node has registered")
    async with house.node("n1") as node:
        await node.register()
        await expect(row(page, "n1")).to_have_attribute("data-colour", "good")
        await expect(page.locator("[data-state=well]")).to_contain_text("All is well")
        node.cut()
    await expect(row(page, "n1")).to_have_attribute("data-colour", "bad")
    await expect(page.locator("[data-state=problems]")).to_contain_text("1 of 1 nodes lost")
    await expect(page.locator(".feed [data-kind=node_lost]").first).to_contain_text("n1")
    await expect(page.locator(".feed [data-kind=pair_empty]").first).to_be_visible()


async def test_a_node_is_drained_resumed_and_evicted_after_a_yes_and_the_feed_says_who_did_it(
    house: House, visitor: Visitor
) -> None:
    await house.post("/v1/node/register", NODE)
    page = await visitor.open(f"{house.url}/dashboard")
    await row(page, "n1").locator("[data-act=drain]").click()
    await expect(page.locator("dialog")).to_contain_text("Drain n1")
    await page.keyboard.press("Escape")
    assert (await house.get("/v1/nodes/n1"))["intent"] == "active"
    for act, standing in (("drain", "draining"), ("resume", "available"), ("evict", "draining")):
        await row(page, "n1").locator(f"[data-act={act}]").click()
        await yes(page)
        await expect(row(page, "n1").locator(".standing")).to_have_text(standing)
        await expect(page.locator(f".feed [data-kind=admin_{act}]")).to_contain_text("n1 by somebody without a name")
    assert (await house.get("/v1/nodes/n1"))["intent"] == "evicted"


async def test_the_page_of_a_node_shows_its_work_and_its_events_and_leads_to_its_jobs(
    house: House, visitor: Visitor
) -> None:
    await house.post("/v1/node/register", NODE)
    job = await house.dispatch()
    page = await visitor.open(f"{house.url}/dashboard")
    await row(page, "n1").get_by_role("button", name="n1", exact=True).click()
    node = page.locator("[data-page=n1]")
    await expect(node.locator("[data-kind=node_joined]")).to_be_visible()
    await node.get_by_role("button", name=job["job_id"]).click()
    shown = page.locator(f'[data-job="{job["job_id"]}"]')
    await expect(shown).to_contain_text("en → zh")
    assert re.search(rf"[?&]node=n1&.*job={re.escape(job['job_id'])}", page.url)
    await page.reload()
    await expect(page.locator("[data-page=n1]")).to_be_visible()
    await shown.locator("[data-act=cancel]").click()
    await yes(page)
    assert (await house.ended(job["job_id"]))["state"] == "CANCELLED"


async def test_of_a_very_large_fleet_a_node_that_is_well_is_found_by_its_name_and_can_be_drained(
    house: House, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_NODES", 2)
    for number in range(4):
        await house.post("/v1/node/register", NODE | {"node_id": f"N{number}"})
    await house.post("/v1/nodes/N0/drain", {})
    await house.stats()
    # One that is in its address.
    page = await visitor.open(f"{house.url}/dashboard?node=N3&q=N2")
    chosen = page.locator("[data-page=N3]")
    await expect(chosen).to_contain_text("available")
    await expect(chosen.locator("[data-kind=node_joined]")).to_be_visible()
    await chosen.locator("[data-act=drain]").click()
    await yes(page)
    await expect(chosen).to_contain_text("draining")
    await expect(chosen.locator("[data-act=resume]")).to_be_visible()
    # And one by which it is filtered, then another.
    await expect(page.locator("[data-node]")).to_have_count(1)
    await expect(row(page, "N2")).to_contain_text("en zh · 1 pairs")
    await expect(page.locator(".nodes .head")).to_contain_text("1 of 4")
    await row(page, "N2").locator("[data-act=drain]").click()
    await yes(page)
    await expect(row(page, "N2").locator(".standing")).to_have_text("draining")
    await page.locator("#q").fill("N1")
    await expect(row(page, "N1").locator(".standing")).to_have_text("available")
    await page.locator("#q").fill("")
    await expect(page.locator("[data-node]")).to_have_count(2)
    # Nobody of a name is nobody.
    visitor.forgiven = ("404",)
    await page.locator("#q").fill("N9")
    await expect(page.locator("[data-node]")).to_have_count(0)
    await page.goto(f"{house.url}/dashboard?node=N9")
    await expect(page.locator("[data-page=N9]")).to_contain_text("No node of this name")
    assert await page.locator("[data-page=N9] [data-act]").count() == 0


async def test_the_page_of_a_node_shows_what_it_has_installed_beside_what_the_catalog_lists(
    visitor: Visitor, server: Server, tmp_path: Path
) -> None:
    index = tmp_path / "services_index.json"
    listed = [{"service_id": "asr-1", "version": "2.0"}, {"service_id": "nmt-1", "version": "3"}]
    index.write_text(json.dumps({"services": listed}))
    async with House(server.url, **QUICK, **{"catalog.file": str(index)}).open() as house, house.node("n1") as node:
        had = [("asr-1", "1.4"), ("nmt-1", "3"), (EVIL, "1")]
        await node.register(installed_services=[{"service_id": name, "version": number} for name, number in had])
        page = await visitor.open(f"{house.url}/dashboard?node=n1")
        found = page.locator("[data-page=n1] [data-service]")
        await expect(found).to_have_text(
            ["asr-1 1.4 outdated: 2.0 is there", "nmt-1 3 up to date", f"{EVIL} 1 the catalog does not say"]
        )
        assert await page.evaluate("window.hacked") is None
        await page.goto("about:blank")


async def test_each_step_of_a_node_is_told_with_its_reason_in_the_feed_and_on_its_page(
    house: House, visitor: Visitor
) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        for _ in range(3):
            last = await fail(node, house)
        house.serving.desk.marker.saw("n1", EVIL, "asr")
        for number in range(20):
            await house.post("/v1/node/register", NODE | {"node_id": f"m{number:02}"})
        page = await visitor.open(f"{house.url}/dashboard?node=n1")
        why = f"3 of its last 5 jobs failed; the last, {last}: the node refused or failed it"
        shown = page.locator("[data-page=n1]")
        for where in (shown, page.locator(".feed").first):
            await expect(where.locator("[data-kind=node_suspect]").first).to_contain_text(why)
            marked = where.locator("[data-kind=node_marked]").first
            await expect(marked).to_contain_text(f"{EVIL}: MODEL_NOT_AVAILABLE, for 60 s")
        # What is said of each of many is not lost.
        many = page.locator(".feed [data-kind=node_joined] details").first
        await many.locator("summary").click()
        await expect(many).to_contain_text("m19 it serves 1 pairs")
        await page.goto(f"{house.url}/dashboard?node=m19&lang=zh")
        await expect(page.locator("[data-page=m19] [data-kind=node_joined]")).to_contain_text("m19 服务 1 个语言对")
        assert await page.evaluate("window.hacked") is None
        node.cut()
    lost = page.locator(".feed [data-kind=node_lost]").first
    await expect(lost).to_contain_text("连接已关闭，未能及时回来")


async def test_a_suspect_that_is_tried_with_a_job_is_not_shown_as_well(visitor: Visitor, server: Server) -> None:
    how: dict[str, Any] = QUICK | {"nodes.probe_ms": 1, "jobs.max_retry": 0}
    async with House(server.url, **how).open() as house:
        await house.post("/v1/node/register", NODE)
        await fail_jobs(house, "n1")
        page = await visitor.open(f"{house.url}/dashboard?node=n1")
        await expect(row(page, "n1").locator(".standing")).to_have_text("available, on trial")
        await expect(row(page, "n1")).to_have_attribute("data-colour", "warn")
        await expect(page.locator("[data-page=n1]")).to_contain_text("available, on trial")
        await expect(page.locator("[data-state=problems]")).to_contain_text("1 of 1 nodes under suspicion")
        await page.locator("#q").fill("suspect")
        await expect(row(page, "n1")).to_be_visible()
        await page.goto("about:blank")


@pytest.mark.parametrize(
    "said",
    [
        "3 of its last 5 jobs failed; the last was c0.1: ack_timeout",
        "3 of its last 5 jobs failed; the last was lost",
        "for 1.5 s: it said that it has too much to do",
        "for 0.5 s: a job could not be sent to it",
        "for 2.0 s: it comes and goes",
        "its connection was closed, and it did not come back in time",
        "nothing was heard of it for too long",
        "nothing was heard of it for 36 s",
        "it did not confirm that it stopped c0.1",
        "it could not say whether it stopped c0.1",
        "c0.1: run_timeout",
        "the whole node: MODEL_NOT_AVAILABLE, for 60 s",
        "its nodes: 1 draining, 2 silent",
        "its nodes have left",
        "2 of its 3 living nodes are suspect",
        "1 of its 1 nodes are given jobs",
        "it was suspect",
        "it was resting, and is still suspect",
        "at most 12 jobs at once",
        "as many jobs at once as it says",
    ],
)
async def test_every_reason_of_an_event_is_said_in_chinese(house: House, visitor: Visitor, said: str) -> None:
    page = await visitor.open(f"{house.url}/dashboard?lang=zh")
    words = await page.evaluate("said => import('/assets/dashboard/phrases.js').then(one => one.inWords(said))", said)
    assert sorted(re.findall(r"[\d.]+\d", words)) == sorted(re.findall(r"[\d.]+\d", said))
    assert re.search("[A-Za-z]", re.sub(r"c0\.1|MODEL_NOT_AVAILABLE", "", words)) is None, words


async def test_a_job_shows_its_life_attempt_by_attempt_and_why_it_did_not_get_through(
    house: House, visitor: Visitor
) -> None:
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        job = await house.dispatch()
        for _ in range(3):
            said = await node.job(job_id=job["job_id"])
            await node.result(said, success=False, error={"code": "BROKEN", "message": EVIL})
        assert (await house.ended(job["job_id"]))["state"] == "FAILED"
    page = await visitor.open(f"{house.url}/dashboard")
    await page.locator("#jobs").fill(job["job_id"])
    await page.keyboard.press("Enter")
    shown = page.locator(".job")
    await expect(shown.locator(".life li")).to_have_count(3)
    await expect(shown).to_contain_text("FAILED")
    await expect(shown.locator(".trouble")).to_contain_text(f"BROKEN: {EVIL}")
    for at in range(3):
        line = shown.locator(".life li").nth(at)
        await expect(line).to_contain_text("the node refused or failed it")
        stages = await line.locator(".bar .stage").evaluate_all("all => all.map(one => one.classList[1])")
        assert stages == ["reserved", "dispatched", "accepted"]
    visitor.forgiven = ("404",)
    await page.goto(f"{house.url}/dashboard?job=c0.nobody")
    await expect(page.locator(".job [role=alert]")).to_contain_text("There is no job")


async def test_a_job_that_waits_shows_since_when_and_follows_itself_to_its_end(house: House, visitor: Visitor) -> None:
    await house.post("/v1/node/register", NODE | {"max_concurrent_jobs": 1})
    first = await house.dispatch()
    await house.post("/v1/job/fail", {name: first[name] for name in ATTEMPT} | {"status": "error", "reason": "no"})
    assert (await house.get(f"/v1/job/{first['job_id']}"))["attempt_id"] == 2
    await house.post("/v1/node/offline", {"node_id": "n1"})
    page = await visitor.open(f"{house.url}/dashboard?job={first['job_id']}")
    waits = page.locator(".life li").last
    await expect(waits).to_contain_text("Without a node")
    await expect(waits.locator(".stage.waiting").first).to_be_attached()
    await expect(page.locator(".life li")).to_have_count(3)
    await page.locator("[data-act=cancel]").click()
    await yes(page)
    await expect(page.locator(".job .trouble")).to_contain_text("cancelled by an operator")
    assert await page.locator("[data-act=cancel]").count() == 0


def listed(page: Page) -> Any:
    return page.locator("[data-row]")


async def search(page: Page, words: str) -> None:
    await page.locator("#jobs").fill(words)
    await page.keyboard.press("Enter")


async def test_jobs_are_listed_the_newest_first_with_what_became_of_each(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(page.locator(".jobs")).to_contain_text("There is no job")
    async with house.node("n1") as node:
        await node.register()
        await node.is_ready()
        failed = await house.dispatch("room-1")
        for _ in range(3):
            await node.result(
                await node.job(job_id=failed["job_id"]), success=False, error={"code": "X", "message": EVIL}
            )
        await house.ended(failed["job_id"])
        going = await house.dispatch("room-2")
        await expect(listed(page)).to_have_count(2)
        names = await listed(page).evaluate_all("all => all.map(one => one.dataset.row)")
        assert names == [going["job_id"], failed["job_id"]]
        for part in ("room-2", "en → zh", "n1"):
            await expect(listed(page).first).to_contain_text(part)
        for part in ("FAILED", "3", " ms", f"X: {EVIL}"):
            await expect(listed(page).last).to_contain_text(part)
        assert await page.locator("img").count() == 0
        await node.result(await node.job(job_id=going["job_id"]))
        await expect(listed(page).first).to_contain_text("FINISHED")
        await listed(page).last.locator(".name").click()
        await expect(page.locator("#job-title")).to_be_focused()
        await expect(page.locator(f'[data-job="{failed["job_id"]}"] .trouble')).to_be_visible()
        await listed(page).last.locator(".name").click()
        await expect(page.locator(".job")).to_have_count(0)
        assert "job=" not in page.url


async def test_jobs_are_searched_by_words_that_stand_in_the_address(house: House, visitor: Visitor) -> None:
    both = {"nmt_pairs": [["en", "zh"], ["zh", "en"]], "max_concurrent_jobs": 8}
    await house.post("/v1/node/register", NODE | both)
    there = [await house.dispatch(f"room-{number}") for number in range(3)]
    back = await house.dispatch("room-1", src_lang="zh", tgt_lang="en")
    await house.post("/v1/job/cancel", {"job_id": there[2]["job_id"]})
    page = await visitor.open(f"{house.url}/dashboard?jobs=room-1")
    await expect(listed(page)).to_have_count(2)
    await expect(page.locator("#jobs")).to_have_value("room-1")
    for words, found in (
        ("room-1 zh:en", [back]),
        ("cancelled", [there[2]]),
        ("n1 en:zh room-0", [there[0]]),
        (there[1]["job_id"][:-1] + " en:zh", [there[1]]),
    ):
        await search(page, words)
        await expect(listed(page)).to_have_count(len(found))
        await expect(listed(page)).to_contain_text([one["job_id"] for one in found])
    await search(page, "nobody")
    await expect(page.locator(".jobs")).to_contain_text("No job fits")
    visitor.forgiven = ("400",)
    await search(page, "en:zh:fr")
    await expect(page.locator(".jobs [role=alert]")).to_be_visible()
    # Whoever names one whole id wants that job.
    await search(page, back["job_id"])
    await expect(page.locator(f'[data-job="{back["job_id"]}"]')).to_contain_text("zh → en")
    await page.reload()
    await expect(listed(page)).to_have_count(1)
    await expect(page.locator(".job")).to_be_visible()
    await page.get_by_role("button", name="中文").click()
    await search(page, "已取消")
    await expect(listed(page)).to_contain_text([there[2]["job_id"]])


async def test_of_many_jobs_whoever_wants_looks_further(house: House, visitor: Visitor) -> None:
    """Those that have ended stay where they are, however long this takes; whose ack is late does not."""
    await house.post("/v1/node/register", NODE | {"max_concurrent_jobs": 64})
    for number in range(55):
        placed = await house.dispatch(f"room-{number}")
        await house.post("/v1/job/cancel", {"job_id": placed["job_id"]})
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(listed(page)).to_have_count(50)
    await page.locator("[data-more]").click()
    await expect(listed(page)).to_have_count(55)
    await expect(page.locator("[data-more]")).to_have_count(0)


async def test_the_slots_of_a_node_are_set_after_a_yes_and_given_back(house: House, visitor: Visitor) -> None:
    await house.post("/v1/node/register", NODE)
    page = await visitor.open(f"{house.url}/dashboard?node=n1")
    await page.locator("#slots").fill("1")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog")).to_contain_text("Let n1 have at most 1 jobs at once")
    await page.keyboard.press("Escape")
    assert (await house.get("/v1/nodes/n1"))["max"] == 2
    await page.locator("[data-act=max]").click()
    await yes(page)
    await expect(row(page, "n1")).to_contain_text("0/1")
    await expect(page.locator("#slots")).to_have_value("1")
    assert (await house.get("/v1/nodes/n1"))["max_override"] == 1
    await page.locator("#slots").fill("")
    await page.locator("[data-act=max]").click()
    await expect(page.locator("dialog")).to_contain_text("as many jobs at once as it says")
    await yes(page)
    await expect(row(page, "n1")).to_contain_text("0/2")
    assert (await house.get("/v1/nodes/n1"))["max_override"] is None
    await expect(page.locator(".card.feed [data-kind=admin_set_max]").first).to_contain_text("n1")


async def test_a_pairing_code_is_shown_once_and_leads_a_session_to_the_node(house: House, visitor: Visitor) -> None:
    async with house.node("n1") as node, house.client() as client:
        await node.register()
        await node.is_ready()
        page = await visitor.open(f"{house.url}/dashboard?node=n1")
        await page.locator("[data-act=pairing]").click()
        assert await page.locator("[data-code]").count() == 0
        await yes(page)
        code = await page.locator("[data-code]").inner_text()
        assert re.fullmatch(r"\d{6}", code)
        assert (await client.init(pairing_code=code))["assigned_node_id"] == "n1"
        await expect(page.locator(".card.feed [data-kind=admin_pair]")).to_contain_text("n1")
        assert code not in await page.locator(".card.feed").first.inner_text()
        assert code not in page.url
        await page.reload()
        await expect(page.locator("[data-act=pairing]")).to_be_visible()
        assert await page.locator("[data-code]").count() == 0


async def test_names_from_nodes_are_text_and_never_markup(house: House, visitor: Visitor) -> None:
    async with house.node("n1") as node:
        await node.register(version=EVIL)
        await node.is_ready()
        page = await visitor.open(f"{house.url}/dashboard")
        await expect(row(page, "n1")).to_contain_text(EVIL)
    assert await page.locator("img").count() == 0
    assert await page.evaluate("window.hacked") is None


async def test_dead_letters_are_shown_replayed_and_deleted(house: House, visitor: Visitor) -> None:
    engine = house.serving.app.engine
    for number in (1, 2):
        await bury(engine, Parcel("gone", f"{number}-0", 10, Letter("news", node="n1")), "nobody reads it")
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(page.locator("[data-letter]")).to_have_count(2)
    await page.locator('[data-letter="1-0.gone"] [data-act=delete]').click()
    await yes(page)
    await expect(page.locator(".feed [data-kind=admin_delete]")).to_contain_text("1-0.gone")
    await page.locator('[data-letter="2-0.gone"] [data-act=replay]').click()
    await yes(page)
    await expect(page.locator(".feed [data-kind=admin_replay]")).to_contain_text("2-0.gone")


async def test_when_the_server_restarts_the_page_says_that_it_is_out_of_date_and_comes_back(
    visitor: Visitor, server: Server
) -> None:
    visitor.forgiven = ("WebSocket", "ERR_CONNECTION_REFUSED", "Failed to load resource")
    async with House(server.url, **QUICK).open() as house:
        same = {"engine.key_prefix": house.settings.engine.key_prefix, "server.port": house.port}
        await house.post("/v1/node/register", NODE)
        page = await visitor.open(f"{house.url}/dashboard")
        await expect(row(page, "n1")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/api/v1/")[2]))
    await expect(page.locator("[data-state=stale]")).to_contain_text("Out of date")
    assert await page.locator(".jobs [role=alert]").count() == 0
    async with House(server.url, **QUICK, **same).open() as house:
        await house.post("/v1/node/register", NODE | {"node_id": "n2"})
        await expect(row(page, "n2")).to_be_visible()
        await expect(page.locator("[data-state=well]")).to_be_visible()
        # What happened meanwhile belongs to the curves, too.
        assert "history" in asked


async def test_connections_that_are_gone_without_a_word_are_given_up_and_the_page_goes_on_by_others(
    house: House, network: Proxy, visitor: Visitor
) -> None:
    await house.post("/v1/node/register", NODE)
    page = await visitor.open(f"{network.http}/dashboard")
    await expect(row(page, "n1")).to_be_visible()
    await expect(page.locator(".jobs")).to_contain_text("There is no job")
    network.lose_all()
    await house.post("/v1/node/register", NODE | {"node_id": "n2"})
    job = await house.dispatch()
    await expect(row(page, "n2")).to_be_visible()
    await expect(page.locator("[data-state=well]")).to_be_visible()
    # A browser may have six of them, and each is given five seconds.
    await expect(page.locator(f'[data-row="{job["job_id"]}"]')).to_be_visible(timeout=4 * PATIENCE_S * 1000)


async def test_it_speaks_chinese_and_keeps_its_state_in_the_address(house: House, visitor: Visitor) -> None:
    for number in range(12):
        await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
    page = await visitor.open(f"{house.url}/dashboard?lang=zh&q=n11&feed=node")
    await expect(page.locator("h1")).to_have_text("仪表盘")
    await expect(page.locator("[data-node]")).to_have_count(1)
    await expect(page.locator("[data-state=well]")).to_contain_text("一切正常")
    await expect(page.locator(".feed [data-kind=node_joined]").first).to_contain_text("服务 1 个语言对")
    await expect(page.locator(".feed [data-kind=instance_came]")).to_have_count(0)
    await page.locator("#q").fill("n1")
    await expect(page.locator("[data-node]")).to_have_count(3)
    assert "q=n1&" in page.url
    await page.get_by_role("button", name="English").click()
    await expect(page.locator("h1")).to_have_text("Dashboard")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nobody_is_shut_out_of_the_dashboard_and_nothing_is_cut_off(
    house: House, visitor: Visitor, scheme: str
) -> None:
    empty = await visitor.open(f"{house.url}/dashboard", color_scheme=scheme)
    await expect(empty.locator("[data-state=problems]")).to_be_visible()
    assert await faults(empty) == []
    # So many that their table is wider than a phone.
    langs = ("de", "en", "es", "fr", "ja", "ko", "zh")
    many = {"semantic_langs": langs, "nmt_pairs": list(permutations(langs, 2))}
    await house.post("/v1/node/register", NODE | {"node_id": "many"} | many)
    await bury(house.serving.app.engine, Parcel("gone", "1-0", 10, Letter("news", node="n1")), "nobody reads it")
    async with house.node("n1") as node, house.node("n2") as other:
        await node.register(slots=1)
        await other.register(slots=4)
        await other.is_ready()
        await node.is_ready()
        job = await house.dispatch()
        house.serving.desk.marker.saw("n2", "whisper", "asr")
        lang = "&lang=zh" if scheme == "dark" else ""
        query = f"node=n2&job={job['job_id']}&pair=zh:ja{lang}"
        page = await visitor.open(f"{house.url}/dashboard?{query}", color_scheme=scheme)
        await expect(page.locator("[data-verdict=many]")).to_be_visible()
        await expect(page.locator(".mark")).to_be_visible()
        await expect(page.locator(".life li")).to_be_visible()
        await expect(page.locator('[data-pair="zh:ja"]')).to_be_visible()
        other.cut()
        await expect(row(page, "n2")).to_have_attribute("data-colour", "bad")
        assert await faults(page) == []
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await row(page, "n1").locator("[data-act=drain]").click()
        assert await faults(page) == []


async def test_everything_on_it_can_be_done_by_the_keyboard(house: House, visitor: Visitor) -> None:
    await house.post("/v1/node/register", NODE)
    page = await visitor.open(f"{house.url}/dashboard")
    await row(page, "n1").locator("[data-act=drain]").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.locator("[data-yes]")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(row(page, "n1").locator(".standing")).to_have_text("draining")


async def test_jobs_are_searched_opened_and_closed_by_the_keyboard(house: House, visitor: Visitor) -> None:
    await house.post("/v1/node/register", NODE)
    job = await house.dispatch()
    page = await visitor.open(f"{house.url}/dashboard")
    await page.locator("#jobs").focus()
    await page.keyboard.type("room-888")
    await page.keyboard.press("Enter")
    await expect(listed(page)).to_have_count(1)
    # Past the button and the list, which can be scrolled by the keyboard, too.
    for _ in range(3):
        await page.keyboard.press("Tab")
    await expect(listed(page).locator(".name")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#job-title")).to_be_focused()
    await expect(page.locator("#job-title")).to_have_text(job["job_id"])
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".job")).to_have_count(0)


async def test_the_curves_are_of_ten_minutes_also_on_a_page_that_slept(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(page.locator(".health")).not_to_have_attribute("data-state", "waiting")
    old = "{at_ms: %d, ready_nodes: 99, free_slots: 0, in_flight: 0, p95_dispatch_ms: 0}"
    add = "import('/assets/dashboard/watch.js').then(one => one.addPoint(%s))"
    now_ms = (await house.stats())["generated_at_ms"]
    await page.evaluate(add % (old % (now_ms - 599_000)))
    await page.evaluate(add % (old % (now_ms - 3_600_000)))
    ages = "import('/assets/dashboard/watch.js').then(one => one.points.value.map(point => point.at_ms))"
    assert min(await page.evaluate(ages)) >= now_ms - 600_000


async def test_a_curve_has_gaps_where_nothing_was_dispatched(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    await expect(page.locator(".health")).not_to_have_attribute("data-state", "waiting")
    await expect(page.locator("[data-number=p95_dispatch_ms] [data-value]")).to_have_text("–")
    now_ms = (await house.stats())["generated_at_ms"]
    for ago_s, p95 in ((300, 40), (290, 30), (280, None), (270, 20), (260, None), (250, 50), (240, 50)):
        point = {"at_ms": now_ms - ago_s * 1_000, "ready_nodes": 1, "free_slots": 1, "in_flight": 0}
        add = "point => import('/assets/dashboard/watch.js').then(one => one.addPoint(point))"
        await page.evaluate(add, point | {"p95_dispatch_ms": p95})
    number = page.locator("[data-number=p95_dispatch_ms]")
    await expect(number).to_contain_text("10 min: 20 to 50")
    drawn = await number.locator(".line").get_attribute("d")
    assert drawn is not None
    # Three pieces, of which one is a point; and the others go on to where it is now.
    assert [len(re.findall("L", piece)) for piece in drawn.split("M")[1:]] == [1, 0, 1]
    assert "NaN" not in drawn + (await number.locator(".under").get_attribute("d") or "")
    ends = float(drawn.rpartition("L")[2].split()[0])
    assert ends < 150


async def test_every_event_state_cause_and_reason_has_words_in_both_languages(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    words = await page.evaluate("import('/assets/dashboard/words.js').then(one => Object.keys(one.default.en))")
    causes = {f"cause.{cause.name}" for cause in CAUSES} | {f"reason.{word}" for word in SPECIAL}
    causes |= {f"against.{reason.word}" for reason in AGAINST}
    assert {f"event.{kind}" for kind in KINDS} | {f"state.{state}" for state in STATES} | causes <= set(words)


@pytest.mark.parametrize(
    "said",
    [
        "the state engine does not answer: nothing is accepted",
        "nobody could look at the fleet for a while: what is shown is how it was then",
        "no node has registered",
        "no node can take a job now: 1 suspect, 1 full, 1 suspect full, 1 resting, 3 not ready, 1 draining, 1 silent",
        "no node can take a job now: 2 available, 1 lost, 1 without a pair",
        "nobody alive serves en:zh",
        "nobody alive serves en:zh, zh:en",
        "nobody alive serves en:zh, en:* and 7 more",
        "1 dead letter: see /v1/dlq",
        "1 of 4 nodes is lost",
        "2 of 4 nodes are silent",
        "2 of 4 nodes are under suspicion",
        "1 of 4 nodes has a service that does not work",
        "4 of 4 nodes have a service that does not work",
        "the auditor found what must never be, 2 times: see the log",
        "3 wait for en:zh",
        "the service catalog could not be refreshed 3 times: see /api/v1/catalog",
    ],
)
async def test_every_problem_is_said_in_chinese_with_its_numbers_and_pairs(
    house: House, visitor: Visitor, said: str
) -> None:
    page = await visitor.open(f"{house.url}/dashboard?lang=zh")
    words = await page.evaluate("said => import('/assets/dashboard/phrases.js').then(one => one.inWords(said))", said)
    pairs = r"[a-z]{2}:(?:[a-z]{2}|\*)"
    assert re.findall(pairs, words) == re.findall(pairs, said)
    assert sorted(re.findall(r"\d+", words)) == sorted(re.findall(r"\d+", said.partition(": see")[0]))
    assert re.search("[A-Za-z]", re.sub(pairs, "", words)) is None, words


async def test_the_strip_names_what_is_wrong_while_the_engine_is_dead_and_when_the_server_is(
    visitor: Visitor, tmp_path: Path
) -> None:
    engine = start_server(tmp_path)
    visitor.forgiven = ("WebSocket connection to", "Failed to load resource")
    how: dict[str, Any] = {"loops.snapshot_interval_ms": 600_000} | QUICK
    try:
        async with House(engine.url, **how).open() as house:
            # One that began to look before it came would not see it.
            await eventually(lambda: has_looked(house))
            await house.post("/v1/node/register", NODE)
            await house.get("/api/v1/stats?fresh=true")
            page = await visitor.open(f"{house.url}/dashboard")
            await expect(page.locator("[data-state=well]")).to_be_visible()
            engine.freeze()
            await expect(page.locator("[data-state=problems]")).to_contain_text("the state engine does not answer")
            engine.thaw()
            await expect(page.locator("[data-state=well]")).to_be_visible()
        await expect(page.locator("[data-state=stale]")).to_be_visible()
    finally:
        engine.thaw()
        engine.stop()


async def test_what_went_wrong_is_said_in_the_language_of_the_page_until_it_is_over(
    visitor: Visitor, tmp_path: Path
) -> None:
    engine = start_server(tmp_path)
    visitor.forgiven = ("WebSocket", "Failed to load resource")
    flags: dict[str, Any] = {"auth.admin_tokens": (f"ops:{OPS}",), "auth.nodes": "open"} | QUICK
    try:
        async with House(engine.url, **flags).open() as house:
            await house.post("/v1/node/register", NODE)
            page = await visitor.open(await link_of(house, read_only=False))
            await page.get_by_role("button", name="中文").click()
            alert = page.locator(".health [role=alert]")
            await expect(row(page, "n1")).to_be_visible()
            engine.freeze()
            await expect(page.locator(".health")).to_contain_text("状态引擎没有响应")
            await row(page, "n1").locator("[data-act=drain]").click()
            await yes(page)
            await expect(alert).to_contain_text("调度器无法连接状态引擎")
            await expect(alert).to_contain_text("SCHEDULER_DEPENDENCY_DOWN")
            engine.thaw()
            await expect(page.locator("[data-state=well]")).to_be_visible()
            await expect(alert).to_have_count(0)
            # And whoever wants to leave while it is away is told why he cannot.
            engine.freeze()
            await expect(page.locator(".health")).to_contain_text("状态引擎没有响应")
            await page.locator(".who button").click()
            await expect(alert).to_contain_text("调度器无法连接状态引擎")
            engine.thaw()
            await expect(alert).to_have_count(0)
            await page.locator(".who button").click()
            await page.wait_for_url("**/sign-in?next=dashboard")
    finally:
        engine.thaw()
        engine.stop()


async def test_when_nobody_answers_the_page_says_so_in_words_until_somebody_does(
    house: House, visitor: Visitor
) -> None:
    await house.post("/v1/node/register", NODE)
    visitor.forgiven = ("Failed to load resource",)
    page = await visitor.open(f"{house.url}/dashboard?lang=zh")
    alert = page.locator(".health [role=alert]")
    await row(page, "n1").locator("[data-act=drain]").click()
    calls = re.compile("/v1/")
    await page.route(calls, lambda route: route.abort())
    await yes(page)
    await expect(alert).to_contain_text("没有回应。调度器在运行吗？")
    await page.unroute(calls)
    await expect(alert).to_have_count(0)


async def test_a_refusal_stays_until_somebody_has_seen_it(house: House, visitor: Visitor) -> None:
    visitor.forgiven = ("404",)
    await bury(house.serving.app.engine, Parcel("gone", "1-0", 10, Letter("news", node="n1")), "nobody reads it")
    page = await visitor.open(f"{house.url}/dashboard?lang=zh")
    alert = page.locator(".health [role=alert]")
    await page.locator('[data-letter="1-0.gone"] [data-act=replay]').click()
    assert (await house.http.delete("/v1/dlq/1-0.gone")).status_code == 200
    await yes(page)
    await expect(alert).to_contain_text("没有这封死信")
    await expect(alert).to_contain_text("There is no dead letter 1-0.gone")
    for _ in range(2):
        async with page.expect_response(re.compile("/v1/jobs")):
            pass
    await alert.get_by_role("button", name="关闭提示").click()
    await expect(alert).to_have_count(0)


async def test_whatever_an_operator_may_be_refused_has_words(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/dashboard")
    words = await page.evaluate("import('/assets/errors/words.js').then(one => Object.keys(one.default.en))")
    paths = (await house.get("/openapi.json"))["paths"]
    acts = [f"/v1/nodes/{{node_id}}/{act}" for act in ("drain", "resume", "evict", "max", "pairing")]
    acts += ["/v1/job/cancel", "/v1/dlq/{letter}/replay", "/v1/dlq/{letter}", "/api/v1/sign-out"]
    said = [
        answer["description"]
        for act in acts
        for method, what in paths[act].items()
        if method != "get"
        for status, answer in what["responses"].items()
        if status >= "400"
    ]
    # What is wrong with a request as such no page of ours sends.
    codes = set(re.findall(r"[A-Z_]{2,}", " ".join(said))) - {"HEADERS_TOO_LARGE", "REQUEST_TIMEOUT"}
    assert {"UNKNOWN_NODE", "UNKNOWN_LETTER", "OUTCOME_UNKNOWN"} <= codes
    assert {f"error.{code}" for code in codes} <= set(words)


@pytest.fixture
async def guarded(server: Server) -> AsyncIterator[House]:
    flags: dict[str, Any] = {"auth.admin_tokens": (f"ops:{OPS}",), "auth.nodes": "open"} | QUICK
    async with House(server.url, **flags).open() as house:
        await house.post("/v1/node/register", NODE)
        yield house


async def link_of(house: House, *, read_only: bool) -> str:
    headers = {"authorization": f"Bearer {OPS}"}
    answer = await house.http.post("/api/v1/link", json={"read_only": read_only}, headers=headers)
    return str(answer.json()["url"])


async def test_a_link_signs_in_once_leads_to_the_dashboard_and_is_nowhere_in_the_address(
    guarded: House, visitor: Visitor
) -> None:
    link = await link_of(guarded, read_only=False)
    page = await visitor.open(link)
    await page.wait_for_url("**/dashboard?lang=en")
    await expect(page.locator(".who")).to_contain_text("ops, operator")
    await row(page, "n1").locator("[data-act=drain]").click()
    await yes(page)
    await expect(page.locator(".feed [data-kind=admin_drain]")).to_contain_text("by ops from 127.0.0.1")
    assert await page.evaluate("document.cookie") == ""
    visitor.forgiven = ("410", "401")
    other = await visitor.open(link)
    await expect(other.locator("[role=alert]")).to_contain_text("was used already")
    assert "#" not in other.url
    assert await faults(other) == []
    await page.get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/sign-in?next=dashboard")
    await page.goto(f"{guarded.url}/dashboard")
    await page.wait_for_url("**/sign-in?next=dashboard")


async def test_whoever_signs_in_comes_to_what_he_was_sent(guarded: House, visitor: Visitor) -> None:
    visitor.forgiven = ("401",)
    page = await visitor.open(f"{guarded.url}/dashboard?node=n1&jobs=room-1+en%3Azh&q=r%C3%A9union&lang=zh")
    assert "/sign-in?next=" in page.url
    await page.locator("input[name=link]").fill(await link_of(guarded, read_only=True))
    await page.locator("form button").click()
    await expect(page.locator("[data-page=n1]")).to_be_visible()
    await expect(page.locator("#jobs")).to_have_value("room-1 en:zh")
    await expect(page.locator("#q")).to_have_value("réunion")
    await expect(page.locator("h1")).to_have_text("仪表盘")
    # And whoever is thrown out finds the way back.
    await page.context.clear_cookies()
    for _, socket in guarded.serving.desk.sockets:
        await socket.close(CloseCode.UNAUTHENTICATED)
    await page.locator("[data-state=out] a").click()
    await page.locator("input[name=link]").fill(await link_of(guarded, read_only=True))
    await page.locator("form button").click()
    await expect(page.locator("[data-page=n1]")).to_be_visible()


async def test_a_link_of_another_site_opens_the_page_for_whoever_is_signed_in(guarded: House, visitor: Visitor) -> None:
    page = await visitor.open(await link_of(guarded, read_only=True))
    await page.wait_for_url("**/dashboard?lang=en")
    async with serve_page() as elsewhere:
        # Ports are no sites, but names are.
        await page.goto(elsewhere.replace("127.0.0.1", "localhost"))
        await page.evaluate("url => { location.href = url; }", f"{guarded.url}/dashboard?node=n1")
        await expect(page.locator("[data-page=n1]")).to_be_visible()
        assert "/dashboard?node=n1" in page.url


@pytest.mark.parametrize(
    "hostile",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "javascript:alert(1)",
        "..",
        "dashboard#x",
        "sign-in?x",
    ],
)
async def test_signing_in_leads_to_no_other_place(guarded: House, visitor: Visitor, hostile: str) -> None:
    visitor.forgiven = ("401",)
    page = await visitor.open(f"{guarded.url}/sign-in?next={quote(hostile, safe='')}&lang=en")
    await page.locator("input[name=link]").fill(await link_of(guarded, read_only=True))
    await page.locator("form button").click()
    await page.wait_for_url(f"{guarded.url}/dashboard?lang=en")
    await expect(row(page, "n1")).to_be_visible()


async def test_whoever_may_only_look_is_shown_nothing_to_press(guarded: House, visitor: Visitor) -> None:
    page = await visitor.open(await link_of(guarded, read_only=True))
    await expect(page.locator(".who")).to_contain_text("may only look")
    await expect(row(page, "n1")).to_be_visible()
    await row(page, "n1").locator(".name").click()
    await expect(page.locator("[data-page=n1] h3").first).to_be_visible()
    assert await page.locator("[data-act]").count() == 0
    visitor.forgiven = ("403",)
    for path, said in (("max", {"max_concurrent_jobs": 1}), ("pairing", None)):
        asked = [f"/v1/nodes/n1/{path}", said]
        assert await page.evaluate(PRESSES, asked) == [403, "FORBIDDEN"]


async def test_whoever_may_only_look_is_told_so_at_the_playground_and_not_that_a_token_is_wrong(
    guarded: House, visitor: Visitor
) -> None:
    page = await visitor.open(await link_of(guarded, read_only=True))
    await page.wait_for_url("**/dashboard?lang=en")
    visitor.forgiven = ("403",)
    for lang, words in (("en", "You may not do this here: you may only look"), ("zh", "您只能查看")):
        await page.goto(f"{guarded.url}/playground?lang={lang}")
        await page.locator(".sentence button").click()
        await expect(page.get_by_role("alert")).to_contain_text(words)
        await expect(page.get_by_role("alert")).to_contain_text("FORBIDDEN")


async def test_whoever_is_signed_in_opens_it_while_the_engine_is_away_and_it_comes_to_life_by_itself(
    visitor: Visitor, tmp_path: Path
) -> None:
    engine = start_server(tmp_path)
    visitor.forgiven = ("WebSocket", "503")
    flags: dict[str, Any] = {"auth.admin_tokens": (f"ops:{OPS}",), "auth.nodes": "open"} | QUICK
    try:
        async with House(engine.url, **flags).open() as house:
            await house.post("/v1/node/register", NODE)
            page = await visitor.open(await link_of(house, read_only=False))
            await expect(page.locator(".who")).to_contain_text("ops, operator")
            engine.freeze()
            opened = await page.reload()
            assert opened is not None
            assert opened.status == 200
            await expect(page.locator("[data-state=away]")).to_contain_text("The state engine does not answer")
            assert await page.locator("[data-act]").count() == 0
            # What is in it is shown to nobody whose seat cannot be looked up.
            assert await page.evaluate("fetch('/v1/nodes').then(answer => answer.status)") == 503
            engine.thaw()
            await expect(row(page, "n1").locator("[data-act=drain]")).to_be_visible(timeout=4 * PATIENCE_S * 1000)
            await expect(page.locator(".who")).to_contain_text("ops, operator")
            await expect(page.locator("[data-state=well]")).to_be_visible()
            await page.goto("about:blank")
    finally:
        engine.thaw()
        engine.stop()


async def test_whoever_is_one_too_many_is_told_so_and_watches_as_soon_as_there_is_room(
    house: House, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_VIEWERS", 1)
    await house.post("/v1/node/register", NODE)
    first = await visitor.open(f"{house.url}/dashboard")
    await expect(row(first, "n1")).to_be_visible()
    page = await visitor.open(f"{house.url}/dashboard?lang=zh")
    await expect(page.locator("[data-state=full]")).to_contain_text("已有太多人在查看此实例")
    # Nor is it said of what nobody has told that there is none.
    for words in ("还没有节点注册", "还没有语言对可用", "还没有发生任何事"):
        await expect(page.locator("main")).not_to_contain_text(words)
    await page.get_by_role("button", name="English").click()
    await expect(page.locator("[data-state=full]")).to_contain_text("Too many watch this instance already")
    await first.goto("about:blank")
    await expect(row(page, "n1")).to_be_visible()
    await expect(page.locator("[data-state=well]")).to_be_visible()


async def test_nobody_is_signed_in_any_more_and_the_page_says_so(guarded: House, visitor: Visitor) -> None:
    visitor.forgiven = ("401", "WebSocket")
    page = await visitor.open(await link_of(guarded, read_only=False))
    await expect(row(page, "n1")).to_be_visible()
    await page.context.clear_cookies()

    async def is_alone() -> bool:
        return len(guarded.serving.desk.live) == 0

    for _, socket in guarded.serving.desk.sockets:
        await socket.close(CloseCode.RESTART)
    await eventually(is_alone)
    await expect(page.locator("[data-state=out]")).to_contain_text("Nobody is signed in")
