"""Our round of the contest: complete jobs through one `lingua serve`, and how long a job takes to its node.

A complete job is submitted, written to its node's socket, acknowledged, done, and its submitter hears of the result.
It is submitted in two ways: over HTTP (one request, whose answer waits for the end), and as an utterance in a session.
Submitters and nodes are bare sockets, all in this one process.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bench.nodes import Node, all_heard
from bench.processes import cpu_us
from bench.raw import RawHttp
from bench.serving import hear, job, opened, serving, submit, submit_and_hear, utterance

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.raw import RawSocket
    from bench.serving import Store

WAYS: Final = ("http", "session")
_NODES: Final = 8
_SLOTS: Final = 64
_SESSIONS: Final = 32
#: For so long nobody measures: connections open, code is loaded.
_WARM_UP_S: Final = 0.3
#: A client confirms so many results at a time.
_CONFIRMED: Final = 16


class _Told(msgspec.Struct):
    type: str
    event_id: int = 0


_read_told: Final = msgspec.json.Decoder(_Told).decode


async def one_round(store: Store, *, in_flight: int, seconds: float, strokes: int, rate: int) -> dict[str, Any]:
    """Jobs per second in both ways, what a job cost each process in µs of CPU time, and how long jobs took to nodes."""
    found: dict[str, Any] = {}
    with serving(store) as (pid, port):
        nodes = [await Node.join(port, f"node-{number}", _SLOTS, careful=True) for number in range(_NODES)]
        callers = [await RawHttp.connect(port) for _ in range(in_flight)]
        speakers = [Speaker(*session) for session in await opened(port, _SESSIONS)]

        async def by_http(for_s: float) -> int:
            return await _over_http(callers, for_s)

        async def by_sessions(for_s: float) -> int:
            return sum(await asyncio.gather(*(one.speak(for_s, in_flight // _SESSIONS) for one in speakers)))

        for way, work in zip(WAYS, (by_http, by_sessions), strict=True):
            await work(_WARM_UP_S)
            found[way] = await _timed(work, seconds, pid, store.pid)
        found["latencies_ms"] = await _latencies_ms(callers[0], nodes, strokes, rate)
    return found


async def _timed(work: Callable[[float], Awaitable[int]], seconds: float, pid: int, engine: int) -> dict[str, Any]:
    begun, spent = time.monotonic(), (cpu_us(pid), time.process_time() * 1e6, cpu_us(engine))
    number = await work(seconds)
    took_s, now = time.monotonic() - begun, (cpu_us(pid), time.process_time() * 1e6, cpu_us(engine))
    scheduler, client, engine_us = ((after - before) / number for before, after in zip(spent, now, strict=True))
    return {
        "jobs_per_s": number / took_s,
        "cpu_us": {"scheduler": scheduler, "client": client, "engine": engine_us},
    }


async def _over_http(callers: list[RawHttp], seconds: float) -> int:
    """Each caller one job after the other, as many as can be begun in so many seconds."""
    until = time.monotonic() + seconds

    async def one(caller: RawHttp, session: str) -> int:
        heard, said = 0, job(session)
        while time.monotonic() < until:
            await submit_and_hear(caller, said)
            heard += 1
        return heard

    return sum(await asyncio.gather(*(one(caller, f"s{place % _SESSIONS}") for place, caller in enumerate(callers))))


class Speaker:
    """A session that has so many utterances on their way, and says the next when it has heard of one."""

    def __init__(self, socket: RawSocket, session_id: str) -> None:
        self._socket = socket
        self._session_id = session_id
        self._next = 0
        self._heard = 0
        self._open = 0
        self._until = 0.0
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        socket.serve(self._hear)

    async def speak(self, seconds: float, in_flight: int) -> int:
        """As many utterances as can be begun in so many seconds: how many were heard of."""
        self._until, self._heard, self._over = time.monotonic() + seconds, 0, asyncio.get_running_loop().create_future()
        for _ in range(in_flight):
            self._say()
        return await self._over

    def _say(self) -> None:
        self._socket.write(utterance(self._session_id, self._next))
        self._next += 1
        self._open += 1

    def _hear(self, message: bytes) -> None:
        told = _read_told(message)
        if told.type == "translation_result":
            self._result(told.event_id)
        elif told.type in {"error", "missing_result"} and not self._over.done():
            self._over.set_exception(RuntimeError(message.decode()))

    def _result(self, event_id: int) -> None:
        self._heard += 1
        self._open -= 1
        if event_id % _CONFIRMED == 0:
            self._socket.write(b'{"type":"event_ack","last_event_id":%d}' % event_id)
        if time.monotonic() < self._until:
            self._say()
        elif not self._open and not self._over.done():
            self._over.set_result(self._heard)


async def _latencies_ms(caller: RawHttp, nodes: list[Node], number: int, rate: int) -> list[float]:
    """So many jobs, one at each stroke of a steady clock: how long each took to its node. All of them must end."""
    before, begun = sum(node.heard for node in nodes), time.monotonic()
    placed = []
    for stroke in range(number):
        await asyncio.sleep(max(0.0, begun + stroke / rate - time.monotonic()))
        placed.append(await submit(caller, job("s0", time.monotonic())))
    await all_heard(nodes, before + number)
    for job_id in placed:
        await hear(caller, job_id)
    return [took for node in nodes for took in node.latencies_ms]
