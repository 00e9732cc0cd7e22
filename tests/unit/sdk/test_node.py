"""What a node developer writes, and what is told at once when it cannot be right."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from lingua_scheduler.sdk import Job, Node
from lingua_scheduler.sdk.client_errors import ClientError
from lingua_scheduler.sdk.nodes.runner import as_load
from lingua_scheduler.sdk.nodes.work import is_async
from tests.support.people import PATIENCE_S


async def good(_: Job) -> dict[str, str]:
    return {"text_asr": "x"}


def blocking(_: Job) -> dict[str, str]:
    return {"text_asr": "x"}


class Callable:
    async def __call__(self, _: Job) -> dict[str, str]:
        return {"text_asr": "x"}


def test_it_says_of_itself_what_was_written() -> None:
    node = Node(
        semantic=["en", "es"], asr=["en"], tts=["es"], pairs=[("en", "es")], max_jobs=2, labels={"region": "eu"}
    )
    said = node.declaration_of()
    assert (said.semantic_langs, said.asr_langs, said.tts_langs) == (["en", "es"], ["en"], ["es"])
    assert (said.nmt_pairs, said.max_concurrent_jobs, said.labels) == ([("en", "es")], 2, {"region": "eu"})
    assert said.advanced_features == ["job_ack", "job_started", "job_stopped", "binary_audio"]
    assert said.accept_public_jobs is True
    assert Node(["en"], pairs="any").declaration_of().nmt_pairs == "any"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"semantic": []}, "semantic_langs is empty"),
        ({"semantic": ["english"]}, "semantic_langs: 'english' is not a known language"),
        ({"semantic": "en"}, "semantic_langs must be a list"),
        ({"semantic": ["en"], "pairs": [("en",)]}, "nmt_pairs must be a list of"),
        ({"semantic": ["en"], "max_jobs": 0}, "max_jobs must be a whole number from 1 to 1024"),
        ({"semantic": ["en"], "node_id": "a b"}, "node_id must be 1 to 128"),
        ({"semantic": ["en"], "url": "ftp://x"}, "is not the address of a scheduler"),
        ({"semantic": ["en"], "audio": "loud"}, "audio is one of frame, inline, fetch"),
    ],
)
def test_what_cannot_be_right_is_told_where_it_is_written(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Node(**said)


def test_the_environment_names_what_the_code_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINGUA_NODE_ID", "from-outside")
    assert Node(["en"]).node_id == "from-outside"
    assert Node(["en"], node_id="mine").node_id == "mine"
    monkeypatch.setenv("LINGUA_NODE_ID", "")
    assert Node(["en"]).node_id is None
    monkeypatch.setenv("LINGUA_URL", "http://elsewhere:1")
    assert (str(Node(["en"]).address), str(Node(["en"], url="here:2").address)) == (
        "http://elsewhere:1",
        "http://here:2",
    )


def test_a_node_has_one_handler() -> None:
    node = Node(["en"])
    with pytest.raises(ValueError, match=r"write @node\.job"):
        _ = node.handler
    assert node.job(good) is good
    with pytest.raises(ValueError, match="one handler"):
        node.job(blocking)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (good, True),
        (blocking, False),
        (Callable(), True),
        (functools.partial(good), True),
        (functools.partial(blocking), False),
        (len, False),
    ],
)
def test_what_blocks_is_known_by_how_it_is_written(handler: Any, expected: bool) -> None:
    assert is_async(handler) is expected


def test_a_load_is_a_share_of_the_gpu_or_several_shares() -> None:
    assert as_load(0.5) == {"gpu": 0.5}
    assert as_load(7) == {"gpu": 1.0}
    assert as_load({"cpu": -1, "mem": 0.25}) == {"cpu": 0.0, "mem": 0.25}
    for wrong in (None, "0.5", True, {"disk": 0.5}, {"cpu": "much"}):
        with pytest.raises(ValueError, match="load_fn returns a number from 0 to 1"):
            as_load(wrong)


async def outcomes(*waiting: Any) -> list[Any]:
    """What each comes to; none may take for ever."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*waiting, return_exceptions=True)


async def test_whoever_waits_for_a_node_without_a_handler_is_told_so() -> None:
    node = Node(["en"])
    for error in await outcomes(node.joined(), node.run(), node.joined()):
        assert isinstance(error, ValueError)


async def test_whoever_waits_for_a_node_whose_setup_fails_is_told_so() -> None:
    node = Node(["en"])
    node.job(good)

    @node.setup
    def load() -> None:
        raise LookupError("no such model")

    for error in await outcomes(node.joined(), node.run(), node.joined()):
        assert isinstance(error, LookupError)


@pytest.mark.parametrize("told", ["drain", "stop"])
async def test_a_node_that_is_told_to_go_while_it_is_set_up_goes_when_it_is(told: str) -> None:
    node = Node(["en"])
    node.job(good)

    @node.setup
    async def load() -> None:
        getattr(node, told)()

    ran, error = await outcomes(node.run(), node.joined())
    assert ran is None
    assert isinstance(error, ClientError)
    assert not node.is_joined


async def test_a_node_runs_once_at_a_time() -> None:
    node, loading = Node(["en"]), asyncio.Event()
    node.job(good)

    @node.setup
    async def load() -> None:
        loading.set()
        with pytest.raises(RuntimeError, match="runs already"):
            await node.run()
        node.stop()

    assert await outcomes(node.run()) == [None]
    assert loading.is_set()


async def test_whoever_waits_for_a_node_that_is_cancelled_is_told_so() -> None:
    node, loading = Node(["en"]), asyncio.Event()
    node.job(good)

    @node.setup
    async def load() -> None:
        loading.set()
        await asyncio.Event().wait()

    serving, waiting = asyncio.create_task(node.run()), asyncio.create_task(node.joined())
    await loading.wait()
    serving.cancel()
    _, error = await outcomes(serving, waiting)
    assert isinstance(error, ClientError)
    assert error.code == "NODE_STOPPED"
