"""The figures of several instances: `./dev bench cluster [--json] [--only PART,…]`. Under ten minutes.

What is held against a bound is a difference of things measured in turns in the same run, a number of jobs that were
lost, or a time that nobody may exceed. How it is done is told in docs/performance.md.
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

from bench.amounts import IS_BRIEF
from bench.cluster import crossing, failover, instance_kills, node_kills, primaries
from bench.cluster.tables import show

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Part = Callable[[], Coroutine[Any, Any, dict[str, Any]]]

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

PARTS: Final[dict[str, tuple[str, Part]]] = {
    "crossing": ("a job whose node is with another instance", crossing.measure),
    "nodes": ("nodes that are killed", node_kills.measure),
    "instances": ("instances that are killed", instance_kills.measure),
    "failover": ("primaries of a Cluster that are killed", failover.measure),
    "primaries": ("one, two and three primaries", primaries.measure),
}


def measure(parts: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """The figures of these parts. One that breaks off says why, and the others go on."""
    found: dict[str, Any] = dict.fromkeys(KEYS)
    for name in parts:
        title, part = PARTS[name]
        say(title)
        begun = time.monotonic()
        try:
            found |= uvloop.run(asyncio.wait_for(part(), PATIENCE_S))
        except Exception as broken:  # noqa: BLE001 - whatever it was, the others have figures
            say(f"{name} broke off: {broken!r}")
        found.setdefault("seconds", {})[name] = round(time.monotonic() - begun)
    return found


def judge(found: dict[str, Any], parts: list[str]) -> list[str]:
    """The bounds that were missed, and the parts that broke off, in words."""
    missed = [
        f"{name} is {found[name]}, more than {most}" for name, most in BOUNDS.items() if (found[name] or 0) > most
    ]
    if set(parts) == set(PARTS):
        missed += [f"{name} was not measured" for name in KEYS if found[name] is None]
    return missed


def main() -> int:
    """Measure, show, judge."""
    parser = argparse.ArgumentParser(prog="./dev bench cluster", description="The figures of several instances.")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(stderr=True)
    found = measure(parts, lambda what: console.print(f"… {what}", markup=False))
    show(found, console if arguments.json else Console())
    missed = [] if IS_BRIEF else judge(found, parts)
    for line in missed:
        console.print(f"[red]missed[/]: {line}")
    if arguments.json:
        print(json.dumps(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
