"""A fleet of which every node cries `MODEL_NOT_AVAILABLE`, a thousand times in a second, at two instances.

One caller dispatches jobs that do without that model, in turns with the storm and without.
"""

from __future__ import annotations

from typing import Any, Final

from bench.amounts import amount
from bench.figures import median, percentile, ratio, rounded
from bench.guard.numbers import metric
from bench.guard.turns import ROUND_S, ROUNDS, crowd, dispatches
from bench.raw import RawHttp
from bench.serving import serving, storing

NODES: Final = amount(100, 10)


async def measure() -> dict[str, Any]:
    """How much longer a dispatch takes in the storm, and how many marks were written for how many events."""
    p50: dict[str, list[float | None]] = {"quiet": [], "storm": []}
    events = 0
    with storing() as store, serving(store) as (_, here), serving(store) as (_, there):
        async with crowd("storm", NODES, (here, there)) as criers:
            caller = await RawHttp.connect(here)
            await dispatches(caller, ROUND_S)
            for _ in range(ROUNDS):
                p50["quiet"].append(percentile(await dispatches(caller, ROUND_S), 50))
                await criers.go()
                p50["storm"].append(percentile(await dispatches(caller, ROUND_S), 50))
                events += await criers.stop()
            written = sum([await metric(one, "lingua_marks_total", outcome="marked") for one in (here, there)])
            dropped = sum([await metric(one, "lingua_marks_dropped_total") for one in (here, there)])
    return {
        "storm_events": events,
        "storm_mark_writes": round(written),
        # Each round is another service of every node.
        "storm_mark_writes_bound": NODES * ROUNDS,
        "storm_marks_dropped": round(dropped),
        "dispatch_p50_ms": {name: rounded(median(found)) for name, found in p50.items()},
        "storm_dispatch_p50_ratio": rounded(ratio(p50["storm"], p50["quiet"])),
    }
