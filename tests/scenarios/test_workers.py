"""`lingua serve --workers N`: several instances on one port, and nothing left of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.test_serve import PATIENCE_S, command, end, refused, serving
from tests.support.house import Doors, eventually, judge
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

WORKERS = 3


class Several(Doors):
    """What serves on one port."""

    def __init__(self, process: Any, ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready
        self.port = ready["port"]
        self.pids: list[int] = [worker["pid"] for worker in ready["workers"]]

    async def instances(self) -> set[str]:
        return {one["instance_id"] for one in (await self.get("/v1/instances"))["instances"]}


@pytest.fixture
async def several(store: Server) -> AsyncIterator[Several]:
    with serving("--workers", str(WORKERS), "--port", "0", "--store", store.url, "--json") as (process, line):
        several = Several(process, json.loads(line))
        several.open_http()
        async with several.http:
            yield several
    wait_until(lambda: not any(map(_is_there, several.pids)), PATIENCE_S)
    assert await judge(store) == []


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_whoever_takes_a_caller_finds_his_node(several: Several) -> None:
    assert await several.instances() == {worker["instance_id"] for worker in several.ready["workers"]}
    async with several.node() as node:
        await node.register(slots=8)
        await node.is_ready()
        for number in range(12):
            # Each on a connection of its own, and so at any of the instances.
            caller = Doors()
            caller.port = several.port
            caller.open_http()
            async with caller.http:
                placed = await caller.dispatch(f"room-{number}")
                await node.result(await node.job(job_id=placed["job_id"]))
                assert (await caller.ended(placed["job_id"]))["state"] == "FINISHED"
    assert end(several.process, signal.SIGTERM)[0] == 0


async def test_one_that_dies_is_started_again(several: Several) -> None:
    os.kill(several.pids[1], signal.SIGKILL)

    async def is_back() -> bool:
        there = await several.instances()
        return len(there) == WORKERS and several.ready["workers"][1]["instance_id"] not in there

    await eventually(is_back)
    code, _, told = await asyncio.to_thread(end, several.process, signal.SIGTERM)
    assert code == 0
    assert [
        (one["number"], one["reason"]) for one in map(json.loads, told.splitlines()) if one["event"] == "worker"
    ] == [(2, "was killed by SIGKILL")]


async def test_none_outlives_who_started_it(several: Several) -> None:
    several.process.kill()
    several.process.wait()


def test_whoever_ends_it_before_it_serves_need_not_wait_for_that(store: Server) -> None:
    """Nor is anything left of the worker that was about to start."""
    workers = ["--workers", "2", "--port", "0", "--store", store.url]
    process = subprocess.Popen(command(*workers), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text().split(), PATIENCE_S)
        (first,) = map(int, children.read_text().split())
        assert end(process, signal.SIGTERM) == (0, "", "")
        assert not _is_there(first)
    finally:
        process.kill()


def test_what_is_wrong_is_said_once() -> None:
    assert "no.such.host.invalid" in refused("--workers", "2", "--port", "0", "--store", "redis://no.such.host.invalid")


async def test_a_hangup_lets_all_of_them_read_their_levels_again(store: Server, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[logs]\nlevel = "error"\n')
    words = ("--workers", "2", "--port", "0", "--store", store.url, "--config", str(file), "--json")
    with serving(*words) as (process, line):
        several = Several(process, json.loads(line))

        async def levels() -> dict[str, str]:
            """Of whoever is asked, each time on a connection of its own."""
            found = {}
            for _ in range(8):
                caller = Doors()
                caller.port = several.port
                caller.open_http()
                async with caller.http:
                    said = await caller.get("/v1/log-levels")
                found[said["instance_id"]] = said["modules"][0]["level"]
            return found

        async def are_all(level: str) -> bool:
            found = await levels()
            return len(found) == 2 and set(found.values()) == {level}

        await eventually(lambda: are_all("error"))
        file.write_text('[logs]\nlevel = "loud"\n')
        process.send_signal(signal.SIGHUP)
        file.write_text('[logs]\nlevel = "warning"\n')
        process.send_signal(signal.SIGHUP)
        await eventually(lambda: are_all("warning"))
        code, _, _ = await asyncio.to_thread(end, process, signal.SIGTERM)
        assert code == 0
