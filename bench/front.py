"""The figures of the doors: `./dev bench front [--json] [--only PART,…]`. Under ten minutes on two cores.

One `lingua serve`, one Valkey, and clients on bare sockets. Machines are shared and noisy, so what is held against a
bound is a ratio of things measured in turns in the same run, the median of several. How it is done, and what is equal
for everybody, is told in docs/performance.md.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench import contest, dispatching, doors, idle
from bench.parts import measure_parts, run_bench
from bench.serving import storing
from bench.tables import show

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from bench.parts import Figures, Part, Say
    from bench.serving import Store

#: What is promised of every run, null where it was not measured.
KEYS: Final = (
    "dispatch_req_per_server_cpu_s",
    "vs_fastapi_ratio",
    "jobs_per_scheduler_cpu_s",
    "jobs_per_s",
    "peers",
    "vs_best_peer_ratio",
    "vs_arq_ratio",
    "vs_nats_ratio",
    "latency_ms",
    "latency_rounds_won",
    "bytes_per_socket",
)
#: What the run is held against.
BOUNDS: Final = {"vs_fastapi_ratio": 3.0, "vs_arq_ratio": 8.0, "vs_best_peer_ratio": 3.0, "latency_rounds_won": 4}

#: A part that takes longer is given up; the contest counts for each contestant and round.
PATIENCE_S: Final = 240


def _in_time(measure: Callable[[Store], Coroutine[Any, Any, Figures]]) -> Callable[[Say], Figures]:
    return _storing(lambda store, _: uvloop.run(asyncio.wait_for(measure(store), PATIENCE_S)))


def _storing(measure: Callable[[Store, Say], Figures]) -> Callable[[Say], Figures]:
    """With an engine of its own."""

    def stored(say: Say) -> Figures:
        with storing() as store:
            return measure(store, say)

    return stored


PARTS: Final[dict[str, Part]] = {
    "doors": ("what each door costs", _in_time(doors.measure)),
    "dispatch": ("dispatch beside FastAPI", _in_time(dispatching.measure)),
    "idle": (f"{idle.SOCKETS:,} idle sockets", _in_time(idle.measure)),
    "peers": ("complete jobs beside the peers", _storing(lambda store, say: contest.figures(contest.run(store, say)))),
}


def judge(found: Figures, _parts: Sequence[str]) -> list[str]:
    """The bounds that were missed, in words."""
    return [
        f"{name} is {found[name]}, not {least} or more"
        for name, least in BOUNDS.items()
        if found[name] is not None and found[name] < least
    ]


def main() -> int:
    """Measure, show, judge."""

    def measure(chosen: Sequence[str], say: Say) -> Figures:
        return measure_parts(PARTS, chosen, KEYS, say)

    return run_bench("front", "The figures of the doors.", measure, show, judge, PARTS)


if __name__ == "__main__":
    sys.exit(main())
