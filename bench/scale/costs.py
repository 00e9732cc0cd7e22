"""What each thing costs the engine: CPU time by the kernel's count, and bytes. Measured on a plain Valkey, one by one.

Calls are made many at a time, as a busy instance makes them: those of a tick are folded.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.amounts import amount
from bench.fleet import CELL, at_once, cycle, enrol, finish, place
from bench.processes import cpu_us
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.flows.enter_session import enter_session
from lingua_scheduler.flows.erase_audio import erase_audio
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.register import register
from lingua_scheduler.flows.relay import relay
from lingua_scheduler.flows.release import release
from lingua_scheduler.flows.remember import remember
from lingua_scheduler.flows.save_session import save_session
from lingua_scheduler.flows.store_audio import store_audio
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.face import pack
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key, session_tag
from lingua_scheduler.views.audio import read_audio
from lingua_scheduler.views.job import read_job
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.servers import Server

NODES: Final = 1_000
NUMBER: Final = amount(4_096, 128)
IN_FLIGHT: Final = 64
#: So many instances look at cells at the same time.
LOOKERS: Final = 16
#: What is saved of a session that has a few answers on their way: ids and times, no text.
STATE: Final = bytes(800)
_TTL_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Of one of each: µs of the engine's CPU, or bytes of its memory."""

    heartbeat_us: float
    register_us: float
    #: A job from its dispatch to its end: four calls.
    job_us: float
    #: Its end is told: taken out of the outbox, and read.
    tell_us: float
    release_us: float
    enter_us: float
    save_us: float
    remember_us: float
    #: An utterance's audio is stored, read for its node, and erased.
    audio_us: float
    #: A look at a cell in which nothing has happened.
    idle_look_us: float
    node_bytes: float
    #: A job with its text, and one that was released.
    job_bytes: float
    released_job_bytes: float
    session_bytes: float


async def measure(audio_bytes: int) -> Costs:
    """All of them, with utterances of this size."""
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        try:
            rules = pack(Rules(cell_capacity=2 * NODES, stale_ms=10**9, offline_ms=2 * 10**9))
            async with await Engine.connect(server.url, "scale", rules) as engine:
                return await _Measurement(engine, server).all(audio_bytes)
        finally:
            server.stop()


class _Measurement:
    def __init__(self, engine: Engine, server: Server) -> None:
        self._engine = engine
        self._server = server
        self._next = 0

    def _name(self) -> str:
        self._next += 1
        return f"n{self._next}"

    async def _us(self, work: Callable[[], Awaitable[Any]], in_flight: int = IN_FLIGHT) -> float:
        """The CPU time of one, after a first few that nobody counts."""
        await at_once(work, in_flight, in_flight)
        before = cpu_us(self._server.pid)
        await at_once(work, NUMBER, in_flight)
        return (cpu_us(self._server.pid) - before) / NUMBER

    async def all(self, audio_bytes: int) -> Costs:
        engine = self._engine
        empty = await self._cell_bytes()
        await enrol(engine, NODES, slots=8)
        node_bytes = (await self._cell_bytes() - empty) / NODES
        heartbeat_us = await self._us(lambda: heartbeat(engine, CELL, f"node-{self._next % NODES}"))
        register_us = await self._us(self._register)
        idle_us = await self._idle()

        before = await self._cell_bytes()
        job_us = await self._us(lambda: cycle(engine))
        tell_us = await self._tell()
        made = NUMBER + IN_FLIGHT
        job_bytes = (await self._cell_bytes() - before) / made
        release_us, released_bytes = await self._release()

        enter_us = await self._us(self._enter)
        save_us = await self._us(self._save)
        remember_us = await self._us(lambda: remember(engine, self._name(), "node-1", utterance_index=1))
        audio = bytes(audio_bytes)
        return Costs(
            heartbeat_us=heartbeat_us,
            register_us=register_us,
            job_us=job_us,
            tell_us=tell_us,
            release_us=release_us,
            enter_us=enter_us,
            save_us=save_us,
            remember_us=remember_us,
            audio_us=await self._us(lambda: self._audio(audio), 8),
            idle_look_us=idle_us,
            node_bytes=node_bytes,
            job_bytes=job_bytes,
            released_job_bytes=released_bytes,
            session_bytes=await self._session_bytes(),
        )

    async def _idle(self) -> float:
        """An instance looks at one cell after the other, so nothing is folded; but several look at the same time."""

        async def look() -> None:
            cell = f"idle{self._next % LOOKERS}"
            self._next += 1
            await (reap(self._engine, cell) if self._next % 8 == 0 else relay(self._engine, cell, [], 32))

        return await self._us(look, LOOKERS)

    async def _register(self) -> None:
        number = self._next % NODES
        self._next += 1
        said = {"semantic_langs": ["en", "zh"], "labels": {"kind": str(number % 8)}, "max_concurrent_jobs": 8}
        await register(self._engine, CELL, f"node-{number}", **said)  # type: ignore[arg-type]  # of many kinds

    async def _enter(self) -> None:
        await enter_session(
            self._engine, self._name(), "me", utterance_index=None, rate=10_000, burst=10_000, ttl_ms=_TTL_MS
        )

    async def _save(self) -> None:
        await save_session(self._engine, f"s{self._name()}", "here.1", STATE, _TTL_MS, principal="me", create=True)

    async def _audio(self, audio: bytes) -> None:
        ref = self._name()
        await store_audio(self._engine, ref, audio, owner="me", media="pcm16", ttl_ms=_TTL_MS)
        await read_audio(self._engine, ref)
        await erase_audio(self._engine, ref)

    async def _tell(self) -> float:
        """What the relayer takes, and what whoever waits reads of it."""
        before, told = cpu_us(self._server.pid), 0
        taken = await relay(self._engine, CELL, [], 32)
        while events := getattr(taken, "events", []):
            await asyncio.gather(*(read_job(self._engine, event.job) for event in events))
            told += len(events)
            taken = await relay(self._engine, CELL, events, 32)
        return (cpu_us(self._server.pid) - before) / told

    async def _release(self) -> tuple[float, float]:
        """What it costs that the client has a result, and how much is left of the job."""
        before = await self._cell_bytes()
        jobs = await asyncio.gather(*(place(self._engine) for _ in range(NUMBER // 2)))
        await asyncio.gather(*(finish(self._engine, *job) for job in jobs))
        spent = cpu_us(self._server.pid)
        await asyncio.gather(*(release(self._engine, job_id) for job_id, _ in jobs))
        spent = cpu_us(self._server.pid) - spent
        await self._tell()
        return spent / len(jobs), (await self._cell_bytes() - before) / len(jobs)

    async def _cell_bytes(self) -> int:
        keys = [cell_key(self._engine.prefix, CELL, name) for name in CELL_KEY_NAMES]
        sizes = await asyncio.gather(*(self._engine.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys))
        return sum(size or 0 for size in sizes)

    async def _session_bytes(self) -> float:
        """One that has said something: its state, its numbers, where its last jobs went."""
        await save_session(self._engine, "whole", "here.1", STATE, _TTL_MS, principal="me", create=True)
        await enter_session(
            self._engine, "whole", "me", utterance_index=None, rate=10_000, burst=10_000, ttl_ms=_TTL_MS
        )
        await remember(self._engine, "whole", "node-1", utterance_index=0)
        keys = [cell_key(self._engine.prefix, session_tag("whole"), name) for name in ("session", "entry", "memory")]
        sizes = await asyncio.gather(*(self._engine.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys))
        return float(sum(size or 0 for size in sizes))
