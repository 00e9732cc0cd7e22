"""What the lines cost that nobody wants: on the way of a job there is one for each flow, at `debug`."""

from __future__ import annotations

import timeit
from typing import Any, Final

from bench.amounts import amount
from bench.figures import median, rounded
from bench.nodes import Node
from bench.processes import cpu_us
from bench.raw import RawHttp
from bench.serving import hear, job, serving, storing, submit
from lingua_scheduler.logs import get_log

ROUNDS: Final = amount(5, 1)
JOBS: Final = amount(300, 5)
_TIMES: Final = amount(200_000, 1_000)
#: Of a job over HTTP for a node on a socket: dispatch, deliver, ack, done.
LINES: Final = 4


async def measure() -> dict[str, Any]:
    """What a line costs, and what share of a job's CPU time all of them are."""
    spent: dict[str, list[float | None]] = {"info": [], "debug": []}
    with storing() as store:
        for _ in range(ROUNDS):
            for level, found in spent.items():
                store.flush()
                with serving(store, {"LINGUA_LOGS__LEVEL": level}) as (pid, port):
                    found.append(await _job_us(pid, port))
    silent_us = _silent_ns() * LINES / 1_000
    usual = median(spent["info"])
    assert usual is not None  # noqa: S101 - there was a round
    return {
        "silent_line_ns": round(_silent_ns()),
        "server_us_per_job": {level: rounded(median(found), 0) for level, found in spent.items()},
        "silent_lines_share_of_a_job": rounded(silent_us / usual, 5),
    }


async def _job_us(pid: int, port: int) -> float:
    await Node.join(port, "node-1", 64, careful=True)
    caller = await RawHttp.connect(port)
    for _ in range(JOBS // 5):
        await hear(caller, await submit(caller, job("warm")))
    before = cpu_us(pid)
    for number in range(JOBS):
        await hear(caller, await submit(caller, job(f"s{number}")))
    return (cpu_us(pid) - before) / JOBS


def _silent_ns() -> float:
    """A line as the flows have it, less the loop around it."""
    log = get_log("bench.guard.logs")

    def line() -> None:
        if log.is_debug:
            log.debug("ack", job_id="c0.1", attempt=1, node_id="n1")

    def nothing() -> None:
        pass

    took, empty = (min(timeit.repeat(one, number=_TIMES, repeat=5)) for one in (line, nothing))
    return max(0.0, took - empty) / _TIMES * 1e9
