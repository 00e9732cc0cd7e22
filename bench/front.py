"""The figures of the doors: `./dev bench front [--json] [--only PART,…]`. Under ten minutes on two cores.

One `lingua serve`, one Valkey, and clients on bare sockets. Machines are shared and noisy, so what is held against a
bound is a ratio of things measured in turns in the same run, the median of several. How it is done, and what is equal
for everybody, is told in docs/performance.md.
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

from bench import contest, dispatching, doors, idle
from bench.amounts import IS_BRIEF
from bench.peers.environment import NotHere
from bench.serving import storing
from bench.tables import show

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bench.serving import Store

    Part = Callable[[Store, Callable[[str], None]], dict[str, Any]]

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

PARTS: Final[dict[str, tuple[str, Part]]] = {
    "doors": ("what each door costs", lambda store, _: _in_time(doors.measure(store))),
    "dispatch": ("dispatch beside FastAPI", lambda store, _: _in_time(dispatching.measure(store))),
    "idle": (f"{idle.SOCKETS:,} idle sockets", lambda store, _: _in_time(idle.measure(store))),
    "peers": ("complete jobs beside the peers", lambda store, say: contest.figures(contest.run(store, say))),
}


def _in_time(part: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    return uvloop.run(asyncio.wait_for(part, PATIENCE_S))


def measure(parts: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """The figures of these parts. One that breaks off says why, and the others go on."""
    found: dict[str, Any] = dict.fromkeys(KEYS)
    for name in parts:
        title, part = PARTS[name]
        say(title)
        begun = time.monotonic()
        with storing() as store:
            try:
                found |= part(store, say)
            except (NotHere, RuntimeError, OSError) as broken:
                say(f"{name} broke off: {contest.last_words(broken)}")
        found.setdefault("seconds", {})[name] = round(time.monotonic() - begun)
    return found


def judge(found: dict[str, Any]) -> list[str]:
    """The bounds that were missed, in words."""
    return [
        f"{name} is {found[name]}, not {least} or more"
        for name, least in BOUNDS.items()
        if found[name] is not None and found[name] < least
    ]


def main() -> int:
    """Measure, show, judge."""
    parser = argparse.ArgumentParser(prog="./dev bench front", description="The figures of the doors.")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(stderr=True)
    found = measure(parts, lambda what: console.print(f"… {what}", markup=False))
    show(found, console if arguments.json else Console())
    missed = [] if IS_BRIEF else judge(found)
    for line in missed:
        console.print(f"[red]missed[/]: {line}")
    if arguments.json:
        print(json.dumps(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
