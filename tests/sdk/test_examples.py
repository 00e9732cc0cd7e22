"""The examples run as they stand, but for the port."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.house import Scheduler, judge
from tests.support.programs import find, ran
from tests.support.sdk_clients import wav

if TYPE_CHECKING:
    from tests.support.house import House
    from tests.support.servers import Server

ROOT = Path(__file__).parents[2]


async def run(house: House, program: str, *args: str) -> str:
    """A program, while a node does every job that it makes."""
    async with house.node() as node:
        await node.register()

        async def work() -> None:
            while True:
                await node.result(await node.job(timeout_s=60), text_asr="good morning", text_translated="早上好")

        working = asyncio.create_task(work())
        text = program.replace("5010", str(house.port))
        code, said, errors = await ran(sys.executable, "-W", "error", "-c", text, *args)
        working.cancel()
    assert code == 0, errors
    return said


async def test_the_client_example(house: House, tmp_path: Path) -> None:
    file = tmp_path / "hello.wav"
    file.write_bytes(wav())
    program = (ROOT / "examples" / "client.py").read_text(encoding="utf-8")
    assert "早上好" in await run(house, program, str(file))


async def test_what_the_pages_show(house: House, tmp_path: Path) -> None:
    """Every whole program on the page of the client library, and that of the README."""
    file = tmp_path / "hello.wav"
    file.write_bytes(wav())
    page = (ROOT / "docs" / "client-sdk.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = [
        program
        for text in (page, readme)
        for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "from lingua_scheduler.sdk import Client" in program and "asyncio.run" in program
    ]
    assert len(programs) >= 3
    for program in programs:
        assert "早上好" in await run(house, program.replace("hello.wav", str(file)))


TOUR = ROOT / "examples" / "curl_tour.sh"


@pytest.mark.parametrize("shell", ["sh", "bash"])
async def test_the_tour_with_curl(store: Server, shell: str) -> None:
    """`lingua serve`, a shell and curl. It checks every answer itself; what it leaves behind is without fault."""
    find("curl", "curl")
    async with Scheduler(store.url) as scheduler:
        code, said, errors = await ran(shell, TOUR, scheduler.url)
        assert (code, errors) == (0, ""), said
        assert said.endswith("# the end\n")
        for refused in ("400 ", "404 ", "409 ", "422 ", "503 "):
            assert f"< {refused}" in said
        assert (await scheduler.get("/v1/nodes"))["nodes"] == []
    assert await judge(store) == []


async def test_the_tour_ends_where_an_answer_is_not_as_it_should_be(store: Server) -> None:
    find("curl", "curl")
    async with Scheduler(store.url, LINGUA_AUTH__NODE_TOKENS="fleet:0123456789abcdef") as scheduler:
        code, said, errors = await ran("sh", TOUR, scheduler.url)
    assert (code, errors) == (1, "curl_tour: this should have been 200\n")
    assert "< 401 " in said
    code, said, errors = await ran("sh", TOUR, scheduler.url)
    assert code == 1
    assert f"nobody answers at {scheduler.url}: `lingua serve` starts a scheduler" in errors
