"""What may happen beside dispatching: `./dev bench guard [--json] [--only PART,…]`. Some two minutes.

What is held against a bound is a ratio of things measured in turns in the same run. How it is done is told in
docs/performance.md.
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
from bench.cluster.tables import rows
from bench.guard import logs, snapshot, storm

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Part = Callable[[], Coroutine[Any, Any, dict[str, Any]]]

#: What the run is held against: no more than this.
BOUNDS: Final = {"storm_dispatch_p50_ratio": 1.25, "silent_lines_share_of_a_job": 0.01}
PATIENCE_S: Final = 240

PARTS: Final[dict[str, tuple[str, Part]]] = {
    "storm": ("a fleet that cries that a model is not there", storm.measure),
    "snapshot": (f"{snapshot.POLLERS} clients that look at the fleet", snapshot.measure),
    "logs": ("lines that nobody wants", logs.measure),
}


def measure(parts: list[str], say: Callable[[str], None]) -> dict[str, Any]:
    """The figures of these parts. One that breaks off says why, and the others go on."""
    found: dict[str, Any] = {}
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


def judge(found: dict[str, Any]) -> list[str]:
    """The bounds that were missed, in words."""
    missed = [
        f"{name} is {found[name]}, more than {most}" for name, most in BOUNDS.items() if found.get(name, 0) > most
    ]
    if found.get("storm_mark_writes", 0) > found.get("storm_mark_writes_bound", 0):
        missed.append("more marks were written than there are nodes and services")
    return missed


def main() -> int:
    """Measure, show, judge."""
    parser = argparse.ArgumentParser(prog="./dev bench guard", description="What may happen beside dispatching.")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(stderr=True)
    found = measure(parts, lambda what: console.print(f"… {what}", markup=False))
    (console if arguments.json else Console()).print(rows(found))
    missed = [] if IS_BRIEF else judge(found)
    for line in missed:
        console.print(f"[red]missed[/]: {line}")
    if arguments.json:
        print(json.dumps(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
