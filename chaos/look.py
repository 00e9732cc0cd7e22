"""Looks into the engine, past every proxy: the auditor while things go wrong, and what is left when all is over."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.config import load
from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.job_state import ENDS
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.loops.undertaker import strike_out
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import DIRECTORY, cell_key
from lingua_scheduler.views.audit import audit, audit_whole
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.dead_letters import read_dead_letters
from lingua_scheduler.views.fleet import read_fleet
from lingua_scheduler.views.instance import read_instance
from lingua_scheduler.views.instances import read_directory
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.nodes import read_nodes
from lingua_scheduler.views.routes import read_routes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chaos.history import Pen
    from chaos.scale import Scale
    from lingua_scheduler.core.cell import Ledger

#: Every fleet has this one.
FIRST: Final = "c0"
_LOOK_S: Final = 1.0
#: The whole of a cell with many thousand ended jobs is one answer.
_PATIENCE_MS: Final = 60_000
#: By the last of these everything that is only remembered has been forgotten. In steps: a fleet that falls silent as a
#: whole is given up only after a while.
_MINUTE_MS: Final = 60_000
_LATER_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 15, 120, 1_440, 43_200))
#: What holds while sweeps are late, because whoever sweeps sleeps, or the engine does.
_AT_EVERY_INSTANT: Final = frozenset({"S1", "S2", "S3"})
_TAG: Final = re.compile(rb"\{([^}]+)\}")
_NO_TTL: Final = -1


class Look:
    """One pair of eyes."""

    def __init__(self, engine: Engine, pen: Pen) -> None:
        self._engine, self._pen = engine, pen
        self.looks = 0
        #: Every cell that ever was. A directory may forget one; what is in it is there all the same.
        self._cells = {FIRST: None}

    async def cells(self) -> list[str]:
        """All of them."""
        self._cells |= {cell: None for cell, _ in (await read_routes(self._engine)).cells}
        return list(self._cells)

    async def keep_looking(self) -> None:
        """While things go wrong: what must hold at every instant does."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with suppress(DependencyDown, OutcomeUnknown):
                for cell in await self.cells():
                    found = await audit(self._engine, cell)
                    for violation in found if not isinstance(found, Refusal) else ():
                        if violation.invariant in _AT_EVERY_INSTANT:
                            self._pen.write("audit", **msgspec.structs.asdict(violation))
                self.looks += 1

    async def whole(self, cell: str) -> Cell:
        """All of it."""
        found = await read_cell(self._engine, cell)
        if not isinstance(found, Cell):
            raise TypeError(found)
        return found

    async def _ledgers(self) -> list[Ledger]:
        """Every node with what holds its slots, in whichever cell. One that changed its cell may be in two."""
        found: list[Ledger] = []
        for cell in await self.cells():
            page = await read_nodes(self._engine, cell, count=10_000)
            if isinstance(page, Refusal):
                raise TypeError(page)
            found += page.nodes
        return found

    async def nodes(self) -> dict[str, Ledger]:
        """The same by name, each where it serves, if it does."""
        return {ledger.node_id: ledger for ledger in sorted(await self._ledgers(), key=_serves)}

    async def unwell(self, nodes: int) -> str:
        """Why the fleet is not what it was before anything went wrong; "" if it is."""
        ledgers = await self._ledgers()
        names, up = {ledger.node_id for ledger in ledgers}, [ledger.node_id for ledger in ledgers if _serves(ledger)]
        away, twice = sorted(names - set(up)), sorted({name for name in up if up.count(name) > 1})
        if len(up) >= nodes and not away and not twice:
            return ""
        return f"{len(up)} of {nodes} nodes serve, {away} do not, and {twice} do in two cells"

    async def unfinished(self) -> str:
        """What is still under way in the engine; "" if nothing is."""
        fleets = [await read_fleet(self._engine, cell) for cell in await self.cells()]
        numbers = {
            "jobs without an end": sum(
                fleet.in_flight + fleet.waiting for fleet in fleets if not isinstance(fleet, Refusal)
            ),
            "leases": await self._size("ZCARD", "leases"),
            "attempts in limbo": await self._size("HLEN", "limbo"),
            "places in line": await self._size("ZCARD", "queue"),
            "events in the outbox": await self._size("ZCARD", "outbox"),
            "letters": sum((await self.letters()).values()),
        }
        return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)

    async def _size(self, command: str, name: str) -> int:
        keys = {cell: cell_key(self._engine.prefix, cell, name) for cell in await self.cells()}
        return sum([int(await self._engine.command(command, key, cell=cell)) for cell, key in keys.items()])

    async def letters(self) -> dict[str, int]:
        """How many letters lie in the inbox of each instance that stands in the directory."""
        found = {}
        for instance_id, _ in (await read_directory(self._engine)).beats:
            seen = await read_instance(self._engine, instance_id)
            found[instance_id] = 0 if isinstance(seen, Refusal) else seen.letters
        return found

    async def has_moved(self, job_id: str, node_id: str) -> bool:
        """Whether a job has ended, or is with another node than this one."""
        job = await read_job(self._engine, job_id)
        return isinstance(job, Refusal) or job.record.state in ENDS or job.record.node not in {"", node_id}

    async def write_jobs(self) -> None:
        """How every job ended, as the engine has it."""
        for name in await self.cells():
            self._write_jobs_of(await self.whole(name))

    def _write_jobs_of(self, cell: Cell) -> None:
        for job_id, job in cell.jobs.items():
            past = job.past
            fields: dict[str, Any] = {
                "state": job.state,
                "tries": past.tries,
                "lost": past.lost,
                "causes": [attempt.cause for attempt in past.attempts],
                "late_ms": max(0, job.ended_at_ms - job.deadline_at_ms) if job.ended_at_ms else 0,
            }
            ticket = cell.tickets.get(job_id)
            about: dict[str, Any] = {}
            if ticket is not None:
                about = {"session": ticket.session, "index": ticket.utterance}
            self._pen.write("job_is", job=job_id, node=job.node, attempt=job.attempt, **about, **fields)

    async def audit_whole(self, overdue_ms: int) -> None:
        """Every invariant, when everything had time to end."""
        for cell in await self.cells():
            found = await audit_whole(self._engine, cell, overdue_ms)
            for violation in found if not isinstance(found, Refusal) else ():
                self._pen.write("audit", **msgspec.structs.asdict(violation))
        dead = await read_dead_letters(self._engine)
        if not isinstance(dead, Refusal) and dead.total:
            reasons = [letter.reason for _, letter in dead.page]
            self.left("S12 dead letters", f"{dead.total}: {reasons[:5]}")

    def left(self, rule: str, detail: str) -> None:
        """Something is left behind, or late."""
        self._pen.write("left", rule=rule, detail=detail)

    async def strike_all(self) -> None:
        """What the next instance would do: those that are gone leave the directory, if no letter is left of them."""
        for instance_id, beat in (await read_directory(self._engine)).beats:
            if not await strike_out(self._engine, instance_id, beat):
                seen = await read_instance(self._engine, instance_id)
                self.left("S12 letters left", f"{instance_id} is gone, and there are letters to it: {seen}")

    async def immortal(self) -> list[str]:
        """Keys outside the cells without an end. The directory stays as long as there are cells: see docs/keys.md."""
        found, lasting = [], {*await self.cells(), DIRECTORY}
        async for key in self._keys():
            tag = _TAG.search(key)
            name = tag[1].decode() if tag else ""
            if name not in lasting and await self._engine.command("PTTL", key, cell=name) == _NO_TTL:
                found.append(key.decode())
        return found

    async def _keys(self) -> AsyncIterator[bytes]:
        for each in self._engine.one_cell_each(FIRST).values():
            cursor = b"0"
            while True:
                words = ("SCAN", cursor, "MATCH", f"{self._engine.prefix}:*", "COUNT", 1_000)
                cursor, keys = await self._engine.command(*words, cell=each)
                for key in keys:
                    yield key
                if cursor == b"0":
                    break


async def forget_all(url: str, scale: Scale, look: Look) -> None:
    """A sweep a month later: of each cell nothing is left but its counts."""
    cells = await look.cells()
    begun_ms = now_ms = int(time.time() * 1000)
    async with _engine(url, scale, lambda: now_ms) as engine:
        for later_ms in _LATER_MS:
            now_ms = begun_ms + later_ms
            for cell in cells:
                while not isinstance(settled := await reap(engine, cell, 1_000), Refusal) and settled.number > 0:
                    pass
    for cell in cells:
        left = {
            name: len(value)
            for name, value in msgspec.structs.asdict(await look.whole(cell)).items()
            if name not in {"now_ms", "counts", "outbox"} and value
        }
        if left:
            look.left("S16 immortal", f"a month later cell {cell} still has {left}")


def _serves(ledger: Ledger) -> bool:
    """Whether its node can be given work there."""
    return not ledger.record.lost_at_ms and ledger.record.standing < Standing.not_ready


@asynccontextmanager
async def looking(url: str, scale: Scale, pen: Pen) -> AsyncIterator[Look]:
    """Eyes of their own."""
    async with _engine(url, scale) as engine:
        yield Look(engine, pen)


def _engine(url: str, scale: Scale, clock: Any = None) -> Any:  # noqa: ANN401 - as `Engine.connect` has it
    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        settings = load(env={}, flags=dict(scale.settings())).settings
        packed = msgspec.msgpack.encode(settings.rules())
        async with await Engine.connect(url, rules=packed, clock=clock, timeout_ms=_PATIENCE_MS) as engine:
            yield engine

    return opened()
