"""Fifty clients that ask for the fleet in numbers as fast as they can, and whether a dispatch meets any of that.

Whoever asks a process as fast as he can takes CPU from everything else that it does, whatever he asks for. So the same
clients also ask for `/livez`, which is answered with a constant: what a dispatch waits longer then is the price of one
process, and only what it waits longer still with the numbers of the fleet is theirs.

What a dispatch asks of the engine is all that the instance asks, less what it asks anyway as time goes by.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any, Final

from bench.amounts import amount
from bench.figures import median, percentile, ratio, rounded
from bench.guard.numbers import metric
from bench.guard.turns import ROUND_S, ROUNDS, crowd, dispatches
from bench.nodes import Node
from bench.raw import RawHttp
from bench.serving import serving, storing

POLLERS: Final = 50
#: Nobody, those to compare with, and those whom it is about.
WAYS: Final = ("alone", "livez", "stats")
_NODES: Final = 4
_CALLS: Final = "lingua_engine_call_seconds_count"
_IDLE_S: Final = amount(10, 1)


async def measure() -> dict[str, Any]:
    """Engine calls for each dispatch, and how long it takes, with those clients and without."""
    p50: dict[str, list[float | None]] = {way: [] for way in WAYS}
    calls: dict[str, list[float | None]] = {way: [] for way in WAYS}
    answers, seconds = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0.0)
    with storing() as store, serving(store) as (_, port):
        for number in range(_NODES):
            await Node.join(port, f"node-{number}", 1_000, careful=True)
        caller = await RawHttp.connect(port)
        await dispatches(caller, ROUND_S)
        idle_per_s = await _idle(port)
        async with AsyncExitStack() as stack:
            crowds = {way: await stack.enter_async_context(crowd(way, POLLERS, (port,))) for way in WAYS[1:]}
            looked = await metric(port, _CALLS, script="fleet")
            for _ in range(ROUNDS):
                for way in WAYS:
                    if way in crowds:
                        await crowds[way].go()
                    asked, begun = await metric(port, _CALLS), time.perf_counter()
                    took = await dispatches(caller, ROUND_S)
                    if way in crowds:
                        answers[way] += await crowds[way].stop()
                    seconds[way] += time.perf_counter() - begun
                    anyway = idle_per_s * (time.perf_counter() - begun)
                    calls[way].append((await metric(port, _CALLS) - asked - anyway) / len(took))
                    p50[way].append(percentile(took, 50))
            taken = await metric(port, _CALLS, script="fleet") - looked
    return {
        "polls_per_s": {way: round(answers[way] / seconds[way]) for way in WAYS[1:]},
        "snapshots_taken": round(taken),
        "engine_calls_per_dispatch": {way: rounded(median(found), 1) for way, found in calls.items()},
        "polled_dispatch_p50_ms": {way: rounded(median(found)) for way, found in p50.items()},
        "polled_dispatch_p50_ratio": {
            "livez to alone": rounded(ratio(p50["livez"], p50["alone"])),
            "stats to alone": rounded(ratio(p50["stats"], p50["alone"])),
            "stats to livez": rounded(ratio(p50["stats"], p50["livez"])),
        },
    }


async def _idle(port: int) -> float:
    """What the instance asks of the engine in a second in which nobody asks anything of it."""
    asked, begun = await metric(port, _CALLS), time.perf_counter()
    await asyncio.sleep(_IDLE_S)
    return (await metric(port, _CALLS) - asked) / (time.perf_counter() - begun)
