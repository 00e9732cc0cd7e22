"""Killing a node of a demo by a command: of which demo."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.operate.demo.trapdoor import NoDemo, kill_node, open_trapdoor
from lingua_scheduler.store.embedded.paths import TEMPORARY_PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Demos:
    """Two demos that run here, each with a node, and what was killed."""

    def __init__(self) -> None:
        self.killed: list[int] = []

    async def open(self, directory: Path, port: int) -> AsyncExitStack:
        async def kill(node_id: str) -> int | None:
            if node_id != "sim-1":
                return None
            self.killed.append(port)
            return 2

        stack = AsyncExitStack()
        await stack.enter_async_context(open_trapdoor(directory, f"http://127.0.0.1:{port}", kill))
        return stack


@pytest.fixture
async def demos(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Demos]:
    monkeypatch.delenv("LINGUA_URL", raising=False)
    found = Demos()
    # A socket's path is short.
    with ExitStack() as made, monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", made.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        async with AsyncExitStack() as opened:
            for port in (5710, 5711):
                directory = made.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX))
                await opened.enter_async_context(await found.open(Path(directory), port))
            yield found


async def killed(url: str | None, node_id: str = "sim-1") -> int:
    return await asyncio.to_thread(kill_node, node_id, url)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:5710", "http://127.0.0.1:5710/", "http://localhost:5710", "localhost:5710", "ws://[::1]:5710"],
)
async def test_a_demo_is_named_as_any_scheduler_is(demos: Demos, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await killed(url) == 2
    monkeypatch.setenv("LINGUA_URL", url)
    assert await killed(None) == 2
    assert demos.killed == [5710, 5710]


async def test_a_demo_that_is_named_by_a_flag_is_meant_whoever_stands_in_the_environment(
    demos: Demos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINGUA_URL", "http://127.0.0.1:5710")
    await killed("http://127.0.0.1:5711")
    assert demos.killed == [5711]


async def test_without_a_name_all_that_run_here_are_meant(demos: Demos) -> None:
    assert await killed(None) == 4
    assert sorted(demos.killed) == [5710, 5711]


@pytest.mark.parametrize("url", ["http://127.0.0.1:5712", "https://127.0.0.1:5710", "http://127.0.0.1:5710/below"])
async def test_where_no_demo_is_it_is_told_where_they_are(demos: Demos, url: str) -> None:
    with pytest.raises(NoDemo) as none:
        await killed(url)
    assert str(none.value) == (
        f"no demo runs at {url}: those that do are at http://127.0.0.1:5710, http://127.0.0.1:5711"
    )
    assert demos.killed == []


@pytest.mark.usefixtures("demos")
async def test_a_node_that_is_not_there_and_an_address_that_is_none_are_said() -> None:
    with pytest.raises(NoDemo, match="has no node sim-2"):
        await killed(None, "sim-2")
    with pytest.raises(NoDemo, match="is not the address of a scheduler"):
        await killed("ftp://there")
