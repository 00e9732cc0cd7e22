"""A fleet of several cells on one engine: nodes come in by the directory, jobs by submitters; all is audited."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.ids import cell_of
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.done import done
from lingua_scheduler.flows.register import Registered
from lingua_scheduler.front.ask import Ask, Submitted
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.nodes.housing import take_in
from lingua_scheduler.front.submit import Submitter
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.homes import Homes, read_homes
from lingua_scheduler.views.routes import read_routes
from tests.support.stage import PLAIN
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.core.cell import Cell
    from lingua_scheduler.store.engine import Engine
    from tests.support.world import World

ONE_SLOT: Final = PLAIN | {"max_concurrent_jobs": 1}


class Instance:
    """One of several: it has a directory of its own, which may be old."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.directory = Directory(engine, CELL)
        self.submitter = Submitter(engine, CELL, directory=self.directory)

    async def join(self, node_id: str, **said: Any) -> str:
        """A node comes in: its cell."""
        answer = await take_in(self.directory, node_id, **(ONE_SLOT | {"nonce": node_id} | said))
        assert isinstance(answer, Registered), answer
        return answer.cell

    async def submit(self, src: str = "en", tgt: str = "zh", *, wait_ms: int = 0, **named: Any) -> Submitted | Refusal:
        """Ask for a job."""
        wanted = named.pop("wanted", Wanted(wait_ms=wait_ms))
        bind_key = named.pop("bind_key", "")
        ask = Ask("s1", src, tgt, body="said", wanted=wanted, bind_key=bind_key)
        return await self.submitter.submit(ask, **named)


async def cells_of(world: World) -> list[str]:
    """All cells, as the directory has them."""
    return sorted(cell for cell, _ in (await read_routes(world.engine)).cells)


async def look_into(world: World, cell: str) -> Cell:
    found = await read_cell(world.engine, cell)
    assert not isinstance(found, Refusal)
    return found


async def jobs_in(world: World) -> dict[str, str]:
    """Every job of every cell, and its state."""
    seen = [await look_into(world, cell) for cell in await cells_of(world)]
    return {job_id: job.state for cell in seen for job_id, job in cell.jobs.items()}


async def finish(world: World, submitted: Submitted) -> None:
    await done(world.engine, submitted.job_id, submitted.placed.attempt_id, submitted.placed.node_id)


async def judge(world: World) -> None:
    """Every cell is sound, each node is in one, and the directory has it where it is and what is served there."""
    names = await cells_of(world)
    routes: dict[str, set[str]] = {}
    homes: dict[str, str] = {}
    for name in names:
        assert await audit_whole(world.engine, name, overdue_ms=10**12) == []
        cell = await look_into(world, name)
        assert not homes.keys() & cell.nodes.keys(), "a node is in two cells"
        homes |= dict.fromkeys(cell.nodes, name)
        for pair in cell.pairs:
            routes.setdefault(pair, set()).add(name)
    page = await read_homes(world.engine, count=10_000)
    assert isinstance(page, Homes)
    known = {node_id: home.cell for node_id, home in page.homes}
    assert homes.items() <= known.items()
    found = await read_routes(world.engine, list(routes))
    assert dict(found.cells) == {name: sum(home == name for home in known.values()) for name in names}
    for pair, there in zip(routes, found.routes, strict=True):
        assert routes[pair] <= set(there)


@asynccontextmanager
async def several(world: World) -> AsyncIterator[Instance]:
    """An instance, and at the end the auditor."""
    yield Instance(world.engine)
    await judge(world)


def cell_in(answer: Submitted | Refusal) -> str:
    """In which cell a job was placed; or the code of its refusal."""
    return answer.code if isinstance(answer, Refusal) else cell_of(answer.job_id)
