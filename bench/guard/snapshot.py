"""Fifty clients that ask for the fleet in numbers as fast as they can, and whether a dispatch meets any of that.

What a dispatch asks of the engine is all that the instance asks, less what it asks anyway as time goes by.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from bench.amounts import amount
from bench.figures import median, percentile, ratio, rounded
from bench.guard.numbers import metric
from bench.guard.turns import ROUND_S, ROUNDS, crowd, dispatches
from bench.nodes import Node
from bench.raw import RawHttp
from bench.serving import serving, storing

POLLERS: Final = 50
_NODES: Final = 4
_CALLS: Final = "lingua_engine_call_seconds_count"
_IDLE_S: Final = amount(10, 1)


async def measure() -> dict[str, Any]:
    """Engine calls for each dispatch, and how long it takes, with those clients and without."""
    p50: dict[str, list[float | None]] = {"alone": [], "polled": []}
    calls: dict[str, list[float | None]] = {"alone": [], "polled": []}
    polls, taken, polled_s = 0, 0.0, 0.0
    with storing() as store, serving(store) as (_, port):
        for number in range(_NODES):
            await Node.join(port, f"node-{number}", 1_000, careful=True)
        caller = await RawHttp.connect(port)
        await dispatches(caller, ROUND_S)
        idle_per_s = await _idle(port)
        async with crowd("poll", POLLERS, (port,)) as pollers:
            looked = await metric(port, _CALLS, script="fleet")
            for _ in range(ROUNDS):
                for way in ("alone", "polled"):
                    if way == "polled":
                        await pollers.go()
                    asked, begun = await metric(port, _CALLS), time.perf_counter()
                    took = await dispatches(caller, ROUND_S)
                    if way == "polled":
                        polls += await pollers.stop()
                        polled_s += time.perf_counter() - begun
                    anyway = idle_per_s * (time.perf_counter() - begun)
                    calls[way].append((await metric(port, _CALLS) - asked - anyway) / len(took))
                    p50[way].append(percentile(took, 50))
            taken = await metric(port, _CALLS, script="fleet") - looked
    return {
        "stats_polls_per_s": round(polls / polled_s),
        "snapshots_taken": round(taken),
        "engine_calls_per_dispatch": {way: rounded(median(found), 1) for way, found in calls.items()},
        "polled_dispatch_p50_ms": {way: rounded(median(found)) for way, found in p50.items()},
        "polled_dispatch_p50_ratio": rounded(ratio(p50["polled"], p50["alone"])),
    }


async def _idle(port: int) -> float:
    """What the instance asks of the engine in a second in which nobody asks anything of it."""
    asked, begun = await metric(port, _CALLS), time.perf_counter()
    await asyncio.sleep(_IDLE_S)
    return (await metric(port, _CALLS) - asked) / (time.perf_counter() - begun)
