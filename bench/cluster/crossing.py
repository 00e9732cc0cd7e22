"""A job that is submitted at one instance, and its node is with another; beside the same job where its node is.

One at a time, in turns, in the same run: submitted, written to its node's socket, done, and heard of where it was
submitted.
"""

from __future__ import annotations

import time
from typing import Any, Final

from bench.amounts import amount
from bench.figures import percentile, rounded
from bench.nodes import Node
from bench.raw import RawHttp
from bench.serving import hear, job, serving, storing, submit

JOBS: Final = amount(500, 5)
#: Connections open, code is loaded, each has heard of the other.
WARM_UP: Final = amount(50, 2)
NODES: Final = 4
PERCENTS: Final = (50, 90, 99)


async def measure() -> dict[str, Any]:
    """How long a complete job takes, at the instance that holds its node and at another, in milliseconds."""
    took: dict[str, list[float]] = {"same": [], "other": []}
    with storing() as store, serving(store) as (_, here), serving(store) as (_, there):
        for number in range(NODES):
            await Node.join(there, f"node-{number}", 64, careful=True)
        callers = {"same": await RawHttp.connect(there), "other": await RawHttp.connect(here)}
        for number in range(WARM_UP + JOBS):
            for way, caller in callers.items():
                begun = time.perf_counter()
                await hear(caller, await submit(caller, job(f"s{number}")))
                if number >= WARM_UP:
                    took[way].append(1000 * (time.perf_counter() - begun))
    found = {way: {f"p{p}": rounded(percentile(times, p)) for p in PERCENTS} for way, times in took.items()}
    added = percentile(took["other"], 50) - percentile(took["same"], 50)
    return {"complete_job_ms": found, "cross_instance_added_p50_ms": rounded(added)}
