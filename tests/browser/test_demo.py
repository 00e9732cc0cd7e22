"""The dashboard against a fleet that lives: `lingua demo`, two instances, nodes and callers, each a real process."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import signal
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from playwright.async_api import expect

from tests.support.house import LINGUA, eventually
from tests.support.people import PATIENCE_S
from tests.support.programs import ran

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from tests.browser.conftest import Visitor


#: The four numbers as they are drawn, and the look of which they are; null: they are just changing.
SHOWN = """async () => {
    const { stats } = await import("/assets/dashboard/watch.js");
    const look = stats.value;
    await new Promise(drawn => setTimeout(drawn));
    if (stats.value.generated_at_ms !== look.generated_at_ms) return null;
    const names = ["ready_nodes", "free_slots", "in_flight", "p95_dispatch_ms"];
    const numbers = names.map(one => document.querySelector(`[data-number=${one}] [data-value]`).textContent);
    return [[look.generated_at_ms, look.jobs.finished_total], numbers];
}"""


#: So many looks are compared, and a number of one must be so great that whatever is cut off is seen.
LOOKS = 6
MANY = 6
#: A job that is lost with its node goes on at once if so many others serve its pair.
OTHERS = 2


def as_shown(value: float | None) -> str:
    """A number as the page writes it; half of one is rounded up there."""
    if value is None:
        return "–"
    return f"{math.floor(value * 10 + 0.5) / 10:g}" if value < 10 else f"{math.floor(value + 0.5):,}"


class Demo:
    """A demo that runs, and what its API says."""

    def __init__(self, said: dict[str, Any], directory: Path, http: httpx2.AsyncClient) -> None:
        self.url: str = said["url"]
        self._http = http
        self.instances: list[int] = said["instance_pids"]
        self.environment = {"TMPDIR": str(directory), "XDG_STATE_HOME": str(directory)}

    async def get(self, path: str) -> Any:
        return (await self._http.get(f"{self.url}{path}")).json()

    async def kill(self, node_id: str) -> dict[str, Any]:
        """As somebody does at a terminal beside it."""
        code, out, err = await ran(LINGUA, "nodes", "kill", node_id, "--json", "--url", self.url, **self.environment)
        assert code == 0, err
        said: dict[str, Any] = json.loads(out)
        return said


@asynccontextmanager
async def running(directory: Path, *words: str, callers: int = 8) -> AsyncIterator[Demo]:
    process = await asyncio.create_subprocess_exec(
        *(LINGUA, "demo", "--json", "--nodes", "6", "--callers", str(callers), "--seed", "7", *words),
        env=os.environ | {"TMPDIR": str(directory), "XDG_STATE_HOME": str(directory)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    # Each call by a connection of its own, and so to either instance.
    calls = httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=httpx2.Limits(max_keepalive_connections=0))
    try:
        said = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
        demo = Demo(said, directory, calls)

        async def talks() -> bool:
            return bool((await demo.get("/api/v1/stats"))["jobs"]["finished_total"])

        await eventually(talks)
        yield demo
    finally:
        await calls.aclose()
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Demo]:
    async with running(tmp_path, "--failure-rate", "0") as demo:
        yield demo


async def moved_from(demo: Demo, node_id: str) -> tuple[str, str]:
    """A job that was lost with this node, and to whom it went."""
    found: list[tuple[str, str]] = []

    async def is_there() -> bool:
        for job in (await demo.get(f"/v1/jobs?q={node_id}&limit=200"))["jobs"]:
            attempts = (await demo.get(f"/v1/job/{job['job_id']}/explain"))["attempts"]
            first = attempts[0] if len(attempts) > 1 else {"node_id": "", "end": ""}
            if first["node_id"] == node_id and first["end"].startswith("lost") and attempts[1]["node_id"] != node_id:
                found.append((job["job_id"], attempts[1]["node_id"]))
        return bool(found)

    await eventually(is_there)
    return found[0]


def row(page: Page, node_id: str) -> Any:
    return page.locator(f'[data-node="{node_id}"]')


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[Demo]:
    """One with nearly as many callers as slots."""
    async with running(tmp_path, "--failure-rate", "0", callers=20) as demo:
        yield demo


async def test_its_numbers_agree_with_the_api(crowd: Demo, visitor: Visitor) -> None:
    demo = crowd
    page = await visitor.open(f"{demo.url}/dashboard")
    await expect(row(page, "sim-1")).to_be_visible()
    shown: dict[tuple[int, int], list[str]] = {}
    told: dict[tuple[int, int], list[str]] = {}

    def both() -> list[tuple[int, int]]:
        return sorted(shown.keys() & told.keys())

    async def saw_enough() -> bool:
        # Each instance has looks of its own, the page is told a while after a look, and a call may come to the other
        # instance: by when it was made and what it counted, and not by when this test reads it, one is known to be the
        # same as another.
        if (drawn := await page.evaluate(SHOWN)) is not None:
            shown[tuple(drawn[0])] = drawn[1]
        stats = await demo.get("/api/v1/stats")
        ready = stats["nodes"]["available"] + stats["nodes"]["full"]
        said = (ready, stats["slots"]["free"], stats["jobs"]["in_flight"], stats["dispatch_ms"]["p95"])
        told[stats["generated_at_ms"], stats["jobs"]["finished_total"]] = [as_shown(value) for value in said]
        return len(both()) >= LOOKS and any(int(told[look][2]) >= MANY for look in both())

    await eventually(saw_enough)
    assert [shown[look] for look in both()] == [told[look] for look in both()]
    nodes = {node["node_id"] for node in (await demo.get("/v1/nodes"))["nodes"]}
    await expect(page.locator("[data-node]")).to_have_count(len(nodes))
    assert {await one.get_attribute("data-node") for one in await page.locator("[data-node]").all()} == nodes
    pools = {pool["pair"] for pool in (await demo.get("/api/v1/stats"))["pools"]}
    await expect(page.locator("[data-pair]")).to_have_count(len(pools))
    assert {await one.get_attribute("data-pair") for one in await page.locator("[data-pair]").all()} == pools


async def test_a_node_that_is_killed_turns_red_and_its_jobs_move_while_you_watch(demo: Demo, visitor: Visitor) -> None:
    page = await visitor.open(f"{demo.url}/dashboard")
    busy: dict[str, Any] = {}

    async def is_busy() -> bool:
        """Somebody has a job in hand that others could do: of those the one who has the most."""
        living = {pool["pair"]: pool["living"] for pool in (await demo.get("/v1/pools?limit=1000"))["pools"]}
        names = [node["node_id"] for node in (await demo.get("/v1/nodes"))["nodes"]]
        nodes = [await demo.get(f"/v1/nodes/{name}") for name in names]
        nodes = [node for node in nodes if all(living.get(pair, 0) > OTHERS for pair in node["pools"])]
        busy.update(max(nodes, key=lambda node: node["used"], default={"used": 0}))
        return bool(busy["used"])

    jobs = 0
    # It may have finished between the look and the blow: then it is another one's turn.
    while not jobs:
        await eventually(is_busy)
        node_id = busy["node_id"]
        await expect(row(page, node_id)).to_have_attribute("data-colour", re.compile("good|warn"))
        jobs = (await demo.kill(node_id))["jobs"]
    await expect(row(page, node_id)).to_have_attribute("data-colour", "bad")
    await expect(page.locator("[data-state=problems]")).to_contain_text("lost")
    lost = page.locator(".feed [data-kind=node_lost]", has_text=node_id).first
    await expect(lost).to_contain_text("its connection was closed, and it did not come back in time")
    moved = page.locator(".feed [data-kind=node_jobs_moved]", has_text=node_id).first
    await expect(moved).to_contain_text(re.compile(r"\b[1-9]\d* of its \d+ jobs went to others"))
    # And one of them is seen to have gone, with what became of it there.
    job_id, other = await moved_from(demo, node_id)
    watching = await visitor.open(f"{demo.url}/dashboard?job={job_id}")
    attempts = watching.locator(".life li")
    await expect(attempts.nth(0)).to_contain_text(node_id)
    await expect(attempts.nth(0)).to_contain_text("the node was lost")
    await expect(attempts.nth(1)).to_contain_text(other)
    # It comes back as a new process, and is well again.
    await expect(row(page, node_id)).to_have_attribute("data-colour", re.compile("good|warn"), timeout=60_000)


async def test_a_node_is_drained_from_the_page_and_gets_nothing_while_others_work(demo: Demo, visitor: Visitor) -> None:
    page = await visitor.open(f"{demo.url}/dashboard")
    await row(page, "sim-2").locator("[data-act=drain]").click()
    await page.locator("dialog [data-yes]").click()
    await expect(row(page, "sim-2").locator(".standing")).to_have_text("draining")

    async def is_drained() -> bool:
        return not (await demo.get("/v1/nodes/sim-2"))["used"]

    await eventually(is_drained)
    done = (await demo.get("/api/v1/stats"))["jobs"]["finished_total"]

    async def others_work() -> bool:
        return bool((await demo.get("/api/v1/stats"))["jobs"]["finished_total"] > done + 3)

    await eventually(others_work)
    assert (await demo.get("/v1/nodes/sim-2"))["used"] == 0
    await row(page, "sim-2").locator("[data-act=resume]").click()
    await page.locator("dialog [data-yes]").click()
    await expect(row(page, "sim-2").locator(".standing")).to_have_text(re.compile("available|full"))


async def test_it_speaks_chinese_while_the_fleet_works(demo: Demo, visitor: Visitor) -> None:
    page = await visitor.open(f"{demo.url}/dashboard?lang=zh")
    await expect(page.locator("[data-number=in_flight] h2")).to_have_text("处理中")
    await expect(page.locator(".feed [data-kind=node_joined]").first).to_contain_text("节点加入")
    await demo.kill("sim-3")
    lost = page.locator(".feed [data-kind=node_lost]", has_text="sim-3").first
    await expect(lost).to_contain_text("连接已关闭，未能及时回来")
    await expect(page.locator("[data-state=problems]")).to_contain_text("失联")


async def test_instances_that_are_killed_are_started_anew_and_the_page_comes_back(demo: Demo, visitor: Visitor) -> None:
    visitor.forgiven = ("WebSocket connection to", "Failed to load resource")
    page = await visitor.open(f"{demo.url}/dashboard")
    await expect(row(page, "sim-1")).to_be_visible()
    for pid in demo.instances:
        os.kill(pid, signal.SIGKILL)
    await expect(page.locator("[data-state=stale]")).to_contain_text("Out of date")
    await expect(page.locator("[data-state=stale]")).to_have_count(0, timeout=60_000)
    came = page.locator(".feed [data-kind=instance_came]")
    await expect(came.nth(3)).to_be_attached(timeout=60_000)
    done = (await demo.get("/api/v1/stats"))["jobs"]["finished_total"]

    async def works() -> bool:
        return bool((await demo.get("/api/v1/stats"))["jobs"]["finished_total"] > done)

    await eventually(works)


async def test_a_node_whose_version_label_and_error_are_markup_is_harmless_among_the_others(
    demo: Demo, visitor: Visitor
) -> None:
    evil = "<img src=x onerror='window.hacked=1'>"
    node = {"node_id": "evil", "semantic_langs": ["en", "sw"], "nmt_pairs": [["en", "sw"]], "labels": {"x": evil}}
    async with httpx2.AsyncClient(base_url=demo.url, trust_env=False, timeout=PATIENCE_S) as http:
        await http.post("/v1/node/register", json=node | {"version": evil, "services": {evil: True}})
        said = {"session_id": "s", "src_lang": "en", "tgt_lang": "sw", "audio_ref": "blob://1"}
        job = (await http.post("/v1/dispatch/f2f", json=said)).json()
        for attempt in (1, 2, 3):
            failed = {"job_id": job["job_id"], "attempt_id": attempt, "node_id": "evil", "reason": evil}
            assert (await http.post("/v1/job/fail", json=failed)).status_code == 200
    page = await visitor.open(f"{demo.url}/dashboard?node=evil&job={job['job_id']}")
    await expect(page.locator("[data-page=evil]")).to_contain_text(f"x={evil}")
    await expect(page.locator(".job .trouble")).to_contain_text(evil)
    assert await page.evaluate("[window.hacked ?? null, document.querySelectorAll('main img').length]") == [None, 0]
