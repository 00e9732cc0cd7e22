"""The figures of several instances: `./dev bench cluster [--json]`.

A job that is submitted at one instance, done by a node whose socket another instance holds, and heard of where it was
submitted, beside the same job at the other instance itself; one at a time, in turns, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import uvloop
from rich.console import Console
from rich.table import Table

from bench.figures import percentile, rounded
from bench.nodes import Node
from bench.raw import RawHttp
from bench.serving import hear, job, serving, storing, submit

if TYPE_CHECKING:
    from bench.serving import Store

JOBS: Final = 500
#: Connections open, code is loaded, each has heard of the other.
WARM_UP: Final = 50
NODES: Final = 4
PERCENTS: Final = (50, 90, 99)
#: What a cross-instance job may take longer, in the median.
BOUND_MS: Final = 3.0


async def measure(store: Store) -> dict[str, Any]:
    """How long a complete job takes, at the instance that holds its node and at another, in milliseconds."""
    took: dict[str, list[float]] = {"same": [], "other": []}
    with serving(store) as (_, here), serving(store) as (_, there):
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


def main() -> int:
    """Measure, show, judge."""
    parser = argparse.ArgumentParser(prog="./dev bench cluster", description="The figures of several instances.")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    with storing() as store:
        found = uvloop.run(asyncio.wait_for(measure(store), 300))
    table = Table("a complete job, ms", *(f"p{percent}" for percent in PERCENTS))
    for way, times in found["complete_job_ms"].items():
        table.add_row(f"at the {way} instance as its node", *(str(took) for took in times.values()))
    console.print(table)
    added = found["cross_instance_added_p50_ms"]
    console.print(f"added by the other instance: {added} ms in the median, at most {BOUND_MS:g}")
    if arguments.json:
        print(json.dumps(found))
    return 1 if added > BOUND_MS else 0


if __name__ == "__main__":
    sys.exit(main())
