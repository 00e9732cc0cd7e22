"""What each door costs: requests and complete jobs per CPU-second of one server process.

Clients are bare sockets. What is counted is the server's CPU time, so that the clients, which share the machine, cost
nothing but time. Each figure is the median of several turns.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.nodes import Node
from bench.processes import cpu_us
from bench.raw import RawHttp, RawSocket
from bench.serving import hear, job, opened, registration, serving, submit, utterance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from bench.serving import Store

CALLERS: Final = 32
NODES: Final = 8
SLOTS: Final = 64
ROUNDS: Final = amount(5, 1)
#: Complete jobs, or requests, of one turn.
EACH_TURN: Final = amount(600, 40)
#: A client confirms so many results at a time: nobody speaks as fast as these, so as few are kept as usual.
CONFIRMED: Final = 16
_NUMBERS: Final = count()


async def livez(caller: RawHttp, _number: int) -> None:
    """Nothing but HTTP."""
    await caller.ask("GET", "/livez")


async def heartbeat(caller: RawHttp, number: int) -> None:
    """One flow."""
    await caller.post("/v1/node/heartbeat", {"node_id": f"http-{number % NODES}"})


async def http_job(caller: RawHttp, number: int) -> None:
    """A job of an HTTP node: dispatch, ack, done."""
    placed = json.loads((await caller.ask("POST", "/v1/dispatch/f2f", job(f"s{number % CALLERS}")))[1])
    attempt = {name: placed[name] for name in ("job_id", "attempt_id", "node_id")}
    await caller.post("/v1/job/ack", attempt)
    await caller.post("/v1/job/done", attempt | {"status": "ok", "result": {"text_translated": "b"}})


async def socket_job(caller: RawHttp, number: int) -> None:
    """A job over HTTP for a node on a socket, and its result."""
    await hear(caller, await submit(caller, job(f"s{number % CALLERS}")))


async def session_job(session: tuple[RawSocket, str], number: int) -> None:
    """An utterance on a session's socket, and its translation."""
    socket, session_id = session
    socket.write(utterance(session_id, number))
    while True:
        message = json.loads(await socket.read())
        if message["type"] == "translation_result":
            if message["event_id"] % CONFIRMED == 0:
                socket.write(json.dumps({"type": "event_ack", "last_event_id": message["event_id"]}).encode())
            return
        if message["type"] in {"error", "missing_result"}:
            raise RuntimeError(message)


async def measure(store: Store) -> dict[str, dict[str, float]]:
    """Per server-CPU-second: requests, and complete jobs."""
    found: dict[str, list[tuple[float, float]]] = {}
    with serving(store) as (pid, port):
        callers = [await RawHttp.connect(port) for _ in range(CALLERS)]

        async def timed(name: str, work: Callable[[Any, int], Awaitable[None]], by: Iterable[Any]) -> None:
            before, engine_before = cpu_us(pid), cpu_us(store.pid)
            await _turn(work, by)
            spent = (cpu_us(pid) - before) / EACH_TURN, (cpu_us(store.pid) - engine_before) / EACH_TURN
            found.setdefault(name, []).append(spent)

        for number in range(NODES):
            await callers[0].post("/v1/node/register", registration(f"http-{number}", SLOTS))
        for _ in range(ROUNDS):
            await timed("livez", livez, callers)
            await timed("heartbeat", heartbeat, callers)
            await timed("http_job", http_job, callers)
        for number in range(NODES):
            await callers[0].post("/v1/node/offline", {"node_id": f"http-{number}"})
        for number in range(NODES):
            await Node.join(port, f"ws-{number}", SLOTS)
        for _ in range(ROUNDS):
            await timed("socket_job", socket_job, callers)
        sessions = await opened(port, CALLERS)
        for _ in range(ROUNDS):
            await timed("session_job", session_job, sessions)
    return {name: _figures(samples) for name, samples in found.items()}


async def _turn(work: Callable[[Any, int], Awaitable[None]], by: Iterable[Any]) -> None:
    """So much work, by all of these side by side, each one after the other."""
    numbers = iter([next(_NUMBERS) for _ in range(EACH_TURN)])

    async def one(worker: Any) -> None:  # noqa: ANN401
        for number in numbers:
            await work(worker, number)

    await asyncio.gather(*(one(worker) for worker in by))


def _figures(samples: list[tuple[float, float]]) -> dict[str, float]:
    server = statistics.median(spent for spent, _ in samples)
    engine = statistics.median(spent for _, spent in samples)
    return {"per_cpu_second": round(1e6 / server), "server_us": round(server, 1), "engine_us": round(engine, 1)}
