"""What callers are told while the state engine hangs: sockets open, no answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.house import House
from tests.support.servers import start_server

if TYPE_CHECKING:
    from pathlib import Path

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"]}
READS = (
    "/readyz",
    "/v1/nodes",
    "/v1/nodes/n1",
    "/v1/pools",
    "/v1/job/c0.1",
    "/v1/explain?src=en&tgt=zh",
    "/v1/audio/a.1",
)
WRITES: dict[str, Any] = {"/v1/node/heartbeat": {"node_id": "n1"}, "/v1/node/register": NODE, "/v1/nodes/n1/drain": {}}


async def test_what_only_reads_fails_closed_and_only_writes_are_unknown(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    try:
        async with House(server.url).open() as house:
            await house.post("/v1/node/register", NODE)
            server.freeze()
            job = {"session_id": "room", "src_lang": "en", "tgt_lang": "zh"}
            # All at once: as soon as the silence is noticed, nothing is sent any more.
            *reads, unknown = await asyncio.gather(
                *(house.get(path, 503) for path in READS),
                *(house.post(path, said, 503) for path, said in WRITES.items()),
                house.post("/v1/dispatch/f2f", job, 503),
            )
            reads, writes = reads[: len(READS)], reads[len(READS) :]
            server.thaw()
            again = await house.post("/v1/dispatch/f2f", job | {"request_id": unknown["request_id"]})
            await house.post("/v1/job/cancel", {"job_id": again["job_id"]})
    finally:
        server.thaw()
        server.stop()
    assert {answer["error"] for answer in reads} == {"SCHEDULER_DEPENDENCY_DOWN"}, reads
    assert all(answer["retryable"] for answer in reads)
    assert {answer["error"] for answer in writes} == {"OUTCOME_UNKNOWN"}, writes
    assert not any("request_id" in answer["detail"] or "request_id" in answer for answer in writes)
    assert unknown["error"] == "OUTCOME_UNKNOWN"
    assert "request_id" in unknown["detail"]
