"""The demo from its first node to the auditor's verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import time
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live

from lingua_scheduler.app import run
from lingua_scheduler.config import load
from lingua_scheduler.core.audit import audit_cell
from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.operate.demo.callers import Caller
from lingua_scheduler.operate.demo.fleet import Fleet, Node
from lingua_scheduler.operate.demo.screen import draw
from lingua_scheduler.operate.demo.tally import Tally
from lingua_scheduler.store.embedded import Embedded
from lingua_scheduler.views.audit import OVERDUE_MS
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.nodes import read_nodes

if TYPE_CHECKING:
    from lingua_scheduler.app import App

LANGUAGES: Final = (("en", "zh"), ("en", "zh"), ("en", "es"), ("en", "zh", "ja"))
FRAME_S: Final = 0.25
#: Short, so that a minute shows what an hour would.
FLAGS: Final = {
    "loops.sweep_interval_ms": 100,
    "loops.relay_lease_ms": 400,
    "jobs.reservation_ttl_ms": 1_000,
    "jobs.run_timeout_ms": 4_000,
    "jobs.timeout_ms": 15_000,
    "nodes.mark_ttl_ms": 5_000,
}


async def play(*, nodes: int, callers: int, duration_s: float, seed: int, as_json: bool) -> int:
    """Run the fleet, show it, audit it. The exit code: 0 if nothing was lost, oversold or violated."""
    rng, tally, console = random.Random(seed), Tally(), Console(stderr=as_json, quiet=as_json)
    fleet = Fleet([_node(number, rng) for number in range(nodes)], tally)
    over = asyncio.Event()
    _end_on_signal(over)
    async with Embedded.temporary() as embedded:
        settings = load(env={}, flags=FLAGS | {"engine.url": embedded.url}).settings
        async with run(settings, fleet.hear) as app:
            fleet.attach(app)
            console.print(f"ready: {nodes} nodes are joining, {callers} callers begin to talk (Ctrl-C ends it early)")
            await _live(app, fleet, tally, over, _callers(callers, rng, fleet, tally), duration_s, console)
            cell = await read_cell(app.engine, app.cell)
            assert isinstance(cell, Cell)  # noqa: S101 - the settings let no bad name through
    violations = [str(violation) for violation in audit_cell(cell, OVERDUE_MS)]
    return _verdict(tally, violations, tally.report(violations, cell.counts), console, as_json=as_json)


def _end_on_signal(over: asyncio.Event) -> None:
    """The first signal ends the talk in peace, a second one stops everything at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def heard() -> None:
        if over.is_set() and task is not None:
            task.cancel()
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)


def _node(number: int, rng: random.Random) -> Node:
    languages = LANGUAGES[number % len(LANGUAGES)]
    return Node(f"sim-{number}", languages, rng.randint(1, 4), random.Random(rng.random()))


def _callers(number: int, rng: random.Random, fleet: Fleet, tally: Tally) -> list[Caller]:
    pairs = [(src, tgt) for languages in LANGUAGES for src in languages for tgt in languages if src != tgt]
    return [
        Caller(f"caller-{n}", pairs[n % len(pairs)], random.Random(rng.random()), fleet, tally) for n in range(number)
    ]


async def _live(
    app: App,
    fleet: Fleet,
    tally: Tally,
    over: asyncio.Event,
    callers: list[Caller],
    duration_s: float,
    console: Console,
) -> None:
    ends_at = time.monotonic() + duration_s
    languages = {node.node_id: node.languages for node in fleet.nodes.values()}
    lives = [asyncio.create_task(fleet.live(node)) for node in fleet.nodes.values()]
    talks = [asyncio.create_task(caller.talk(app, over)) for caller in callers]
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while not over.is_set() or not all(talk.done() for talk in talks):
            _raise_first(lives + talks)
            page = await read_nodes(app.engine, app.cell)
            if not isinstance(page, Refusal) and console.is_terminal:
                live.update(draw(page.nodes, languages, tally, ends_at - time.monotonic()), refresh=True)
            await asyncio.sleep(FRAME_S)
            if time.monotonic() >= ends_at:
                over.set()
    await asyncio.gather(*talks)
    for life in lives:
        life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await life
    await fleet.disband()


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _verdict(tally: Tally, violations: list[str], report: dict[str, object], console: Console, *, as_json: bool) -> int:
    adds_up = (
        tally.submitted == report["accepted"] + sum(tally.refused.values())  # type: ignore[operator]
        and report["ended"] == report["accepted"] == report["ended_in_engine"]
    )
    good = adds_up and not violations and not tally.oversold
    for violation in violations:
        console.print(f"[red]violated[/]: {violation}")
    console.print(
        f"{tally.submitted} submitted, {tally.accepted} accepted, {report['ended']} ended: "
        f"{tally.heard['FINISHED']} finished, {tally.heard['FAILED']} failed, {tally.heard['EXPIRED']} expired; "
        f"{tally.retried} retried, {tally.died} nodes died, {tally.oversold} slots oversold."
    )
    console.print("[green]The auditor found nothing.[/]" if good else "[red]Something is wrong, see above.[/]")
    if as_json:
        print(json.dumps(report))  # noqa: T201 - the last line is the contract
    return 0 if good else 1
