"""The contest: complete jobs beside what users would otherwise take, on the same Valkey, round by round in one run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import uvloop

from bench.figures import Rounds, least_ratio, median, percentile, ratio, rounded, rounds_won
from bench.ours import WAYS, one_round
from bench.parts import last_words
from bench.peers.environment import NotHere, environment, nats_server, python
from bench.processes import end
from bench.serving import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.serving import Store

PEERS: Final = ("arq", "saq", "taskiq", "huey", "dramatiq", "celery")
#: Not a queue: nothing is kept, nobody is chosen. It shows what is possible.
REFERENCE: Final = "nats"
OURS: Final = "lingua"
ROUNDS: Final = 5
#: Jobs on their way, for everybody; how long jobs are begun; and then jobs at a steady rate.
IN_FLIGHT: Final = 256
SECONDS: Final = 1.5
STROKES: Final = 250
RATE: Final = 50
#: A peer that takes longer for one round is left out of it.
PATIENCE_S: Final = 45
PERCENTS: Final = (50, 90, 99)

#: What one round told of one contestant; None if it did not come through.
Round = dict[str, Any] | None


def run(store: Store, say: Callable[[str], None]) -> dict[str, list[Round]]:
    """Every contestant in every round, each time another one first."""
    here = [OURS, *(name for name in (*PEERS, REFERENCE) if _is_here(name, say))]
    found: dict[str, list[Round]] = {name: [] for name in here}
    for number in range(ROUNDS):
        first = number % len(here)
        for name in here[first:] + here[:first]:
            say(f"round {number + 1} of {ROUNDS}: {name}")
            store.flush()
            found[name].append(_one(name, store, say))
    return {name: rounds for name, rounds in found.items() if any(rounds)}


def _is_here(name: str, say: Callable[[str], None]) -> bool:
    try:
        environment(name)
        if name == REFERENCE:
            nats_server()
    except NotHere as absent:
        say(f"{name} is left out: {absent}")
        return False
    return True


def _one(name: str, store: Store, say: Callable[[str], None]) -> Round:
    try:
        if name == OURS:
            turn = one_round(store, in_flight=IN_FLIGHT, seconds=SECONDS, strokes=STROKES, rate=RATE)
            return uvloop.run(asyncio.wait_for(turn, PATIENCE_S))
        if name == REFERENCE:
            with _nats() as (url, pid):
                return _peer(name, url, pid)
        return _peer(name, store.url, store.pid)
    except (RuntimeError, OSError) as broken:
        say(f"{name} did not come through: {last_words(broken)}")
        return None


def _peer(name: str, url: str, engine: int) -> Round:
    """One round of a peer, in a process of its own with all that it starts."""
    command = [python(), "-m", "bench.peers.race", name, "--store", url, "--engine", str(engine)]
    command += [
        "--in-flight",
        str(IN_FLIGHT),
        "--seconds",
        str(SECONDS),
        "--strokes",
        str(STROKES),
        "--rate",
        str(RATE),
    ]
    with subprocess.Popen(
        command, env=environment(name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            said, complaints = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"not done in {PATIENCE_S} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RuntimeError(complaints.decode() or f"it ended with {process.returncode}")
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    return told


@contextmanager
def _nats() -> Iterator[tuple[str, int]]:
    port = free_port()
    with subprocess.Popen([nats_server(), "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL) as server:
        try:
            yield f"nats://127.0.0.1:{port}", server.pid
        finally:
            end(server)


def figures(found: dict[str, list[Round]]) -> dict[str, Any]:
    """What is told of a contest."""
    ours = found.get(OURS, [])
    ways = {way: [None if told is None else told[way] for told in ours] for way in WAYS}
    speeds = {way: _speeds(rounds) for way, rounds in ways.items()}
    way = max(WAYS, key=lambda way: median(speeds[way]) or 0)
    peers = {name: found.get(name, []) for name in PEERS}
    scheduler_us = _cpu(ways[way]).get("scheduler")
    return {
        "jobs_per_s": rounded(median(speeds[way]), 0),
        "jobs_per_s_by_way": {name: rounded(median(values), 0) for name, values in speeds.items()},
        "jobs_per_scheduler_cpu_s": rounded(1e6 / scheduler_us, 0) if scheduler_us else None,
        "cpu_us_per_job": {name: _cpu(rounds) for name, rounds in ways.items()},
        "peers": {name: _told(rounds) for name, rounds in peers.items() if rounds},
        "nats": _told(found[REFERENCE]) if REFERENCE in found else None,
        "vs_best_peer_ratio": rounded(least_ratio(speeds[way], {name: _speeds(told) for name, told in peers.items()})),
        "vs_arq_ratio": rounded(ratio(speeds[way], _speeds(peers["arq"]))),
        "vs_nats_ratio": rounded(ratio(speeds[way], _speeds(found.get(REFERENCE, []))), 3),
        "latency_ms": {f"p{percent}": rounded(median(_percentiles(ours, percent))) for percent in PERCENTS},
        "latency_rounds_won": rounds_won(_lows(ours), {name: _lows(told) for name, told in peers.items()}),
        "latency_rounds": ROUNDS,
    }


def _told(rounds: list[Round]) -> dict[str, Any]:
    lows = {f"p{percent}_ms": rounded(median(_percentiles(rounds, percent))) for percent in PERCENTS}
    version = next(told["version"] for told in rounds if told is not None)
    return {"jobs_per_s": rounded(median(_speeds(rounds)), 0), **lows, "version": version, "cpu_us": _cpu(rounds)}


def _speeds(rounds: list[Round]) -> Rounds:
    return [None if told is None else told["jobs_per_s"] for told in rounds]


def _percentiles(rounds: list[Round], percent: int) -> Rounds:
    return [None if told is None else percentile(told["latencies_ms"], percent) for told in rounds]


def _lows(rounds: list[Round]) -> list[Rounds]:
    """What must be lower than everybody's for a round to be won."""
    return [_percentiles(rounds, percent) for percent in (50, 90)]


def _cpu(rounds: list[Round]) -> dict[str, float | None]:
    """µs of CPU time of each process for one job."""
    known = [told["cpu_us"] for told in rounds if told is not None]
    return {process: rounded(median(spent[process] for spent in known), 0) for process in (known[0] if known else ())}
