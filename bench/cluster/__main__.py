"""The figures of several instances: `./dev bench cluster [--json] [--only PART,…]`. Under ten minutes.

What is held against a bound is a difference of things measured in turns in the same run, a number of jobs that were
lost, or a time that nobody may exceed. How it is done is told in docs/performance.md.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.cluster import crossing, failover, instance_kills, node_kills, primaries
from bench.cluster.tables import show
from bench.parts import measure_parts, run_bench

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from bench.parts import Figures, Part, Say

#: What is promised of every run, null where it was not measured.
KEYS: Final = (
    "complete_job_ms",
    "cross_instance_added_p50_ms",
    "node_kills",
    "node_kill_to_new_assignment_ms",
    "node_kills_over_1_s",
    "instance_kills",
    "jobs_under_instance_kills",
    "jobs_lost_by_instance_kills",
    "failovers",
    "failover_outage_ms",
    "jobs_confirmed_under_failover",
    "jobs_lost_by_failover",
    "engine_cpu_us_per_job_on_busiest_primary",
    "busiest_primary_times_primaries",
    "busiest_primary_times_primaries_max",
)
#: What the run is held against: no more than this.
BOUNDS: Final = {
    "cross_instance_added_p50_ms": 3.0,
    "node_kills_over_1_s": 0,
    "jobs_lost_by_instance_kills": 0,
    "jobs_lost_by_failover": 0,
    # A job costs the busiest of n primaries an n-th of what it costs one, and a quarter more at most.
    "busiest_primary_times_primaries_max": 1.25,
}
#: A part that takes longer is given up.
PATIENCE_S: Final = 480


def _in_time(measure: Callable[[], Coroutine[Any, Any, Figures]]) -> Callable[[Say], Figures]:
    return lambda _: uvloop.run(asyncio.wait_for(measure(), PATIENCE_S))


PARTS: Final[dict[str, Part]] = {
    "crossing": ("a job whose node is with another instance", _in_time(crossing.measure)),
    "nodes": ("nodes that are killed", _in_time(node_kills.measure)),
    "instances": ("instances that are killed", _in_time(instance_kills.measure)),
    "failover": ("primaries of a Cluster that are killed", _in_time(failover.measure)),
    "primaries": ("one, two and three primaries", _in_time(primaries.measure)),
}


def judge(found: Figures, parts: Sequence[str]) -> list[str]:
    """The bounds that were missed, and the parts that broke off, in words."""
    missed = [
        f"{name} is {found[name]}, more than {most}" for name, most in BOUNDS.items() if (found[name] or 0) > most
    ]
    if set(parts) == set(PARTS):
        missed += [f"{name} was not measured" for name in KEYS if found[name] is None]
    return missed


def main() -> int:
    """Measure, show, judge."""

    def measure(chosen: Sequence[str], say: Say) -> Figures:
        return measure_parts(PARTS, chosen, KEYS, say)

    return run_bench("cluster", "The figures of several instances.", measure, show, judge, PARTS)


if __name__ == "__main__":
    sys.exit(main())
