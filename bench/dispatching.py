"""A dispatch, complete with its delivery to the node's socket, beside a plain FastAPI handler for the same script.

The handler (`bench/peers/with_fastapi.py`) validates, asks the engine by redis-py and answers; it delivers nothing.
Both are asked by the same kind of callers, in turns, and what counts is the CPU time of the server process.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from bench.figures import median, ratio, rounded
from bench.fleet import CELL, enrol
from bench.nodes import Node, all_heard
from bench.peers.environment import environment, python
from bench.processes import cpu_us, end
from bench.raw import RawHttp
from bench.serving import free_port, hear, job, serving, submit
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.ticket import make_ticket
from lingua_scheduler.core.wanted import NO_HINTS, USUAL_WANTED
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.scripts import script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from bench.serving import Store

A = TypeVar("A")
B = TypeVar("B")

ROUNDS: Final = 5
EACH_TURN: Final = 1_000
CALLERS: Final = 32
NODES: Final = 8
#: A turn's jobs are with their nodes all at once.
SLOTS: Final = 1_024
#: Nobody beats for the handler's nodes, and its jobs go on for ever: it only dispatches.
_RULES: Final = msgspec.msgpack.encode(Rules(stale_ms=10**9, offline_ms=2 * 10**9))
_DAY_MS: Final = 86_400_000
_PREFIX: Final = "fastapi"
_PATIENCE_S: Final = 30


async def measure(store: Store) -> dict[str, Any]:
    """Dispatches per server-CPU-second, ours and the handler's, and the ratio of the two."""
    server_us: dict[str, list[float]] = {"ours": [], "fastapi": []}
    engine_us: dict[str, list[float]] = {"ours": [], "fastapi": []}

    def note(name: str, spent: tuple[float, float]) -> None:
        for samples, us in zip((server_us, engine_us), spent, strict=True):
            samples[name].append(us)

    with serving(store) as (pid, port), _handling(store) as (handler_pid, handler_port):
        nodes = [await Node.join(port, f"node-{number}", SLOTS) for number in range(NODES)]
        ours, theirs = await _callers(port), await _callers(handler_port)
        await _enrol(store)
        for number in range(ROUNDS + 1):
            mine = await _ours(ours, nodes, pid, store.pid)
            handlers = await _theirs(theirs, handler_pid, store.pid)
            if number:  # the first turn warms up
                note("ours", mine)
                note("fastapi", handlers)
    us, them = median(server_us["ours"]), median(server_us["fastapi"])
    return {
        "dispatch_req_per_server_cpu_s": rounded(1e6 / us, 0) if us else None,
        "vs_fastapi_ratio": rounded(ratio(server_us["fastapi"], server_us["ours"])),
        "fastapi_req_per_server_cpu_s": rounded(1e6 / them, 0) if them else None,
        "dispatch_cpu_us": {
            name: {"server": rounded(median(server_us[name]), 0), "engine": rounded(median(engine_us[name]), 0)}
            for name in server_us
        },
    }


async def _ours(callers: list[RawHttp], nodes: list[Node], pid: int, engine: int) -> tuple[float, float]:
    """A turn of ours: until every job is with its node. Then, unmeasured, the nodes do them."""
    for node in nodes:
        node.hold()
    before, heard = (cpu_us(pid), cpu_us(engine)), sum(node.heard for node in nodes)
    placed = await _dispatch(callers)
    await all_heard(nodes, heard + EACH_TURN)
    spent = (cpu_us(pid) - before[0]) / EACH_TURN, (cpu_us(engine) - before[1]) / EACH_TURN
    for node in nodes:
        node.let_go()
    await _side_by_side(callers, placed, hear)
    return spent


async def _theirs(callers: list[RawHttp], pid: int, engine: int) -> tuple[float, float]:
    """A turn of the handler: until every caller has his answer."""
    before = cpu_us(pid), cpu_us(engine)
    await _dispatch(callers)
    return (cpu_us(pid) - before[0]) / EACH_TURN, (cpu_us(engine) - before[1]) / EACH_TURN


async def _dispatch(callers: list[RawHttp]) -> list[str]:
    """The jobs of a turn."""
    return await _side_by_side(callers, [job(f"s{number % CALLERS}") for number in range(EACH_TURN)], submit)


async def _side_by_side(
    callers: list[RawHttp], items: Iterable[A], ask: Callable[[RawHttp, A], Awaitable[B]]
) -> list[B]:
    """All callers ask, each for one item after the other, until there are no more."""
    left, answers = iter(items), []

    async def one(caller: RawHttp) -> None:
        for item in left:
            answers.append(await ask(caller, item))  # noqa: PERF401 - what others append is between

    await asyncio.gather(*(one(caller) for caller in callers))
    return answers


async def _callers(port: int) -> list[RawHttp]:
    return [await RawHttp.connect(port) for _ in range(CALLERS)]


async def _enrol(store: Store) -> None:
    """As many nodes for the handler, under a prefix of its own."""
    engine = await Engine.connect(store.url, _PREFIX, _RULES)
    await enrol(engine, NODES, SLOTS)
    await engine.close()


@contextmanager
def _handling(store: Store) -> Iterator[tuple[int, int]]:
    """The handler under uvicorn, with uvloop and httptools: its pid and its port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "script.json"
        told.write_text(json.dumps(_script()), encoding="utf-8")
        command = [python(), "-m", "uvicorn", "bench.peers.with_fastapi:app", "--port", str(port), "--no-access-log"]
        command += ["--loop", "uvloop", "--http", "httptools", "--log-level", "warning"]
        known = environment("fastapi") | {"PEER_STORE": store.url, "PEER_SCRIPT": str(told)}
        with subprocess.Popen(command, env=known, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                _await_listening(process, port)
                yield process.pid, port
            finally:
                end(process)


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise RuntimeError("the FastAPI handler did not start")


def _script() -> dict[str, Any]:
    """What the handler must know of the script: its source, its keys, the rules, and a ticket to copy."""
    dispatch = script("flows/dispatch")
    limits = Limits(timeout_ms=_DAY_MS, ack_ms=_DAY_MS, run_ms=_DAY_MS)
    _, ticket = make_ticket("", "s", "en", "zh", limits=limits, wanted=USUAL_WANTED, hints=NO_HINTS)
    return {
        "source": dispatch.source,
        "keys": [cell_key(_PREFIX, CELL, name) for name in dispatch.keys],
        "rules": _RULES.hex(),
        "cell": CELL,
        "ticket": msgspec.to_builtins(ticket),
    }
