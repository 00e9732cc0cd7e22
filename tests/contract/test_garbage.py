"""What a job leaves behind is gone at once: nobody has to come and look for what keeps each other alive.

The collector stops everybody while it looks: after some hundred jobs, for many milliseconds.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lingua_scheduler.core.walk import Walk
from lingua_scheduler.front.exchange import Exchange
from lingua_scheduler.front.web import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.house import House

OURS = (Walk, Exchange, Request)


@contextmanager
def collecting() -> Iterator[list[object]]:
    """All that only the collector finds, of what was made meanwhile."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    found: list[object] = []
    try:
        yield found
        gc.collect()
        found += [type(one) for one in gc.garbage if isinstance(one, OURS)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_a_job_over_http_for_a_node_on_a_socket_leaves_nothing_to_collect(house: House) -> None:
    said = {"session_id": "room-888", "src_lang": "en", "tgt_lang": "zh"}
    async with house.node("n1") as node:
        await node.register(features=("job_ack",))
        with collecting() as found:
            for _ in range(3):
                asking = asyncio.create_task(
                    house.http.post("/v1/dispatch/f2f", json=said, headers={"prefer": "wait=20"})
                )
                job = await node.job()
                await node.result(job)
                assert (await asking).json()["state"] == "FINISHED"
    assert found == []


async def test_what_needs_a_task_leaves_nothing_to_collect(house: House) -> None:
    with collecting() as found:
        for _ in range(3):
            await house.get("/v1/nodes")
    assert found == []
