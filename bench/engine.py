"""The figures of the state engine: `./dev bench engine [--json]`. Under five minutes on two cores.

Machines are shared and noisy, so every figure that is held against a bound is a ratio of things measured in turns
in the same run, the median of several. The server is a plain valkey-server on a Unix socket without persistence.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from rich.table import Table

from bench.amounts import amount
from bench.fleet import CELL, PATIENT, at_once, cycle, enrol, finish, four_noops, place, submit, wait
from bench.parts import run_bench
from bench.processes import cpu_us
from bench.redis_py import RedisPyEngine
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.views.cell import read_cell
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from rich.console import Console

    from lingua_scheduler.flows.dispatch import Placed
    from tests.support.servers import Server

#: Nobody beats here, and a fleet that fell silent half-way would measure something else.
RULES: Final = Rules(cell_capacity=20_000, stale_ms=10**9, offline_ms=2 * 10**9)
PACKED: Final = msgspec.msgpack.encode(RULES)
SIZES: Final = (10, 100, 1_000, amount(10_000, 1_001))
ROUNDS: Final = amount(7, 1)
#: Jobs in flight while dispatches are timed, whatever the size of the fleet; ten nodes must be able to hold them.
IN_FLIGHT: Final = 64
RETENTION_JOBS: Final = amount(100_000, 500)
PORTION: Final = RETENTION_JOBS // 5
CYCLES: Final = amount(3_200, 64)
CLIENT_CYCLES: Final = amount(1_280, 64)

#: What the run is held against; see docs/invariants.md for what is held without a bound.
BOUNDS: Final = {
    "dispatch_growth": 1.6,
    "dispatch_ratio": 2.5,
    "one_by_one": 8.0,
    "saved_by_batches": 0.9,
    "client_vs_redis_py": 0.25,
}


async def script_us(engine: Engine) -> float:
    """The engine's own count of the time that scripts took since the last reset."""
    stats = (await engine.command("INFO", "commandstats")).decode()
    return sum(float(line.split("usec=")[1].split(",")[0]) for line in stats.splitlines() if "evalsha" in line)


async def bench_dispatch(server: Server) -> tuple[dict[str, float], float]:
    """Server-side µs per dispatch at each size of fleet, and the paired growth from the smallest to the largest."""
    engines = {}
    for size in SIZES:
        engines[size] = await Engine.connect(server.url, f"size{size}", PACKED, max_batch=1)
        await enrol(engines[size], size, slots=16)
    samples: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size, engine in engines.items():
            samples[size].append(await _dispatch_us(engine))
    for engine in engines.values():
        await engine.close()
    growth = statistics.median(big / small for small, big in zip(samples[SIZES[0]], samples[SIZES[-1]], strict=True))
    return {str(size): statistics.median(values) for size, values in samples.items()}, growth


async def bench_ratio(server: Server) -> tuple[dict[str, float], float]:
    """A dispatch with more to it beside a plain one, in turns; and a result while others wait beside one without."""
    plain = await Engine.connect(server.url, "plain", PACKED, max_batch=1)
    crowded = await Engine.connect(server.url, "crowded", PACKED, max_batch=1)
    for engine in (plain, crowded):
        await enrol(engine, 100, slots=16)
    some = Wanted(exclude_node_ids=[f"node-{n}" for n in range(8)])
    kinds: dict[str, tuple[Engine, Callable[[Engine], Awaitable[tuple[str, Placed]]]]] = {
        "plain": (plain, place),
        "request_id": (plain, submit),
        "excluded_8": (plain, lambda engine: place(engine, some)),
        "waiting_100": (crowded, place),
    }
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    ends: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for engine, number in ((plain, 0), (crowded, 100)):
            await _forget_waiting(engine)
            await wait(engine, number)
        for name, (engine, work) in kinds.items():
            samples[name].append(await _dispatch_us(engine, work, ends[name]))
    for engine in (plain, crowded):
        await engine.close()

    def ratio(of: dict[str, list[float]], name: str) -> float:
        return round(statistics.median(a / b for a, b in zip(of[name], of["plain"], strict=True)), 2)

    return {name: ratio(samples, name) for name in kinds if name != "plain"}, ratio(ends, "waiting_100")


async def _forget_waiting(engine: Engine) -> None:
    """Nobody waits any more: those of the last round are cancelled before their time is up."""
    cell = await read_cell(engine, CELL)
    for job_id, ticket in () if isinstance(cell, Refusal) else cell.tickets.items():
        if ticket.session == PATIENT:
            await cancel(engine, job_id)
    await leave(engine, CELL, "full")


async def _dispatch_us(
    engine: Engine, work: Callable[[Engine], Awaitable[tuple[str, Placed]]] = place, ends: list[float] | None = None
) -> float:
    total, ended, number = 0.0, 0.0, 0
    for _ in range(12):
        await engine.command("CONFIG", "RESETSTAT")
        jobs = await asyncio.gather(*(work(engine) for _ in range(IN_FLIGHT)))
        total += await script_us(engine)
        number += len(jobs)
        await engine.command("CONFIG", "RESETSTAT")
        await asyncio.gather(*(finish(engine, job_id, placed) for job_id, placed in jobs))
        ended += await script_us(engine)
    if ends is not None:
        ends.append(ended / number)
    return total / number


async def bench_cycle(server: Server) -> dict[str, list[float]]:
    """Server CPU per cycle, one by one and in batches, and of as many calls that do nothing: µs, a sample a round."""
    number = CYCLES
    engines = {size: await Engine.connect(server.url, f"cycle{size}", PACKED, max_batch=size) for size in (1, 32)}
    for engine in engines.values():
        await enrol(engine, 100, slots=8)
    samples: dict[str, list[float]] = {"noop": [], "1": [], "32": []}
    for warm_up in (True, *(False,) * ROUNDS):
        for name, engine, work in (
            ("noop", engines[1], four_noops),
            ("1", engines[1], cycle),
            ("32", engines[32], cycle),
        ):
            before = cpu_us(server.pid)
            await at_once(lambda work=work, engine=engine: work(engine), number, 32)  # type: ignore[misc]
            if not warm_up:
                samples[name].append((cpu_us(server.pid) - before) / number)
    for engine in engines.values():
        await engine.close()
    return samples


async def bench_client(server: Server) -> tuple[float, float]:
    """Client CPU per cycle in µs, and as a share of what redis-py's pool needs for the same."""
    number, in_flight = CLIENT_CYCLES, 64
    ours = await Engine.connect(server.url, "client", PACKED)
    theirs = RedisPyEngine(server.path, "client", PACKED, in_flight)
    await enrol(ours, 100, slots=8)
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for warm_up in (True, *(False,) * ROUNDS):
        for name, engine in (("ours", ours), ("theirs", cast("Engine", theirs))):
            before = time.process_time()
            await at_once(lambda engine=engine: cycle(engine), number, in_flight)  # type: ignore[misc]
            if not warm_up:
                spent[name].append((time.process_time() - before) * 1e6 / number)
    await ours.close()
    await theirs.close()
    share = statistics.median(our / their for our, their in zip(spent["ours"], spent["theirs"], strict=True))
    return statistics.median(spent["ours"]), share


async def bench_memory(server: Server) -> dict[str, Any]:
    """Bytes per node and per finished job; and after retention nothing is left of 100 000 jobs."""
    offset_ms = 0
    engine = await Engine.connect(server.url, "memory", PACKED, clock=lambda: int(time.time() * 1000) + offset_ms)
    await enrol(engine, 1, slots=8)
    await at_once(lambda: cycle(engine), 64, 8)
    await _forget_jobs(engine)
    empty = await _memory(engine)
    await enrol(engine, 1_001, slots=8)
    fleet, keys_before = await _memory(engine), await _keys(engine)
    done = 0
    bytes_per_job: list[int] = []
    async for portion in _portions(RETENTION_JOBS, PORTION):
        await at_once(lambda: cycle(engine), portion, 64)
        await _relay_all(engine)
        done += portion
        bytes_per_job.append(round(((await _memory(engine)) - fleet) / done))
    keys_full = await _keys(engine)
    offset_ms = RULES.job_record_ttl_ms + 1_000
    await _forget_jobs(engine)
    after = await _memory(engine)
    keys_after = await _keys(engine)
    for n in range(1_001):
        await leave(engine, CELL, f"node-{n}")
    keys_empty = await _keys(engine)
    await engine.close()
    return {
        "bytes_per_node": round((fleet - empty) / 1_000),
        "bytes_per_job": bytes_per_job[-1],
        "bytes_per_job_by_portion": bytes_per_job,
        "retention_jobs": RETENTION_JOBS,
        "retention_bytes_left": after - fleet,
        "retention_keys": {
            "before": keys_before,
            "full": keys_full,
            "after_retention": keys_after,
            "after_the_fleet_left": keys_empty,
        },
    }


async def _portions(total: int, each: int) -> AsyncIterator[int]:
    for _ in range(total // each):
        yield each


async def _memory(engine: Engine) -> int:
    """What the cell's own keys take, to the byte; the server's total also has buffers and caches in it."""
    sizes = [
        await engine.command("MEMORY", "USAGE", cell_key(engine.prefix, CELL, name), "SAMPLES", 0)
        for name in CELL_KEY_NAMES
    ]
    return sum(size or 0 for size in sizes)


async def _keys(engine: Engine) -> int:
    return int(await engine.command("EXISTS", *(cell_key(engine.prefix, CELL, name) for name in CELL_KEY_NAMES)))


async def _relay_all(engine: Engine) -> None:
    handed_over: list[Any] = []
    while True:
        taken = await relay(engine, CELL, handed_over, limit=1_000)
        if isinstance(taken, Refusal) or not taken.events:
            return
        handed_over = taken.events


async def _forget_jobs(engine: Engine) -> None:
    await _relay_all(engine)
    while True:
        settled = await reap(engine, CELL, 1_000)
        if isinstance(settled, Refusal) or not settled.more:
            return


def judge(figures: dict[str, Any], _parts: Sequence[str]) -> list[str]:
    """The bounds that were missed, in words."""
    cycle_us = figures["server_us_per_cycle"]
    missed = []
    if figures["dispatch_growth"] > BOUNDS["dispatch_growth"]:
        missed.append(f"dispatch grows {figures['dispatch_growth']} × from 10 to 10 000 nodes")
    for name, ratio in figures["dispatch_ratio"].items():
        if ratio > BOUNDS["dispatch_ratio"]:
            missed.append(f"a dispatch with {name} costs {ratio} × a plain one")
    if figures["one_by_one_vs_noop"] > BOUNDS["one_by_one"]:
        missed.append(f"a cycle one by one costs {figures['one_by_one_vs_noop']} × noop ({cycle_us})")
    if figures["saved_by_batches_vs_noop"] < BOUNDS["saved_by_batches"]:
        missed.append(f"batches of 32 save only {figures['saved_by_batches_vs_noop']} × noop ({cycle_us})")
    if figures["client_vs_redis_py"] > BOUNDS["client_vs_redis_py"]:
        missed.append(f"the client needs {figures['client_vs_redis_py']} of redis-py's CPU")
    if abs(figures["retention_bytes_left"]) > figures["bytes_per_job"] * RETENTION_JOBS * 0.02:
        missed.append(f"{figures['retention_bytes_left']} bytes stay after retention")
    keys = figures["retention_keys"]
    if keys["after_retention"] > keys["before"] or keys["after_the_fleet_left"] != 1:
        missed.append(f"keys stay: {keys}")
    return missed


async def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """All figures, one bench after the other."""
    with tempfile.TemporaryDirectory() as directory:
        server = start_server(Path(directory))
        try:
            say("dispatch at four sizes of fleet")
            dispatch_us, growth = await bench_dispatch(server)
            say("a dispatch with more to it")
            ratios, end_ratio = await bench_ratio(server)
            say("server CPU per cycle")
            cycles = await bench_cycle(server)
            say("client CPU per cycle, beside redis-py")
            client_us, share = await bench_client(server)
            say(f"memory, and {RETENTION_JOBS} jobs until they are forgotten")
            memory = await bench_memory(server)
        finally:
            server.stop()
    pairs = list(zip(cycles["noop"], cycles["1"], cycles["32"], strict=True))
    return {
        "dispatch_us": {size: round(value, 1) for size, value in dispatch_us.items()},
        "dispatch_growth": round(growth, 2),
        "dispatch_ratio": ratios,
        "done_ratio": {"waiting_100": end_ratio},
        "server_us_per_cycle": {name: round(statistics.median(values), 1) for name, values in cycles.items()},
        "one_by_one_vs_noop": round(statistics.median(one / noop for noop, one, _ in pairs), 2),
        "saved_by_batches_vs_noop": round(statistics.median((one - many) / noop for noop, one, many in pairs), 2),
        "client_us_per_cycle": round(client_us, 1),
        "client_vs_redis_py": round(share, 3),
        "cycle_jobs_per_client_cpu_s": round(1e6 / client_us),
        **memory,
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """A table for people."""
    table = Table("figure", "value", "bound")
    for size, value in figures["dispatch_us"].items():
        table.add_row(f"dispatch, {int(size):,} nodes, 8 groups", f"{value} µs of server time", "")
    table.add_row("dispatch, 10 000 beside 10 nodes", f"{figures['dispatch_growth']} ×", "≤ 1.6")
    for name, value in figures["dispatch_ratio"].items():
        label = {
            "request_id": "with a request id",
            "excluded_8": "without 8 nodes",
            "waiting_100": "while 100 others wait",
        }[name]
        table.add_row(f"dispatch {label}, beside plain", f"{value} ×", "≤ 2.5")
    table.add_row("result while 100 others wait, beside none", f"{figures['done_ratio']['waiting_100']} ×", "")
    for name, value in figures["server_us_per_cycle"].items():
        label = {"noop": "four calls that do nothing", "1": "cycle, one by one", "32": "cycle, in batches of 32"}[name]
        table.add_row(label, f"{value} µs of server CPU", "")
    table.add_row("cycle one by one beside noop", f"{figures['one_by_one_vs_noop']} ×", "≤ 8")
    table.add_row("saved by batches, beside noop", f"{figures['saved_by_batches_vs_noop']} ×", "≥ 0.9")
    table.add_row("cycle", f"{figures['client_us_per_cycle']} µs of client CPU", "")
    table.add_row("client beside redis-py's pool", f"{figures['client_vs_redis_py']} ×", "≤ 0.25")
    table.add_row("cycles per client-CPU-second", f"{figures['cycle_jobs_per_client_cpu_s']:,}", "aim: 10 000")
    table.add_row("a registered node", f"{figures['bytes_per_node']} bytes", "")
    table.add_row("a finished job", f"{figures['bytes_per_job']} bytes", "")
    table.add_row(
        f"left of {RETENTION_JOBS:,} jobs after retention", f"{figures['retention_bytes_left']} bytes", "flat"
    )
    table.add_row("keys before, full, after retention, empty", str(list(figures["retention_keys"].values())), "… 1")
    console.print(table)


def main() -> int:
    """Measure, show, judge."""
    about = "The figures of the state engine."
    return run_bench("engine", about, lambda _, say: asyncio.run(measure(say)), show, judge)


if __name__ == "__main__":
    sys.exit(main())
